"""A look at the rows themselves, past the contract, on either database."""

from typing import Any

from longtask.store.contract import Store
from longtask.store.postgres.store import PostgresStore
from longtask.store.rows import Row
from longtask.store.sqlite import SqliteStore


def rows(store: Store, sql: str, *params: Any) -> list[Row]:
    """`?` stands for a parameter.  Outside of any block."""
    if isinstance(store, PostgresStore):
        with store._pool.session() as session:
            return session.line.execute(sql.replace("?", "%s").encode(), params, prepare=False).fetchall()
    assert isinstance(store, SqliteStore)
    return store._line.run(sql, params)


def run(store: Store, sql: str) -> None:
    """A statement without rows."""
    if isinstance(store, PostgresStore):
        with store._pool.session() as session:
            session.line.execute(sql.encode(), prepare=False)
    else:
        assert isinstance(store, SqliteStore)
        store._line.run(sql)
