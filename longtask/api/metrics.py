"""`/metrics`, as Prometheus reads it.

- What there *is* comes from the store: a few statements, each bounded, asked once in FRESH_S however often it is
  scraped.  Every server of a fleet tells the same: do not add them up.
- What *happened* comes from the trace file's counters (`telemetry/counts.py`), which count each event once, over all
  restarts.  They lag behind as much as `longtask_trace_lag_seconds` says.
- What this *process* does (requests, streams, memory) it counts itself.

Labels are of bounded number: models and pools beyond LABELS_MAX are told as `other`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.responses import Response

from longtask import __version__
from longtask.api.problems import Problem
from longtask.api.server import Server
from longtask.api.sight import Viewer
from longtask.core.errors import LongTaskError
from longtask.store.contract import Store
from longtask.telemetry.counts import COUNTERS, HISTOGRAMS, SUM, Histogram, Labels
from longtask.telemetry.file import TraceFile
from longtask.views.fleet import SHOWN_MAX, alive

log = logging.getLogger("longtask.metrics")

FRESH_S = 3.0
TASKS_MAX = 10_000  # open tasks that are looked at
LABELS_MAX = 50
OTHER = "other"


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["health"])
    scraped = Scraped(server)

    @routes.get("/metrics", response_class=Response, include_in_schema=False)
    def metrics(caller: Viewer) -> Response:
        """Tell figures of the installation and of this server, as Prometheus reads them."""
        if caller.workspaces is not None:
            raise Problem(403, "forbidden", "Figures are of all workspaces", "use a token that sees all workspaces")
        return Response(scraped.text(), media_type=CONTENT_TYPE_LATEST)

    return routes


class Scraped:
    """The text, made once in FRESH_S; whoever comes meanwhile waits for it."""

    def __init__(self, server: Server) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(Installation(server))
        ProcessCollector(registry=self._registry)
        self._lock = threading.Lock()
        self._made_at = -FRESH_S
        self._text = b""

    def text(self) -> bytes:
        with self._lock:
            if time.monotonic() - self._made_at >= FRESH_S:
                self._text = generate_latest(self._registry)
                self._made_at = time.monotonic()
            return self._text


class Installation(Collector):
    def __init__(self, server: Server) -> None:
        self._server = server
        self._store = server.parts.store
        self._home = server.parts.config.home

    def describe(self) -> Iterable[Metric]:
        """Without it the registry would ask the store already when this is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("longtask_build", "Version of this server.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        yield from self._of_process()
        readable = GaugeMetricFamily("longtask_readable", "1: this part could be asked just now.", labels=["part"])
        for part, ask in (("store", self._of_store), ("traces", self._of_traces)):
            try:
                found = list(ask())
            except LongTaskError as error:
                log.warning("metrics.error part=%s: %s", part, error)
                readable.add_metric([part], 0)
            else:
                readable.add_metric([part], 1)
                yield from found
        yield readable

    def _of_process(self) -> Iterator[Metric]:
        hub = self._server.hub
        yield GaugeMetricFamily("longtask_sse_clients", "Streams that are open on this server.", hub.clients)
        yield CounterMetricFamily("longtask_sse_dropped", "Streams closed since they were too slow.", hub.dropped)

    # --- the store ------------------------------------------------------------------------------------------------

    def _of_store(self) -> Iterator[Metric]:
        store = self._store
        now = store.now()
        yield from _counts(store)
        yield from _queues(store, now)
        workers = [worker for worker in store.workers(SHOWN_MAX) if alive(worker, now)]
        yield GaugeMetricFamily("longtask_workers", "Living workers.", len(workers))
        slots = sum(worker.slots for worker in workers)
        yield GaugeMetricFamily("longtask_worker_slots", "Slots of living workers.", slots)

    # --- the trace file -------------------------------------------------------------------------------------------

    def _of_traces(self) -> Iterator[Metric]:
        database, now = self._store.identity(), self._store.now()
        with TraceFile.at(self._home) as file:
            counted = file.counters(database)
            unread, _ = self._store.feed(file.place(database)[0], 1)
            waits = file.waits()
            size_bytes = file.bytes_used()
        behind_s = max(now - unread[0].at, 0) / 1_000 if unread else 0.0
        yield GaugeMetricFamily("longtask_trace_lag_seconds", "Age of the oldest event not yet counted.", behind_s)
        yield GaugeMetricFamily("longtask_trace_bytes", "Size of the trace file.", size_bytes)
        oldest = GaugeMetricFamily(
            "longtask_waiting_oldest_seconds", "How long the step waits that waits longest.", labels=["reason"]
        )
        for name, _, at in waits:
            oldest.add_metric([name.removeprefix("wait ")], max(now - at, 0) / 1_000)
        yield oldest
        for counter in COUNTERS:
            family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
            for labels, value in _of(counted, counter.name):
                family.add_metric(labels, value)
            if not counter.labels and not family.samples:
                family.add_metric([], 0)
            yield family
        for histogram in HISTOGRAMS:
            yield _histogram(histogram, _of(counted, histogram.name))


def _counts(store: Store) -> Iterator[Metric]:
    counts = store.open_counts(TASKS_MAX)
    tasks = GaugeMetricFamily("longtask_open_tasks", "Tasks that have not ended.", labels=["state"])
    active = counts.tasks - counts.paused - counts.closing
    for state, count in (("active", active), ("paused", counts.paused), ("closing", counts.closing)):
        tasks.add_metric([state], count)
    yield tasks
    yield GaugeMetricFamily(
        "longtask_open_tasks_cut",
        f"1: there are more than {TASKS_MAX}; states of tasks and steps are of the oldest ones.",
        int(counts.tasks >= TASKS_MAX),
    )
    steps = GaugeMetricFamily("longtask_open_steps", "Steps that have not ended.", labels=["state"])
    waiting = counts.waiting
    for state, count in (
        ("blocked", counts.blocked),
        ("ready", counts.ready),
        ("running", counts.running + counts.running_system),
        ("waiting", sum(waiting.values())),
        ("merging", counts.merging),
    ):
        steps.add_metric([state], count)
    yield steps
    reasons = GaugeMetricFamily("longtask_waiting_steps", "Steps that wait, by what for.", labels=["reason"])
    for reason, count in waiting.items():
        reasons.add_metric([reason], count)
    yield reasons


def _queues(store: Store, now: int) -> Iterator[Metric]:
    tasks = GaugeMetricFamily("longtask_queue_tasks", "Tasks with a step that could be claimed now.", labels=["pool"])
    oldest = GaugeMetricFamily(
        "longtask_queue_oldest_seconds", "How long the step could be claimed that waits longest.", labels=["pool"]
    )
    shown: dict[str, tuple[int, int]] = {}
    for queue in store.queues(TASKS_MAX):
        name = queue.pool if queue.pool in shown or len(shown) < LABELS_MAX else OTHER
        count, age_ms = shown.get(name, (0, 0))
        shown[name] = count + queue.tasks, max(age_ms, now - queue.due_at)
    for name, (count, age_ms) in shown.items():
        tasks.add_metric([name], count)
        oldest.add_metric([name], age_ms / 1_000)
    yield tasks
    yield oldest


def _of(counted: dict[tuple[str, Labels], float], name: str) -> list[tuple[Labels, float]]:
    return [(labels, value) for (found, labels), value in sorted(counted.items()) if found == name]


def _histogram(histogram: Histogram, counted: list[tuple[Labels, float]]) -> Metric:
    family = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
    by_labels: dict[Labels, dict[str, float]] = {} if histogram.labels else {(): {}}
    for (*labels, part), value in counted:
        by_labels.setdefault(tuple(labels), {})[part] = value
    for names, parts in by_labels.items():
        so_far, buckets = 0.0, []
        for number, bound in enumerate([*map(str, map(float, histogram.buckets_s)), "+Inf"]):
            so_far += parts.get(str(number), 0)
            buckets.append((bound, so_far))
        family.add_metric(names, buckets, parts.get(SUM, 0.0))
    return family
