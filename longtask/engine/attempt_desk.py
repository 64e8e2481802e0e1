"""What a running attempt may ask of its worker (`steps.contract.Desk`): each call goes to the dispatch with its number.

Output and progress are gathered here and stored by `flush`, a few times a second.  What the store could not take is
kept for the next time.
"""

from __future__ import annotations

from collections.abc import Callable

from longtask.core.errors import LeaseLost
from longtask.core.model import Json, JsonMap
from longtask.redaction import Mask, everywhere, redact
from longtask.steps.output import OutputBuffer
from longtask.store.contract import Checkpoint, Chunk, JournalRow

from .dispatcher import Claimed, Dispatcher, Held

PROGRESS_EVERY_MS = 500
PROGRESS_MAX = 2**53  # above it some databases and all browsers count wrong
PROGRESS_TEXT_MAX = 200


class AttemptDesk:
    """`steps.contract.Desk` for one attempt."""

    def __init__(self, dispatch: Dispatcher, claimed: Claimed) -> None:
        self._dispatch = dispatch
        self._claimed = claimed
        self._ref, self._attempt, self._run = claimed.ref, claimed.step.attempt, claimed.step.run
        self.buffer = OutputBuffer()
        self._masks: dict[str, Mask] = {}  # by stream
        self._taken: list[Chunk] = []  # out of the buffer, and not yet stored: the store may be busy
        self._progress: tuple[int, int, str] | None = None
        self._progress_at = 0
        self.asked_to_stop: Callable[[], bool] = lambda: False

    def now(self) -> int:
        return self._dispatch.now()

    def stopping(self) -> bool:
        return self.asked_to_stop()

    def journal_started(self, n: int, kind: str, name: str, fingerprint: str) -> bool:
        row = JournalRow(n, kind, name, fingerprint, self._attempt)
        return self._dispatch.journal_started(self._ref, self._attempt, self._run, row)

    def asked_now(self) -> str | None:
        beat = self._dispatch.beats([Held(self._ref, self._attempt)])[0]
        if isinstance(beat, Exception):
            raise beat
        if beat is None:
            raise LeaseLost(f"step {self._ref.step!r}: attempt {self._attempt} is not the newest any more")
        return beat.stop

    def journal_done(self, n: int, kind: str, name: str, fingerprint: str, body: Json, usage: JsonMap) -> bool:
        row = JournalRow(
            n,
            kind,
            name,
            fingerprint,
            self._attempt,
            body,
            usage.get("tokens_in") or 0,
            usage.get("tokens_out") or 0,
            usage.get("micros"),
        )
        return self._dispatch.journal_done(self._ref, self._attempt, self._run, row)

    def checkpoint(self, position: int, tree: str | None) -> bool:
        return self._dispatch.checkpoint(self._ref, Checkpoint(self._run, position, tree, self._attempt))

    def output(self, stream: str, body: bytes) -> None:
        mask = self._masks.get(stream)
        if mask is None:
            mask = self._masks[stream] = everywhere()
        self.buffer.feed(mask.feed(body))

    def progress(self, done: int, total: int, text: str) -> None:
        """Any numbers and words: they come from a program's output, and never more than a screen depends on them."""
        words = redact(text)[:PROGRESS_TEXT_MAX].encode("utf-8", "replace").decode()
        self._progress = (min(max(done, 0), PROGRESS_MAX), min(max(total, 0), PROGRESS_MAX), words)

    def put_artifact(self, name: str, body: bytes, media_type: str) -> JsonMap:
        return {"name": name, **self._dispatch.put_artifact(self._claimed, body, media_type), "media_type": media_type}

    def read_artifact(self, digest: str) -> bytes:
        return self._dispatch.read_artifact(self._claimed, digest)

    def flush(self, final: bool = False) -> None:
        """Stores output and progress that are due.  A lost lease is noticed by the beat, not here."""
        now = self.now()
        if final:
            for mask in self._masks.values():
                self.buffer.feed(mask.rest())
        self._taken += [Chunk(c.number, "out", c.content) for c in self.buffer.take(now, final)]
        if self._taken:
            self._dispatch.output(self._ref, self._attempt, self._taken)
            self._taken = []
        dropped = self.buffer.forget()
        if dropped:
            self._dispatch.drop_output(self._ref, self._attempt, dropped)
        if self._progress is not None and (final or now - self._progress_at >= PROGRESS_EVERY_MS):
            self._dispatch.progress(self._ref, self._attempt, *self._progress)
            self._progress, self._progress_at = None, now
