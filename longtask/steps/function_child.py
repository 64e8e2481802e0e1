"""The program in which a Python function of a step runs: `function.py` starts it.

The function is found as in a program that is started in its folder: that comes first among what can be imported, then
PYTHONPATH.  What it prints is the step's output.
"""

from __future__ import annotations

import io
import os
import sys

from longtask.agents.journal import fingerprint
from longtask.agents.witness import Witness
from longtask.core.model import Json, JsonMap, Outcome
from longtask.steps import child
from longtask.steps.called import answer, find


def main() -> int:
    channel, start = child.begin()
    child.end_with_worker(channel)
    sys.path.insert(0, os.getcwd())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # so that it is seen as it is printed
    outcome = call(start)
    sys.stdout.flush()
    sys.stderr.flush()
    child.send_outcome(channel, outcome)
    return 0


def call(start: JsonMap) -> Outcome:
    path, args = start["function"], start["args"]
    witness = Witness(start["step"], start["run"], start["witness"])

    def use() -> Json:
        result = find(path)(**args)
        witness.saw(1, "function", path, fingerprint("function", path, args))
        return result

    return answer(path, use, start["outputs"])
