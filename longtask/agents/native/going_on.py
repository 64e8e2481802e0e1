"""An attempt of an agent's own program: said words to again and again, until its run has ended.

A program that stalls or dies is started again within the attempt, since its session goes on; a call that a person is to
be asked about ends it; outputs that do not fit are told to the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from longtask.agents.contract import AgentOutcome, Brief
from longtask.agents.journal import Seams
from longtask.agents.native.again import Again
from longtask.agents.native.program import ProgramError
from longtask.agents.native.shown import Shown
from longtask.core.errors import LongTaskError
from longtask.core.model import Done, Failed, JsonMap

STALL_S = 300.0  # between two signs of progress of a model; its thinking is streamed, too
TOOL_S = 7_200.0  # of a tool at work, which is silent
STALLS_MAX = 2  # launches that are ended for it, one after another
CORRECTIONS_MAX = 3

GO_ON = (
    "You were interrupted. Files that you have changed are as they were after the last tool that has ended. "
    "Look at what is done, then go on."
)
AGAIN = "The connection to the model was lost. Go on where you were."


class Stalled(LongTaskError):
    """The model says nothing any more, or the program has died."""


class OverBudget(LongTaskError):
    """The run has made all the model calls that it may."""


class Deferred(LongTaskError):
    """A person is to be asked about a call: {id, tool, args, about}."""

    def __init__(self, call: JsonMap) -> None:
        super().__init__()
        self.call = call


class Attempt(ABC):
    """Of a program that loses a call which is asked about.  `turns`: answers of the model in the whole run."""

    def __init__(self, name: str, brief: Brief, seams: Seams, shown: Shown, again: Again) -> None:
        self.turns = 0
        self._name = name
        self._brief = brief
        self._seams = seams
        self._shown = shown
        self._decided = again

    @abstractmethod
    def say(self, words: str) -> None:
        """Until the program has nothing more to do.  Raises Stalled, ProgramError, OverBudget, Deferred."""

    @abstractmethod
    def start_again(self) -> bool:
        """The program anew.  False: so is its session, nothing of it was there yet."""

    @abstractmethod
    def put_off(self, call: JsonMap) -> None:
        """The program is ended and its session kept, with the call that a person is asked about."""

    @abstractmethod
    def failure(self) -> AgentOutcome | None:
        """None: what was said has ended well."""

    @abstractmethod
    def outputs(self) -> tuple[JsonMap, list[str]]:
        """(what it hands over, what is wrong with it)."""

    def until_ended(self, words: str) -> AgentOutcome:
        stalls = corrections = 0
        while True:
            turns = self.turns
            try:
                self.say(words)
            except (Stalled, ProgramError) as stalled:
                stalls = stalls + 1 if self.turns == turns else 1
                if stalls > STALLS_MAX:
                    return Failed(f"{self._name}: {stalled}, and that {stalls} times", digest="stalled")
                self._shown.note(f"{stalled}; its program is started again")
                words = AGAIN if self.start_again() else words
                continue
            except OverBudget:
                return Failed(f"request budget: {self.turns} model calls were made and the run has not ended")
            except Deferred as deferred:
                self.put_off(deferred.call)
                words = self._decided.ask(deferred.call) or GO_ON
                self.start_again()
                continue
            outcome = self.failure()
            if outcome is not None:
                return outcome
            outputs, wrong = self.outputs()
            if not wrong:
                return Done(outputs)
            corrections += 1
            if corrections > CORRECTIONS_MAX:
                return Failed(f"{self._name}: it did not answer with the wanted outputs: {'; '.join(wrong)}")
            told = f"Your outputs are not the wanted ones: {'; '.join(wrong)}. Answer with all of them, as JSON."
            words = self._seams.told(told) or told
