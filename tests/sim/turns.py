"""Mutexes as the journals of all tasks tell them together, one event after another in the order of the store.

One task's journal cannot say whether another one held the mutex, or had come before.  Exclusion and the order of
service are restated here, without a look at any row of a mutex or of its queue.
"""

from __future__ import annotations

from longtask.core import events as e
from longtask.store.contract import Store

from .faults import Found

PAGE = 1_000
Place = tuple[str, str]  # task, step
OVER = (e.StepCompleted, e.StepDelivered, e.StepFailed, e.StepRetried, e.StepLost, e.StepReleased, e.StepParked,
        e.HelpAsked, e.FixRequested, e.StepExpanded, e.StepCancelled)  # fmt: skip
ENDS = (e.StepCompleted, e.StepFailed, e.StepCancelled, e.StepSkipped, e.StepRetired)


class Turns:
    def __init__(self) -> None:
        self._cursor = ""
        self._held: dict[str, Place] = {}
        self._queues: dict[str, list[Place]] = {}
        self._called: set[Place] = set()

    def follow(self, store: Store) -> None:
        """Raises Found."""
        while True:
            page, self._cursor = store.feed(self._cursor, PAGE)
            for event in page:
                self._event(event)
            if len(page) < PAGE:
                return

    def _event(self, event: e.Event) -> None:
        fact = event.fact
        place = event.task_id, getattr(fact, "step", "")
        if isinstance(fact, OVER):
            self._held = {name: at for name, at in self._held.items() if at != place}
        match fact:
            case e.MutexAwaited():
                queue = self._queues.setdefault(fact.mutex, [])
                queue += [place] if place not in queue else []
                self._called.discard(place)
            case e.StepWoken() if "mutex" in fact.cause:
                if place not in self._queues.get(fact.cause["mutex"], ()):
                    raise Found("turn", f"{place} is called to {fact.cause['mutex']!r} and does not queue for it")
                self._called.add(place)
            case e.StepClaimed() if fact.mutex is not None:
                self._claimed(fact.mutex, place)
        if isinstance(fact, ENDS):
            self._leave(place)

    def _claimed(self, name: str, place: Place) -> None:
        if name in self._held:
            raise Found("mutex", f"{place} takes {name!r}, which {self._held[name]} holds")
        queue = self._queues.get(name, [])
        before = queue[: queue.index(place)] if place in queue else queue
        if before and place not in self._called:
            raise Found("turn", f"{place} takes {name!r} before {before[0]}, who came first, and was not called")
        self._leave(place)
        self._held[name] = place

    def _leave(self, place: Place) -> None:
        self._called.discard(place)
        for queue in self._queues.values():
            if place in queue:
                queue.remove(place)
