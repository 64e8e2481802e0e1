"""Steps that a Python function does, named by its import path `package.module:name`.

- In a child of its own, like everything that is not ours; it lives and dies with its attempt.
- `inline: true` calls it in the worker itself, in `start`: for trusted functions of milliseconds.  It costs next to
  nothing, and nobody can stop it.  Its module is looked up once, where the worker can import it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from longtask.agents.witness import VARIABLE
from longtask.core.errors import NotFound
from longtask.core.model import Done, Failed, Outcome
from longtask.redaction import mask_of
from longtask.steps.called import checked, failed, find
from longtask.steps.contract import Assignment, Desk, Ended, Handle, Render
from longtask.steps.failure import without_noise
from longtask.steps.planning import ReadPlans, as_handed_over, whole
from longtask.steps.serving import Serving, as_written, launch

NOTHING = Ended(Done())


class FunctionExecutor:
    def __init__(self, *, render: Render = as_written, read_plans: ReadPlans = as_handed_over) -> None:
        self._read_plans = read_plans
        self._render = render
        self._found: dict[str, Callable[..., Any]] = {}

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        body = assignment.spec.body
        path, args = body["function"], body.get("args") or {}
        if args:
            args = self._render(args, assignment.scope)
        if body.get("inline"):
            ended = _hidden(self._inline(path, args, assignment.spec.outputs), assignment.secrets)
            return Ended(whole(ended.outcome, assignment, place, self._read_plans)) if "grow" in body else ended
        try:
            launched = launch(assignment, "function_child", place, self._render, bare=False)
        except NotFound as error:
            return Ended(Failed(str(error), retryable=False))
        start = {
            "step": assignment.step,
            "run": assignment.run,
            "function": path,
            "args": args,
            "outputs": dict(assignment.spec.outputs),
            "witness": os.environ.get(VARIABLE),
        }
        launched.process.send_frame({"frame": "start", **start})
        return FunctionHandle(assignment, desk, launched, self._read_plans)

    def _inline(self, path: str, args: Mapping[str, Any], outputs: Mapping[str, str]) -> Ended:
        try:
            function = self._found.get(path)
            if function is None:
                function = self._found[path] = find(path)
            result = function(**args)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a step's code may raise anything
            return Ended(_named(failed(path, error)))
        return NOTHING if result is None and not outputs else Ended(checked(path, result, outputs))


def _hidden(ended: Ended, secrets: Sequence[str]) -> Ended:
    """An inline function reads its worker's environment; what a child says is hidden where it comes in."""
    match ended.outcome if secrets else None:
        case Done(result=result) if result is not None:
            return Ended(Done(mask_of(secrets).value(result)))
        case Failed(reason=reason) as failure:
            return Ended(replace(failure, reason=mask_of(secrets).value(reason)))
    return ended


class FunctionHandle(Serving):
    what = "the function"

    def _finish(self, said: Outcome) -> Outcome | None:
        return _named(said)


def _named(outcome: Outcome) -> Outcome:
    """A failure gets the digest that tells whether it is the one of the round before."""
    if not isinstance(outcome, Failed) or not outcome.retryable:
        return outcome
    message = without_noise(outcome.reason.partition("\n")[0])
    return replace(outcome, digest=hashlib.sha256(message.encode("utf-8", "backslashreplace")).hexdigest()[:32])
