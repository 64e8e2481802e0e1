"""Streams over real sockets: clients that leave, that come again to another server, and a server that ends."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from longtask.api.server import Server
from longtask.api.serving import Listener, listen, url_of
from longtask.core.events import Fact, TaskPaused, TaskResumed
from tests.api.streaming import PATIENCE_S, Ear, hurry, told
from tests.cli import shell
from tests.conformance.play import act, ready, submit


@contextmanager
def listening(server: Server) -> Iterator[tuple[str, Listener, threading.Thread]]:
    """Its address, and the thread that it runs in."""
    hurry(server)
    bound, up = listen(server), threading.Event()
    listener = Listener(server, up.set)
    thread = threading.Thread(target=lambda: asyncio.run(listener.serve([bound])))
    thread.start()
    try:
        assert up.wait(PATIENCE_S)
        yield url_of(bound), listener, thread
    finally:
        listener.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@contextmanager
def hearing(url: str, path: str, mark: str = "") -> Iterator[Callable[[Callable[[Ear], bool]], Ear]]:
    """A function that hears on until something holds, or the server has ended the stream."""
    headers = {"Last-Event-ID": mark} if mark else {}
    ear = Ear(mark)
    with httpx.Client(timeout=PATIENCE_S) as client, client.stream("GET", url + path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        parts = answer.iter_bytes()

        def until(holds: Callable[[Ear], bool]) -> Ear:
            while not holds(ear):
                content = next(parts, None)
                if content is None:
                    break
                ear.hear(content)
            return ear

        yield until


@pytest.fixture
def quick(make: Callable[..., Server]) -> Callable[[], Server]:
    return lambda: make(port=0)


def test_a_stream_goes_on_at_another_server_where_the_first_one_ended_it(quick):
    first, second = quick(), quick()
    store = first.parts.store
    id_ = submit(store, 1, ready("a"))
    with listening(first) as (url, listener, thread), hearing(url, f"/v1/tasks/{id_}/stream?after=0") as until:
        act(store, id_, TaskPaused(), TaskResumed())
        assert until(lambda ear: ear.mark == "3").events == told(store, id_)
        listener.should_exit = True
        ear = until(lambda ear: False)
        assert ear.messages[-1].data == {"reason": "shutdown", "after": "3"}
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    act(store, id_, TaskPaused(), TaskResumed())
    with listening(second) as (url, *_), hearing(url, f"/v1/tasks/{id_}/stream", ear.mark) as until:
        rest = until(lambda ear: ear.mark == "5")
        assert ear.events + rest.events == told(store, id_)


def test_who_leaves_is_forgotten_at_once(quick):
    server = quick()
    id_ = submit(server.parts.store, 1, ready("a"))
    with listening(server) as (url, *_):
        for path in ("/v1/stream", f"/v1/tasks/{id_}/stream", f"/v1/tasks/{id_}/steps/a/stream"):
            with hearing(url, path):
                shell.until(lambda: server.hub.clients == 1, PATIENCE_S)
            shell.until(lambda: server.hub.clients == 0, PATIENCE_S)


def test_a_client_that_reads_nothing_does_not_keep_the_server_from_ending(quick, monkeypatch):
    monkeypatch.setattr("longtask.api.serving.END_MAX_S", 1)
    server = quick()
    store = server.parts.store
    id_ = submit(store, 1, ready("a"), name="n" * 60)
    with listening(server) as (url, listener, thread), socket.socket() as deaf:
        host, port = url.removeprefix("http://").split(":")
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        deaf.connect((host, int(port)))
        deaf.sendall(f"GET /v1/tasks/{id_}/stream HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        shell.until(lambda: server.hub.clients == 1, PATIENCE_S)
        both: list[Fact] = [TaskPaused(), TaskResumed()]
        for _ in range(10):
            act(store, id_, *both * 200)
        listener.should_exit = True
        thread.join(10)
        assert not thread.is_alive()
