"""Spans to a collector, by OTLP, if the standard OTEL_* variables name one.

The trace file is the outbox: what has ended waits there until the collector has taken it, over restarts, for a day at
most.  So a span is sent at least once, under an id that never changes.  The exporter is a package of its own (the extra
`otlp`), which reads endpoint, headers, timeout, compression and certificates from the variables of the standard by
itself.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from longtask.core.errors import LongTaskError
from longtask.telemetry.file import TraceFile
from longtask.telemetry.ids import step_span, trace_id
from longtask.telemetry.source import ERROR, OK, Span, SpanKind

log = logging.getLogger("longtask.otlp")

EXTRA = "longtask[otlp]"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PAGE = 512
LOOK_EVERY_S = 2.0
AGAIN_S = 15.0
EXPORT_EVERY_S = 600.0  # tells the file that somebody exports
UNSENT_MAX_MS = 86_400_000
STOP_MAX_S = 5.0


def configured(environment: Mapping[str, str] = os.environ) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    chosen = environment.get("OTEL_TRACES_EXPORTER", "otlp").split(",")
    return "otlp" in [name.strip() for name in chosen] and any(environment.get(name) for name in ENDPOINTS)


class Exporter(Protocol):
    """`opentelemetry.sdk.trace.export.SpanExporter`."""

    def export(self, spans: Any, /) -> Any: ...
    def shutdown(self) -> None: ...


def make_exporter() -> Exporter | None:
    """None: its package is not there."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        log.warning("otlp.missing: an OTLP endpoint is set, but the exporter is not installed: pip install '%s'", EXTRA)
        return None
    made: Exporter = OTLPSpanExporter()
    return made


class Sender:
    """A thread that empties the outbox."""

    def __init__(self, home: Path, exporter: Exporter, version: str) -> None:
        self._home = home
        self._exporter = exporter
        self._version = version
        self._stopped = threading.Event()
        self._failed = ""
        self.sent = 0
        self.forgotten = 0
        with TraceFile.at(home) as file:  # before anything ends
            file.export()
        self._thread = threading.Thread(target=self._keep, name="otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Sends what is there, if the collector takes it at once."""
        self._stopped.set()
        self._thread.join(STOP_MAX_S)

    def _keep(self) -> None:
        pause, over, told_at = LOOK_EVERY_S, False, time.monotonic()
        while not over:
            over = self._stopped.wait(pause)
            tell = time.monotonic() - told_at >= EXPORT_EVERY_S
            pause = self._guarded(tell)
            told_at = time.monotonic() if tell else told_at
        with suppress(Exception):
            self._exporter.shutdown()

    def _guarded(self, tell: bool) -> float:
        try:
            with TraceFile.at(self._home) as file:
                if tell:
                    file.export()
                    self.forgotten += file.forget_unsent(time.time_ns() // 1_000_000 - UNSENT_MAX_MS)
                while self._send(file):
                    pass
        except (LongTaskError, OSError) as error:
            self._trouble(str(error))
        except Exception as error:  # noqa: BLE001  whatever an exporter raises, the spans stay where they are
            self._trouble(repr(error))
        else:
            self._failed = ""
            return LOOK_EVERY_S
        return AGAIN_S

    def _trouble(self, said: str) -> None:
        if said != self._failed:
            log.warning("otlp.error: %s", said)
        self._failed = said

    def _send(self, file: TraceFile) -> bool:
        """A page; False: there is no more.  Raises OSError: it was not taken."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        spans = file.unsent(PAGE)
        if not spans:
            return False
        if self._exporter.export(readable(spans, self._version)) is not SpanExportResult.SUCCESS:
            raise OSError("the collector has not taken the spans; they are kept for a day")
        file.sent(spans)
        self.sent += len(spans)
        return len(spans) == PAGE


def readable(spans: Iterable[Span], version: str) -> list[Any]:
    """As the SDK's `ReadableSpan`s."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags
    from opentelemetry.trace import SpanKind as Kind

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "longtask"}
    if "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        named = {}
    resource = Resource.create({**named, "service.version": version})
    scope = InstrumentationScope("longtask", version)
    codes = {OK: StatusCode.OK, ERROR: StatusCode.ERROR}

    def context(task_id: str, id_: str) -> Any:
        return SpanContext(int(trace_id(task_id), 16), int(id_, 16), False, TraceFlags(TraceFlags.SAMPLED))

    made = []
    for span in spans:
        parent_task = span.attributes.get("longtask.parent.task")
        links = []
        if span.kind is SpanKind.TASK and parent_task:
            about = step_span(parent_task, str(span.attributes.get("longtask.parent.step", "")))
            links = [Link(context(parent_task, about))]
        made.append(
            ReadableSpan(
                name=span.name,
                context=context(span.task_id, span.id),
                parent=context(span.task_id, span.parent) if span.parent else None,
                resource=resource,
                attributes=attributes_of(span),
                links=links,
                kind=Kind.CLIENT if span.kind is SpanKind.TURN else Kind.INTERNAL,
                status=Status(codes.get(span.status, StatusCode.UNSET)),
                start_time=span.started_at * 1_000_000,
                end_time=max(span.ended_at, span.started_at) * 1_000_000,
                instrumentation_scope=scope,
            )
        )
    return made


def attributes_of(span: Span) -> dict[str, Any]:
    """With what the columns say."""
    about: dict[str, Any] = {"longtask.task.id": span.task_id}
    if span.step:
        about["longtask.step"] = span.step
    if span.attempt:
        about["longtask.attempt"] = span.attempt
    return about | span.attributes
