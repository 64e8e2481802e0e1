"""Where attempts work: a worktree at the claim's base or at the run's checkpoint, set up.

What an attempt leaves: an agent's changes become the commit of its outcome; a command's changes are no part of the
work (`commit: false`), so they are kept as an artifact, and named.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from longtask.agents.journal import resume_tree
from longtask.core.errors import LeaseLost, Refused, WorkspaceError
from longtask.core.model import Done, Failed, JsonMap, Kind, Outcome
from longtask.steps.contract import Assignment, Desk, Executor, Handle
from longtask.steps.output import tail
from longtask.steps.process import Process, allowed_environment
from longtask.steps.surroundings import mark_of
from longtask.workspace.git import locked, shown
from longtask.workspace.names import attempt_name
from longtask.workspace.tree import Worktree, read_worktree, remove, task_folder
from longtask.workspace.workspace import Workspace

SETUP_TAIL_LINES = 20
POLL_S = 0.05


class ToldConflicts:
    """An executor whose conflict steps are told head and paths as they are in their own folder: the head may have moved
    after the conflict was found."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        wt = read_worktree(place) if assignment.conflict and place is not None else None
        if wt is not None:
            paths = [shown(path) for path in wt.conflicts]
            conflict = {**(assignment.conflict or {}), "head": wt.base, "paths": paths}
            assignment = replace(assignment, conflict=conflict)
        return self._executor.start(assignment, desk, place)


class Places:
    """`engine.attempt.Places` on git worktrees under `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._workspace_ids: dict[str, str] = {}  # by task, of what this worker has prepared

    def prepare(self, assignment: Assignment, desk: Desk) -> Path:
        """Raises WorkspaceError, Refused."""
        workspace = Workspace.at(self._home, assignment.workspace_id)
        self._workspace_ids[assignment.task_id] = assignment.workspace_id
        settings = assignment.workspace or {}
        aside = tuple(settings.get("cache") or ())
        wt = self._worktree(workspace, assignment, aside)
        begins = assignment.spec.kind is Kind.AGENT and not assignment.journal
        if begins and not desk.checkpoint(0, checkpoint_name("", wt.base)):
            raise LeaseLost(f"step {assignment.step!r}: attempt {assignment.attempt} is not the newest any more")
        command = settings.get("setup")
        if command:
            self._set_up(workspace, wt, command, aside, assignment, desk)
        return wt.path

    def _worktree(self, workspace: Workspace, assignment: Assignment, aside: Sequence[str]) -> Worktree:
        assert assignment.base is not None
        tree, base = None, assignment.base
        if assignment.journal and (saved := resume_tree(assignment.journal, assignment.checkpoint)) is not None:
            tree, base = saved_at(saved)
        where = (assignment.task_id, assignment.step, assignment.attempt)
        for earlier in range(1, assignment.attempt):  # what a killed worker has left: the run goes on from `tree`
            path = task_folder(self._home, assignment.task_id) / attempt_name(assignment.step, earlier)
            remove(self._home, path)
        if assignment.conflict:
            try:
                return workspace.conflict_checkout(*where, base, assignment.conflict["commit"], tree, aside=aside)
            except Refused:
                pass  # the head has moved, and the two sides join by themselves now: there is nothing left to do
        return workspace.checkout(*where, base, tree, aside=aside)

    def _set_up(
        self,
        workspace: Workspace,
        wt: Worktree,
        command: str,
        cache: Sequence[str],
        assignment: Assignment,
        desk: Desk,
    ) -> None:
        key = workspace.setup_key(wt.base, command)
        with self._one_at_a_time(assignment.workspace_id, key) if cache else contextlib.nullcontext():
            if cache and workspace.restore_cache(wt, key, cache):
                return
            desk.output("note", f"set-up: {command}\n".encode())
            self._run(wt, command, assignment, desk)
            if cache:
                workspace.save_cache(wt, key, cache)

    @contextlib.contextmanager
    def _one_at_a_time(self, workspace_id: str, key: str) -> Iterator[None]:
        """Attempts that need the same set-up wait for the first of them, in whatever process."""
        folder = self._home / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f"setup-{workspace_id}-{key[:32]}"):
            yield

    def _run(self, wt: Worktree, command: str, assignment: Assignment, desk: Desk) -> None:
        env = allowed_environment(
            {**{k: str(v) for k, v in assignment.environment.items()}, **wt.environment()}, assignment.secrets
        )
        said = bytearray()
        with Process.start(
            command,
            cwd=wt.path,
            env=env,
            mark=mark_of(assignment),
            merge_stderr=True,
            secrets=assignment.secrets,
        ) as process:
            while True:
                ended = process.poll()
                for chunk in process.read():
                    desk.output("note", chunk.content)
                    said += chunk.content
                    del said[:-100_000]
                if ended is not None:
                    break
                if desk.stopping():
                    process.kill()
                select.select(process.filenos(), [], [], POLL_S)
        if ended.start_failed or ended.code != 0:
            how = ended.start_failed or (f"exit code {ended.code}" if ended.code is not None else "stopped")
            raise WorkspaceError(f"set-up `{command}` failed with {how}\n{tail(bytes(said), SETUP_TAIL_LINES)}")

    # --- afterwards -----------------------------------------------------------------------------------------------

    def keep(self, assignment: Assignment, place: Path, outcome: Outcome, desk: Desk) -> Outcome:
        """Safe to repeat.  Raises WorkspaceError: then the work could not be kept, and the attempt has failed."""
        workspace = Workspace.at(self._home, assignment.workspace_id)
        wt = read_worktree(place)
        if wt is None:
            return outcome
        if isinstance(outcome, Done) and assignment.spec.commits:
            message = f"{assignment.task_name}: {assignment.step}"
            outcome = replace(outcome, commit=workspace.commit(wt, message), base=wt.base)
        elif isinstance(outcome, (Done, Failed)) and not assignment.spec.commits:
            outcome = self._keep_leftovers(workspace, wt, assignment, outcome, desk)
        elif isinstance(outcome, Failed):
            workspace.checkpoint(wt)  # what it had edited stays reachable; the next run begins anew
        # Released, stopped or parked: the run goes on from its newest checkpoint.  The files may be those of a tool
        # that was cut off, and saving them would let go of the tree that it needs.
        workspace.remove(wt)
        return outcome

    def _keep_leftovers(
        self, workspace: Workspace, wt: Worktree, assignment: Assignment, outcome: Done | Failed, desk: Desk
    ) -> Outcome:
        paths = workspace.leftovers(wt)
        if not paths:
            return outcome
        shown = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
        patch = workspace.leftover_patch(wt)
        if patch is None:
            desk.output("note", f"left over and too large to keep: {shown}\n".encode())
            return outcome
        kept: JsonMap = desk.put_artifact(
            f"leftovers/{assignment.step}.{assignment.attempt}.patch", patch, "text/x-patch"
        )
        desk.output("note", f"left over, not committed (artifact {kept['name']}): {shown}\n".encode())
        return replace(outcome, artifacts=(*outcome.artifacts, kept))

    def save_tree(self, place: Path) -> str:
        """The worktree, pinned in the hub: a checkpoint.  Called between an agent's tools."""
        wt = read_worktree(place)
        if wt is None:
            raise WorkspaceError(f"worktree '{place}' is not there any more")
        tree = Workspace.at(self._home, self._workspace_ids[wt.task_id]).checkpoint(wt)
        return checkpoint_name(tree, wt.base)


# A run stays on the base that it began on: there its journal was written, and there its files come from.  The tree of a
# checkpoint on a newer head would take back what others have merged since; the merge queue joins the two sides instead.


def checkpoint_name(tree: str, base: str) -> str:
    """`tree` empty: as the attempt found it."""
    return f"{tree}@{base}"


def saved_at(name: str) -> tuple[str | None, str]:
    """(tree, base)."""
    tree, _, base = name.partition("@")
    return tree or None, base
