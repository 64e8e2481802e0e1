"""What an agent tells beside the protocol, sorted: what its turns have cost, and how it could not ask its model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from longtask.agents.native.waiting import until

from .agents import Broken, Own, Retried, Spent
from .updates import Turn

TOLD_S = 2.0  # it comes well within that


class Aside:
    """`broken`: why it has given up, if it has since that was forgotten."""

    def __init__(self, own: Own) -> None:
        self.broken: Broken | None = None
        self._own = own
        self._spent: list[Spent] = []  # nobody has asked for it yet
        self._retried: deque[Retried] = deque()

    def retried(self) -> Retried | None:
        """The next one; None: no more."""
        self._take()
        return self._retried.popleft() if self._retried else None

    def ended(self, turn: Turn) -> bool:
        """What it has cost is known, so it is over."""
        return self._of(turn) is not None

    def spent_by(self, turn: Turn) -> Spent:
        """With what was spent before it and belongs to no turn that is shown, such as a summary of the talk."""
        if not self._soon(lambda: self.ended(turn)):
            return Spent(turn.id, 0, 0, None)
        count = (self._of(turn) or 0) + 1
        taken, self._spent = self._spent[:count], self._spent[count:]
        prices = [spent.micros for spent in taken if spent.micros is not None]
        tokens_in, tokens_out = sum(spent.tokens_in for spent in taken), sum(spent.tokens_out for spent in taken)
        return Spent(turn.id, tokens_in, tokens_out, sum(prices) if prices else None, taken[-1].end)

    def learn_why(self) -> None:
        """An error has come; here it is told better."""
        if self._own.tells_turns:
            self._soon(lambda: self.broken is not None)

    def _of(self, turn: Turn) -> int | None:
        """The place of what it has cost.  A turn without words has no id: it is the next that is shown."""
        places = (n for n, spent in enumerate(self._spent) if spent.turn and turn.id in ("", spent.turn))
        return next(places, None)

    def _soon(self, there: Callable[[], bool]) -> bool:
        def look() -> bool:
            self._take()
            return there()

        return until(look, TOLD_S)

    def _take(self) -> None:
        for news in self._own.news():
            match news:
                case Spent():
                    self._spent.append(news)
                case Broken():
                    self.broken = news
                case Retried():
                    self._retried.append(news)
