"""`longtask trace`, and what a step's program is told of its span."""

from __future__ import annotations

import json
import subprocess
import sys

from longtask.cli.trace import waterfall
from longtask.telemetry.ids import attempt_span, trace_id
from longtask.telemetry.source import Span, SpanKind
from tests.cli.shell import Shell

PLAN = """
longtask: 1
name: shop
stages:
  - {name: build, steps: [{id: a, run: 'echo "$TRACEPARENT"'}, {id: bad, run: exit 3, when_failed: continue}]}
  - {name: ask, steps: [{id: ok, approval: {ask: Fine?}}]}
"""


def test_a_trace_is_a_waterfall_and_programs_find_their_span(shell: Shell):
    shell.plan(PLAN)
    shell("run", "--foreground", code=3)
    told = shell("trace", "@last").out.splitlines()
    found = shell("trace", "--json").json
    task = found["task"]
    assert told[0] == f"shop-1  trace {trace_id(task)}"
    assert [line.strip().split("  ")[0] for line in told[1:]] == [
        "task shop", "stage build", "step a", "attempt 1", "step bad, failed", "attempt 1, failed",
        "stage ask", "step ok", "attempt 1, parked", "wait user",
    ]  # fmt: skip
    assert told[-1].endswith(">")  # it goes on
    assert found["trace_id"] == trace_id(task)
    said = shell("logs", "@last", "a").out.strip()
    assert said == f"00-{trace_id(task)}-{attempt_span(task, 'a', 1)}-01"


def test_a_worker_writes_its_log_as_json_where_that_is_wanted(shell: Shell):
    done = subprocess.run(
        [sys.executable, "-m", "longtask.cli.main", "worker", "--idle-exit", "1s"],
        cwd=shell.cwd,
        env=shell.environment(LONGTASK_LOG_FORMAT="json"),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["worker.started", "worker.ended"]
    assert lines[0]["slots"] == 4


def test_commands_that_look_or_work_load_no_library_of_telemetry(shell: Shell):
    for words in (["ls"], ["trace"], ["worker", "--idle-exit", "1s"]):
        code = f"import sys; from longtask.cli.app import call; call({words!r}); print(*sys.modules, file=sys.stderr)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=shell.cwd,
            env=shell.environment(),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        loaded = done.stderr.split()
        for heavy in ("opentelemetry", "prometheus_client", "fastapi"):
            assert heavy not in loaded, f"{words} loads {heavy}"


def span(name: str, kind: SpanKind, parent: str, begin: int, end: int, **more) -> Span:
    return Span(name, "t", parent, kind, name, started_at=begin, ended_at=end, **more)


def lines(*spans: Span, now: int = 2_000, width: int = 60) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in waterfall(spans, now, width, unicode=False)]


def test_bars_stand_where_their_time_was():
    shown = lines(
        span("task", SpanKind.TASK, "", 1_000, 2_000),
        span("first", SpanKind.STEP, "task", 1_000, 1_500),
        span("second", SpanKind.STEP, "task", 1_500, 2_000),
    )
    bars = [line[len("  second") + 10 :] for line in shown]
    assert len(bars[0].strip()) == len(bars[0])
    assert bars[1].strip() == "#" * len(bars[1])
    assert bars[2].startswith(" " * len(bars[1]) + "#")
    assert len(bars[0]) == len(bars[2])
    assert max(map(len, shown)) <= 60


def test_what_goes_on_ends_in_an_arrow_and_what_is_short_is_a_mark():
    shown = lines(
        span("task", SpanKind.TASK, "", 1_000, 0),
        span("short", SpanKind.STEP, "task", 1_500, 1_500),
    )
    assert shown[0].endswith("#>")
    assert shown[1].endswith("|")


def test_a_span_that_has_lost_its_parent_hangs_under_the_task():
    shown = lines(span("task", SpanKind.TASK, "", 1_000, 2_000), span("x", SpanKind.STEP, "gone", 1_000, 2_000))
    assert shown[1].startswith("  x ")


def test_nothing_to_show_is_nothing():
    assert lines() == []
