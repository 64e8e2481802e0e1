"""What a step writes, as it comes: of one attempt, or of its newest attempt and those that follow.

The place is (attempt, chunk).  A gap between two chunks of an attempt means that the middle of a flood was left out.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from longtask.api.streams.channel import Frame, Page
from longtask.api.streams.sse import Place, body, messages
from longtask.core.model import OPEN, Step, StepState
from longtask.store.contract import Ref, Store
from longtask.views.output import LOOKED_BACK, Told

PAGE = 16 + LOOKED_BACK  # chunks of at most 64 KB


@dataclass(frozen=True, slots=True)
class Output:
    """`channel.Source`.  `attempt` 0: goes on with the next attempt, until the step has ended."""

    store: Store
    ref: Ref
    attempt: int = 0
    gapless: bool = False

    @property
    def key(self) -> Hashable:
        return "output", self.ref, self.attempt

    def read(self, after: Place) -> Page:
        attempt, n = after
        step = self.store.get_step(self.ref)
        # Looked at before the chunks: of an attempt that is over by then none is written any more.
        over = step.attempt > attempt or step.state is not StepState.RUNNING
        chunks = self.store.output(self.ref, attempt, max(n - LOOKED_BACK, 0), PAGE)
        told = Told(chunk for chunk in chunks if chunk.n <= n)
        frames = [
            Frame((attempt, c.n), messages("output", [body({"attempt": attempt, **told(c)})], (attempt, c.n)))
            for c in chunks
            if c.n > n
        ]
        place = frames[-1].place if frames else after
        if len(chunks) == PAGE:
            return Page(frames, place, more=True)
        if not over:
            return Page(frames, place)
        if self.attempt or (step.attempt <= attempt and step.state not in OPEN):
            return Page(frames, place, over=ended_map(step, attempt))
        if step.attempt > attempt:
            place = (attempt + 1, 0)
            begun = body({"step": step.key, "attempt": attempt + 1})
            return Page([*frames, Frame(place, messages("attempt", [begun], place))], place, more=True)
        return Page(frames, place)


def ended_map(step: Step, attempt: int) -> dict[str, object]:
    return {"step": step.key, "attempt": attempt, "state": str(step.state)}
