"""Whatever people, programs and models write reaches the server as text and comes back as it was, or is told apart."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from longtask.core.events import StepClaimed, StepParked, TaskPaused
from longtask.core.machine import fold
from longtask.core.model import WaitingFor
from longtask.store.contract import Chunk, JournalRow, Ref, WorkerRow
from longtask.store.postgres.store import PostgresStore
from tests.conformance.play import act, claim, ready, submit
from tests.store.aside import Aside, until_waiting

ODD = [
    "it's", '"quoted"', "\\", "\\'", "\\\\' or 1=1 --", "100 %", "%s %(x)s", "$1 $2", ":name :limit",
    "'); drop table task; --", "$$ $tag$", "E'\\x27'", "\n\r\t\x01\x7f", "/* */ -- ;", "\\u0000 \\ud800",
    "æøå 漢字 🚀", "\u202e", "''", " ", "null", "{}",
]  # fmt: skip
UNSTORABLE = {"a\0b": "a\ufffdb", "\ud800": "\ufffd", "x\udc80\0": "x\ufffd\ufffd"}


def told(store: PostgresStore, id_: str, text: str) -> None:
    """The text in every place where a caller, a program or a model may put one."""
    with store.task(id_) as tx:
        signal = tx.add_signal(text, text, {"text": text, text: 1}, text)
    with store.task(id_) as tx:
        assert tx.delivered(text) == tx.signals(text, 0, 5)[0]
        assert tx.signals(text, 0, 5)[0].payload == signal.payload
        assert not tx.done_op(text)
    act(store, id_, TaskPaused(by=text), actor=text, op=text)
    event = store.events(id_, 0, 99)[-1]
    assert isinstance(event.fact, TaskPaused) and event.fact.by == text, "inside a fact it is as it was"
    with store.task(id_) as tx:
        assert tx.done_op(text)
    act(store, id_, StepClaimed("a", 1, text, mutex=text))
    ref = Ref(id_, "a")
    assert store.put_output(ref, 1, [Chunk(1, text, text.encode("utf-8", "surrogatepass"))])
    assert store.output(ref, 1, 0, 1)[0].body == text.encode("utf-8", "surrogatepass")
    row = JournalRow(1, "tool", text, text, 1, {text: [text]})
    assert store.journal_started(ref, 1, 1, row) and store.journal_done(ref, 1, 1, row)
    assert store.journal(ref, 1)[0].body == {text: [text]}
    assert store.tell_progress(ref, 1, 1, 2, text)
    act(store, id_, StepParked("a", 1, WaitingFor.EVENT, {"name": text, "match": {text: text}}))
    assert store.get_step(ref).question == {"name": text, "match": {text: text}}
    with store.task(id_) as tx:
        assert [step.key for step in tx.waiters(text, "", 5)] == ["a"]
    store.worker_seen(WorkerRow(text, text, 1, (text,), 1, 1))
    assert store.workers(1)[0].pools == (text,)
    store.worker_gone(text)
    assert store.workers(1) == []
    store.put_plan(id_, text)


@pytest.mark.parametrize("text", ODD)
def test_odd_text_comes_back_as_it_was(store, text):
    id_ = submit(store, 1, ready("a"), name=text, created_by=text, workspace_id=text, idempotency_key=text)
    told(store, id_, text)
    task = store.task_by_key(text)
    assert task is not None and (task.name, task.created_by, task.workspace_id) == (text, text, text)
    assert store.tasks(open_only=True, workspace_id=text, before=0, limit=5) == [task]
    assert store.get_plan(id_) == text
    events, signal = store.events(id_, 0, 99), store.inbox(id_, 0, 5)[0]
    assert (events[1].actor, events[1].op) == (text, text)
    assert (signal.name, signal.delivery, signal.sender) == (text, text, text)
    assert store.output(Ref(id_, "a"), 1, 0, 1)[0].stream == text
    assert store.get_step(Ref(id_, "a")).worker in (None, text)


@pytest.mark.parametrize("text", UNSTORABLE)
def test_text_that_no_column_can_hold_is_shown_as_such_and_stops_nobody(store, text):
    id_ = submit(store, 1, ready("a"), name=text, idempotency_key=text)
    told(store, id_, text)
    assert store.get_task(id_).name == store.get_plan(id_) == UNSTORABLE[text]
    assert store.get_step(Ref(id_, "a")).question["name"] == text, "inside JSON it is as it was"


def test_keys_are_ordered_as_python_orders_them(store):
    keys = ["Z", "a", "a.b", "a[1]", "a[10]", "a_b", "b", "ä", "漢", "😀", "\uffee"]
    id_ = submit(store, 1, ready(*keys))
    assert [step.key for step in store.steps(id_, "", 99)] == sorted(keys)
    assert [step.key for step in store.steps(id_, "ä", 99)] == [key for key in sorted(keys) if key > "ä"]
    assert set(store.results(id_, [*keys, "nowhere"])) == set(keys)


def test_a_large_piece_of_output_comes_back_byte_for_byte(store):
    ref = claim(store, submit(store, 1, ready("a")), "a")
    body = bytes(range(256)) * 20_000
    assert store.put_output(ref, 1, [Chunk(1, "out", body), Chunk(2, "out", b"")])
    assert [chunk.body for chunk in store.output(ref, 1, 0, 9)] == [body, b""]
    assert store.put_output(ref, 1, []) and not store.put_output(ref, 2, []), "no chunk: is the lease held?"


def test_a_thousand_rows_travel_in_one_block(store):
    keys = [f"step {n:04} it's" for n in range(1_000)]
    id_ = submit(store, 1, ready(*keys))
    act(store, id_, *[StepClaimed(key, 1, "w") for key in keys])
    assert store.get_task(id_).counts.running == 1_000
    assert len(store.leases(id_, 2_000)) == 1_000
    assert [event.seq for event in store.events(id_, 0, 2_000)] == list(range(1, 1_002))


def test_numbers_stand_at_both_ends_of_their_range(store):
    ref = claim(store, submit(store, 1, ready("a")), "a")
    for number in (2**63 - 1, -(2**63), 0, -1):
        assert store.tell_progress(ref, 1, number, number, "x")
        assert store.progress(ref.task_id, 1)[0].done == number


@pytest.fixture
def hostile_url(url: str, line: psycopg.Connection[Any]) -> Iterator[str]:
    """For a user whose sessions begin with other settings than ours."""
    line.execute("create role odd superuser login")
    for setting in (
        "standard_conforming_strings = off", "default_transaction_isolation = serializable", "client_encoding = latin1",
        "search_path = pg_catalog", "bytea_output = escape", "timezone = 'Asia/Kathmandu'", "datestyle = german",
        "plan_cache_mode = force_custom_plan", "backslash_quote = on", "escape_string_warning = off",
    ):  # fmt: skip
        line.execute(f"alter role odd set {setting}".encode())
    yield url.replace("postgres@", "odd@")
    line.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'odd'")
    line.execute("drop owned by odd cascade")
    line.execute("drop role odd")


def test_what_the_server_or_the_user_is_set_to_changes_nothing(hostile_url, open_store):
    store = open_store(url=hostile_url)
    for number, text in enumerate([*ODD, *UNSTORABLE], 1):
        told(store, submit(store, number, ready("a")), text)
    body = b"\\x27' \\ " + bytes(range(256))
    ref = claim(store, submit(store, 99, ready("a")), "a")
    assert store.put_output(ref, 1, [Chunk(1, "out", body)])
    assert store.output(ref, 1, 0, 1)[0].body == body


def test_a_block_that_waited_goes_on_whatever_isolation_the_user_is_set_to(hostile_url, open_store, line):
    store = open_store(url=hostile_url)
    id_ = submit(store, 1, ready("a"))
    with store.task(id_) as tx:
        waits = Aside(lambda: act(store, id_, TaskPaused(2)))
        assert until_waiting(line, beside=waits)
        tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
    waits.result()
    assert store.get_task(id_).seq == 3
