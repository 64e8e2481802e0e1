"""Names of traces and spans, from what they are about.

A task lives for days, in many processes: so an id is a function of the task, the step and the attempt.  Whoever writes
a span, after whatever crash, writes the same one, and a child process can be told its parent before that is written.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

VARIABLE = "TRACEPARENT"  # of a child's environment, as W3C Trace Context writes it
_UUID = re.compile(r"[0-9a-f]{32}")


def trace_id(task_id: str) -> str:
    """32 hex digits: those of a task's UUID, so that a trace is found by its task."""
    digits = task_id.replace("-", "")
    if _UUID.fullmatch(digits) and digits.strip("0"):
        return digits
    return hashlib.sha256(task_id.encode()).hexdigest()[:32]


@lru_cache(8_192)
def span_id(task_id: str, kind: str, *about: str | int) -> str:
    """16 hex digits."""
    text = "\x1f".join((task_id, kind, *map(str, about)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def task_span(task_id: str) -> str:
    return span_id(task_id, "task")


def stage_span(task_id: str, stage: int) -> str:
    return span_id(task_id, "stage", stage)


def step_span(task_id: str, step: str) -> str:
    return span_id(task_id, "step", step)


def attempt_span(task_id: str, step: str, attempt: int) -> str:
    return span_id(task_id, "attempt", step, attempt)


def run_span(task_id: str, step: str, attempt: int, run: int) -> str:
    """The part of a run that one attempt carried."""
    return span_id(task_id, "run", step, attempt, run)


def call_span(task_id: str, step: str, attempt: int, run: int, n: int) -> str:
    return span_id(task_id, "call", step, attempt, run, n)


def traceparent(task_id: str, step: str, attempt: int, run: int | None = None) -> str:
    """For the processes of an attempt.  `run`: of an agent, whose calls hang under its run."""
    parent = attempt_span(task_id, step, attempt) if run is None else run_span(task_id, step, attempt, run)
    return f"00-{trace_id(task_id)}-{parent}-01"
