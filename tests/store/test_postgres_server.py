"""A server that restarts, throws us out, is full, refuses or is not there: told clearly, nothing half written."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from longtask.core.errors import LongTaskError, StoreError, StoreUnavailable
from longtask.core.events import StepClaimed, StepParked, TaskPaused
from longtask.core.machine import fold
from longtask.core.model import WaitingFor
from longtask.store.contract import Ref
from longtask.store.postgres.address import Address
from longtask.store.postgres.store import PostgresStore
from tests.conformance.play import act, claim, ready, submit
from tests.postgres import Server
from tests.store.aside import Aside, until_waiting

ROOT = Path(__file__).parent.parent.parent
OURS = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'longtask'"
PASSWORD = "hunter2 %@/:#&x"
ENCODED = "hunter2%20%25%40%2F%3A%23%26x"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Of this file alone: it is stopped and started, and has room for few clients."""
    made = Server(Path(tempfile.mkdtemp(prefix="longtask-pg-own-")))
    made.settings |= {"max_connections": "12", "synchronous_commit": "on"}
    made.start()
    yield made
    made.remove()


@pytest.fixture
def own(server: Server) -> Iterator[PostgresStore]:
    if server.process is None:
        server.start()
    store = PostgresStore(server.url)
    yield store
    store.close()
    if server.process is None:
        server.start()
    with psycopg.connect(server.url, autocommit=True) as line:
        line.execute("drop schema if exists longtask cascade")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_a_restarted_server_is_found_again_and_keeps_what_was_acknowledged(server, own, how):
    id_ = submit(own, 1, ready("a"))
    server.stop(how)
    for call in (
        lambda: act(own, id_, TaskPaused()),
        lambda: own.get_task(id_),
        lambda: own.beat(Ref(id_, "a"), 1, 5),
        lambda: submit(own, 2, ready("a")),
    ):
        with pytest.raises(StoreUnavailable, match="nothing of this was written, try again"):
            call()
    server.start()
    assert own.get_task(id_).seq == 1
    act(own, id_, TaskPaused())
    submit(own, 2, ready("a"))


def use_up_numbers(server: Server, to: str | None) -> None:
    """A crash may have lost the number of a transaction: others get it, and commit."""
    assert to is not None
    with psycopg.connect(server.url, autocommit=True) as line:
        while int(line.execute("select pg_current_xact_id()::text").fetchall()[0][0]) < int(to):
            pass


def test_a_number_that_a_crash_has_lost_is_nobodys_commit(server, own):
    """And that nobody has used again."""
    id_ = submit(own, 1, ready("a"))
    with pytest.raises(StoreUnavailable, match="nothing of this was written"), own.task(id_) as tx:
        server.stop(signal.SIGQUIT)
        server.start()
        tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
    assert own.get_task(id_).seq == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_a_block_whose_server_dies_writes_nothing(server, own, how):
    id_, other = submit(own, 1, ready("a")), submit(own, 2, ready("a"))
    with pytest.raises(StoreUnavailable), own.group():
        act(own, other, TaskPaused())
        with own.task(id_) as tx:
            server.stop(how)
            server.start()
            use_up_numbers(server, to=own._own.xid)
            tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
    assert [own.get_task(x).seq for x in (id_, other)] == [1, 1]
    act(own, id_, TaskPaused())


@pytest.mark.parametrize("first", ["block", "create", "read", "single", "group", "prune"])
def test_connections_that_were_cut_while_they_lay_idle_are_not_noticed(store, line, first):
    ref = claim(store, submit(store, 1, ready("a")), "a")

    def read() -> None:
        with store.task(ref.task_id), store._pool.session():  # two connections lie idle from here on
            pass

    def group() -> None:
        with store.group():
            act(store, ref.task_id, TaskPaused())

    read()
    line.execute(OURS.encode())
    calls = {
        "block": lambda: act(store, ref.task_id, TaskPaused()),
        "create": lambda: submit(store, 2, ready("a")),
        "read": lambda: store.get_task(ref.task_id),
        "single": lambda: store.beat(ref, 1, 5),
        "group": group,
        "prune": lambda: store.prune_task("nothing", 1),
    }
    calls.pop(first)()
    for call in calls.values():
        call()
    assert store.get_task(ref.task_id).seq == 4


def test_a_connection_that_is_cut_in_a_block_writes_nothing_and_is_replaced(store, line):
    id_, other = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    with pytest.raises(StoreUnavailable, match="nothing of this was written, try again"), store.task(id_) as tx:
        line.execute(OURS.encode())
        tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
    with pytest.raises(StoreUnavailable), store.group():
        act(store, other, TaskPaused())
        line.execute(OURS.encode())
        act(store, id_, TaskPaused())
    assert [store.get_task(x).seq for x in (id_, other)] == [1, 1]


def test_a_task_that_was_created_in_a_group_is_not_lost_alone(store, line):
    """The block after it must not begin anew on another connection, and leave the task behind."""
    id_ = submit(store, 1, ready("a"))
    with pytest.raises(StoreUnavailable), store.group():
        submit(store, 2, ready("a"))
        line.execute(OURS.encode())
        act(store, id_, TaskPaused())
    assert store.get_task("@last").id == id_ and store.get_task(id_).seq == 1


def test_an_error_while_statements_are_prepared_leaves_a_connection_that_works(store):
    """What was prepared by a message that failed is not known; none may be taken to be there, or not to be."""
    id_ = submit(store, 1, ready("a"))
    for _ in range(2):
        with pytest.raises(StoreError, match="out of range"):
            store.steps(id_, "", 2**80)
        with pytest.raises(AssertionError, match="no way to send a float"):
            store.inbox(id_, 1.5, 3)
        with pytest.raises(StoreError, match="out of range"), store.task(id_) as tx:
            tx.completed_items("a", 2**80, 5)
        assert store.steps(id_, "", 5) and store.inbox(id_, 0, 3) == []
        with store.task(id_) as tx:
            assert tx.completed_items("a", 0, 5) == []


def test_a_full_server_is_told_and_left_for_later(server, own):
    id_ = submit(own, 1, ready("a"))
    others = []
    try:
        with pytest.raises(psycopg.OperationalError):
            while True:
                others.append(psycopg.connect(server.url))
        with pytest.raises(StoreUnavailable, match=r"too many clients already.*try again"):
            PostgresStore(server.url)
        act(own, id_, TaskPaused())  # who has a connection goes on
    finally:
        for other in others:
            other.close()


def test_all_connections_of_a_process_in_use_is_told(url, open_store, monkeypatch):
    monkeypatch.setattr("longtask.store.postgres.pool.WAIT_MAX_S", 0.05)
    store = open_store(lines_max=1)
    id_ = submit(store, 1, ready("a"))
    with store.task(id_), pytest.raises(LongTaskError, match="all connections of this process are in use; try again"):
        Aside(lambda: store.get_task(id_)).result()
    assert store.get_task(id_).seq == 1


def test_a_server_that_takes_no_writes_is_told_and_read(server, own):
    id_ = submit(own, 1, ready("a"))
    with psycopg.connect(server.url, autocommit=True) as line:
        line.execute("alter database postgres set default_transaction_read_only = on")
        try:
            read_only = PostgresStore(server.url)
            assert read_only.get_task(id_).seq == 1
            with pytest.raises(StoreUnavailable, match=r"cannot execute .* in a read-only transaction"):
                act(read_only, id_, TaskPaused())
            with pytest.raises(StoreUnavailable, match="read-only transaction"):
                read_only.put_plan(id_, "x")
            read_only.close()
        finally:
            line.execute("set default_transaction_read_only = off")
            line.execute("alter database postgres reset default_transaction_read_only")


def refusal(url: str) -> str:
    """Also of every error behind it, as a traceback would show it."""
    with pytest.raises(StoreError) as told:
        PostgresStore(url)
    return str(told.value)


def test_what_is_not_there_is_named_with_what_to_do(server, own):
    place = str(server.folder).replace("/", "%2F")
    there = f"postgresql://postgres:{ENCODED}@/{{}}?host={place}&connect_timeout=2"
    told = {
        "port": refusal(f"postgresql://me:{ENCODED}@127.0.0.1:1/db?connect_timeout=2"),
        "socket": refusal(f"postgresql://me@/db?host=%2Fnowhere&password={ENCODED}"),
        "host": refusal(f"postgresql://me:{ENCODED}@host.invalid/db?connect_timeout=2"),
        "database": refusal(there.format("nothing")),
        "user": refusal(f"postgresql://nobody:{ENCODED}@/postgres?host={place}"),
        "option": refusal(there.format("postgres") + "&colour=green"),
        "port number": refusal(f"postgresql://me:{ENCODED}@h:abc/db"),
        "percent": refusal("postgresql://me:hunter2%zz@h/db"),
        "slash": refusal("postgresql://me:hunter2/x@h/db"),
        "digits": refusal("postgresql://me:12/hunter2@h/db"),
        "at": refusal("postgresql://me:p@hunter2@h/db"),
        "mark": refusal("postgresql://me:p?hunter2@h/db"),
        "equals": refusal("postgresql://me:p?hunter2=x@h/db"),
        "bracket": refusal(f"postgresql://me:{ENCODED}@[::1/db"),
        "schema": refusal(there.format("postgres") + "&schema=Odd;drop"),
    }
    for what, text in told.items():
        assert "hunter2" not in text, what
        assert text.startswith(("database '", "schema '")), text
    assert re.search(
        r"'postgresql://127\.0\.0\.1:1/db' cannot be reached .*[Cc]onnection refused.*try again", told["port"]
    )
    assert "host.invalid" in told["host"] and "try again" in told["host"]
    assert "there is no such database; create it (createdb)" in told["database"]
    assert 'role "nobody" does not exist' in told["user"]
    assert 'invalid URI query parameter: "colour"' in told["option"]
    assert "use at most 54 small letters, digits and underscores" in told["schema"]


@pytest.fixture
def guarded(server: Server, own: PostgresStore) -> Iterator[str]:
    """URL without a password, for a user who needs one and may do nothing yet."""
    rules = server.folder / "cluster" / "pg_hba.conf"
    kept = rules.read_text()
    with psycopg.connect(server.url, autocommit=True) as line:
        line.execute("create role guarded login password 'hunter2 %@/:#&x'")
        rules.write_text("local all guarded scram-sha-256\n" + kept)
        line.execute("select pg_reload_conf()")
        yield server.url.replace("postgres@", "guarded{}@")
        rules.write_text(kept)
        line.execute("select pg_reload_conf()")
        line.execute("drop owned by guarded")
        line.execute("drop role guarded")


def test_a_password_is_used_and_never_shown(guarded, own, server):
    submit(own, 1, ready("a"))
    told = refusal(guarded.format(":hunter2wrong"))
    assert "the server refuses" in told and "hunter2" not in told
    assert "hunter2" not in refusal(guarded.format("")), "no password was supplied"
    told = refusal(guarded.format(":" + ENCODED))
    assert "this user may not do that; grant it CREATE on the database, or the schema's tables" in told
    assert "hunter2" not in told
    with psycopg.connect(server.url, autocommit=True) as line:
        line.execute("grant usage on schema longtask to guarded")
        line.execute("grant select on all tables in schema longtask to guarded")
    for url in (guarded.format(":" + ENCODED), guarded.format("") + f"&password={ENCODED}"):
        store = PostgresStore(url)
        assert store.get_task("@last").number == 1
        with pytest.raises(StoreError, match="this user may not do that") as told_:
            act(store, store.get_task("@last").id, TaskPaused())
        assert "hunter2" not in str(told_.value) + str(store.address)
        store.close()


@pytest.mark.parametrize(
    ("url", "conninfo"),
    [
        ("postgresql:///name?schema=x", "postgresql:///name"),
        ("postgresql://h/name?schema=x&options=-c%20work_mem%3D5MB", "postgresql://h/name?options=-c%20work_mem%3D5MB"),
        ("postgresql://u:a#b+c@h/name?application_name=a+b", "postgresql://u:a#b+c@h/name?application_name=a+b"),
        (
            "postgresql://h1:1,h2:2/name?target_session_attrs=any",
            "postgresql://h1:1,h2:2/name?target_session_attrs=any",
        ),
    ],
)
def test_libpq_gets_the_url_as_it_was_written(url, conninfo):
    assert Address.parse(url).conninfo == conninfo


FROZEN = """
import sys
from longtask.core.events import TaskPaused
from longtask.core.machine import fold
from longtask.store.postgres import pool
from longtask.store.postgres.store import PostgresStore
pool.SETTINGS["idle_in_transaction_session_timeout"] = "300ms"
store = PostgresStore(sys.argv[1])
with store.task(sys.argv[2]) as tx:
    print("locked", flush=True)
    sys.stdin.readline()
    tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
"""


def test_a_frozen_process_loses_its_transaction_and_what_it_held(store, line, url):
    id_ = submit(store, 1, ready("a"))
    frozen = subprocess.Popen(
        [sys.executable, "-c", FROZEN, url, id_],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert frozen.stdout is not None and frozen.stdout.readline() == "locked\n"
        frozen.send_signal(signal.SIGSTOP)
        waits = Aside(lambda: act(store, id_, TaskPaused(2)))
        until_waiting(line, beside=waits)
        waits.result()
        frozen.send_signal(signal.SIGCONT)
        _, error = frozen.communicate("\n", timeout=30)
        assert frozen.returncode != 0
        assert "StoreUnavailable" in error and "nothing of this was written, try again" in error
    finally:
        frozen.kill()
        frozen.wait()
    assert store.get_task(id_).pauses == 2


def test_a_thousand_waits_hold_no_connection(open_store, line):
    store = open_store(lines_max=3)
    keys = [f"ask_{n:04}" for n in range(1_000)]
    id_ = submit(store, 1, ready(*keys))
    act(store, id_, *[StepClaimed(key, 1, "w") for key in keys])
    act(store, id_, *[StepParked(key, 1, WaitingFor.USER, {"text": "may I?"}) for key in keys])
    assert len(store.asking(task_id=None, limit=2_000)) == 1_000
    ours = "select count(*) from pg_stat_activity where application_name like 'longtask%'"
    assert line.execute(ours.encode()).fetchall()[0][0] <= 3
    assert line.execute(b"select count(*) from lease").fetchall() == [(0,)]
