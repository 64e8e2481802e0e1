"""Where attempts work: a worktree at the claim's base or at the run's checkpoint, set up.

What an attempt leaves: an agent's changes become the commit of its outcome; a command's changes are no part of the
work (`commit: false`), so they are kept as an artifact, and named.
"""

from __future__ import annotations

import contextlib
import fcntl
import select
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from longtask.agents.journal import resume_tree, waits_for
from longtask.core.errors import LeaseLost, Refused, WorkspaceError
from longtask.core.model import Done, Failed, JsonMap, Kind, Outcome
from longtask.redaction import mask_of
from longtask.steps import evidence
from longtask.steps.contract import Assignment, Desk, Executor, Handle
from longtask.steps.output import tail
from longtask.steps.process import Process, allowed_environment
from longtask.steps.surroundings import mark_of
from longtask.workspace.git import shown
from longtask.workspace.names import attempt_name
from longtask.workspace.tree import Worktree, read_worktree, remove, task_folder
from longtask.workspace.workspace import Workspace

SETUP_TAIL_LINES = 20
POLL_S = 0.05


class ToldConflicts:
    """An executor whose steps are told of conflicts as they are in their own folder: a conflict step of head and paths,
    since the head may have moved after the conflict was found; a run that goes on of what keeps it from the head."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        told = assignment.conflict or assignment.ended
        wt = read_worktree(place) if told and place is not None else None
        if wt is not None and assignment.ended:
            ended = {**assignment.ended, "apart": [shown(path) for path in wt.apart]}
            assignment = replace(assignment, ended=ended)
        if wt is not None and assignment.conflict:
            paths = [shown(path) for path in wt.conflicts]
            conflict = {**(assignment.conflict or {}), "head": wt.base, "paths": paths}
            assignment = replace(assignment, conflict=conflict)
        return self._executor.start(assignment, desk, place)


def _take(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Places:
    """`engine.attempt.Places` on git worktrees under `home`.  `shared`: LONGTASK_HUB, for several machines."""

    def __init__(self, home: Path, shared: str | None = None) -> None:
        self._home = home
        self._shared = shared
        self._workspace_ids: dict[str, str] = {}  # by task, of what this worker has prepared

    def _workspace(self, workspace_id: str) -> Workspace:
        return Workspace.at(self._home, workspace_id, self._shared)

    def prepare(self, assignment: Assignment, desk: Desk) -> Path:
        """Raises WorkspaceError, Refused; HubUnreachable: nothing was begun, and it may be prepared again."""
        workspace = self._workspace(assignment.workspace_id)
        self._workspace_ids[assignment.task_id] = assignment.workspace_id
        settings = assignment.workspace or {}
        aside = tuple(settings.get("cache") or ())
        wt = self._worktree(workspace, assignment, aside)
        try:
            self._make_ready(workspace, wt, assignment, aside, desk)
        except BaseException:
            workspace.remove(wt)  # nothing was done in it
            raise
        return wt.path

    def _make_ready(
        self, workspace: Workspace, wt: Worktree, assignment: Assignment, aside: Sequence[str], desk: Desk
    ) -> None:
        begins = assignment.spec.kind is Kind.AGENT and not assignment.journal
        if begins and not desk.checkpoint(0, checkpoint_name("", wt.base)):
            raise LeaseLost(f"step {assignment.step!r}: attempt {assignment.attempt} is not the newest any more")
        command = (assignment.workspace or {}).get("setup")
        if command:
            self._set_up(workspace, wt, command, aside, assignment, desk)
            workspace.begin(wt)

    def _worktree(self, workspace: Workspace, assignment: Assignment, aside: Sequence[str]) -> Worktree:
        assert assignment.base is not None
        tree, base = None, assignment.base
        if assignment.journal and (saved := resume_tree(assignment.journal, assignment.checkpoint)) is not None:
            tree, base = saved_at(saved)
        apart: Sequence[str] = ()
        if base != assignment.base and waits_for(assignment.journal, assignment.ended):
            tree, base, apart = self._on_head(workspace, assignment, tree, base)
        where = (assignment.task_id, assignment.step, assignment.attempt)
        for earlier in range(1, assignment.attempt):  # what a killed worker has left: the run goes on from `tree`
            path = task_folder(self._home, assignment.task_id) / attempt_name(assignment.step, earlier)
            remove(self._home, path)
        if assignment.conflict:
            try:
                return workspace.conflict_checkout(*where, base, assignment.conflict["commit"], tree, aside=aside)
            except Refused:
                pass  # the head has moved, and the two sides join by themselves now: there is nothing left to do
        return workspace.checkout(*where, base, tree, aside=aside, apart=apart)

    def _on_head(
        self, workspace: Workspace, assignment: Assignment, tree: str | None, base: str
    ) -> tuple[str | None, str, Sequence[str]]:
        """Tree and base of a run that has waited for what it spawned: it goes on upon the head, which holds that, with
        what it had changed itself on top; or as it was, and the paths that keep it there."""
        head = assignment.base
        assert head is not None
        if tree is None:
            return None, head, ()
        moved = workspace.moved(assignment.task_id, base, tree, head)
        return (moved, head, ()) if isinstance(moved, str) else (tree, base, moved.paths)

    def _set_up(
        self,
        workspace: Workspace,
        wt: Worktree,
        command: str,
        cache: Sequence[str],
        assignment: Assignment,
        desk: Desk,
    ) -> None:
        given = {name: str(value) for name, value in assignment.environment.items()}
        key = workspace.setup_key(wt.base, command, environment=given)
        with self._one_at_a_time(assignment.workspace_id, key, desk) if cache else contextlib.nullcontext():
            if cache and workspace.restore_cache(wt, key, cache):
                return
            desk.output("note", f"set-up: {command}\n".encode())
            self._run(wt, command, assignment, desk)
            if cache:
                workspace.save_cache(wt, key, cache)

    @contextlib.contextmanager
    def _one_at_a_time(self, workspace_id: str, key: str, desk: Desk) -> Iterator[None]:
        """Attempts that need the same set-up wait for the first, in whatever process, unless they are to stop."""
        folder = self._home / "locks"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(folder / f"setup-{workspace_id}-{key[:32]}", "w") as lock:
            while not _take(lock):
                if desk.stopping():
                    raise WorkspaceError("stopped while it waited for the set-up of another attempt")
                time.sleep(POLL_S)
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
        """Safe to repeat.  Raises WorkspaceError: then the work could not be kept, and the attempt has failed; but
        HubUnreachable: it is all in its folder still, and may be kept again."""
        workspace = self._workspace(assignment.workspace_id)
        wt = read_worktree(place)
        if wt is None:
            return outcome
        if isinstance(outcome, Done) and assignment.spec.commits:
            held = self._secrets_in(workspace, wt, assignment)
            if held:
                raise Refused(
                    f"its changes hold the value of secret {held[0]!r}: take it out of the files, then deliver"
                )
            missing = self._missing(workspace, wt, assignment.spec.body.get("evidence") or {})
            if missing is not None:
                self._keep_edits(workspace, wt, desk)
                outcome = Failed(missing, digest="evidence", artifacts=outcome.artifacts)
            else:
                message = f"{assignment.task_name}: {assignment.step}"
                outcome = replace(outcome, commit=workspace.commit(wt, message), base=wt.base)
        elif isinstance(outcome, (Done, Failed)) and not assignment.spec.commits:
            outcome = self._keep_leftovers(workspace, wt, assignment, outcome, desk)
        elif isinstance(outcome, Failed):
            self._keep_edits(workspace, wt, desk)
        # Released, stopped or parked: the run goes on from its newest checkpoint.  The files may be those of a tool
        # that was cut off, and saving them would let go of the tree that it needs.
        workspace.remove(wt)
        return outcome

    def _missing(self, workspace: Workspace, wt: Worktree, wanted: JsonMap) -> str | None:
        """What the change does not bear out, in words for the next run."""
        if not wanted.get("protect") and not wanted.get("change"):
            return None
        changed = workspace.leftovers(wt)
        if wanted.get("change") and not changed:
            return "evidence: it has changed nothing, though its step is there for a change"
        touched = evidence.touched(wanted.get("protect") or (), changed)
        protected = workspace.standing(wt, touched) if touched else []
        if not protected:
            return None
        return f"evidence: {evidence.listed(protected)} may be neither changed nor deleted; leave it as it was"

    def _secrets_in(self, workspace: Workspace, wt: Worktree, assignment: Assignment) -> list[str]:
        """Names of the secrets whose values stand in what was changed: a commit is for everybody, and for ever."""
        patch = workspace.leftover_patch(wt) if assignment.secrets else None
        return [name for name in assignment.secrets if patch and mask_of([name], shapes=False).whole(patch) != patch]

    def _keep_edits(self, workspace: Workspace, wt: Worktree, desk: Desk) -> None:
        """What a failed run had edited stays reachable, if it can be; the next run begins anew."""
        try:
            workspace.checkpoint(wt)
        except WorkspaceError as error:  # the failure itself is what has to be told
            desk.output("note", f"its edits could not be kept: {error}\n".encode())

    def _keep_leftovers(
        self, workspace: Workspace, wt: Worktree, assignment: Assignment, outcome: Done | Failed, desk: Desk
    ) -> Outcome:
        try:
            paths = workspace.leftovers(wt)
            patch = workspace.leftover_patch(wt) if paths else None
        except WorkspaceError as error:  # the command has removed the folder, say: its outcome stands
            desk.output("note", f"what it has left over could not be kept: {error}\n".encode())
            return outcome
        if not paths:
            return outcome
        hidden = mask_of(assignment.secrets)
        listed = ", ".join(map(shown, paths[:5])) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
        listed = hidden.value(listed)
        if patch is None:
            desk.output("note", f"left over and too large to keep: {listed}\n".encode())
            return outcome
        name = f"leftovers/{assignment.step}.{assignment.attempt}.patch"
        kept: JsonMap = desk.put_artifact(name, mask_of(assignment.secrets, shapes=False).whole(patch), "text/x-patch")
        desk.output("note", f"left over, not committed (artifact {name}): {listed}\n".encode())
        return replace(outcome, artifacts=(*outcome.artifacts, kept))

    def save_tree(self, place: Path) -> str:
        """The worktree, pinned in the hub: a checkpoint.  Called between an agent's tools.  Safe to repeat.

        Raises WorkspaceError; HubUnreachable: another machine could not go on from it yet, and it may be saved again.
        """
        wt = read_worktree(place)
        if wt is None:
            raise WorkspaceError(f"worktree '{place}' is not there any more")
        tree = self._workspace(self._workspace_ids[wt.task_id]).checkpoint(wt)
        return checkpoint_name(tree, wt.base)


# A run stays on the base that it began on: there its journal was written, and there its files come from.  The tree of a
# checkpoint on a newer head would take back what others have merged since; the merge queue joins the two sides instead.
# It moves on in one place, where its own journal says so: when what it has spawned has ended.  The row of that call
# takes the new tree and base together, so that a kill before it leaves the old ones, and after it nothing looks back.


def checkpoint_name(tree: str, base: str) -> str:
    """`tree` empty: as the attempt found it."""
    return f"{tree}@{base}"


def saved_at(name: str) -> tuple[str | None, str]:
    """(tree, base)."""
    tree, _, base = name.partition("@")
    return tree or None, base
