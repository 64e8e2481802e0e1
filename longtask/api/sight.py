"""What a caller names, found among what that caller may see.

A task of a workspace that the caller does not see is answered as one that is not there.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from longtask.api.access.caller import Caller, Role, needs
from longtask.api.problems import Problem
from longtask.api.server import Server
from longtask.core.errors import NotFound
from longtask.core.graph import did_you_mean
from longtask.core.model import Step, Task
from longtask.core.policy import BATCH_MAX

NUMBER_MAX = 2**63 - 1
TEXT_MAX = 20_000
NAME_MAX = 400
LIMIT_MAX = 1_000


def _keepable(text: str) -> str:
    """Databases keep neither NUL nor half of a surrogate pair."""
    if "\0" in text or not _is_utf8(text):
        raise PydanticCustomError("text", "must be text without NUL and lone surrogates")
    return text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


Text = Annotated[str, AfterValidator(_keepable), Field(max_length=TEXT_MAX)]
Name = Annotated[str, AfterValidator(_keepable), Field(max_length=NAME_MAX)]
Number = Annotated[int, Field(ge=0, le=NUMBER_MAX)]

TaskName = Annotated[
    str, Path(description="Its id, a prefix of it (8 characters or more), `NAME-n`, or `@last`.", max_length=NAME_MAX)
]
StepKey = Annotated[str, Path(description="Its key, as the plan or the task names it.", max_length=NAME_MAX)]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="At most so many.")]
After = Annotated[int, Query(ge=0, le=NUMBER_MAX, description="`next` of the page before; absent: from the start.")]

Viewer = Annotated[Caller, needs(Role.VIEWER)]
Operator = Annotated[Caller, needs(Role.OPERATOR)]
Approver = Annotated[Caller, needs(Role.APPROVER)]
Admin = Annotated[Caller, needs(Role.ADMIN)]


class Body(BaseModel):
    """Of a request: a word that is not known is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


def whole(caller: Caller) -> Caller:
    """Whoever may act in some workspaces only may not act for the whole server.  Raises Problem 403."""
    if caller.workspaces is not None:
        told = f"caller {caller.shown} is there for some workspaces, not for the server"
        raise Problem(403, "forbidden", "not allowed", told)
    return caller


def seen_task(server: Server, name: str, caller: Caller) -> Task:
    """Raises NotFound."""
    missing = f"no task {name!r}; list them: GET /v1/tasks"
    if "\0" in name or not _is_utf8(name):
        raise NotFound(missing)
    try:
        task = server.parts.store.get_task(name)
    except NotFound as error:
        raise NotFound(missing) from error
    if not caller.sees(task.workspace_id):
        raise NotFound(missing)
    return task


def seen_step(server: Server, task: Task, key: str) -> Step:
    """Raises NotFound that names the nearest."""
    store = server.parts.store
    if "\0" not in key and _is_utf8(key):
        found = store.results(task.id, [key]).get(key)
        if found is not None and not found.gate:
            return found
    keys = [row.key for row in store.steps(task.id, "", BATCH_MAX) if not row.gate]
    raise NotFound(f"task {task.name}-{task.number!r} has no step {key!r}{did_you_mean(key, keys)}")


def page(items: list[Any], next_: object | None) -> dict[str, Any]:
    """`next`: what the next request names as its cursor; None: there is no more."""
    return {"items": items, "next": None if next_ is None else str(next_)}
