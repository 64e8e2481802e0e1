"""How long an attempt waits for its files in a very large repository, against `git worktree add` in the same minute.

In memory where there is some: on a disk each run would pay for what the one before it has left to be written, and
deleting a hundred thousand files is not what is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage, rmtree
from statistics import median
from tempfile import TemporaryDirectory

from bench import beds
from bench.result import Result, judged
from longtask.workspace.workspace import Workspace

FILES = 100_000
ROUNDS = 3
BEYOND_S_MAX = 2
MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 * 1024**3
ENVIRONMENT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def attempt_start(files: int = FILES, rounds: int = ROUNDS) -> Result:
    """Seconds beyond git's own: the worktree, and the look at it after a set-up; the median of rounds."""
    with place() as at:
        repository = at / "repository"
        made(repository, files)
        workspace = Workspace.open(at / "home", repository)
        base = workspace.base().commit
        took: dict[str, list[float]] = {"ours": [], "git": []}
        found = None
        for n in range(rounds):
            folder = at / f"git.{n}"
            for word in ("git", "ours") if n % 2 else ("ours", "git"):
                begun = time.perf_counter()
                if word == "git":
                    git(repository, "worktree", "add", "--quiet", "--detach", str(folder), base)
                else:
                    found = workspace.begin(workspace.checkout("bench", "step", n, base))
                took[word].append(time.perf_counter() - begun)
            assert found is not None and workspace.commit(found, "nothing was changed") is None
            print(
                f"attempt_start: round {n + 1} of {rounds}: {took['ours'][-1]:.2f} s, git {took['git'][-1]:.2f}",
                file=sys.stderr,
                flush=True,
            )
            rmtree(folder)
            workspace.remove(found)
    pairs = list(zip(took["ours"], took["git"], strict=True))
    beyond = median(own - other for own, other in pairs)
    ratio = median(own / other for own, other in pairs)
    return judged("attempt_start", beyond, "s more", median(took["git"]), f"value <= {BEYOND_S_MAX}", ratio)


def made(folder: Path, files: int) -> None:
    """A repository with that many files of some hundred bytes, fifty in a folder, checked out."""
    git(folder.parent, "init", "--quiet", "--initial-branch=main", str(folder))
    blobs, names = bytearray(), bytearray()
    for n in range(1, files + 1):
        content = f"file {n}\n".encode() * 20
        blobs += b"blob\nmark :%d\ndata %d\n%b\n" % (n, len(content), content)
        names += b"M 100644 :%d d%d/e%d/f%d\n" % (n, n // 2_500, n // 50, n)
    commit = b"commit refs/heads/main\ncommitter A <a@example.org> 1 +0000\ndata 0\n"
    git(folder, "fast-import", "--quiet", stdin=bytes(blobs) + commit + bytes(names) + b"\n")
    git(folder, "reset", "--quiet", "--hard")


def git(folder: Path, *words: str, stdin: bytes = b"") -> None:
    env = os.environ | ENVIRONMENT
    subprocess.run(["git", *words], cwd=folder, env=env, input=stdin, capture_output=True, check=True)


@contextmanager
def place() -> Iterator[Path]:
    if MEMORY.is_dir() and disk_usage(MEMORY).free > ROOM_BYTES:
        with TemporaryDirectory(dir=MEMORY, prefix="longtask-bench-") as folder:
            yield Path(folder)
    else:
        with beds.folder() as at:
            yield at
