"""A real server on a real database, called in this process; sockets are for what is about sockets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longtask import boot
from longtask.api.app import create_app
from longtask.api.server import Server, make_server
from longtask.api.settings import Settings
from longtask.config import Config
from tests import postgres

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another httpx
    from starlette.testclient import TestClient

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(params=DATABASES)
def database(request, tmp_path: Path) -> Iterator[str]:
    """Its address; what it holds is this test's alone."""
    if request.param == "sqlite":
        yield str(tmp_path / "longtask.db")
        return
    url = postgres.empty_url()
    yield url
    postgres.give_back(url)


@pytest.fixture
def make(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """A server on this test's database, of the user "ann"; with settings other than the usual ones.  Several share the
    database."""
    monkeypatch.setenv("LONGTASK_USER", "ann")
    opened: list[boot.Parts] = []

    def made(**settings) -> Server:
        opened.append(boot.open_parts(Config(tmp_path / "home", database)))
        return make_server(opened[-1], Settings(**settings))

    yield made
    for parts in opened:
        parts.merger.close()
        parts.store.close()


@pytest.fixture
def server(make: Callable[..., Server]) -> Server:
    return make()


@pytest.fixture
def client(server: Server) -> Iterator[TestClient]:
    """Calls the application without a socket, as from this machine."""
    with client_of(server) as made:
        yield made


def client_of(server: Server, **more) -> TestClient:
    return TestClient(
        create_app(server),
        base_url="http://127.0.0.1:8700",
        client=("127.0.0.1", 50_000),
        raise_server_exceptions=False,
        **more,
    )
