"""What goes wrong on purpose: a process dies at a named point of the store, a commit does not go through, a peek
answers from an earlier moment."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from longtask.store.contract import Found as All
from longtask.store.contract import Store

PEEKS = ("claimable", "unsettled", "overdue", "mergeable", "expired", "closing", "unheard", "callable",
         "errands")  # fmt: skip
SLOWLY = ("awaited", "over", "together")  # no peeks, but others may act before it is acted on what they told
POINTS = ("begin", "locked", "written", "commit", "committed", "group.release", "commit", "committed", "single",
          "single.committed")  # fmt: skip
BUSY_POINTS = ("begin", "commit")  # where an error leaves nothing behind, and the caller lives on


class Crash(BaseException):
    """The process is dead at this point: no handler of ours survives it."""


class Found(BaseException):
    """A rule is broken: no handler of ours may swallow it."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"[{rule}] {text}")
        self.rule = rule
        self.text = text


class Glances:
    """The store as one process sees it: peeks may be stale, all else is as it is."""

    def __init__(self, store: Store, glance: Callable[[str, tuple[Any, ...], list[Any]], list[Any]]) -> None:
        self.real = store
        for name in dir(store):
            if not name.startswith("_") and name not in PEEKS and name not in ("here", "now"):
                setattr(self, name, getattr(store, name))
        self.now = store.now
        for name in PEEKS:
            setattr(self, name, self._peek(name, getattr(store, name), glance))
        self.awaited = self._peek("awaited", store.awaited, glance)
        self.over = self._peek("over", store.over, glance)
        self.together = lambda act: (glance("together", (), [act]), store.together(act))[1]
        self.look = lambda limit: All(*(getattr(self, name)(limit) for name in All._fields))

    def _peek(
        self, name: str, look: Callable[..., list[Any]], glance: Callable[[str, tuple[Any, ...], list[Any]], list[Any]]
    ) -> Callable[..., list[Any]]:
        return lambda *args: glance(name, args, look(*args))


def aged(chance: Random, fresh: list[Any], past: list[list[Any]]) -> list[Any]:
    """An answer that a peek may also give: an earlier one, some of it missing, some of it twice."""
    kind = chance.randrange(4)
    if kind == 0 and past:
        return list(past[chance.randrange(len(past))])
    if kind == 1 and past:
        return fresh + past[-1]
    if kind == 2:
        return fresh + fresh
    return [each for each in fresh if chance.random() < 0.5]
