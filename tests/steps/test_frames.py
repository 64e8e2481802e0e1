"""Frames on their own; between real processes they are tested with the process (test_process.py)."""

import json
import socket
import threading

import pytest

from longtask.steps.frames import (
    FRAME_BYTES_MAX,
    CallRefused,
    Channel,
    Decoder,
    FrameError,
    WorkerGone,
    answer,
    encode,
    refusal,
)


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    channel = Channel(theirs)
    yield ours, channel
    ours.close()
    channel.close()


def test_a_frame_is_four_bytes_of_length_and_json():
    content = encode({"frame": "note", "text": "größer"})
    assert int.from_bytes(content[:4], "big") == len(content) - 4
    assert json.loads(content[4:]) == {"frame": "note", "text": "größer"}


def test_frames_may_be_cut_anywhere():
    frames: list[dict] = [{"frame": "a"}, {"frame": "b", "text": "x" * 300}, {"id": 1, "ok": True}]
    content = b"".join(encode(frame) for frame in frames)
    for size in (1, 2, 3, 5, 100, len(content)):
        decoder = Decoder()
        found = [frame for at in range(0, len(content), size) for frame in decoder.feed(content[at : at + size])]
        assert found == frames


def test_a_frame_that_is_too_large_is_refused_on_both_sides():
    with pytest.raises(FrameError, match=r"frame 'put': \d+ bytes, at most 8388608; store the content as an artifact"):
        encode({"frame": "put", "text": "x" * FRAME_BYTES_MAX})
    with pytest.raises(FrameError, match="a frame of 8388609 bytes is announced, at most 8388608"):
        Decoder().feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    largest = encode({"frame": "put", "text": "x" * (FRAME_BYTES_MAX - len('{"frame":"put","text":""}'))})
    assert len(Decoder().feed(largest)) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not JSON"),
        (b"[1]", "a JSON object, found list"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"x":NaN}', "NaN is no JSON"),
        (b'{"x":-Infinity}', "Infinity is no JSON"),
    ],
)
def test_what_is_no_frame_is_an_error(body, reason):
    with pytest.raises(FrameError, match=reason):
        Decoder().feed(len(body).to_bytes(4, "big") + body)


@pytest.mark.parametrize("value", [b"bytes", float("nan"), {1, 2}])
def test_what_is_not_json_is_not_sent(value):
    with pytest.raises(FrameError, match="frame 'x': cannot be written as JSON"):
        encode({"frame": "x", "value": value})


def test_a_call_gets_its_answer_though_other_frames_come_first(ends):
    ours, channel = ends
    ours.sendall(encode({"frame": "stop", "reason": "budget"}) + encode(answer({"id": 1}, n=7)))
    assert channel.call("ask", kind="tool") == {"id": 1, "ok": True, "n": 7}
    assert Decoder().feed(ours.recv(1000)) == [{"frame": "ask", "id": 1, "kind": "tool"}]
    assert channel.receive() == {"frame": "stop", "reason": "budget"}
    ours.sendall(encode({"frame": "go"}))
    assert channel.receive() == {"frame": "go"}


def test_a_thread_may_receive_while_others_call(ends):
    ours, channel = ends
    received: list[dict] = []
    thread = threading.Thread(target=lambda: received.append(channel.receive()))
    thread.start()
    ours.sendall(encode(answer({"id": 1})) + encode(answer({"id": 2}, n=2)))
    assert channel.call("ask") == {"id": 1, "ok": True}
    assert channel.call("ask")["n"] == 2
    ours.sendall(encode({"frame": "go"}))
    thread.join(20)
    assert received == [{"frame": "go"}]


def test_a_refused_call_is_an_error_with_the_whole_answer(ends):
    ours, channel = ends
    ours.sendall(encode(refusal({"id": 1}, "the lease is lost", code="lease_lost")))
    with pytest.raises(CallRefused, match="ask: the lease is lost") as caught:
        channel.call("ask")
    assert caught.value.reply["code"] == "lease_lost"


def test_the_end_of_the_socket_ends_the_child_through_every_handler(ends):
    ours, channel = ends
    ours.close()
    assert not issubclass(WorkerGone, Exception)
    for action in (lambda: channel.call("ask"), channel.receive, lambda: channel.call("again")):
        with pytest.raises(WorkerGone) as caught:
            action()
        assert caught.value.code == 75


def test_a_thread_that_waits_hears_of_the_end(ends):
    ours, channel = ends
    ended = []

    def ask():
        try:
            channel.call("ask")
        except WorkerGone:
            ended.append(True)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    decoder = Decoder()
    asked = 0
    while asked < 3:
        asked += len(decoder.feed(ours.recv(1000)))
    ours.close()
    for thread in threads:
        thread.join(20)
    assert ended == [True] * 3


def test_without_a_worker_there_is_no_channel(monkeypatch):
    monkeypatch.setenv("LONGTASK_FRAMES_FD", "9999")
    with pytest.raises(FrameError, match="LONGTASK_FRAMES_FD is '9999': no socket of a worker"):
        Channel.from_environment()
    with pytest.raises(FrameError, match="LONGTASK_FRAMES_FD is ''"):
        Channel.from_environment()
