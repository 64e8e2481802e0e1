"""Both clients, called in one way, against the real application on a real socket."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longtask import AsyncClient, Client
from longtask.api.server import Server
from longtask.client.course import Limits
from tests.api.conftest import make  # noqa: F401
from tests.api.live import Live, serving
from tests.api.streaming import hurry

QUICK = Limits(wait_min_s=0.005, wait_max_s=0.05, patience_s=30.0, stream_patience_s=30.0)


class Awaiting:
    """An `AsyncClient` whose answers are waited for."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(*args, **options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            made = found(*args, **options)
            if inspect.isasyncgen(made):
                return self._each(made)
            return self._runner.run(made)

        return call

    def _each(self, made: Any) -> Iterator[Any]:
        async def following() -> Any:
            return await anext(made)

        try:
            while True:
                try:
                    yield self._runner.run(following())
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(made.aclose())

    def __repr__(self) -> str:
        return repr(self._client)

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The client does not know which one it is."""
    return str(tmp_path / "longtask.db")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the logins and the settings of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("LONGTASK_SERVER", "LONGTASK_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(make: Callable[..., Server]) -> Server:  # noqa: F811
    made = make()
    hurry(made)
    return made


@pytest.fixture
def live(server: Server) -> Iterator[Live]:
    with serving(server) as running:
        yield running


@pytest.fixture(params=[Client, Awaiting], ids=["blocking", "awaited"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes a client, which hurries."""
    made: list[Any] = []

    def connected(url: str | None = None, token: str | None = None, **more: Any) -> Any:
        made.append(request.param(url, token, **{"limits": QUICK, **more}))
        return made[-1]

    yield connected
    for one in made:
        one.close()


@pytest.fixture
def client(connect: Callable[..., Any], live: Live) -> Any:
    return connect(f"http://{live.host}")
