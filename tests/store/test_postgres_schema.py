"""Migrations on PostgreSQL: numbered, once, whole; and a fleet is upgraded without stopping."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from longtask.core.errors import StoreError
from longtask.core.events import StepClaimed, TaskPaused
from longtask.store import rows, schema
from longtask.store.contract import Ref
from longtask.store.postgres import migrating
from longtask.store.postgres.address import Address
from longtask.store.postgres.pool import connect
from tests import postgres
from tests.conformance.play import act, claim, complete, ready, submit
from tests.engine.audit import violations
from tests.store.test_postgres_commits import Wired

ROOT = Path(__file__).parent.parent.parent
DESCRIBED = """
select 'column', table_name, column_name || ' ' || data_type || ' ' || is_nullable || ' '
    || coalesce(column_default, '') || ' ' || is_identity || ' ' || coalesce(collation_name, '') || ' '
    || ordinal_position
from information_schema.columns where table_schema = current_schema()
union all
select 'index', tablename, replace(indexdef, current_schema() || '.', '') from pg_indexes
where schemaname = current_schema()
union all
select 'options', c.relname, array_to_string(c.reloptions, ',') from pg_class c where c.relnamespace = (
    select oid from pg_namespace where nspname = current_schema()) and c.reloptions is not null
order by 1, 2, 3
"""
KNOWN = len(schema.migrations("postgres"))
NEXT, LAST = KNOWN + 1, KNOWN + 2
EXPANDING = schema.Migration(NEXT, """
alter table step add column colour text;
alter table step add column shade integer not null default 7;
alter table task add column mood text not null default 'calm';
alter table event add column source text;
create table wing (n bigint primary key, task_n bigint not null);
create index step_colour on step (task_n, colour);
""")  # fmt: skip
CONTRACTING = schema.Migration(LAST, "drop table wing", contracts=True)


@pytest.fixture
def url() -> Iterator[str]:
    """Of a schema that is not there yet."""
    made = postgres.fresh_url()
    yield made
    postgres.drop(made)


def opened(url: str) -> tuple[psycopg.Connection[Any], Address]:
    address = Address.parse(url)
    return connect(address), address


def described(line: psycopg.Connection[Any]) -> list[Any]:
    return line.execute(DESCRIBED.encode()).fetchall()


def next_release(monkeypatch: pytest.MonkeyPatch, *more: schema.Migration) -> None:
    known = schema.migrations("postgres")
    monkeypatch.setattr(schema, "migrations", lambda name: (*known, *more))


def test_migrated_equals_fresh(url, monkeypatch):
    next_release(monkeypatch, EXPANDING, CONTRACTING)
    line, address = opened(url)
    assert migrating.migrate(line, address, contract=True) == list(range(1, LAST + 1))
    fresh = described(line)
    line.close()
    for upto in range(1, LAST):
        other = postgres.fresh_url()
        line, address = opened(other)
        assert migrating.migrate(line, address, contract=True, upto=upto) == list(range(1, upto + 1))
        assert migrating.migrate(line, address, contract=True) == list(range(upto + 1, LAST + 1))
        assert migrating.migrate(line, address, contract=True) == []
        assert described(line) == fresh
        line.close()
        postgres.drop(other)


def test_the_columns_are_those_that_the_code_names(store, line):
    ordered = (
        "select column_name from information_schema.columns where table_schema = current_schema() and table_name = %s"
    )
    for table, columns in (("step", rows.STEP_COLUMNS), ("task", rows.TASK_COLUMNS)):
        found = [row[0] for row in line.execute(f"{ordered} order by ordinal_position".encode(), (table,))]
        assert sorted(found) == sorted(columns)


def test_both_databases_have_the_same_tables_and_columns(store, line, tmp_path):
    """What one statement of `common.sql` finds in one of them, it finds in the other."""
    from longtask.store.line import Line

    sqlite = Line(str(tmp_path / "x.db"))
    sqlite.migrate("sqlite", 1)
    query = "select m.name, c.name from sqlite_schema m, pragma_table_info(m.name) c where m.type = 'table'"
    theirs = {tuple(row) for row in sqlite.run(query) if not row[0].startswith("sqlite_")}
    sqlite.db.close()
    ours = line.execute(
        b"select table_name, column_name from information_schema.columns where table_schema = current_schema()"
    ).fetchall()
    assert set(ours) - theirs == {("event", "xid")} | {pair for pair in ours if pair[0] == "chunk"}
    assert theirs - set(ours) == set()


def test_two_processes_make_the_schema_at_once(url):
    code = (
        "import sys; from longtask.store.postgres.store import PostgresStore; print('ready', flush=True); "
        "sys.stdin.readline(); s = PostgresStore(sys.argv[1]); print(s.identity(), flush=True); s.close()"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        for _ in range(3)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], answers
    assert len({out for out, _ in answers}) == 1, "one database, one identity"


def test_this_release_works_on_a_schema_that_a_newer_one_has_expanded(url, monkeypatch, open_store, line):
    before = open_store()
    id_ = submit(before, 1, ready("a", "b"))
    claim(before, id_, "a")  # statements are prepared before the columns come
    with monkeypatch.context() as newer:
        next_release(newer, EXPANDING)
        other, address = opened(url)
        assert migrating.migrate(other, address, contract=False) == [NEXT]
        other.close()
    for store in (before, open_store()):
        number = 10 * (2 if store is before else 3)
        new = submit(store, number, ready("x", "y"), idempotency_key=f"k{number}")
        complete(store, new, "x")
        act(store, id_, TaskPaused())
        assert store.task_by_key(f"k{number}").id == new
        assert [step.key for step in store.steps(new, "", 9)] == ["x", "y"]
        assert len(store.tasks(open_only=False, workspace_id=None, before=0, limit=9)) >= 2
        assert store.claimable("default", 5) and store.events(new, 0, 9) and store.feed("", 9)[0]
        assert store.get_step(Ref(id_, "a")).attempt == 1
        assert not violations(store, new)
    assert line.execute(b"select distinct mood from task").fetchall() == [("calm",)]
    assert line.execute(b"select distinct shade from step").fetchall() == [(7,)]


def test_the_whole_engine_works_on_a_schema_that_a_newer_release_has_expanded(url, monkeypatch):
    with monkeypatch.context() as newer:
        next_release(newer, EXPANDING)
        line, address = opened(url)
        migrating.migrate(line, address, contract=True)
        line.close()
    world = Wired(url)
    world.play()
    assert world.task.ended and not violations(world.store, world.tasks[0])
    world.store.close()


def test_a_schema_that_a_newer_release_has_contracted_is_refused(url, monkeypatch, open_store):
    with monkeypatch.context() as newer:
        next_release(newer, EXPANDING, CONTRACTING)
        line, address = opened(url)
        assert migrating.migrate(line, address, contract=False) == list(range(1, LAST)), "not while older workers run"
    store = open_store()
    with monkeypatch.context() as newer:
        next_release(newer, EXPANDING, CONTRACTING)
        assert migrating.migrate(line, address, contract=True) == [LAST]
        line.close()
    submit(store, 1, ready("a"))  # who runs is not thrown out; the contracting one waits for that
    with pytest.raises(
        StoreError, match=f"has schema {LAST}, this program knows {KNOWN}: a newer version wrote it; upgrade"
    ):
        open_store()


def test_an_older_schema_is_refused_with_what_to_do_and_left_alone(url, monkeypatch, open_store, line):
    open_store()
    before = described(line)
    next_release(monkeypatch, EXPANDING)
    with pytest.raises(StoreError, match=f"has schema {KNOWN}, this program needs {NEXT}; run 'longtask migrate'"):
        open_store()
    assert described(line) == before


def test_a_schema_that_is_not_there_is_made_only_by_who_may(url, open_store):
    name = url.rpartition("=")[2]
    with pytest.raises(StoreError, match=f"it has no schema '{name}'; run 'longtask migrate'"):
        open_store(create=False)
    open_store()
    open_store(create=False)


def test_a_migration_that_fails_leaves_nothing(url, monkeypatch, open_store, line):
    open_store()
    before = described(line)
    broken = schema.Migration(
        NEXT, "create table wing (n bigint); insert into wing values (1); select broken from wing;"
    )
    next_release(monkeypatch, broken, schema.Migration(LAST, "create table later (n bigint)"))
    other, address = opened(url)
    with pytest.raises(StoreError, match="broken"):
        migrating.migrate(other, address, contract=True)
    assert other.info.transaction_status == 0, "no transaction is left open"
    other.close()
    assert described(line) == before
    assert line.execute(b"select max(number) from migration").fetchall() == [(KNOWN,)]


def test_a_first_migration_that_fails_leaves_no_schema(url, monkeypatch, line):
    monkeypatch.setattr(schema, "migrations", lambda name: (schema.Migration(1, "create table a (n int); oops"),))
    other, address = opened(url)
    with pytest.raises(StoreError, match="syntax error"):
        migrating.migrate(other, address, contract=True)
    other.close()
    assert line.execute(b"select 1 from pg_namespace where nspname = %s", (address.schema,)).fetchall() == []


@pytest.mark.parametrize(
    "name",
    ["", "Big", "a-b", "a b", 'a"b', "a;drop schema public", "ä", "1st", "a" * 55, "pg_mine", "a.b", "%00", "a'"],
)
def test_a_schema_name_with_odd_characters_is_refused(name):
    with pytest.raises(StoreError, match=re.escape(f"schema {name!r}:") if name != "%00" else "schema"):
        Address.parse(f"postgresql://me@h/db?schema={name}")


@pytest.mark.parametrize("name", ["select", "user", "a" * 54, "_", "table", "public"])
def test_a_schema_may_be_called_as_a_word_of_sql(name, open_store):
    base = postgres.shared_url()
    url = f"{base}{'&' if '?' in base else '?'}schema={name}"
    store = open_store(url=url)
    submit(store, 1, ready("a"))
    assert open_store(url=url).get_task("@last").number == 1
    with psycopg.connect(base, autocommit=True) as line:
        line.execute(f'drop schema "{name}" cascade'.encode())
        if name == "public":
            line.execute("create schema public")


def test_two_schemas_of_one_database_do_not_see_each_other(open_store):
    other = postgres.fresh_url()
    one, two = open_store(), open_store(url=other)
    mine, theirs = submit(one, 1, ready("a"), idempotency_key="k"), submit(two, 2, ready("a"), idempotency_key="k")
    assert one.get_task("@last").id == mine and two.get_task("@last").id == theirs
    act(one, mine, StepClaimed("a", 1, "w", mutex="m"))
    act(two, theirs, StepClaimed("a", 1, "w", mutex="m"))
    assert one.mutex("m").task_id == mine and two.mutex("m").task_id == theirs
    with one.group():
        act(one, mine, TaskPaused())
        with one.task(mine):
            act(two, theirs, TaskPaused())
    assert [len(s.tasks(open_only=False, workspace_id=None, before=0, limit=9)) for s in (one, two)] == [1, 1]
    assert one.identity() != two.identity()
    postgres.drop(other)
