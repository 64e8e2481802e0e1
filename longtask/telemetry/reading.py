"""The trace of one task as it is looked at: the file is brought up to the journal first, so it is whole and current
whoever has written it, and whether or not anybody follows."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtask.core.errors import StoreError
from longtask.core.model import JsonMap, Task
from longtask.telemetry.file import MEMORY, TraceFile
from longtask.telemetry.follower import Reader
from longtask.telemetry.ids import trace_id
from longtask.telemetry.otlp import attributes_of
from longtask.telemetry.settings import TraceSettings
from longtask.telemetry.source import Source, Span, SpanKind, by_beginning

log = logging.getLogger("longtask.trace")

SPANS_SHOWN = 5_000


@dataclass(frozen=True, slots=True)
class Trace:
    """`spans` by their beginning; `cut`: there are more; `dropped`: how many are not kept."""

    task_id: str
    handle: str
    spans: list[Span]
    cut: bool = False
    dropped: int = 0


def read_trace(
    source: Source,
    home: Path,
    settings: TraceSettings,
    task: Task,
    *,
    limit: int = SPANS_SHOWN,
) -> Trace:
    """Raises NotFound, StoreError of the store."""
    with _open(home, settings) as file:
        reader = Reader(source, file, settings)
        reader.catch_up(task.id, task.seq)
        spans = file.spans(task.id, limit + 1)
        shown = spans[:limit]
        known = {span.id for span in shown}
        running = reader.running(span for span in shown if span.kind is SpanKind.ATTEMPT)
        shown += [span for span in running if span.id not in known]
        handle = f"{task.name}-{task.number}"
        return Trace(task.id, handle, sorted(shown, key=by_beginning), len(spans) > limit, file.dropped(task.id))


def _open(home: Path, settings: TraceSettings) -> TraceFile:
    """In memory where no file is wanted, or none can be had."""
    if settings.enabled:
        try:
            return TraceFile.at(home)
        except StoreError as error:
            log.warning("trace.error: %s", error)
    return TraceFile(MEMORY)


def trace_map(trace: Trace) -> dict[str, Any]:
    """As JSON: `longtask trace --json` and `GET /v1/tasks/{task}/trace`."""
    return {
        "task": trace.task_id,
        "handle": trace.handle,
        "trace_id": trace_id(trace.task_id),
        "spans": [span_map(span) for span in trace.spans],
        "cut": trace.cut,
        "dropped": trace.dropped,
    }


def span_map(span: Span) -> dict[str, Any]:
    return {
        "span_id": span.id,
        "parent_id": span.parent or None,
        "kind": str(span.kind),
        "name": span.name,
        "step": span.step or None,
        "attempt": span.attempt or None,
        "started_at": span.started_at,
        "ended_at": span.ended_at or None,
        "status": span.status or None,
        "attributes": attributes_of(span),
    }


def spans_of(document: JsonMap) -> list[Span]:
    """The other way round."""
    return [
        Span(
            span["span_id"],
            document["task"],
            span["parent_id"] or "",
            SpanKind(span["kind"]),
            span["name"],
            span["step"] or "",
            span["attempt"] or 0,
            span["started_at"],
            span["ended_at"] or 0,
            span["status"] or "",
            dict(span["attributes"]),
        )
        for span in document["spans"]
    ]
