"""Connections that break: nothing is done twice, nothing is told twice, nothing is left out."""

from __future__ import annotations

import hashlib
import threading
from itertools import islice

import pytest

from longtask.client.course import Limits
from longtask.client.streams import Following
from longtask.core.errors import NotFound, Refused, StoreUnavailable
from longtask.core.events import TaskPaused, TaskResumed
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.live import serving
from tests.api.streaming import told, told_of_all
from tests.client.cutting import cutting
from tests.conformance.play import act


@pytest.mark.parametrize("cuts", [(0,), (10, 0), (-1, 0, 200, -1)])
def test_a_request_whose_answer_was_lost_is_carried_out_once(connect, live, server, cuts):
    with cutting(live.port, *cuts) as line:
        client = connect(line.url)
        id = client.submit(plans.asking())["task"]
        assert line.connections == len(cuts) + 1
        assert [task["id"] for task in client.tasks()] == [id]
        for act in ("pause", "resume", "pause"):
            line.cuts = list(cuts)
            getattr(connect(line.url), act)(id)
        for n in (1, 2):
            line.cuts = list(cuts)
            assert connect(line.url).signal(id, "hello", {"n": n})["number"] == n
    facts = [event.fact for event in server.parts.store.events(id, 0, 100)]
    assert [type(fact) for fact in facts if isinstance(fact, TaskPaused | TaskResumed)] == [
        TaskPaused, TaskResumed, TaskPaused,
    ]  # fmt: skip


def test_a_line_that_stays_broken_is_told_in_time(connect, live):
    with cutting(live.port, *[0] * 1000) as line:
        client = connect(line.url, limits=Limits(wait_min_s=0.001, wait_max_s=0.01, patience_s=0.1))
        with pytest.raises(StoreUnavailable, match="does not answer"):
            client.submit(plans.asking())
        assert 2 < line.connections < 1000


def test_events_are_told_once_and_in_order_though_the_stream_is_cut_anywhere(connect, live, server):
    id = connect(f"http://{live.host}").submit(plans.running())["task"]
    carry_to(server.parts, id, "completed")
    expected = told(server.parts.store, id)
    for start, step in ((700, 11), (1_000, 97)):  # within messages, and behind several
        with cutting(live.port, *range(start, start + 40 * step, step)) as line:
            heard = [(event["id"], event["type"]) for event in connect(line.url).events(id)]
            assert heard == expected
            assert line.connections > 3


def test_a_stream_begins_with_how_things_stand_and_goes_on_behind_a_mark(connect, client, live, server):
    id = client.submit(plans.running())["task"]
    carry_to(server.parts, id, "completed")
    with cutting(live.port, 100, 400, 900) as line:
        messages = list(connect(line.url).stream(id))
    assert [message.kind for message in messages] == ["snapshot", "ended"]
    assert messages[0].data == client.task(id)
    whole = list(client.stream(id, "0"))
    for n, message in enumerate(whole[:-1]):
        assert list(client.stream(id, message.mark)) == whole[n + 1 :]
    assert list(client.stream(id, whole[-1].mark)) == []


def test_what_happens_while_one_listens_is_heard_over_cut_lines(connect, live, server):
    id = connect(f"http://{live.host}").submit(plans.waiting())["task"]
    store = server.parts.store
    with cutting(live.port, *[700] * 8) as line:
        client = connect(line.url)
        stream = client.stream_all()
        first = next(stream)
        assert first.kind == "snapshot" and [task["id"] for task in first.data["tasks"]] == [id]
        before = told_of_all(store)

        def move() -> None:
            for _ in range(20):
                act(store, id, TaskPaused(), TaskResumed())

        mover = threading.Thread(target=move)
        mover.start()
        heard = [(message.data["id"], message.data["type"]) for message in islice(stream, 40)]
        mover.join()
        stream.close()
    assert heard == told_of_all(store)[len(before) :][: len(heard)]


def test_output_is_heard_once_and_whole_over_cut_lines(connect, live, server):
    client = connect(f"http://{live.host}")
    id = client.submit(plans.running(command="for i in $(seq 300); do echo line $i; done; sleep 0.2; echo end"))["task"]
    carry_to(server.parts, id, "completed")
    expected = "".join(chunk["text"] for chunk in client.output(id, "a", 1))
    with cutting(live.port, *range(250, 2000, 170)) as line:
        messages = list(connect(line.url).stream_output(id, "a", attempt=1))
    assert "".join(m.data["text"] for m in messages if m.kind == "output") == expected
    assert messages[-1].kind == "ended" and messages[-1].data["state"] == "completed"


def test_a_stream_goes_on_when_the_server_was_started_again(connect, make, live, server):
    """The server says `closed`, and another one goes on behind the last mark."""
    client = connect(f"http://{live.host}")
    id = client.submit(plans.waiting())["task"]
    store = server.parts.store
    with cutting(live.port) as line:
        stream = connect(line.url).stream(id, "0")
        first = next(stream)
        second = make()
        with serving(second) as other:
            line.port = other.port
            line.cut()
            act(store, id, TaskPaused(), TaskResumed())
            kinds = [next(stream) for _ in range(2)]
        stream.close()
    heard = [(message.data["id"], message.data["type"]) for message in [first, *kinds]]
    assert heard == told(store, id)[:3]


def test_the_words_of_a_closing_stream_say_whether_to_wait(server):
    def closed(reason: str) -> Following:
        stream = Following("/v1/tasks/x/stream", None)
        stream.connected(200, "text/event-stream; charset=utf-8")
        text = 'id: 7\r\nevent: event\r\ndata: {"n":\r\ndata: 1}\r\n\r\n'
        text += f'event: closed\ndata: {{"reason":"{reason}"}}\n\n'
        assert [(m.kind, m.data, m.mark) for m in stream.hear(text.encode())] == [("event", {"n": 1}, "7")]
        return stream

    assert closed("renew").at_once and closed("slow").at_once
    for reason in ("shutdown", "error", "something new"):
        found = closed(reason)
        assert not found.at_once and not found.over and found.headers["Last-Event-ID"] == "7"
    with pytest.raises(NotFound, match="pruned"):
        closed("gone")


def test_that_a_connection_was_opened_is_no_sign_of_life(server):
    """Else a line that is cut at once, again and again, would be tried for ever."""
    stream = Following("/x", None)
    stream.connected(200, "text/event-stream")
    assert list(stream.hear(b"retry: 1000\n\n")) == [] and not stream.heard
    assert list(stream.hear(b":\n\n")) == [] and stream.heard


# --- files --------------------------------------------------------------------------------------------------------


@pytest.fixture
def large(live, server):
    """The task, the name and the bytes of an artifact."""
    from longtask import Client

    steps = [{"id": "make", "run": "head -c 2300000 /dev/urandom | base64"}]
    plan = {"longtask": 1, "name": "big", "steps": steps}
    with Client(f"http://{live.host}") as client:
        id = client.submit(plan)["task"]
        carry_to(server.parts, id, "completed")
        [one] = [made for made in client.artifacts(id, all=True) if made["name"].startswith("output/")]
        content = client.artifact(id, one["name"])
    assert hashlib.sha256(content).hexdigest() == one["digest"]
    return id, one["name"], content


def test_a_file_is_fetched_over_cut_lines_without_beginning_anew(connect, live, large, tmp_path):
    id, name, content = large
    with cutting(live.port, 500_000, 0, 900_000, -1, 30) as line:
        file = connect(line.url).download(id, name, tmp_path / "got.bin")
        assert line.connections == 6
    assert file.read_bytes() == content
    assert sorted(path.name for path in tmp_path.glob("*got*")) == ["got.bin"]


def test_what_an_earlier_call_has_fetched_is_gone_on_with(connect, live, large, tmp_path):
    id, name, content = large
    file = tmp_path / "got.bin"
    impatient = Limits(wait_min_s=0.001, wait_max_s=0.001, stream_patience_s=0.5)
    with cutting(live.port, 1_000_000, *[0] * 10_000) as line, pytest.raises(StoreUnavailable):
        line.abrupt = False
        connect(line.url, limits=impatient).download(id, name, file)
    [part] = tmp_path.glob(".got.bin.*.part")
    assert not file.exists() and part.stat().st_size > 500_000
    assert part.read_bytes() == content[: part.stat().st_size]
    connect(f"http://{live.host}").download(id, name, file)
    assert file.read_bytes() == content and not part.exists()


def test_what_does_not_fit_its_hash_never_takes_the_files_place(connect, client, large, tmp_path):
    id, name, content = large
    digest = hashlib.sha256(content).hexdigest()
    part = tmp_path / f".got.bin.{digest[:16]}.part"
    for wrong in (b"x" * 100, b"x" * len(content)):
        part.write_bytes(wrong)
        with pytest.raises(Exception, match="not what its hash says"):
            client.download(id, name, tmp_path / "got.bin")
        assert not (tmp_path / "got.bin").exists() and not part.exists()
    part.write_bytes(content)  # whole, and only its name was missing
    assert client.download(id, name, tmp_path / "got.bin").read_bytes() == content


def test_a_file_that_cannot_be_written_and_an_artifact_that_is_not_there_are_told(client, large, tmp_path):
    id, name, _ = large
    with pytest.raises(Refused, match="cannot be written"):
        client.download(id, name, tmp_path / "nowhere" / "got.bin")
    with pytest.raises(NotFound, match="has no artifact"):
        client.download(id, "other.bin", tmp_path / "got.bin")
