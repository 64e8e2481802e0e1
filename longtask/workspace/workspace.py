"""The workspace of a task: what engine, steps and command line ask of git.

The order in which the engine uses it (SEMANTICS 59): `checkout` at the claim's base, `commit` on the attempt's own
reference, the delivery in the journal, `merge` outside any lock, the new head in the journal, then `advance` and
`publish`.  A kill between any two of them leaves work that is done again with the same result, or references that
`reconcile` moves to where the journal says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from longtask.core.errors import Refused
from longtask.workspace import (
    clean,
    exchange,
    files,
    hub,
    merge,
    names,
    positions,
    publish,
    remote,
    repo,
    save,
    setup,
    tree,
)
from longtask.workspace.clean import Cleaned, Reconciled
from longtask.workspace.files import Entry
from longtask.workspace.hub import Hub, Stat
from longtask.workspace.merge import Conflict, Merged
from longtask.workspace.positions import Positions
from longtask.workspace.publish import NotPublished, Published
from longtask.workspace.repo import Base, Dirty
from longtask.workspace.tree import Worktree


@dataclass(frozen=True, slots=True)
class Workspace:
    """Holds nothing open; any number of threads and processes may use one at a time."""

    hub: Hub

    @property
    def id(self) -> str:
        return self.hub.id

    @classmethod
    def open(cls, home: Path, repository: Path, shared: str | None = None) -> Workspace:
        """The workspace of the repository around this folder.  `shared`: LONGTASK_HUB.  Raises WorkspaceError."""
        return cls(repo.open_repository(home.absolute(), repository.absolute(), shared))

    @classmethod
    def at(cls, home: Path, workspace_id: str, shared: str | None = None) -> Workspace:
        """One that was opened before: by any process on this machine, or, with a shared hub, on any machine.

        Raises NotFound, HubUnreachable.
        """
        return cls(exchange.find(home.absolute(), workspace_id, shared))

    @classmethod
    def all(cls, home: Path, shared: str | None = None) -> list[Workspace]:
        """Those that were opened on this machine, by their ids."""
        return [cls.at(home, id, shared) for id in hub.known_ids(home.absolute())]

    @classmethod
    def of(
        cls, home: Path, url: str, shared: str | None = None, *, trusted: bool, pinned: Sequence[str] = ()
    ) -> Workspace:
        """The workspace of a repository that is named by a URL, which answers.  `trusted`: it may lead anywhere.

        Raises BadPlan, NotFound, HubUnreachable.
        """
        return cls(repo.open_origin(home.absolute(), url, trusted, shared, pinned))

    @classmethod
    def elsewhere(
        cls, home: Path, repository: Path, host: str, machine: str, shared: str, ignored: bytes = b""
    ) -> Workspace:
        """Of a repository on another machine, which pushes to the shared hub.  `machine`: that machine's id."""
        return cls(repo.open_elsewhere(home.absolute(), repository, host, machine, shared, ignored))

    # Where a task starts

    def base(
        self,
        ref: str | None = None,
        dirty: Dirty = "refuse",
        aside: Iterable[Path] = (),
        pinned: Sequence[str] = (),
    ) -> Base:
        """Resolve to a commit and bring it into the hub.  `pinned`: see `repo.take_base`.

        Raises DirtyTree, Refused, NotFound, HubUnreachable.
        """
        return repo.take_base(self.hub, ref, dirty, aside, pinned)

    def announce(self) -> None:
        """Let other machines find it in the shared hub, if there is one.  Raises HubUnreachable."""
        exchange.announce(self.hub)

    def bring(self, commit: str, place: str, workspace_id: str) -> None:
        """Push a base to another installation's hub, a folder or a URL, for its workspace.  Raises HubUnreachable."""
        exchange.bring(self.hub, commit, remote.remote_at(place), workspace_id)

    def take_brought(self, commit: str) -> bool:
        """Begin from a commit that was pushed to the hub.  False: it is not there.  Raises HubUnreachable."""
        return exchange.take_brought(self.hub, commit)

    def take_delivered(self, task_id: str, ref: str, commit: str) -> bool:
        """A person's commit that was pushed to the hub for an attempt.  False: it is not there as `ref`."""
        return exchange.take_delivered(self.hub, task_id, ref, commit)

    def pushing_to(self, place: str) -> Workspace:
        """The same with another installation's hub, a folder or a URL, as the one that is shared."""
        there = remote.remote_at(place)
        if there.folder is not None and there.folder.exists() and there.folder.samefile(self.hub.path):
            return self  # both are of one home
        return Workspace(replace(self.hub, remote=there))

    def made_on(self, commit: str, base: str) -> str:
        """What a person's commit was made on: the attempt's base, or itself, if it was made beside the task's work,
        which is merged with it and never loses its place.  Raises Refused: the two have no history in common."""
        exchange.need(self.hub, commit, base)
        if hub.contains(self.hub, commit, base):
            return base
        if not hub.related(self.hub, commit, base):
            raise Refused(f"commit {commit[:12]} has no history in common with the step's base {base[:12]}")
        return commit

    def adopt(self, task_id: str, step: str, attempt: int, name: str, folder: Path | None = None) -> str:
        """A person's commit becomes the attempt's; `name` is looked up in `folder`, or the user's repository."""
        commit = repo.look_up(self.hub, name, folder)
        repo.adopt(self.hub, names.attempt_ref(task_id, step, attempt), commit)
        return commit

    def resolve(
        self, task_id: str, step: str, attempt: int, ask: int, name: str, *, own: str | None, head: str | None
    ) -> str:
        """A person's commit that answers the merge conflict of question `ask`, beside what the attempt has delivered.

        Raises Refused: it lacks a side; then nothing has moved, and nothing was sent.
        """
        commit = repo.look_up(self.hub, name)
        self.need_both(commit, own, head)
        repo.adopt(self.hub, names.resolved_ref(task_id, step, attempt, ask), commit)
        return commit

    # An attempt's folder

    def checkout(
        self,
        task_id: str,
        step: str,
        attempt: int,
        base: str,
        tree_id: str | None = None,
        keep_existing: bool = False,
        aside: Sequence[str] = (),
        apart: Sequence[str] = (),
    ) -> Worktree:
        """A fresh worktree at `base`, with the files of `tree_id` (a checkpoint) if given, never saving `aside`."""
        return tree.checkout(
            self.hub, task_id, step, attempt, base, tree=tree_id, keep_existing=keep_existing, aside=aside, apart=apart
        )

    def moved(self, task_id: str, base: str, tree_id: str, head: str) -> str | Conflict:
        """The files of a checkpoint on `base`, as they are upon `head`, which contains `base`: a tree."""
        return merge.moved(self.hub, task_id, base, tree_id, head)

    def conflict_checkout(
        self,
        task_id: str,
        step: str,
        attempt: int,
        head: str,
        commit: str,
        tree_id: str | None = None,
        aside: Sequence[str] = (),
    ) -> Worktree:
        """At `head`, with the conflict in its files; its commit will contain both.  Refused if there is no conflict."""
        return merge.conflict_checkout(self.hub, task_id, step, attempt, head, commit, tree=tree_id, aside=aside)

    def find(self, task_id: str, step: str, attempt: int) -> Worktree | None:
        """The worktree that another process made; None: there is none, or it is half made."""
        folder = tree.task_folder(self.hub.home, task_id)
        return tree.read_worktree(folder / names.attempt_name(step, attempt))

    def begin(self, wt: Worktree) -> Worktree:
        """After the set-up: what it has changed is not the attempt's work."""
        return save.begin(self.hub, wt)

    def checkpoint(self, wt: Worktree) -> str:
        """Save the files as a tree, pinned; returns its id."""
        return save.checkpoint(self.hub, wt)

    def commit(self, wt: Worktree, message: str) -> str | None:
        """The attempt's work as one commit on its base, on its own reference.  None: nothing was changed."""
        return save.commit(self.hub, wt, message)

    def leftovers(self, wt: Worktree) -> list[str]:
        """Paths that differ from the base; a repository inside that was never saved stands as its folder, with `/`."""
        return save.leftovers(self.hub, wt)

    def standing(self, wt: Worktree, paths: Sequence[str]) -> list[str]:
        """Those of the paths that the base has, as a file."""
        return save.standing(self.hub, wt, paths)

    def leftover_patch(self, wt: Worktree, bytes_max: int = save.PATCH_BYTES_MAX) -> bytes | None:
        """None: the files have more than `bytes_max`."""
        return save.leftover_patch(self.hub, wt, bytes_max)

    def remove(self, wt: Worktree) -> bool:
        """Take the worktree away, saved or not.  False: some files could not be deleted and lie in the trash."""
        return tree.remove(self.hub.home, wt.path)

    # History

    def merge(self, head: str, commit: str, message: str) -> Merged | Conflict:
        return merge.merge(self.hub, head, commit, message)

    # What is not on this machine is fetched; then these may raise HubUnreachable, too.

    def contains(self, commit: str, ancestor: str) -> bool:
        exchange.need(self.hub, commit, ancestor)
        return hub.contains(self.hub, commit, ancestor)

    def need_both(self, commit: str, own: str | None, head: str | None) -> None:
        """Raises Refused: a commit that is to resolve a merge conflict lacks a side."""
        for side, what in ((own, "the step's own commit"), (head, "the task's head")):
            if side is not None and not self.contains(commit, side):
                raise Refused(f"commit {commit[:12]} does not contain {what} {side[:12]}; merge both, then name it")

    def has_commit(self, commit: str) -> bool:
        """Here, or in the shared hub."""
        return hub.has_commit(self.hub, commit) or exchange.can_have(self.hub, commit)

    def tree_of(self, commit: str) -> str:
        exchange.need(self.hub, commit)
        return hub.tree_of(self.hub, commit)

    def diff(self, a: str, b: str) -> bytes:
        exchange.need(self.hub, a, b)
        return hub.diff(self.hub, a, b)

    def stat(self, a: str, b: str) -> Stat:
        exchange.need(self.hub, a, b)
        return hub.stat(self.hub, a, b)

    def read_file(self, commit: str, path: str) -> bytes:
        exchange.need(self.hub, commit)
        return hub.read_file(self.hub, commit, path)

    def files(self, commit: str, pattern: str = "**") -> Iterator[Entry]:
        """Those that fit, by path.  See `files.entries`."""
        exchange.need(self.hub, commit)
        return files.entries(self.hub, commit, pattern)

    def file(self, commit: str, path: str) -> Entry:
        """Raises NotFound."""
        exchange.need(self.hub, commit)
        return files.entry(self.hub, commit, path)

    def content(self, blob: str) -> bytes:
        """Of an entry that was found."""
        return files.content(self.hub, blob)

    def holds(self, task_id: str, base: str, head: str, commit: str) -> bool:
        """The commit is of the task.  See `files.holds`."""
        exchange.need(self.hub, base, head)
        return files.holds(self.hub, task_id, base, head, commit)

    # References

    def head(self, task_id: str) -> str | None:
        return hub.read_ref(self.hub, names.head_ref(task_id))

    def advance(self, task_id: str, head: str, expected: str | None = None) -> bool:
        """With `expected` a compare-and-set (`""`: there is none yet); without, never back, and repeatable.

        With a shared hub it is moved there first, which decides.
        """
        exchange.need(self.hub, head, task_id=task_id)
        if not exchange.move_head(self.hub, task_id, head, expected):
            return False
        return hub.advance(self.hub, task_id, head, None if self.hub.remote else expected)

    def reconcile(self, task_id: str, head: str, attempts: Iterable[tuple[str, int, str]] = ()) -> Reconciled:
        return clean.reconcile(self.hub, task_id, head, attempts)

    def positions(self) -> Positions:
        """Where the references of all tasks stand now."""
        return positions.positions(self.hub)

    def publish(self, branch: str, head: str) -> Published | NotPublished:
        return publish.publish(self.hub, branch, head)

    # Room

    def clean(
        self,
        task_id: str,
        keep: Collection[str] = (),
        done: Collection[str] = (),
        busy: Collection[tuple[str, int]] = (),
    ) -> Cleaned:
        return clean.clean(self.hub, task_id, keep, done, busy)

    def forget(self, task_id: str) -> None:
        """Nothing of the task stays, merged or not: for a task whose journal is gone."""
        clean.forget(self.hub, task_id)

    def compact(self) -> None:
        """Pack the hub.  Slow; for an idle hour."""
        hub.compact(self.hub)

    # The set-up's cache

    def setup_key(
        self,
        base: str,
        command: str,
        files: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        return setup.setup_key(self.hub, base, command, files, environment)

    def save_cache(self, wt: Worktree, key: str, paths: Sequence[str]) -> bool:
        return setup.save_cache(self.hub, wt, key, paths)

    def restore_cache(self, wt: Worktree, key: str, paths: Sequence[str]) -> bool:
        return setup.restore_cache(self.hub, wt, key, paths)

    def trim_caches(self, keep: int) -> int:
        return setup.trim_caches(self.hub, keep)
