"""Where a process can be killed.

A point is named `MODULE.CALL.before`, `MODULE.CALL.after`, `before:FACT` and `after:FACT` (the commit that makes the
fact durable), `store.PLACE` (the store's own hooks), or `file:NAME` (a command or a tool has made that file and goes
on).  `install` makes the calling process kill itself at the n-th hit.  Production code knows nothing of it: what it
calls is wrapped here.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from longtask.boot import GitMerger, Parts
from longtask.engine.attempt_desk import AttemptDesk
from longtask.engine.desk import Desk
from longtask.engine.dispatch import Dispatch
from longtask.engine.worker import Worker
from longtask.steps.places import Places
from longtask.steps.process import Process
from longtask.store import artifacts, base
from longtask.store.artifacts import folder
from longtask.workspace.workspace import Workspace

RENAMING = SimpleNamespace(**vars(os))
vars(folder)["os"] = RENAMING  # only what this module renames

CALLS: dict[str, tuple[Any, str]] = {
    "worker.tick": (Worker, "tick"),
    "dispatch.claim": (Dispatch, "claim"),
    "dispatch.report": (Dispatch, "report"),
    "dispatch.journal_started": (Dispatch, "journal_started"),
    "dispatch.journal_done": (Dispatch, "journal_done"),
    "dispatch.checkpoint": (Dispatch, "checkpoint"),
    "dispatch.output": (Dispatch, "output"),
    "attempt.flush": (AttemptDesk, "flush"),
    "places.prepare": (Places, "prepare"),
    "places.keep": (Places, "keep"),
    "places.save_tree": (Places, "save_tree"),
    "workspace.checkout": (Workspace, "checkout"),
    "workspace.conflict_checkout": (Workspace, "conflict_checkout"),
    "workspace.checkpoint": (Workspace, "checkpoint"),
    "workspace.commit": (Workspace, "commit"),
    "workspace.remove": (Workspace, "remove"),
    "workspace.merge": (Workspace, "merge"),
    "workspace.moved": (Workspace, "moved"),
    "workspace.advance": (Workspace, "advance"),
    "workspace.publish": (Workspace, "publish"),
    "merger.follow": (GitMerger, "follow"),
    "process.start": (Process, "start"),
    "artifacts.put": (artifacts.ArtifactStore, "put"),
    "artifacts.copy": (artifacts, "_copy"),
    "artifacts.rename": (RENAMING, "replace"),
    "desk.answer": (Desk, "answer"),
}
STORE = ("begin", "locked", "written", "group.release", "commit", "committed", "single", "single.committed")


def install(parts: Parts, point: str, hit: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Dies at the `hit`-th time, with all its threads, at once.  SIGSTOP: it freezes, as when a laptop is closed."""
    left = [hit]
    lock = threading.Lock()

    def die() -> None:
        with lock:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), number)

    kind, _, name = point.partition(":")
    if name and kind == "file":
        _at_file(parts.config.home / name, die)
    elif name:
        _at_fact(parts, name, "commit" if kind == "before" else "committed", die)
    elif point.startswith("store."):
        parts.store.fault = _only(point.removeprefix("store."), die)  # type: ignore[attr-defined]
    else:
        call, _, side = point.rpartition(".")
        _at_call(*CALLS[call], side, die)


def _only(place: str, die: Callable[[], None]) -> Callable[[str], None]:
    return lambda reached: die() if reached == place else None


def _at_call(owner: Any, name: str, side: str, die: Callable[[], None]) -> None:
    found = vars(owner)[name]
    plain = found.__func__ if isinstance(found, classmethod) else found

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if side == "before":
            die()
        result = plain(*args, **kwargs)
        if side == "after":
            die()
        return result

    setattr(owner, name, classmethod(wrapped) if isinstance(found, classmethod) else wrapped)


def _at_fact(parts: Parts, name: str, place: str, die: Callable[[], None]) -> None:
    """Facts that are saved wait for the commit of their thread."""
    waiting = threading.local()
    save = base.SqlTx.save

    def saved(self: Any, change: Any, **more: Any) -> None:
        save(self, change, **more)
        waiting.facts = getattr(waiting, "facts", 0) + sum(type(fact).__name__ == name for _, fact in change.facts)

    def reached(now: str) -> None:
        if now == place:
            for _ in range(getattr(waiting, "facts", 0)):
                die()
        if now == "committed":
            waiting.facts = 0

    base.SqlTx.save = saved  # type: ignore[method-assign]
    parts.store.fault = reached  # type: ignore[attr-defined]


def _at_file(path: Path, die: Callable[[], None]) -> None:
    tick = Worker.tick

    def ticked(self: Worker) -> int:
        if path.exists():
            die()
        return tick(self)

    Worker.tick = ticked  # type: ignore[method-assign]
