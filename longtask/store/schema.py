"""Migrations: numbered SQL files, each applied in one transaction together with its own record.

There is no second description of the schema: a fresh database is one that every migration was applied to.

`NNNN.sql` expands: the release before it still runs on the new schema, so that a fleet is upgraded without stopping:
migrate, then replace one worker after another.  `NNNN.contract.sql` takes away what only older releases use; it is
applied when none of them runs any more.  So a program runs on a schema newer than itself unless that has contracted;
then it is refused.  A file either expands or contracts, never both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from longtask.core.errors import StoreError
from longtask.store.queries import SQL

Execute = Callable[[str, Sequence[Any]], list[Any]]  # one or more statements; rows of the last

NEWEST = 2**31
RECORD = """create table migration (
    number     integer primary key,
    contracts  integer not null,
    applied_at bigint  not null
)"""
APPLIED = "select number, contracts from migration order by number"


class Migration(NamedTuple):
    number: int
    sql: str
    contracts: bool = False


class Applied(NamedTuple):
    number: int
    contracts: bool


@cache
def migrations(name: str) -> tuple[Migration, ...]:
    """In order, from 1 without a gap."""
    files = sorted((SQL / "migrations" / name).glob("*.sql"))
    found = tuple(
        Migration(int(file.name.split(".")[0]), file.read_text(encoding="utf-8"), ".contract." in file.name)
        for file in files
    )
    assert [m.number for m in found] == list(range(1, len(found) + 1)), f"migrations of {name!r} have a gap"
    return found


def pending(name: str, applied: Sequence[Applied], where: str) -> list[Migration]:
    """What is to be applied after `applied`.  Raises StoreError if this program cannot run on what is there."""
    known = migrations(name)
    if any(m.number > len(known) and m.contracts for m in applied):
        newest = max(m.number for m in applied)
        raise StoreError(
            f"database {where!r} has schema {newest}, this program knows {len(known)}: a newer version wrote it; "
            "upgrade longtask, nothing was changed"
        )
    newest = max((m.number for m in applied), default=0)
    return [m for m in known if m.number > newest]


def refuse_older(name: str, applied: Sequence[Applied], where: str) -> None:
    """A fleet's database is migrated when its operators say so, not by whoever starts first."""
    if missing := pending(name, applied, where):
        raise StoreError(
            f"database {where} has schema {missing[0].number - 1}, this program needs {missing[-1].number}; run "
            "'longtask migrate' (workers of the release before go on meanwhile)"
        )


def migrate(
    execute: Execute,
    applied: Callable[[], list[Applied] | None],
    begin: Sequence[str],
    name: str,
    where: str,
    now: int,
    upto: int = NEWEST,
    contract: bool = True,
) -> list[int]:
    """Brings a database to the newest schema (`upto`: no further than this number); the numbers applied.

    `applied` answers None if there is no record of migrations yet.  Several processes may do this at once: each looks
    again after `begin` has locked the database.  `contract` False stops before the first migration that contracts.
    """
    done = applied()
    if done is not None and not pending(name, done, where):
        return []
    for statement in begin:
        execute(statement, ())
    numbers: list[int] = []
    try:
        done = applied()
        if done is None:
            execute(RECORD, ())
        for number, sql, contracts in pending(name, done or [], where):
            if number > upto or (contracts and not contract):
                break
            execute(sql, ())
            execute(f"insert into migration values ({number}, {int(contracts)}, {now})", ())
            numbers.append(number)
        execute("commit", ())
    except BaseException:
        with suppress(StoreError):  # an error that has ended the transaction by itself
            execute("rollback", ())
        raise
    return numbers
