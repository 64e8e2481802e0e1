"""Who did what, outside the database: so that a demo can count whether anything ran twice.

When the environment variable `LONGTASK_WITNESS` names a file, the model seam, every tool, every function in a child
and every command append one JSON line to it *when they are executed, before they answer*; a replay writes nothing.
A line is one `write` of an `O_APPEND` file and is on the disk before the answer goes out: {pid, step, run, n, kind,
name, digest}; `digest` is of the request.  A run's last line has the kind `end`: all before it was finished.

What was begun and never finished may run again: that is at least once, and no repeat.  A repeat is a second line for
something that *had* finished; and it had, if its run went on to a later number in between.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import NamedTuple

from longtask.core.model import JsonMap

VARIABLE = "LONGTASK_WITNESS"
END = "end"


class Witness:
    """Writes nothing when the file is not named.  `step` and `run` stand in every line."""

    def __init__(self, step: str, run: int, path: str | None) -> None:
        self._step = step
        self._run = run
        self._path = path

    def saw(self, n: int, kind: str, name: str, digest: str) -> None:
        if not self._path:
            return
        line = {
            "pid": os.getpid(),
            "step": self._step,
            "run": self._run,
            "n": n,
            "kind": kind,
            "name": name,
            "digest": digest,
        }
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, (json.dumps(line) + "\n").encode())
            os.fsync(fd)
        finally:
            os.close(fd)


class Count(NamedTuple):
    executed: int  # lines, ends excepted
    distinct: int  # different (step, run, n)
    repeated: int  # executed again after they had finished


def count(lines: Iterable[JsonMap]) -> Count:
    """Over the lines of a witness file, in its order."""
    newest: dict[tuple[str, int], int] = {}
    seen: set[tuple[str, int, int]] = set()
    executed = repeated = 0
    for line in lines:
        run = (line["step"], line["run"])
        n = line["n"]
        if line["kind"] != END:
            executed += 1
            seen.add((*run, n))
            repeated += n < newest.get(run, 0)
        newest[run] = max(n, newest.get(run, 0))
    return Count(executed, len(seen), repeated)
