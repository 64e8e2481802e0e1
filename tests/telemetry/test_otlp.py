"""Spans to a collector, with the SDK's own exporters."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from longtask.core.model import Done, Failed
from longtask.telemetry import otlp
from longtask.telemetry.file import TraceFile
from longtask.telemetry.follower import Reader
from longtask.telemetry.ids import step_span, task_span, trace_id
from longtask.telemetry.otlp import Sender, configured, readable
from longtask.telemetry.settings import TraceSettings
from longtask.telemetry.source import Span
from longtask.telemetry.source import SpanKind as Kind
from tests.cli.shell import until
from tests.engine.world import World, step


@pytest.fixture(autouse=True)
def fast(monkeypatch) -> None:
    monkeypatch.setattr(otlp, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(otlp, "AGAIN_S", 0.02)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where a task has left its spans, and somebody exports."""
    with TraceFile.at(tmp_path) as file:
        file.export()
    follow(tmp_path)
    return tmp_path


def follow(home: Path) -> None:
    world = World()
    world.submit(step("a", failures_max=1), acts={"a": [Failed("no"), Done()]})
    world.run()
    with TraceFile.at(home) as file:
        reader = Reader(world.store, file, TraceSettings())
        while reader.round():
            pass
    world.store.close()


def test_a_sender_sends_all_that_has_ended_once(home: Path):
    exporter = InMemorySpanExporter()
    sender = Sender(home, exporter, "1")
    until(lambda: sender.sent == 5)
    sender.close()
    assert sorted(span.name for span in exporter.get_finished_spans()) == [
        "attempt a.1", "attempt a.2", "stage s1", "step a", "task t",
    ]  # fmt: skip
    with TraceFile.at(home) as file:
        assert file.unsent(10) == []


def test_what_a_collector_does_not_take_is_kept_for_the_next_time(home: Path, caplog):
    class Stubborn(InMemorySpanExporter):
        refusals = 3

        def export(self, spans):
            if self.refusals:
                self.refusals -= 1
                return SpanExportResult.FAILURE
            return super().export(spans)

    exporter = Stubborn()
    sender = Sender(home, exporter, "1")
    until(lambda: sender.sent == 5)
    sender.close()
    assert len(exporter.get_finished_spans()) == 5
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_ids_and_parents_are_those_of_the_task(home: Path):
    task_id = f"0190{1:028d}"
    with TraceFile.at(home) as file:
        made = {span.name: span for span in readable(file.spans(task_id, 10), "1.2")}
    root, one = made["task t"], made["step a"]
    assert format(root.context.trace_id, "032x") == trace_id(task_id)
    assert format(root.context.span_id, "016x") == task_span(task_id)
    assert root.parent is None
    assert format(one.context.span_id, "016x") == step_span(task_id, "a")
    assert made["attempt a.1"].parent.span_id == one.context.span_id
    assert made["attempt a.1"].status.status_code is StatusCode.ERROR
    assert root.resource.attributes["service.name"] == "longtask"
    assert one.attributes["longtask.task.id"] == task_id


def test_a_model_call_is_a_client_and_a_child_task_is_linked_to_its_parent():
    turn = Span("11" * 8, "t", "22" * 8, Kind.TURN, "chat x", started_at=5, ended_at=5)
    child = Span("33" * 8, "t", "", Kind.TASK, "task", started_at=5, ended_at=5)
    child.attributes = {"longtask.parent.task": "p", "longtask.parent.step": "s"}
    told, linked = readable([turn, child], "1")
    assert told.kind is SpanKind.CLIENT
    assert format(linked.links[0].context.span_id, "016x") == step_span("p", "s")


@pytest.mark.parametrize(
    ("environment", "sends"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "console,otlp"}, True),
    ],
)
def test_the_variables_of_the_standard_decide(environment: dict[str, str], sends: bool):
    assert configured(environment) is sends


def test_a_missing_exporter_is_told_with_its_name(monkeypatch, caplog):
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert otlp.make_exporter() is None
    assert otlp.EXTRA in caplog.text


class Collector:
    """`refusals`: so many requests are answered with 400 first."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[str] = []
        self.refusals = 0


class Answering(BaseHTTPRequestHandler):
    collector: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.collector.headers.append(f"{self.path} {self.headers.get('X-Team')}")
        if self.collector.refusals:
            self.collector.refusals -= 1
            self.send_response(400)
        else:
            packed = self.headers.get("Content-Encoding") == "gzip"
            self.collector.bodies.append(gzip.decompress(body) if packed else body)
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def collector(monkeypatch) -> Iterator[Collector]:
    collecting = Collector()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Mine", (Answering,), {"collector": collecting}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield collecting
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_real_collector_gets_them_over_http(home: Path, collector: Collector):
    exporter = otlp.make_exporter()
    assert exporter is not None
    sender = Sender(home, exporter, "1")
    until(lambda: sender.sent == 5)
    sender.close()
    request = ExportTraceServiceRequest.FromString(collector.bodies[0])
    spans = request.resource_spans[0].scope_spans[0].spans
    assert {span.trace_id.hex() for span in spans} == {f"0190{1:028d}"}
    assert {span.name for span in spans} >= {"task t", "step a", "attempt a.2"}


def test_the_variables_of_the_standard_are_heeded_by_what_is_sent(home: Path, collector: Collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    exporter = otlp.make_exporter()
    assert exporter is not None
    sender = Sender(home, exporter, "1")
    until(lambda: sender.sent == 5)
    sender.close()
    assert set(collector.headers) == {"/v1/traces blue"}
    assert ExportTraceServiceRequest.FromString(collector.bodies[0]).resource_spans


def test_what_a_real_collector_refuses_is_sent_again(home: Path, collector: Collector, caplog):
    collector.refusals = 2
    exporter = otlp.make_exporter()
    assert exporter is not None
    sender = Sender(home, exporter, "1")
    until(lambda: sender.sent == 5)
    sender.close()
    assert len(collector.headers) == 3 and "otlp.error" in caplog.text
