"""What tasks leave on this machine: worktrees, references of hubs, caches, half-written files.

A part of the composition, beside boot/: it knows the artifacts and the workspaces.
"""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from longtask.core.errors import LongTaskError, NotFound
from longtask.store.artifacts import ArtifactStore
from longtask.store.contract import Store
from longtask.workspace import names
from longtask.workspace.workspace import Workspace

log = logging.getLogger("longtask.room")

TIDY_EVERY_S = 86_400
HALF_WRITTEN_S = 86_400  # nobody writes one file for a day
FOLDERS_MAX = 200
SETUPS_KEPT = 10  # results of set-ups, of each workspace
LOOSE_MAX, LOOSE_LOOKED_AT = 6_700, "17"  # objects of a hub that lie about loose: one folder of 256 tells how many


class Room:
    """`engine.upkeep.Room`.  `workspace` opens one by its id, or raises NotFound."""

    def __init__(
        self, home: Path, store: Store, artifacts: ArtifactStore, workspace: Callable[[str], Workspace]
    ) -> None:
        self._home, self._store, self._artifacts, self._workspace = home, store, artifacts, workspace

    def shared(self) -> bool:
        return self._artifacts.shared()

    def drop(self, workspace_id: str, digest: str) -> None:
        self._artifacts.drop(workspace_id, digest)

    def forget(self, workspace_id: str, task_id: str) -> None:
        try:
            workspace = self._workspace(workspace_id)
            workspace.clean(task_id)
            workspace.forget(task_id)
        except NotFound:
            return  # another machine's
        except (LongTaskError, OSError) as error:  # what stays there is in nobody's way
            log.warning("task.forget_failed task=%s: %s", task_id, error)

    def tidy(self) -> None:
        """Once a day, by one process of this machine."""
        mark = self._home / "locks" / "tidy"
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with mark.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            file.seek(0)
            with suppress(ValueError):  # empty, or half written
                if time.time() - float(file.read()) < TIDY_EVERY_S:
                    return
            self._artifacts.sweep(HALF_WRITTEN_S)
            self._worktrees()
            self._hubs()
            file.truncate(0)
            file.write(str(time.time()))

    def _worktrees(self) -> None:
        """Of tasks that have ended: what kills have left.  A task that is not known may be another database's."""
        trees = self._home / names.TREES
        for folder in sorted(trees.glob("[0-9a-f]*"))[:FOLDERS_MAX] if trees.is_dir() else ():
            try:
                task = self._store.get_task(folder.name)
                if task.ended and task.id == folder.name and task.workspace_id:
                    self._workspace(task.workspace_id).clean(task.id)
            except (LongTaskError, OSError) as error:
                log.info("task.clean_later task=%s: %s", folder.name, error)

    def _hubs(self) -> None:
        for folder in sorted((self._home / names.HUBS).glob("[0-9a-f]*.git")):
            try:
                workspace = self._workspace(folder.name.removesuffix(".git"))
                workspace.trim_caches(SETUPS_KEPT)
                if len(list((folder / "objects" / LOOSE_LOOKED_AT).glob("*"))) > LOOSE_MAX / 256:
                    workspace.compact()
            except (LongTaskError, OSError) as error:
                log.warning("hub.compact_failed workspace=%s: %s", folder.name, error)
