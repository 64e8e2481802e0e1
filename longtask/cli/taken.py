"""The code of a step that a person has taken: its folder, and the commit that comes of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from longtask.boot.working import begins_at
from longtask.cli.session import Session
from longtask.core.errors import LongTaskError, Refused
from longtask.core.hands import held_by, need_own
from longtask.core.model import Json, Step, StepState, Task
from longtask.store.contract import Ref
from longtask.views.words import handle

if TYPE_CHECKING:
    from longtask.workspace.tree import Worktree
    from longtask.workspace.workspace import Workspace


def workspace_of(session: Session, task: Task) -> Workspace | None:
    return session.parts.merger.workspace(task.workspace_id) if task.workspace_id else None


@contextmanager
def else_given_back(give_back: Callable[[], object]) -> Iterator[None]:
    """What fails within gives the step back, and is told whether that works or not."""
    try:
        yield
    except BaseException:
        with suppress(LongTaskError):
            give_back()
        raise


def take_folder(session: Session, task: Task, row: Step, for_ms: int) -> Worktree | None:
    """The step is this person's, if it was not already, and here is its folder: as it was left, or at the step's base
    with the files of its newest checkpoint.  None: the task has no code."""
    hands, ref = session.parts.hands, Ref(task.id, row.key)
    with ExitStack() as stack:
        if not held_by(row, session.me):
            row = hands.take(ref, session.me, for_ms)
            stack.enter_context(else_given_back(partial(hands.give_back, ref, session.me)))
        workspace = workspace_of(session, task)
        if workspace is None or row.base is None:
            return None
        base, tree = begins_at(session.parts.store, ref, row)
        aside = tuple((task.options.workspace or {}).get("cache") or ())
        return folder(workspace, task.id, row.key, row.attempt, base, tree, aside)


def folder(
    workspace: Workspace, task_id: str, step: str, attempt: int, base: str, tree: str | None, aside: Sequence[str]
) -> Worktree:
    wt = workspace.find(task_id, step, attempt)
    if wt is not None and wt.path.is_dir():
        return wt
    return workspace.checkout(task_id, step, attempt, base, tree, aside=aside)


def drop_folder(session: Session, task: Task, row: Step) -> str | None:
    """The folder stays if there are changes in it: they are nobody's yet.  None: it is gone."""
    workspace = workspace_of(session, task)
    wt = None if workspace is None else workspace.find(task.id, row.key, row.attempt)
    if workspace is None or wt is None:
        return None
    if workspace.leftovers(wt):
        return str(wt.path)
    workspace.remove(wt)
    return None


def by_hand(
    session: Session, task: Task, row: Step, name: str | None, message: str, result: dict[str, Json] | None
) -> Step:
    """`name`: of a commit in the user's repository.  What goes wrong leaves the step as it was."""
    ref, hands, workspace = Ref(task.id, row.key), session.parts.hands, workspace_of(session, task)
    if workspace is None:
        if name is not None:
            raise Refused(f"task {handle(task)!r} has no code: there is nothing to commit; leave --commit out")
        return hands.done(ref, session.me, result=result)
    need_own(row.key, row.taken_by if row.state is StepState.RUNNING else None, session.me)
    with ExitStack() as stack:
        if not held_by(row, session.me):
            row = hands.take(ref, session.me)
            stack.enter_context(else_given_back(partial(hands.give_back, ref, session.me)))
        wt, commit = made(workspace, task.id, task.name, row.key, row.attempt, name, message)
        base = None if commit is None or row.base is None else workspace.made_on(commit, row.base)
        row = hands.done(ref, session.me, commit=commit, base=base, result=result, attempt=row.attempt)
    if wt is not None:
        workspace.remove(wt)
    return row


def made(
    workspace: Workspace, task_id: str, task_name: str, step: str, attempt: int, name: str | None, message: str
) -> tuple[Worktree | None, str | None]:
    """The step's folder, if it is there, and the commit that comes of it, or of `name`, as the attempt's."""
    wt = workspace.find(task_id, step, attempt)
    if name is not None:
        return wt, workspace.adopt(task_id, step, attempt, name)
    return wt, None if wt is None else workspace.commit(wt, message or f"{task_name}: {step}")


def resolved(session: Session, task: Task, row: Step, name: str | None) -> Step:
    """A conflict, resolved by a commit that contains both sides."""
    workspace = workspace_of(session, task)
    if name is None or workspace is None:
        raise Refused(no_answer(workspace, task.id, row.key, row.attempt))
    which = (task.id, row.key, row.attempt, row.ask)
    commit = workspace.resolve(*which, name, own=row.commit, head=task.head)
    return session.parts.desk.answer(Ref(task.id, row.key), "resolve", session.me, ask=row.ask, commit=commit)


def no_answer(workspace: Workspace | None, task_id: str, step: str, attempt: int) -> str:
    """To a conflict, without a commit: with what git makes one."""
    text = f"step {step!r} is in conflict with the head; name a commit that holds both: --commit COMMIT"
    if workspace is None:
        return text
    from longtask.workspace.names import attempt_ref, head_ref

    hub = workspace.hub
    place = shlex.quote(str(hub.path) if hub.remote is None else hub.remote.url)
    begin = f"git fetch {place} {head_ref(task_id)} && git switch -c both FETCH_HEAD"
    join = f"git fetch {place} {attempt_ref(task_id, step, attempt)} && git merge FETCH_HEAD"
    return f"{text}. One is made so, and called both: {begin} && {join}"
