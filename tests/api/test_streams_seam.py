"""The seam: whatever is written while clients come, are cut off at any byte and come again, each of them is told each
event once and in its order, by whichever server over the same database it comes to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count, cycle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtask.api.server import Server
from longtask.core.errors import StoreBusy
from longtask.core.events import Event, StepCompleted, TaskPaused, TaskResumed
from tests.api.streaming import PATIENCE_S, Ear, Session, served, told, told_of_all
from tests.conformance.play import act, claim, ready, submit

SERVERS = 2
EXAMPLES = 12
STEPS = 8

numbers = count(1)


@pytest.fixture
def servers(make: Callable[..., Server], monkeypatch) -> list[Server]:
    """Over one database; pages are short, so that there are many seams."""
    monkeypatch.setattr("longtask.api.streams.journal.PAGE", 4)
    monkeypatch.setattr("longtask.api.streams.journal.PAGES_MAX", 2)
    return [make() for _ in range(SERVERS)]


@pytest.fixture
def runner(servers: list[Server]) -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made
        for server in servers:
            made.run(server.hub.close())


@pytest.fixture
def applications(servers: list[Server]) -> list[Any]:
    return [served(server) for server in servers]


# What one writer does, one transaction each: to the task with this number (of two), or to both in one.
moves = st.lists(st.tuples(st.sampled_from(["blink", "step", "group"]), st.integers(0, 1)), min_size=1, max_size=STEPS)
# A client leaves after so many bytes, and comes again; then it stays.
cuts = st.lists(st.one_of(st.integers(1, 400), st.integers(1, 4_000)), max_size=6)


def write(server: Server, ids: list[str], turns: list[tuple[str, int]], key: Callable[[], str]) -> None:
    store = server.parts.store
    for what, which in turns:
        id_ = ids[which]
        while True:
            try:
                if what == "blink":
                    act(store, id_, TaskPaused(), TaskResumed())
                elif what == "step":
                    claim(store, id_, name := key(), runtime="recorded 1")
                    complete_it(store, id_, name)
                else:
                    with store.group():
                        act(store, id_, TaskPaused(), TaskResumed())
                        act(store, ids[1 - which], TaskPaused(), TaskResumed())
            except StoreBusy:  # the other writer held a task that this group wanted
                continue
            break


def complete_it(store, id_: str, key: str) -> None:
    act(store, id_, StepCompleted(key, 1))


async def listen(apps: list[Any], path: str, cuts: list[int], ended: Callable[[Ear], bool]) -> Ear:
    """All that one client hears, over all its connections, each to another server."""
    whole = Ear()
    left, places = list(cuts), cycle(apps)
    while True:
        cut = left.pop(0) if left else None
        session = Session(next(places), path, whole.mark, cut=cut)
        session.ear.messages = whole.messages
        async with asyncio.timeout(PATIENCE_S):
            while not (session.left or session.task.done() or ended(session.ear)):
                session._news.clear()
                with suppress(TimeoutError):  # it may be over without news
                    await asyncio.wait_for(session._news.wait(), 0.02)
        whole.mark = session.ear.mark
        over = ended(session.ear)
        await session.quit()
        assert session.status == 200, session.body
        if over:
            return whole


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(
    before=moves,
    writers=st.tuples(moves, moves),
    clients=st.lists(st.tuples(st.booleans(), cuts), min_size=1, max_size=3),
)
def test_each_event_once_and_in_order(servers, applications, runner, before, writers, clients):
    store = servers[0].parts.store
    ids = [submit(store, next(numbers), ready(*[f"s{n}" for n in range(3 * STEPS + 1)])) for _ in range(2)]
    names = count()
    begun = store.feed_end()
    lock = threading.Lock()

    def key() -> str:
        with lock:
            return f"s{next(names)}"

    write(servers[0], ids, before, key)
    done = asyncio.Event()

    async def test() -> None:
        def over(path: str, ear: Ear) -> bool:
            if not done.is_set():
                return False
            if path.startswith("/v1/stream"):
                return len(ear.messages) >= len(told_of_all(store, begun))
            return ear.mark == str(store.get_task(ids[0]).seq)

        listening = []
        for whole, where in clients:
            path = f"/v1/stream?after={begun}" if whole else f"/v1/tasks/{ids[0]}/stream?after=0"
            ended = partial(over, path)
            listening.append(asyncio.create_task(listen(applications, path, where, ended)))
        await asyncio.gather(
            *(asyncio.to_thread(write, server, ids, turns, key) for server, turns in zip(servers, writers, strict=True))
        )
        done.set()
        heard = await asyncio.gather(*listening)
        for (whole, _), ear in zip(clients, heard, strict=True):
            assert ear.events == (told_of_all(store, begun) if whole else told(store, ids[0]))

    runner.run(test())


def test_a_foreign_transaction_that_lasts_holds_up_no_stream_of_a_task(servers):
    """Where the feed waits for it, the task's own journal does not."""
    store, other = servers[0].parts.store, servers[1].parts.store
    watched, held = submit(store, 901, ready("a")), submit(store, 902, ready("a"))
    holding, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with other.group():
            act(other, held, TaskPaused())
            holding.set()
            assert go_on.wait(PATIENCE_S)

    async def test() -> None:
        app = served(servers[0])
        session = Session(app, f"/v1/tasks/{watched}/stream?after=0")
        await session.until(lambda ear: ear.mark == "1")
        keeping = asyncio.create_task(asyncio.to_thread(hold))
        await asyncio.to_thread(holding.wait)
        try:
            if "postgresql" in servers[0].parts.config.database:  # a file has one writer
                await asyncio.to_thread(act, store, watched, TaskPaused(), TaskResumed())
                await session.until(lambda ear: ear.mark == "3")
        finally:
            go_on.set()
            await keeping
        await asyncio.to_thread(act, store, watched, TaskPaused(), TaskResumed())
        seq = store.get_task(watched).seq
        await session.until(lambda ear: ear.mark == str(seq))
        assert session.ear.events == told(store, watched)
        await session.quit()
        for server in servers:
            await server.hub.close()

    asyncio.run(test())


def test_a_storm_of_clients_reads_each_page_once(servers, monkeypatch):
    store = servers[0].parts.store
    id_ = submit(store, 903, ready("a"))
    for _ in range(6):
        act(store, id_, TaskPaused(), TaskResumed())
    asked: list[int] = []
    expected, events = told(store, id_, 5), store.events

    def counted(task_id: str, after: int, limit: int) -> list[Event]:
        asked.append(after)
        return events(task_id, after, limit)

    monkeypatch.setattr(store, "events", counted)

    async def test() -> None:
        app = served(servers[0])
        sessions = [Session(app, f"/v1/tasks/{id_}/stream", "5") for _ in range(100)]
        for session in sessions:
            await session.until(lambda ear: ear.mark == "13")
            assert session.ear.events == expected
        assert len(asked) < 20, asked
        assert {5, 9} <= {*asked} <= {5, 9, 13}
        await asyncio.gather(*(session.quit() for session in sessions))
        await servers[0].hub.close()

    asyncio.run(test())
