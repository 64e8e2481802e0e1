"""Parts that are loaded late are loaded whole, though threads come for them at the same moment by different doors."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THREADS = """
import sys, tempfile, threading
from pathlib import Path
from longtask import boot
from longtask.config import Config
from longtask.core.errors import LongTaskError

home = Path(tempfile.mkdtemp())
(home / "doc.yaml").write_text("a: 1")
doors = [
    lambda: boot.LaterPlaces(Config(home, "x"))._places,
    lambda: boot.GitMerger(home, None).workspace("0" * 16),
    lambda: boot.GitMerger(home, None).merge("0" * 16, "a", "b", "c"),
    lambda: boot.read_document(home / "doc.yaml"),
    lambda: boot.Language().condition("1 == 1", {}),
]
together, wrong = threading.Barrier(len(doors)), []

def enter(door):
    together.wait()
    try:
        door()
    except LongTaskError:
        pass
    except BaseException as error:
        wrong.append(repr(error))

sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=enter, args=(door,)) for door in doors]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("\\n".join(wrong))
"""


@pytest.mark.parametrize("_time", range(3))
def test_threads_that_come_by_different_doors_find_whole_modules(_time):
    done = subprocess.run([sys.executable, "-c", THREADS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "", done.stdout
