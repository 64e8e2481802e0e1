"""From events to counters: what `/metrics` tells beside the state of the store.

They are kept in the trace file and written together with the place in the feed that was read, so each event counts
once, over all restarts.  Labels are of bounded number: what a plan or a program may name freely is cut off at
LABELS_MAX sets, and goes on as `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple, Protocol

from longtask.core import events as e
from longtask.core.events import PUBLIC, Event
from longtask.telemetry.ids import attempt_span
from longtask.telemetry.source import Span

LABELS_MAX = 200  # sets of one counter
NAME_CHARS_MAX = 80
OTHER = "other"

Labels = tuple[str, ...]


class Counter(NamedTuple):
    name: str
    labels: Labels
    help: str


class Histogram(NamedTuple):
    name: str
    labels: Labels
    help: str
    buckets_s: tuple[float, ...]


EVENTS = Counter("longtask_events", ("event",), "Events of the journal.")
SUBMITTED = Counter("longtask_tasks_submitted", (), "Tasks submitted.")
TASKS_ENDED = Counter("longtask_tasks_ended", ("state",), "Tasks ended; one that is taken up again ends again.")
STEPS_ENDED = Counter("longtask_steps_ended", ("state",), "Steps ended.")
RETRIES = Counter("longtask_retries", (), "Attempts that failed and were followed by another one.")
LOSSES = Counter("longtask_lease_losses", (), "Attempts whose lease ended: their worker died, hung or was cut off.")
RELEASES = Counter("longtask_releases", (), "Attempts given back without a result: drain, pause, budget.")
FIXES = Counter("longtask_fixes", ("why",), "Fix rounds begun, by what asked for them.")
TOKENS = Counter("longtask_tokens", ("runtime", "model", "direction"), "Tokens used by agents.")
COST = Counter("longtask_cost_usd", ("runtime", "model"), "Cost of agents in US dollars, as far as prices are known.")
UNPRICED = Counter("longtask_unpriced_calls", ("runtime", "model"), "Model calls of which no price is known.")
COUNTERS = (
    EVENTS, SUBMITTED, TASKS_ENDED, STEPS_ENDED, RETRIES, LOSSES, RELEASES, FIXES, TOKENS, COST, UNPRICED,
)  # fmt: skip

CLAIM_LATENCY = Histogram(
    "longtask_claim_latency_seconds",
    (),
    "From the moment when a step could be claimed to its claim.",
    (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600),
)
ATTEMPT_TIME = Histogram(
    "longtask_attempt_seconds",
    ("kind", "outcome"),
    "How long attempts ran.",
    (0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 14_400, 43_200),
)
HISTOGRAMS = (CLAIM_LATENCY, ATTEMPT_TIME)
SUM = "sum"  # stands where a bucket's number stands


class Tallies(Protocol):
    def find(self, id: str) -> Span | None: ...
    def tally(self, name: str, labels: Labels, by: float) -> None: ...


class Counts:
    """After the spans of the same event: what an event does not say stands in the attempt's span."""

    def __init__(self, kept: Tallies) -> None:
        self._kept = kept

    def add(self, event: Event) -> None:
        fact = event.fact
        kind = type(fact).__name__
        self._add(EVENTS, PUBLIC.get(kind, kind))
        match fact:
            case e.StepClaimed():
                if (span := self._attempt(event, fact.step, fact.attempt)) is not None:
                    self._observe(CLAIM_LATENCY, span.attributes.get("longtask.queued_ms", 0) / 1_000)
                return
            case e.TaskSubmitted():
                self._add(SUBMITTED)
            case e.TaskCompleted() | e.TaskFailed() | e.TaskCancelled():
                self._add(TASKS_ENDED, kind.removeprefix("Task").lower())
            case e.StepRetried():
                self._add(RETRIES)
            case e.StepLost():
                self._add(LOSSES)
            case e.StepReleased():
                self._add(RELEASES)
            case e.FixRequested():
                self._add(FIXES, "review" if fact.revise else "failure")
            case e.UsageRecorded():
                if fact.child is None:  # a child's own journal tells it
                    self._used(event, fact)
                return
            case e.StepMerged():
                self._add(STEPS_ENDED, "completed")
            case e.StepCompleted() | e.StepFailed() | e.StepCancelled() | e.StepSkipped():
                self._add(STEPS_ENDED, kind.removeprefix("Step").lower())
            case e.StepRetired():
                self._add(STEPS_ENDED, "skipped")
        attempt = getattr(fact, "attempt", 0)
        if attempt:
            self._ran(event, fact.step, attempt)  # type: ignore[union-attr]

    def _ran(self, event: Event, step: str, attempt: int) -> None:
        """If it is this event that has ended it."""
        span = self._attempt(event, step, attempt)
        if span is not None and span.ended_at == event.at:
            outcome = str(span.attributes.get("longtask.outcome", "")).partition(":")[0]
            kind = str(span.attributes.get("longtask.step.kind", ""))
            self._observe(ATTEMPT_TIME, (span.ended_at - span.started_at) / 1_000, kind, outcome)

    def _used(self, event: Event, fact: e.UsageRecorded) -> None:
        span = self._attempt(event, fact.step, fact.attempt)
        runtime = str(span.attributes.get("longtask.runtime", OTHER)) if span is not None else OTHER
        runtime = runtime.partition(" ")[0][:NAME_CHARS_MAX]
        model = (fact.model or OTHER)[:NAME_CHARS_MAX]
        for direction, tokens in (("input", fact.tokens_in), ("output", fact.tokens_out)):
            self._add(TOKENS, runtime, model, direction, by=tokens)
        if fact.micros is None:
            self._add(UNPRICED, runtime, model)
        else:
            self._add(COST, runtime, model, by=fact.micros / 1e6)

    def _attempt(self, event: Event, step: str, attempt: int) -> Span | None:
        return self._kept.find(attempt_span(event.task_id, step, attempt))

    def _add(self, counter: Counter, *labels: str, by: float = 1) -> None:
        self._kept.tally(counter.name, labels, by)

    def _observe(self, histogram: Histogram, seconds: float, *labels: str) -> None:
        """A bucket is kept by its number; the last one is without bound."""
        self._kept.tally(histogram.name, (*labels, str(bisect_left(histogram.buckets_s, seconds))), 1)
        self._kept.tally(histogram.name, (*labels, SUM), seconds)
