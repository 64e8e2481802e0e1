"""The seams, so that what one of them raises is what the run ends with, whatever the framework in between makes of it.

A framework may turn an exception of a tool into words for the model, or wrap it into a group.  Here the first one is
kept, every later call raises it again, and the runtime raises it at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from longtask.agents.contract import AgentOutcome
from longtask.agents.journal import Answer, Seams
from longtask.core.model import Json, JsonMap

T = TypeVar("T")


class Ends(BaseException):
    """The attempt ends with this outcome.  No handler may survive it."""

    def __init__(self, outcome: AgentOutcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


class Firm:
    """`Seams`, word for word.  `raised`: what one of its calls has raised."""

    def __init__(self, seams: Seams) -> None:
        self._seams = seams
        self.raised: BaseException | None = None

    @property
    def replaying(self) -> bool:
        return self._seams.replaying

    def model(self, name: str, request: Json, call: Callable[[], Answer]) -> JsonMap:
        return self._firmly(lambda: self._seams.model(name, request, call))

    def tool(self, name: str, args: JsonMap, call: Callable[[], Answer], *, repeatable: bool, writes: bool) -> JsonMap:
        return self._firmly(lambda: self._seams.tool(name, args, call, repeatable=repeatable, writes=writes))

    def told(self, text: str | None) -> str | None:
        return self._firmly(lambda: self._seams.told(text))

    def ask(self, name: str, request: JsonMap, text: str) -> JsonMap:
        return self._firmly(lambda: self._seams.ask(name, request, text))

    def spawn(self, tasks: Sequence[JsonMap], told: Callable[[Sequence[JsonMap], Sequence[str]], JsonMap]) -> JsonMap:
        return self._firmly(lambda: self._seams.spawn(tasks, told))

    def end(self, outcome: AgentOutcome) -> Ends:
        """To be raised; it stays, too."""
        self.raised = self.raised or Ends(outcome)
        return Ends(outcome)

    def _firmly(self, call: Callable[[], T]) -> T:
        if self.raised is not None:
            raise self.raised
        try:
            return call()
        except BaseException as error:
            self.raised = error
            raise
