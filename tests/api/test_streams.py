"""What a stream tells, on both databases: snapshot, then tail; marks, ends, beats, and nothing of what others own."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest

from longtask.api.streams import channel, sse
from longtask.core.events import Event, StepCompleted, StepRetried, TaskPaused, TaskResumed
from longtask.store.contract import Chunk
from tests.api.streaming import QUICK, Session, served, told, told_of_all
from tests.conformance.play import act, claim, complete, ready, submit
from tests.raw import rows

NOWHERE = "018bcfe5-ffff-7000-8000-000000000000"
numbers = count(1)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def fresh(store, *keys: str, **more) -> str:
    return submit(store, next(numbers), ready(*(keys or ("a",))), **more)


def blink(store, id_: str, times: int = 1) -> None:
    for _ in range(times):
        act(store, id_, TaskPaused(), TaskResumed())


def test_a_task_is_shown_as_it_stands_and_then_told_what_happens(server):
    store = server.parts.store
    id_ = fresh(store, "a", "b")
    blink(store, id_)

    async def test() -> None:
        session = Session(served(server), f"/v1/tasks/{id_}/stream")
        await session.until(lambda ear: ear.messages)
        shown = session.ear.messages[0]
        assert (shown.kind, shown.mark) == ("snapshot", "3")
        assert [step["key"] for step in shown.data["steps"]] == ["a", "b"]
        await asyncio.to_thread(complete, store, id_, "a")
        await asyncio.to_thread(blink, store, id_, 3)
        await session.until(lambda ear: ear.mark == "11")
        assert session.ear.events == told(store, id_, 3)
        await session.quit()
        await server.hub.close()

    run(test)


def test_a_journal_longer_than_a_page_is_told_from_its_start(server, monkeypatch):
    monkeypatch.setattr("longtask.api.streams.journal.PAGE", 7)
    store = server.parts.store
    id_ = fresh(store)
    blink(store, id_, 20)

    async def test() -> None:
        app = served(server)
        session = Session(app, f"/v1/tasks/{id_}/stream?after=0")
        await session.until(lambda ear: ear.mark == "41")
        assert session.ear.events == told(store, id_)
        again = Session(app, f"/v1/tasks/{id_}/stream?after=0", mark="38")  # goes before the address
        await again.until(lambda ear: ear.mark == "41")
        assert again.ear.events == told(store, id_, 38)
        await asyncio.gather(session.quit(), again.quit())
        await server.hub.close()

    run(test)


def test_a_task_that_has_ended_says_so_and_whoever_has_heard_it_is_sent_away(server):
    store = server.parts.store
    id_ = fresh(store)

    async def test() -> None:
        app = served(server)
        session = Session(app, f"/v1/tasks/{id_}/stream")
        await session.until(lambda ear: ear.messages)
        await asyncio.to_thread(complete, store, id_, "a")
        await session.end()
        assert session.ended
        last = session.ear.messages[-1]
        seq = store.get_task(id_).seq
        assert (last.kind, last.mark, last.data["status"]) == ("ended", f"{seq}:ended", "completed")
        assert session.ear.events == told(store, id_, 1)
        again = Session(app, f"/v1/tasks/{id_}/stream", mark=last.mark)
        await again.end()
        assert again.status == 204
        missed = Session(app, f"/v1/tasks/{id_}/stream", mark=str(seq))  # it was cut off before the last message
        await missed.end()
        assert [message.kind for message in missed.ear.messages] == ["ended"]
        await server.hub.close()

    run(test)


def test_messages_of_one_fact_are_told_once_each_though_the_client_left_between_them(server):
    store = server.parts.store
    id_ = fresh(store)
    claim(store, id_, "a", runtime="recorded 1")
    assert len(told(store, id_, 1)) == 2

    async def test() -> None:
        app = served(server)
        whole = Session(app, f"/v1/tasks/{id_}/stream?after=1")
        await whole.until(lambda ear: ear.mark == "2")
        assert [message.mark for message in whole.ear.messages] == ["2:1", "2"]
        rest = Session(app, f"/v1/tasks/{id_}/stream", mark="2:1")
        await rest.until(lambda ear: ear.mark == "2")
        assert rest.ear.events == told(store, id_, 1)[1:]
        await asyncio.gather(whole.quit(), rest.quit())
        await server.hub.close()

    run(test)


def test_all_tasks_are_told_in_one_stream(server):
    store = server.parts.store
    first, second = fresh(store), fresh(store)

    async def test() -> None:
        app = served(server)
        session = Session(app, "/v1/stream")
        await session.until(lambda ear: ear.messages)
        shown = session.ear.messages[0]
        assert [task["id"] for task in shown.data["tasks"]] == [second, first]
        for id_ in (first, second, first):
            await asyncio.to_thread(blink, store, id_)
        await session.until(lambda ear: len(ear.events) == 6)
        assert session.ear.events == told_of_all(store, shown.mark)
        mark = session.ear.messages[2].mark
        again = Session(app, "/v1/stream", mark=mark)
        await again.until(lambda ear: len(ear.events) == 4)
        assert again.ear.events == told_of_all(store, mark)
        await asyncio.gather(session.quit(), again.quit())
        await server.hub.close()

    run(test)


def test_what_a_caller_may_not_see_never_reaches_its_stream(server):
    store = server.parts.store
    mine, other = fresh(store, workspace_id="mine"), fresh(store, workspace_id="other", name="secret")
    _, token = server.access.tokens.create("bob", ["viewer"], by="ann", workspaces=["mine"])

    async def test() -> None:
        app = served(server, dataclasses.replace(QUICK, beat_s=0.05))
        hidden = Session(app, f"/v1/tasks/{other}/stream", token=token)
        nowhere = Session(app, f"/v1/tasks/{NOWHERE}/stream", token=token)
        await hidden.end()
        await nowhere.end()
        assert (hidden.status, nowhere.status) == (404, 404)
        assert hidden.body.replace(other.encode(), b"") == nowhere.body.replace(NOWHERE.encode(), b"")
        session, witness = Session(app, "/v1/stream", token=token), Session(app, "/v1/stream")
        await session.until(lambda ear: ear.messages)
        await witness.until(lambda ear: ear.messages)
        assert [task["id"] for task in session.ear.messages[0].data["tasks"]] == [mine]
        for id_ in (other, mine, other):
            await asyncio.to_thread(blink, store, id_)
        await witness.until(lambda ear: len(ear.events) == 6)
        await session.until(lambda ear: len(ear.events) == 2 and ear.mark != ear.messages[-1].mark)
        assert session.ear.events == told(store, mine, 1)
        assert "secret" not in json.dumps([message.data for message in session.ear.messages])
        later = Session(app, "/v1/stream", mark=session.ear.mark, token=token)  # it need not read again what others own
        await asyncio.to_thread(blink, store, mine)
        await later.until(lambda ear: len(ear.events) == 2)
        past = Session(app, "/v1/stream", mark=session.ear.messages[0].mark, token=token)
        await past.until(lambda ear: len(ear.events) == 4)
        assert past.ear.events == told(store, mine, 1)
        await asyncio.gather(session.quit(), witness.quit(), later.quit(), past.quit())
        await server.hub.close()

    run(test)


@pytest.mark.parametrize("mark", ["x", "-1", "1.2.3", "9" * 30, "7", "1:x", "2:ended:1"])
def test_a_cursor_of_somewhere_else_is_refused(server, mark):
    id_ = fresh(server.parts.store)

    async def test() -> None:
        app = served(server)
        path = f"/v1/tasks/{id_}/stream"
        for session in (Session(app, path, mark=mark), Session(app, f"{path}?after={mark}")):
            await session.end()
            assert session.status == 400
            assert json.loads(session.body)["type"] == "urn:longtask:problem:bad-cursor"
        await server.hub.close()

    run(test)


def test_a_cursor_that_is_ahead_of_all_tasks_is_refused(server):
    end = server.parts.store.feed_end()
    ahead = ".".join(str(int(number) + 10) for number in end.split(".")[:1]) + (".1" if "." in end else "")

    async def test() -> None:
        session = Session(served(server), "/v1/stream", mark=ahead)
        await session.end()
        assert session.status == 400
        await server.hub.close()

    run(test)


def test_progress_is_told_between_events_and_has_no_mark(server):
    store = server.parts.store
    id_ = fresh(store)
    ref = claim(store, id_, "a")

    async def test() -> None:
        app = served(server)
        session = Session(app, f"/v1/tasks/{id_}/stream")
        await session.until(lambda ear: ear.messages)
        mark = session.ear.mark
        for done in (1, 2):
            await asyncio.to_thread(store.tell_progress, ref, 1, done, 9, "tests")
            await session.until(lambda ear, done=done: done in [row["done"] for row in ear.of("progress")])
        assert session.ear.mark == mark
        later = Session(app, f"/v1/tasks/{id_}/stream", mark=mark)
        await later.until(lambda ear: ear.of("progress"))
        assert later.ear.of("progress")[0] | {"at": 0} == {
            "step": "a", "attempt": 1, "done": 2, "total": 9, "text": "tests", "at": 0,
        }  # fmt: skip
        await asyncio.gather(session.quit(), later.quit())
        await server.hub.close()

    run(test)


def test_output_is_told_from_its_start_through_the_attempts_until_the_step_has_ended(server):
    store = server.parts.store
    id_ = fresh(store)
    ref = claim(store, id_, "a")
    letters = "é∑".encode()
    store.put_output(ref, 1, [Chunk(1, "out", b"one\n"), Chunk(2, "out", letters[:1]), Chunk(3, "err", b"oh")])

    async def test() -> None:
        app = served(server)
        session = Session(app, f"/v1/tasks/{id_}/steps/a/stream")
        await session.until(lambda ear: ear.mark == "1.3")
        await asyncio.to_thread(store.put_output, ref, 1, [Chunk(4, "out", letters[1:])])
        await session.until(lambda ear: ear.mark == "1.4")
        heard = [(row["n"], row["stream"], row["text"]) for row in session.ear.of("output")]
        assert heard == [(1, "out", "one\n"), (2, "out", ""), (3, "err", "oh"), (4, "out", "é∑")]
        within = Session(app, f"/v1/tasks/{id_}/steps/a/stream", mark="1.3")  # it comes again within a letter
        await within.until(lambda ear: ear.mark == "1.4")
        assert within.ear.of("output")[0]["text"] == "é∑"
        alone = Session(app, f"/v1/tasks/{id_}/steps/a/stream?attempt=1", mark="1.4")
        await asyncio.to_thread(again, store, id_)
        await asyncio.to_thread(store.put_output, ref, 2, [Chunk(1, "out", b"two\n")])
        await alone.end()
        assert [message.kind for message in alone.ear.messages] == ["ended"]
        await session.until(lambda ear: ear.mark == "2.1")
        assert session.ear.of("attempt") == [{"step": "a", "attempt": 2}]
        await asyncio.to_thread(finish, store, id_, 2)
        await session.end()
        await within.end()
        assert session.ear.messages[-1][:2] == ("ended", {"step": "a", "attempt": 2, "state": "completed"})
        gone = Session(app, f"/v1/tasks/{id_}/steps/a/stream", mark=session.ear.mark)
        await gone.end()
        assert gone.status == 204
        await server.hub.close()

    run(test)


def again(store, id_: str) -> None:
    act(store, id_, StepRetried("a", 1, "boom", due_at=store.now()))
    claim(store, id_, "a")


def finish(store, id_: str, attempt: int) -> None:
    act(store, id_, StepCompleted("a", attempt))


def test_output_of_what_is_not_there_is_not_found(server):
    id_ = fresh(server.parts.store)

    async def test() -> None:
        app = served(server)
        for path in (f"/v1/tasks/{id_}/steps/b/stream", f"/v1/tasks/{id_}/steps/a/stream?attempt=1"):
            session = Session(app, path)
            await session.end()
            assert session.status == 404
        await server.hub.close()

    run(test)


def test_who_takes_nothing_is_dropped_and_told_where_to_go_on(server, monkeypatch):
    monkeypatch.setattr(channel, "QUEUE_BYTES_MAX", 2_000)
    store = server.parts.store
    id_ = fresh(store)

    async def test() -> None:
        app = served(server)
        slow = Session(app, f"/v1/tasks/{id_}/stream?after=0")
        quick = Session(app, f"/v1/tasks/{id_}/stream?after=0")
        await slow.until(lambda ear: ear.mark == "1")
        slow.taking.clear()
        for _ in range(30):
            seq = store.get_task(id_).seq + 2
            await asyncio.to_thread(blink, store, id_)
            await quick.until(lambda ear, seq=seq: ear.mark == str(seq))
        slow.taking.set()
        await slow.end()
        last = slow.ear.messages[-1]
        assert last.data == {"reason": "slow", "after": slow.ear.mark}
        assert server.hub.dropped == 1
        rest = Session(app, f"/v1/tasks/{id_}/stream", mark=slow.ear.mark)
        await rest.until(lambda ear: ear.mark == "61")
        assert slow.ear.events + rest.ear.events == told(store, id_)
        await asyncio.gather(rest.quit(), quick.quit())
        await server.hub.close()

    run(test)


def test_who_takes_nothing_for_long_is_left(server, monkeypatch):
    monkeypatch.setattr(sse, "SEND_MAX_S", 0.05)
    id_ = fresh(server.parts.store)

    async def test() -> None:
        stuck = Session(served(server), f"/v1/tasks/{id_}/stream?after=0")
        await stuck.until(lambda ear: ear.mark == "1")
        stuck.taking.clear()
        await asyncio.to_thread(blink, server.parts.store, id_)
        await stuck.end()
        assert not stuck.ended
        assert server.hub.clients == 0
        await server.hub.close()

    run(test)


def test_a_silent_stream_beats(server):
    id_ = fresh(server.parts.store)

    async def test() -> None:
        app = served(server, dataclasses.replace(QUICK, beat_s=0.02))
        sessions = [Session(app, f"/v1/tasks/{id_}/stream"), Session(app, f"/v1/tasks/{id_}/steps/a/stream")]
        for session in sessions:
            await session.until(lambda ear: ear.beats >= 2)
            await session.quit()
        await server.hub.close()

    run(test)


def test_a_stream_is_closed_after_a_while_so_that_rights_are_asked_for_anew(server):
    store = server.parts.store
    id_ = fresh(store)

    async def test() -> None:
        app = served(server, dataclasses.replace(QUICK, life_s=0.05))
        session = Session(app, f"/v1/tasks/{id_}/stream")
        await session.end()
        assert session.ear.messages[-1].data == {"reason": "renew", "after": "1"}
        await server.hub.close()

    run(test)


def test_the_end_of_the_server_is_told_and_no_further_stream_begins(server):
    id_ = fresh(server.parts.store)

    async def test() -> None:
        app = served(server)
        paths = [f"/v1/tasks/{id_}/stream", "/v1/stream", f"/v1/tasks/{id_}/steps/a/stream"]
        sessions = [Session(app, path) for path in paths]
        for session in sessions[:2]:
            await session.until(lambda ear: ear.messages)
        await asyncio.sleep(0)
        server.hub.end()
        for session in sessions:
            await session.end()
            assert session.ended
        assert all(s.ear.messages[-1].data["reason"] == "shutdown" for s in sessions if s.status == 200)
        late = Session(app, paths[0])
        await late.end()
        assert late.status == 503
        await server.hub.close()

    run(test)


def test_a_task_that_is_taken_away_ends_its_stream(server):
    store = server.parts.store
    id_ = fresh(store)

    async def test() -> None:
        session = Session(served(server), f"/v1/tasks/{id_}/stream?after=0")
        await session.until(lambda ear: ear.mark == "1")
        await asyncio.to_thread(rows, store, "delete from task where id = ? returning n", id_)
        await session.end()
        assert session.ear.messages[-1].data == {"reason": "gone", "after": "1"}
        await server.hub.close()

    run(test)


def test_a_reader_that_fails_ends_its_streams_and_the_next_client_has_a_new_one(server, monkeypatch):
    store = server.parts.store
    id_ = fresh(store)

    async def test() -> None:
        app = served(server)
        session = Session(app, f"/v1/tasks/{id_}/stream")
        await session.until(lambda ear: ear.messages)
        with monkeypatch.context() as broken:
            broken.setattr(store, "tail", lambda *_: 1 // 0)
            await session.end()
        assert session.ear.messages[-1].data["reason"] == "error"
        later = Session(app, f"/v1/tasks/{id_}/stream", mark=session.ear.mark)
        await asyncio.to_thread(blink, store, id_)
        await later.until(lambda ear: ear.mark == "3")
        await later.quit()
        await server.hub.close()

    run(test)


def test_nobody_watches_and_nothing_is_read(server, monkeypatch):
    store = server.parts.store
    id_ = fresh(store)
    asked: list[str] = []

    async def test() -> None:
        app = served(server, dataclasses.replace(QUICK, idle_s=0.02))
        session = Session(app, f"/v1/tasks/{id_}/stream")
        await session.until(lambda ear: ear.messages)
        await session.quit()
        async with asyncio.timeout(10):
            while server.hub.awake:
                await asyncio.sleep(0.01)
        await server.hub._reader._apart(lambda: None)  # a round that was under way is over
        tail = store.tail

        def counted(cursor: str, limit: int) -> list[tuple[Event, str]]:
            asked.append(cursor)
            return tail(cursor, limit)

        monkeypatch.setattr(store, "tail", counted)
        await asyncio.sleep(0.05)
        assert not asked
        blink(store, id_)
        back = Session(app, f"/v1/tasks/{id_}/stream", mark="1")
        await back.until(lambda ear: ear.mark == "3")
        blink(store, id_)
        await back.until(lambda ear: ear.mark == "5")
        assert back.ear.events == told(store, id_, 1)
        await back.quit()
        await server.hub.close()

    run(test)
