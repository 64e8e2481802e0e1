"""Group commit: what several threads write at the same time becomes one transaction.

Whoever comes while nobody commits leads: it carries out what is waiting, its own among it, and commits.  Whoever comes
meanwhile waits, and the first of them leads next.  So one alone waits for nobody, and many pay for few commits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from longtask.core.errors import StoreBusy, StoreError

MEMBERS_MAX = 64  # of one transaction: more would lock the database for longer, and save little

T = TypeVar("T")


class Member:
    """What one thread has handed in, and what came of it."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act
        self.result: Any = None
        self.error: Exception | None = None
        self.over = False
        self.called = threading.Lock()  # released when it is over, or when it is this thread's turn to lead
        self.called.acquire()

    def alone(self, carry_out: Callable[[Callable[[], Any]], Any]) -> None:
        self.error = None
        try:
            self.result = carry_out(self.act)
        except Exception as error:  # noqa: BLE001  it is raised to whoever has handed it in
            self.error = error


class Together:
    def __init__(self, one: Callable[[Callable[[], Any]], Any], many: Callable[[Sequence[Member]], None]) -> None:
        """`one` carries out in a transaction of its own.  `many` does so in one of all, tells each its result or why it
        was refused, and raises if none of it was written."""
        self._one, self._many = one, many
        self._guard = threading.Lock()
        self._waiting: deque[Member] = deque()
        self._led = False

    def run(self, act: Callable[[], T]) -> T:
        """Raises what `act` does."""
        mine = Member(act)
        with self._guard:
            self._waiting.append(mine)
            leads, self._led = not self._led, True
        if not leads:
            mine.called.acquire()
        if not mine.over:
            self._lead(mine)
        if mine.error is not None:
            raise mine.error
        result: T = mine.result
        return result

    def _lead(self, mine: Member) -> None:
        with self._guard:
            members = [self._waiting.popleft() for _ in range(min(len(self._waiting), MEMBERS_MAX))]
        try:
            self._carry_out(members)
        except BaseException:  # of the leader alone, such as an interrupt: nobody else may take it for a success
            for member in members:
                member.error = StoreError("the thread that was writing this has been stopped; try again")
            raise
        finally:
            for member in members:
                member.over = True
                if member is not mine:
                    member.called.release()
            with self._guard:
                self._led = bool(self._waiting)
                if self._led:
                    self._waiting[0].called.release()

    def _carry_out(self, members: Sequence[Member]) -> None:
        if len(members) > 1:
            try:
                self._many(members)
            except StoreBusy as error:
                for member in members:
                    member.error = error
                return
            except Exception:  # noqa: BLE001  whoever is to blame hears of it when each is carried out by itself
                pass
            else:
                return
        for member in members:
            member.alone(self._one)
