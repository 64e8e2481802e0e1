"""The checks of `make chaos` find what they are for: each is shown a history in which one thing is wrong."""

from __future__ import annotations

import random
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from longtask.core import events as e
from longtask.plan import compile_plan, load
from longtask.steps import warden
from tests.chaos.link import Links
from tests.chaos.shapes import SHAPES, Place, draw
from tests.chaos.verdict import Line, failures, fenced, noticed_seconds, orphans, overlapping, repeated
from tests.postgres import shared_url


def journal(*facts: e.Fact) -> list[e.Event]:
    return [e.Event(task_id="t", seq=n, at=1_000 * n, fact=fact) for n, fact in enumerate(facts, 1)]


def claimed(attempt: int, step: str = "a") -> e.StepClaimed:
    return e.StepClaimed(step, attempt, "w")


def completed(attempt: int, step: str = "a") -> e.StepCompleted:
    return e.StepCompleted(step, attempt)


def lost(attempt: int) -> e.StepLost:
    return e.StepLost("a", attempt, "its worker is gone")


def said(*words: tuple[str, int], mutex: str = "-", step: str = "a") -> list[Line]:
    return [Line(what, "t", step, attempt, 1, mutex) for what, attempt in words]


GOOD = journal(claimed(1), lost(1), claimed(2), completed(2))
WORK = (("begin", 1), ("begin", 2), ("work", 2), ("end", 2))


def test_a_step_that_was_lost_and_taken_over_is_in_order():
    assert list(fenced(GOOD)) == list(failures(GOOD)) == []
    assert list(repeated(said(*WORK), {"t": GOOD})) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ((claimed(1), lost(1), claimed(2), completed(1)), "it is old"),
        ((claimed(1), lost(1), completed(1)), "it was over"),
        ((claimed(1), completed(1), claimed(2)), "though it has completed"),
        ((claimed(2), lost(2), claimed(1)), "not newer"),
    ],
)
def test_a_write_of_an_old_attempt_is_found(facts, words):
    assert any(words in text for text in fenced(journal(*facts)))


def test_a_failure_that_nobody_planned_is_found():
    facts = journal(claimed(1), e.StepRetried("a", 1, "the agent ended without an outcome"))
    assert len(list(failures(facts))) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*WORK, ("begin", 2)), "after the end that counted"),
        ((("begin", 1), ("begin", 2), ("work", 1), ("end", 2)), "after a newer one began"),
        ((*WORK, ("begin", 3)), "the last that worked was 3"),
    ],
)
def test_work_that_is_done_again_is_found(words, told):
    assert any(told in text for text in repeated(said(*words), {"t": GOOD}))


def test_two_that_hold_one_mutex_are_found():
    one, other = said(("begin", 1), ("end", 1), mutex="m"), said(("begin", 1), ("end", 1), mutex="m", step="b")
    assert list(overlapping([*one, *other])) == []
    assert len(list(overlapping([one[0], other[0], one[1], other[1]]))) == 2


def test_a_process_that_outlives_its_task_is_found(tmp_path: Path):
    child = subprocess.Popen(["sleep", "60"], env={"PATH": "/usr/bin:/bin", warden.MARK: "t-1/a/1"})
    try:
        assert len(list(orphans(tmp_path, ["t-1"]))) == 1
        assert list(orphans(tmp_path, ["t-2"])) == []
    finally:
        child.kill()
        child.wait()


def test_the_time_until_a_loss_is_noticed_begins_when_the_worker_was_gone():
    class Gone:
        gone = (500, 1_400)

    assert list(noticed_seconds(GOOD, {"w": Gone()})) == [0.6]  # type: ignore[dict-item]


def test_every_shape_is_a_plan(tmp_path: Path):
    shapes = draw(random.Random(1), 200, Place(tmp_path))
    assert {shape.name.rpartition("-")[0] for shape in shapes} == {make.__name__ for make in SHAPES}
    for shape in shapes:
        compile_plan(load(shape.text), attended=False)


# --- the proxy ----------------------------------------------------------------------------------------------------


@pytest.fixture
def line():
    """A link to the server of the tests, if that is reached by a socket."""
    known = psycopg.conninfo.conninfo_to_dict(shared_url())
    folder = str(known.get("host") or "")
    if not folder.startswith("/"):
        pytest.skip("optional: the server is not reached by a socket here")
    links = Links()
    yield links.link("m", Path(folder) / f".s.PGSQL.{known.get('port') or 5432}", 1)
    links.close()


def counted(name: str) -> int:
    with psycopg.connect(shared_url(), autocommit=True) as direct:
        found = direct.execute(f"select count(*) from {name}".encode()).fetchone()
        return found[0] if found else 0


@pytest.mark.parametrize(("way", "rows"), [("before", 0), ("after", 1)])
def test_a_commit_is_cut_before_it_happens_or_when_it_has(line, monkeypatch, way, rows):
    monkeypatch.setattr("tests.chaos.link.WAYS", (way,))
    with psycopg.connect(shared_url(), autocommit=True) as direct:
        direct.execute("drop table if exists chaos_cut")
        direct.execute("create table chaos_cut (n int)")
        with closing(psycopg.connect(line.url, autocommit=True)) as cut:
            cut.execute("begin")
            cut.execute("insert into chaos_cut values (1)")
            line.cut_commits(1)
            with pytest.raises(psycopg.OperationalError):
                cut.execute("commit")
        with direct.transaction():
            direct.execute("lock table chaos_cut")  # so that the other transaction is over
        assert counted("chaos_cut") == rows
        direct.execute("drop table chaos_cut")
    assert line.counts[f"commits cut {way}"] == 1


def test_hints_are_dropped_and_nothing_else(line):
    with psycopg.connect(line.url, autocommit=True) as listening:
        listening.execute("listen chaos")
        line.deafen(True)
        with psycopg.connect(shared_url(), autocommit=True) as direct:
            direct.execute("notify chaos, 'one'")
            assert listening.execute("select 1").fetchone() == (1,)
            line.deafen(False)
            direct.execute("notify chaos, 'two'")
        assert [note.payload for note in listening.notifies(timeout=10, stop_after=1)] == ["two"]


def test_silence_lets_nothing_pass_and_keeps_the_connection(line):
    with closing(psycopg.connect(line.url, autocommit=True)) as quiet:
        line.silence(True)
        sock = socket.socket(fileno=quiet.fileno())
        try:
            quiet.pgconn.send_query(b"select 1")
            sock.settimeout(0.2)
            with pytest.raises(TimeoutError):
                sock.recv(1, socket.MSG_PEEK)
            line.silence(False)
            sock.settimeout(10)
            assert sock.recv(1, socket.MSG_PEEK)
        finally:
            sock.detach()
