"""Migrations: numbered SQL files, each applied in one transaction together with its own record.

There is no second description of the schema: a fresh database is one that every migration was applied to.
A database that knows a migration which this program does not know was written by a newer version, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from longtask.core.errors import StoreError
from longtask.store.queries import SQL

Execute = Callable[[str, Sequence[Any]], list[Any]]  # one or more statements; rows of the last

NEWEST = 2**31
RECORD = "create table migration (number integer primary key, applied_at integer not null)"


@cache
def migrations(name: str) -> tuple[tuple[int, str], ...]:
    """(number, SQL) in order, from 1 without a gap."""
    files = sorted((SQL / "migrations" / name).glob("*.sql"))
    found = tuple((int(file.stem), file.read_text(encoding="utf-8")) for file in files)
    assert [number for number, _ in found] == list(range(1, len(found) + 1)), f"migrations of {name!r} have a gap"
    return found


def pending(name: str, applied: Sequence[int], where: str) -> list[tuple[int, str]]:
    """What is to be applied after `applied`.  Raises StoreError if the database is newer than this program."""
    known = migrations(name)
    newest = max(applied, default=0)
    if newest > len(known):
        raise StoreError(
            f"database {where!r} has schema {newest}, this program knows {len(known)}: a newer version wrote it; "
            "upgrade longtask, nothing was changed"
        )
    return [(number, sql) for number, sql in known if number > newest]


def migrate(
    execute: Execute,
    applied: Callable[[], list[int] | None],
    begin: str,
    name: str,
    where: str,
    now: int,
    upto: int = NEWEST,
) -> None:
    """Brings a database to the newest schema (`upto`: no further than this number).

    `applied` answers None if there is no record of migrations yet.  Several processes may do this at once: each looks
    again after `begin` has locked the database.
    """
    done = applied()
    if done is not None and not pending(name, done, where):
        return
    execute(begin, ())
    try:
        done = applied()
        if done is None:
            execute(RECORD, ())
        for number, sql in pending(name, done or [], where):
            if number <= upto:
                execute(sql, ())
                execute("insert into migration (number, applied_at) values (?, ?)", (number, now))
        execute("commit", ())
    except BaseException:
        with suppress(StoreError):  # an error that has ended the transaction by itself
            execute("rollback", ())
        raise
