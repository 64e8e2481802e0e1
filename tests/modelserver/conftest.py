"""One server for all tests of a file; each test plays a script of its own name."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from longtask.modelserver.playback import Request
from longtask.modelserver.server import ModelServer

PATHS = {"anthropic": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
_numbers = itertools.count(1)


@dataclass
class Play:
    """A script, and an agent of a few lines that asks over any wire."""

    server: ModelServer
    name: str
    client: httpx.Client

    @property
    def url(self) -> str:
        return self.server.url_of(self.name)

    def ask(
        self, wire: str, *said: str, stream: bool = False, tools: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        """`said`: the user and the model in turns.  `tools`: the parameters of each."""
        return self.client.post(self.url + PATHS[wire], json=body(wire, said or ("do it",), stream, tools or {}))

    def requests(self) -> list[Request]:
        return self.server.requests(self.name)

    @property
    def state(self) -> Any:
        return self.server.state(self.name)


def body(wire: str, said: tuple[str, ...], stream: bool, tools: Mapping[str, Any]) -> dict[str, Any]:
    roles = itertools.cycle(("user", "assistant"))
    messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
    schemas = {
        name: {"type": "object", "properties": {key: {"type": "string"} for key in params}, "required": list(params)}
        for name, params in tools.items()
    }
    asked: dict[str, Any] = {"model": "m", "stream": stream}
    match wire:
        case "anthropic":
            offered: list[Any] = [{"name": name, "input_schema": schema} for name, schema in schemas.items()]
            return {**asked, "messages": messages, "tools": offered}
        case "responses":
            offered = [{"type": "function", "name": name, "parameters": schema} for name, schema in schemas.items()]
            return {**asked, "input": messages, "tools": offered}
    functions = [{"name": name, "parameters": schema} for name, schema in schemas.items()]
    offered = [{"type": "function", "function": function} for function in functions]
    return {**asked, "messages": messages, "tools": offered, "stream_options": {"include_usage": True}}


def events(text: str) -> list[Any]:
    """The data of a stream's events, in order; what is no JSON as it stands."""
    out = []
    for block in text.split("\n\n"):
        for line in block.splitlines():
            if line.startswith("data: "):
                content = line.removeprefix("data: ")
                try:
                    out.append(json.loads(content))
                except ValueError:
                    out.append(content)
    return out


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=20) as made:
        yield made


@pytest.fixture
def play(server, client):
    """`play(script)`: begins it under a name of its own."""

    def begin(script: Any) -> Play:
        name = f"play-{next(_numbers)}"
        server.load(name, script)
        return Play(server, name, client)

    return begin
