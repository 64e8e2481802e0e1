"""The bench's PostgreSQL: a server that keeps what it commits, and a probe that does what a run did."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from bench import beds
from bench.beds import Bed, PostgresBed
from bench.postgres import DURABLE, NoServer
from bench.postgres_probe import BEGIN, LOCKS, together, ungrouped
from bench.probe import COMMIT, Recorder, commits
from bench.tasks import chain, fan_out
from longtask.store.queries import load, numbered


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    try:
        with beds.postgres() as made:
            yield made
    except NoServer as reason:
        pytest.skip(str(reason))


def recorded(bed: Bed, slots: int) -> list[tuple[str, object]]:
    recorder = Recorder()
    bed.worked_off(bed.copied("new", "run"), slots, recorder)
    return recorder.statements


def rows(url: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as line:
        found = line.execute("select key, state, attempt, told from longtask.step order by task_n, key").fetchall()
        return found + line.execute("select task_n, seq, kind from longtask.event order by task_n, seq").fetchall()


def test_the_server_keeps_what_it_commits(bed):
    assert isinstance(bed, PostgresBed)
    assert bed.server.settings() == DURABLE == dict.fromkeys(DURABLE, "on")


def test_the_probe_writes_what_the_run_wrote(bed):
    bed.submitted("new", fan_out(15), chain(5))
    statements = bed.recorded(bed.copied("new", "run"), 4)
    assert bed.replayed(bed.copied("new", "probe"), statements) > 0
    assert rows(bed.target("probe")) == rows(bed.target("run")) != rows(bed.target("new"))


def test_an_ungrouped_run_has_one_commit_for_each_block(bed):
    bed.submitted("new", *[chain(3)] * 6)
    statements = recorded(bed, 8)
    locks = {numbered(load("postgres")[name])[0] for name in LOCKS}
    blocks = sum(sql in locks for sql, _ in statements)
    apart = list(ungrouped(statements))
    assert commits(statements) < blocks == commits(apart)
    assert [x for x in apart if x[0] not in (BEGIN, COMMIT)] == [x for x in statements if x[0] not in (BEGIN, COMMIT)]


def test_messages_hold_every_statement_once_and_end_with_an_answer_or_a_commit():
    lock = numbered(load("postgres")["lock_task"])[0]
    write, read = "update step set state = $1", "select 1"
    sent = [(sql, ()) for sql in (BEGIN, lock, read, write, write, COMMIT, read, write, BEGIN, lock, read, COMMIT)]
    messages = list(together(sent))
    assert [statement for message in messages for statement in message] == sent
    assert [len(message) for message in messages] == [3, 3, 1, 1, 3, 1]


def test_a_probe_that_fails_is_no_figure(bed):
    bed.submitted("new", chain(1))
    name = bed.copied("new", "probe")
    assert bed.replayed(name, [("notify bench", ()), ("select n from task where n = $1", [1])]) > 0
    with pytest.raises(AssertionError, match="no_such_table"):
        bed.replayed(name, [("select n from no_such_table", [])])
    with pytest.raises(AssertionError, match="no_such_table"):
        bed.replayed(name, [("delete from no_such_table", ())])
