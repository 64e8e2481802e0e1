"""Hints are coalesced, never part of a commit, tested by themselves, and nothing depends on them."""

import threading
import time

import psycopg
import pytest

from longtask.core.events import StepClaimed, TaskPaused
from longtask.store.postgres import hints
from longtask.store.postgres.store import PostgresStore
from tests import postgres
from tests.conformance.play import act, ready, submit
from tests.raw import rows

SOON_S = 10.0  # what takes some ms on a quiet machine


@pytest.fixture
def url():
    made = postgres.fresh_url()
    yield made
    postgres.drop(made)


@pytest.fixture
def listening(url):
    """A store whose hearing has been tested."""
    store = PostgresStore(url)
    store.wait(0.001)
    until(lambda: store.hinted)
    yield store
    store.close()


def until(holds) -> None:
    end = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < end, "it never came"
        threading.Event().wait(0.005)


def waited(store, act) -> float:
    """Seconds until a wait of ten seconds ended, `act` being done meanwhile."""
    began = time.monotonic()
    other = threading.Thread(target=act)
    other.start()
    store.wait(SOON_S)
    other.join()
    return time.monotonic() - began


def test_a_block_that_leaves_work_ends_the_wait_of_another_process(listening, url):
    caller = PostgresStore(url)
    assert waited(listening, lambda: submit(caller, 1, ready("a"))) < SOON_S / 2
    caller.close()


def test_a_worker_tells_by_its_thread_and_not_by_its_commit(listening, url):
    sent = []
    worker = PostgresStore(url, trace=lambda sql, params: sent.append(sql))
    worker.wait(0.001)
    until(lambda: worker.hinted)
    assert waited(listening, lambda: submit(worker, 1, ready("a"))) < SOON_S / 2
    assert not [sql for sql in sent if "notify" in sql]
    worker.close()


def test_a_block_that_leaves_nothing_to_do_tells_nobody(listening, url):
    sent = []
    caller = PostgresStore(url, trace=lambda sql, params: sent.append(sql))

    def told() -> int:
        return sum("notify" in sql for sql in sent)

    id_ = submit(caller, 1, ready("a"))
    assert told() == 1
    act(caller, id_, StepClaimed("a", 1, "w"))
    act(caller, id_, TaskPaused())
    assert told() == 1
    caller.close()


def test_many_that_tell_at_once_are_told_as_few(url):
    """The server's cost is by the notification."""
    store = PostgresStore(url)
    store.wait(0.001)
    until(lambda: store.hinted)
    with psycopg.connect(postgres.shared_url(), autocommit=True) as line:
        heard = []
        line.add_notify_handler(lambda notice: heard.append(time.monotonic()))
        line.execute(f"listen {store.address.channel}".encode())
        began = time.monotonic()
        for _number in range(1, 60):
            store.tell()
        store.wait(3 * hints.TELL_EVERY_S)
        took = time.monotonic() - began
        line.execute("select 1")
        assert 1 <= len(heard) <= took / hints.TELL_EVERY_S + 2
    store.close()


def test_whoever_has_become_deaf_says_so_and_hears_again(listening, url, monkeypatch):
    monkeypatch.setattr(hints, "RECONNECT_S", 0.2)
    rows(listening, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'longtask hints'")
    until(lambda: not listening.hinted)
    until(lambda: listening.hinted)
    caller = PostgresStore(url)
    listening.wait(0.001)  # what it may have missed ends the first wait at once
    assert waited(listening, lambda: submit(caller, 1, ready("a"))) < SOON_S / 2
    caller.close()
