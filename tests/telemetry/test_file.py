"""The trace file: bounded, derived, and never in anybody's way."""

from __future__ import annotations

import stat
from pathlib import Path

import apsw
import pytest

from longtask.core.errors import StoreError
from longtask.telemetry import file as module
from longtask.telemetry.counts import LABELS_MAX
from longtask.telemetry.file import TraceFile
from longtask.telemetry.ids import span_id, trace_id, traceparent
from longtask.telemetry.source import Span, SpanKind


def put(file: TraceFile, task_id: str, at: int, spans: int = 1, ended: bool = True, padding: int = 0) -> None:
    with file.batch() as batch:
        for n in range(spans):
            kind = SpanKind.TASK if n == 0 else SpanKind.STEP
            span = Span(span_id(task_id, "x", n), task_id, "", kind, f"{n}", started_at=at, ended_at=at * ended)
            span.attributes = {"padding": "x" * padding}
            batch.add(span)
        batch.advance(task_id, 1, at)


def test_a_span_comes_back_as_it_was_put(tmp_path: Path):
    with TraceFile.at(tmp_path) as file:
        span = Span(span_id("t", "x", 1), "t", span_id("t", "y"), SpanKind.WAIT, "wärt\ud800", "s", 3, 5, 9, "error")
        span.attributes = {"a": 1, "b": ["ü"]}
        with file.batch() as batch:
            batch.add(span)
            batch.advance("t", 4, 9)
        span.name = "wärt?"  # what is no text is shown as such
        assert file.spans("t", 10) == [span]
        assert file.seq("t") == 4


def test_only_its_owner_may_read_it(tmp_path: Path):
    with TraceFile.at(tmp_path) as file:
        assert stat.S_IMODE(Path(file.path).stat().st_mode) == 0o600


def test_what_has_ended_long_ago_goes_and_what_goes_on_stays(tmp_path: Path):
    with TraceFile.at(tmp_path) as file:
        put(file, "old", 100)
        put(file, "open", 100, ended=False)
        put(file, "new", 900)
        while file.evict(500, 10**9):
            pass
        assert [bool(file.spans(task, 1)) for task in ("old", "open", "new")] == [False, True, True]


def test_the_file_keeps_to_its_size_the_longest_unchanged_go_first(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(module, "BYTES_MIN", 0)
    with TraceFile.at(tmp_path) as file:
        for n in range(100):
            put(file, f"t{n}", 1_000 + n, spans=20, padding=1_000)
        limit = 600_000
        assert file.bytes_used() > limit
        while file.evict(0, limit):
            pass
        assert 0 < file.bytes_used() <= limit
        assert not file.spans("t0", 1)
        assert file.spans("t99", 1)
    assert Path(file.path).stat().st_size <= limit + 100_000  # what was freed goes back to the disk


def test_a_damaged_file_is_put_aside_and_begun_anew(tmp_path: Path):
    with TraceFile.at(tmp_path) as file:
        put(file, "t", 5)
    Path(file.path).write_bytes(b"no database at all" * 100)
    with TraceFile.at(tmp_path) as file:
        assert file.spans("t", 1) == []
        put(file, "t", 5)
    assert (tmp_path / "traces.db.damaged").exists()


def test_damage_that_is_met_later_is_told_and_the_next_one_begins_anew(tmp_path: Path):
    with TraceFile.at(tmp_path) as file:
        put(file, "t", 5, spans=500, padding=200)
        file._db.execute("pragma wal_checkpoint(truncate)").fetchall()
    content = bytearray(Path(file.path).read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    Path(file.path).write_bytes(content)
    with TraceFile.at(tmp_path) as file, pytest.raises(StoreError, match="it may be deleted"):
        put(file, "u", 6, spans=100)
        file.spans("t", 1_000)
    with TraceFile.at(tmp_path) as file:
        put(file, "t", 5)


def test_a_file_of_another_version_is_begun_anew(tmp_path: Path):
    with TraceFile.at(tmp_path) as file:
        put(file, "t", 5)
    db = apsw.Connection(file.path)
    db.execute("pragma user_version = 99")
    db.close()
    with TraceFile.at(tmp_path) as file:
        assert file.seq("t") == 0
        put(file, "t", 5)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path):
    with pytest.raises(StoreError, match="trace file"):
        TraceFile.at(tmp_path / "nowhere")


def test_labels_are_bounded(tmp_path: Path):
    with TraceFile.at(tmp_path) as file:
        known: dict = {}
        for _ in range(2):
            with file.batch() as batch:
                batch.of("db", known)
                for n in range(LABELS_MAX + 50):
                    batch.tally("tokens", ("runtime", f"model {n}"), 1)
        counted = file.counters("db")
        assert len(counted) == LABELS_MAX + 1
        assert sum(counted.values()) == 2 * (LABELS_MAX + 50)
        assert counted["tokens", ("other", "other")] == 100


def test_what_is_to_be_exported_waits_until_it_was_sent(tmp_path: Path):
    with TraceFile.at(tmp_path) as file:
        put(file, "before", 5)
        file.export()
        put(file, "t", 7)
        put(file, "open", 7, ended=False)
        assert [span.task_id for span in file.unsent(10)] == ["t"]
        put(file, "t", 7)  # the same again
        put(file, "t", 9)  # it was taken up again, and has ended again
        old = file.unsent(10)[0]
        old.ended_at = 7
        file.sent([old])
        assert len(file.unsent(10)) == 1
        file.sent(file.unsent(10))
        assert file.unsent(10) == []


def test_two_connections_write_one_after_the_other(tmp_path: Path):
    with TraceFile.at(tmp_path) as one, TraceFile.at(tmp_path) as two:
        put(one, "a", 5)
        put(two, "b", 5)
        assert one.spans("b", 1)
        assert two.spans("a", 1)


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("select seq from trace where task_id = ?", "SEARCH trace USING"),
        ("select 1 from span where trace = ? and started_at > 0 order by started_at", "SEARCH span USING COVERING"),
        (
            "select id from span where unsent = 1 order by ended_at limit ?",
            "SCAN span USING COVERING INDEX span_unsent",
        ),
        (
            "select name, count(*), min(started_at) from span where kind = 'wait' and ended_at = 0 group by name",
            "SCAN span USING COVERING INDEX span_waiting",
        ),
        ("select n from trace where ended = 1 and touched_at < ? order by touched_at limit ?", "SEARCH trace USING"),
        (
            "select n from trace order by ended desc, touched_at limit ?",
            "SCAN trace USING COVERING INDEX trace_touched",
        ),
    ],
)
def test_no_statement_reads_the_whole_file(tmp_path: Path, text: str, uses: str):
    with TraceFile.at(tmp_path) as file:
        plan = file._db.execute("explain query plan " + text, ["1"] * text.count("?")).fetchall()
    assert [str(row[3]).startswith(uses) for row in plan] == [True], plan


def test_the_trace_of_a_task_is_named_like_the_task():
    assert trace_id("019b76da-a800-7000-8000-000000000001") == "019b76daa80070008000000000000001"
    assert len(trace_id("anything else")) == 32
    assert traceparent("019b76da-a800-7000-8000-000000000001", "s", 2).startswith(
        "00-019b76daa80070008000000000000001-"
    )
    assert traceparent("t", "s", 2) != traceparent("t", "s", 2, run=1)
