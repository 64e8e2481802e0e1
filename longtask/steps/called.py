"""Calling a Python function for a step: the same rules in the worker (`inline`) and in a child.

A function takes its arguments by name and returns JSON.  Whatever it raises is the failure of the attempt, told with
the last lines of its traceback.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from longtask.agents.outputs import mismatches
from longtask.core.errors import BadPlan
from longtask.core.model import Done, Failed, Json
from longtask.steps.child import told

RESULT_BYTES_MAX = 1_000_000  # more is a file, and belongs into the workspace or an artifact

_PLAIN = (type(None), bool, int, str)


def find(path: str) -> Callable[..., Any]:
    """Raises BadPlan for a text that names no function; what importing the module raises goes through."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise BadPlan(f"function '{path}': to be 'package.module:name'")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise BadPlan(f"function '{path}': '{module}' has no '{name}'")
        found = getattr(found, part)
    if not callable(found):
        raise BadPlan(f"function '{path}': is no function but a {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def answer(path: str, call: Callable[[], Json], outputs: Mapping[str, str]) -> Done | Failed:
    try:
        result = call()
    except (Exception, SystemExit) as error:  # noqa: BLE001  a step's code may raise anything
        return failed(path, error)
    return checked(path, result, outputs)


def failed(path: str, error: BaseException) -> Failed:
    if isinstance(error, BadPlan):
        return Failed(str(error), retryable=False)
    return Failed(f"function '{path}': {told(error)}")


def checked(path: str, result: Json, outputs: Mapping[str, str]) -> Done | Failed:
    """The outcome of a call that returned: JSON, not too much of it, and what the plan wants of it."""
    if not outputs and type(result) in _PLAIN and (type(result) is not str or len(result) < RESULT_BYTES_MAX // 4):
        return Done(result)
    try:
        text = json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return Failed(f"function '{path}': its result is not JSON: {error}", retryable=False)
    if len(text) > RESULT_BYTES_MAX:
        found = f"its result has {len(text)} bytes as JSON, at most {RESULT_BYTES_MAX}"
        return Failed(f"function '{path}': {found}; write a file and return its name", retryable=False)
    result = json.loads(text)  # tuples become lists and keys text, here as after a restart
    problems = mismatches(result, outputs) if outputs else []
    if problems:
        return Failed(f"function '{path}': its result is not the wanted one: {'; '.join(problems)}", retryable=False)
    return Done(result)
