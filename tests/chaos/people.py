"""What people do while everything goes wrong: in a thread, straight at the database, as the command line does.

A call that was not answered is made again; each is safe to repeat, and what it answers the second time is as good.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from longtask import boot
from longtask.core.errors import NotFound, Refused, StoreBusy, StoreUnavailable, WorkspaceError
from longtask.core.model import StepState
from longtask.plan import compile_plan, load
from longtask.store.contract import Ref
from longtask.workspace.workspace import Workspace
from tests.chaos.shapes import Place, Shape

T = TypeVar("T")
AGAIN_S = 0.2
LOOK_EVERY_S = 0.15
ME = "ann"


@dataclass(order=True, slots=True)
class Act:
    at: float
    number: int
    what: str = field(compare=False)
    shape: Shape = field(compare=False)
    words: str = field(compare=False, default="")


class People(threading.Thread):
    """Ends when every act is done and nothing is open; `error`: what went wrong in here."""

    def __init__(self, parts: boot.Parts, place: Place, shapes: list[Shape], repository: Path, over_s: float) -> None:
        """All are submitted within `over_s`."""
        super().__init__(name="people", daemon=True)
        self._parts = parts
        self._place = place
        self._repository = repository
        self.ids: dict[str, str] = {}  # by name
        self.shapes = {shape.name: shape for shape in shapes}
        self.counts: Counter[str] = Counter()
        self.error: BaseException | None = None
        self.stopping = threading.Event()
        began = time.monotonic()
        self._acts = [Act(began + over_s * n / len(shapes), n, "submit", shape) for n, shape in enumerate(shapes)]
        self._number = len(shapes)
        self.waiting = ""  # for what, told when it takes too long

    def run(self) -> None:
        try:
            workspace = self._insist(lambda: self._open())
            while not self.stopping.is_set():
                self._act(workspace)
                self._answer()
                if not self._acts and not self._insist(self._open_tasks):
                    return
                self.stopping.wait(LOOK_EVERY_S)
        except BaseException as error:  # noqa: BLE001  told by the thread that waits for this one
            self.error = error

    def _open(self) -> tuple[str, str]:
        workspace = Workspace.open(self._parts.config.home, self._repository, self._parts.config.hub)
        return workspace.id, workspace.base("main").commit

    def _open_tasks(self) -> bool:
        return bool(self._parts.store.tasks(open_only=True, workspace_id=None, before=0, limit=1))

    def _insist(self, act: Callable[[], T]) -> T:
        while True:
            try:
                return act()
            except (StoreUnavailable, StoreBusy, WorkspaceError) as error:
                if self.stopping.wait(AGAIN_S):
                    raise
                self.counts["calls made again"] += 1
                self.waiting = str(error)

    # --- acts -----------------------------------------------------------------------------------------------------

    def _act(self, workspace: tuple[str, str]) -> None:
        while self._acts and self._acts[0].at <= time.monotonic():
            act = heapq.heappop(self._acts)
            if act.what == "submit":
                self._submit(act.shape, workspace)
            elif not self._insist(lambda act=act: self._done(act)):  # type: ignore[misc]
                act.at = time.monotonic() + 1
                heapq.heappush(self._acts, act)
            else:
                self.counts[act.what] += 1

    def _submit(self, shape: Shape, workspace: tuple[str, str]) -> None:
        graph = compile_plan(load(shape.text), attended=False)
        workspace_id, base = workspace if shape.git else ("", None)
        task = self._insist(
            lambda: self._parts.desk.submit(
                graph, by=ME, workspace_id=workspace_id, base=base, idempotency_key=shape.name, plan_text=shape.text
            )
        )
        self.ids[shape.name] = task.id
        now = time.monotonic()
        for what, after_s, words in shape.acts:
            self._number += 1
            heapq.heappush(self._acts, Act(now + after_s, self._number, what, shape, words))

    def _done(self, act: Act) -> bool:
        """False: not yet.  What was refused has been done before, by a call whose answer was lost, or is too late."""
        desk, id = self._parts.desk, self.ids[act.shape.name]
        try:
            match act.what:
                case "signal":
                    desk.signal(id, act.words, {"n": 1}, delivery=f"{act.shape.name}.1", sender=ME)
                case "cancel":
                    desk.cancel(id, ME, "it is not wanted any more")
                case "pause":
                    desk.pause(id, ME)
                case "pause_now":
                    desk.pause(id, ME, now=True)
                case "resume":
                    desk.resume(id, ME)
                case "mend":
                    return self._mend(act, Ref(id, act.words))
        except Refused:
            self.counts["refused"] += 1
        return True

    def _mend(self, act: Act, ref: Ref) -> bool:
        """Only when the whole task has failed, so that its end is taken back too."""
        step = self._parts.store.get_step(ref)
        if step.state is StepState.FAILED and self._parts.store.get_task(ref.task_id).ended:
            (self._place.state / f"{act.shape.name}.mended").touch()
            self._parts.desk.retry(ref, ME)
            return True
        return step.state is StepState.COMPLETED

    # --- answers --------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        names = {id: name for name, id in self.ids.items()}
        for task_id, step in self._insist(lambda: self._parts.store.asking(task_id=None, limit=100)):
            word = "reject" if names.get(task_id, "").startswith("rejected") else "approve"
            try:
                self._insist(
                    lambda task_id=task_id, step=step, word=word: self._parts.desk.answer(  # type: ignore[misc]
                        Ref(task_id, step.key), word, ME, ask=step.ask, digest=(step.question or {}).get("digest")
                    )
                )
                self.counts["answered"] += 1
            except (Refused, NotFound):
                self.counts["refused"] += 1
