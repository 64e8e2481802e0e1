"""The schema of a PostgreSQL database: made at first use, migrated when its operators say so."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors

from longtask.store import schema
from longtask.store.postgres.address import Address
from longtask.store.postgres.pool import connect
from longtask.store.postgres.trouble import told
from longtask.store.rows import Row

LOCK = 0x1046_7A5B  # the key of the advisory lock under which a schema changes
NAME = "postgres"


def prepare(line: psycopg.Connection[Any], address: Address, create: bool) -> None:
    """Raises StoreError for a schema that this program cannot run on, and for none if it may not be made."""
    found = applied(line, address)
    if found is not None:
        schema.refuse_older(NAME, found, address.shown)
    elif create:
        migrate(line, address, contract=True)
    else:
        raise address.missing()


def bring_up(url: str, contract: bool) -> tuple[list[int], list[int]]:
    """The numbers applied, and those left for when no older program runs any more."""
    address = Address.parse(url)
    with connect(address) as line:
        numbers = migrate(line, address, contract=contract or applied(line, address) is None)
        left = schema.pending(NAME, applied(line, address) or [], address.shown)
    return numbers, [migration.number for migration in left]


def applied(line: psycopg.Connection[Any], address: Address) -> list[schema.Applied] | None:
    """None: no record of migrations in the schema."""
    try:
        known = line.execute(b"select to_regclass('migration') is not null").fetchall()
        if not known[0][0]:
            return None
        rows = line.execute(schema.APPLIED.encode()).fetchall()
    except errors.InvalidSchemaName:
        return None
    except psycopg.Error as error:
        raise told(error, address.shown) from error
    return [schema.Applied(number, bool(contracts)) for number, contracts in rows]


def migrate(line: psycopg.Connection[Any], address: Address, *, contract: bool, upto: int = schema.NEWEST) -> list[int]:
    """Brings the schema to the newest, or to the newest on which the release before still runs; the numbers applied."""
    begin = [
        "begin",
        f"select pg_advisory_xact_lock({LOCK})",  # who comes second waits, and then finds it done
        "set local statement_timeout = 0",
        f'create schema if not exists "{address.schema}"',  # the name may be a word of SQL
    ]
    if applied(line, address) is not None:
        begin.pop()

    def execute(sql: str, _params: Sequence[Any]) -> list[Row]:
        try:
            cursor = line.execute(sql.encode())
        except psycopg.Error as error:
            raise told(error, address.shown) from error
        return cursor.fetchall() if cursor.description is not None else []

    def look() -> list[schema.Applied] | None:
        return applied(line, address)

    now = time.time_ns() // 1_000_000
    try:
        return schema.migrate(execute, look, begin, NAME, address.shown, now, upto, contract)
    finally:
        with suppress(psycopg.Error):  # a statement that failed has left its transaction open
            line.execute(b"rollback")
