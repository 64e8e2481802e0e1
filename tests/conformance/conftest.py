import pytest

from longtask.store.contract import Store
from tests import postgres
from tests.conformance.databases import DATABASES, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=sorted(DATABASES))
def open_store(request, tmp_path, clock):
    """Opens a store on this test's database; `fault=` as the database takes it."""
    opened: list[Store] = []

    def open_(**more):
        opened.append(DATABASES[request.param](tmp_path, clock, **more))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()
    if (kept := tmp_path / "postgresql.url").exists():
        postgres.give_back(kept.read_text())


@pytest.fixture
def store(open_store) -> Store:
    return open_store()
