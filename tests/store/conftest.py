"""For the tests on PostgreSQL: a schema of their own, and what a test needs to look behind a store's back."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from longtask.store.postgres.store import PostgresStore
from tests import postgres
from tests.store.aside import clear


@pytest.fixture(scope="session")
def kept_url() -> Iterator[str]:
    made = postgres.fresh_url()
    yield made
    postgres.drop(made)


@pytest.fixture
def url(kept_url: str) -> Iterator[str]:
    """Of a schema without rows; its tables may be there."""
    yield kept_url
    with psycopg.connect(postgres.shared_url(), autocommit=True) as line:
        line.execute(f"set search_path = {kept_url.rpartition('schema=')[2]}".encode())
        clear(line)


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[..., PostgresStore]]:
    """On the test's schema, or on the `url` that is given."""
    opened: list[PostgresStore] = []

    def open_(**more: Any) -> PostgresStore:
        opened.append(PostgresStore(more.pop("url", url), **more))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., PostgresStore]) -> PostgresStore:
    return open_store()


@pytest.fixture
def line(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A client of the server that is none of a store's, on the test's schema."""
    with psycopg.connect(postgres.shared_url(), autocommit=True) as made:
        made.execute(f"set search_path = {url.rpartition('schema=')[2]}".encode())
        yield made
