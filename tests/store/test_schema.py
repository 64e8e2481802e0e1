"""Migrations: numbered, in one transaction with their record, and the same schema whichever way one comes to it."""

import apsw
import pytest

from longtask.store import rows, schema
from longtask.store.line import Line
from longtask.store.queries import load, parse
from longtask.store.sqlite import SqliteStore
from tests.conformance.play import ready, submit

NAMES = ("sqlite", "sqlite_output")


def described(line: Line) -> set[tuple]:
    return {tuple(row) for row in line.run("select type, name, tbl_name, sql from sqlite_schema")}


@pytest.mark.parametrize("name", NAMES)
def test_migrated_equals_fresh(tmp_path, name):
    fresh = Line(str(tmp_path / "fresh.db"))
    fresh.migrate(name, 1)
    for older in range(1, len(schema.migrations(name)) + 1):
        migrated = Line(str(tmp_path / f"{older}.db"))
        migrated.migrate(name, 1, upto=older)
        assert migrated.run("select max(number) from migration") == [(older,)]
        migrated.migrate(name, 2)
        assert described(migrated) == described(fresh)
        assert migrated.run("select number from migration order by 1") == fresh.run(
            "select number from migration order by 1"
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_migration_that_fails_leaves_nothing(tmp_path, name, monkeypatch):
    line = Line(str(tmp_path / "x.db"))
    number = len(schema.migrations(name)) + 1
    broken = (*schema.migrations(name), schema.Migration(number, "create table wing (x); select broken;"))
    monkeypatch.setattr(schema, "migrations", lambda _name: broken)
    with pytest.raises(Exception, match="no such column: broken"):
        line.migrate(name, 1)
    assert line.run("select count(*) from sqlite_schema") == [(0,)]


def test_opening_again_changes_nothing(tmp_path):
    path = tmp_path / "longtask.db"
    store = SqliteStore(path)
    submit(store, 1, ready("a"))
    store.close()
    before = path.read_bytes()
    store = SqliteStore(path)
    assert store.get_task("@last").number == 1
    store.close()
    assert path.read_bytes() == before


def test_the_columns_stand_in_the_order_that_the_code_expects(tmp_path):
    line = Line(str(tmp_path / "x.db"))
    line.migrate("sqlite", 1)
    for table, columns in (("step", rows.STEP_COLUMNS), ("task", rows.TASK_COLUMNS)):
        assert [row[0] for row in line.run(f"select name from pragma_table_info('{table}')")] == list(columns)


def test_the_schema_is_complete_from_the_first_migration(tmp_path):
    line = Line(str(tmp_path / "x.db"))
    line.migrate("sqlite", 1, upto=1)
    tables = {row[0] for row in line.run("select name from sqlite_schema where type = 'table'")}
    assert tables >= set(
        "task task_options step spec edge event lease wait inbox outbox offer mutex mutex_ticket run_journal "
        "checkpoint artifact blob workspace worker progress plan migration".split()
    )
    strict = {row[0] for row in line.run("select name from pragma_table_list where strict and schema = 'main'")}
    assert {name for name in tables if not name.startswith("sqlite_") and name != "migration"} <= strict


def test_only_items_keep_an_index_entry_once_they_have_ended(tmp_path):
    """Every other index on `step` is partial, over open or untold steps."""
    line = Line(str(tmp_path / "x.db"))
    line.migrate("sqlite", 1)
    indexes = line.run("select name, sql from sqlite_schema where tbl_name = 'step' and type = 'index'")
    wheres = {name: sql.partition(" where ")[2] for name, sql in indexes}
    assert wheres.pop("step_item") == "item is not null"
    assert "$artifact" in wheres.pop("step_value"), "and those whose value was too large for the row"
    for name, where in wheres.items():
        assert "ended_at = 0" in where or "untold = 1" in where or "state = '" in where, name


def test_a_statement_has_one_name_and_a_name_one_statement():
    assert list(parse("-- a comment\n-- name: a\nselect 1\n-- why\nfrom x\n\n-- name: b\nselect 2\n")) == [
        ("a", "select 1\nfrom x"),
        ("b", "select 2"),
    ]
    db = apsw.Connection(":memory:")
    for statement in load("sqlite").values():
        assert ";" not in statement
        assert "::" not in statement and "%" not in statement, "PostgreSQL is to run it word for word"
    db.close()
