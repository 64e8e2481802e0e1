"""examples/migrate-modules: by hand with three modules, and whole, with workers that are killed and ten that fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.examples.conftest import EXAMPLES, Place, git

MODULES = EXAMPLES / "migrate-modules"
MODULE = '''"""A module."""

{imports}


def total(numbers):
    {write}("%d numbers" % len(numbers))
    return sum(numbers)
'''


def test_a_program_moves_what_it_knows_and_an_agent_mends_what_it_does_not(place: Place):
    files = {f"tools/{file.name}": file.read_text() for file in (MODULES / "tools").glob("*.py")}
    for name in ("a", "b"):
        files[f"modules/{name}.py"] = MODULE.format(imports="import oldlog", write="oldlog.write")
    files["modules/c.py"] = MODULE.format(imports="from oldlog import write", write="write")
    shell = place("migrate-modules", files)

    shell("run", "--foreground")
    tasks = shell.here("ls", "--children", "--json").json
    assert sorted((task["parent_step"] or "", task["status"]) for task in tasks) == [
        ("", "completed"), ("migrate[0]", "completed"), ("migrate[1]", "completed"), ("migrate[2]", "completed"),
    ]  # fmt: skip
    mended = next(task["id"] for task in tasks if task["parent_step"] == "migrate[2]")
    keys = [step["key"] for step in shell.here("show", mended, "--json").json["steps"]]
    assert sorted(keys) == ["check", "move", "move.fix.1"]
    branch = "longtask/migrate-modules-1"
    for name in ("a", "b", "c"):
        text = git(shell, "show", f"{branch}:modules/{name}.py")
        assert text.startswith("# moved: 1\n") and "oldlog" not in text and "logging.getLogger(__name__)" in text
    assert git(shell, "show", f"{branch}:MODULES.md") == "# Modules\n\n- a: moved: 1\n- b: moved: 1\n- c: moved: 1"


def test_every_module_is_done_once_whoever_is_killed_and_whatever_fails(tmp_path: Path):
    """Counted by the program itself, outside of the database."""
    command = [sys.executable, str(MODULES / "modules.py"), "--modules", "20", "--folder", str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = json.loads(done.stdout.splitlines()[-1])
    assert counted["wrong"] == [] and counted["done"] == 20 and counted["kills"] == 3
    assert 10 <= counted["done_before_the_fork"] < 20
    for told in ("m000: taken, and done by hand", "m010: given up", "m010: its step was said anew"):
        assert told in done.stdout
