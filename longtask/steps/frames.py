"""Frames: JSON objects between a child process and its worker, over a socket that the child inherits.

A frame is four bytes of length (big endian) and a JSON object in UTF-8. Its key `frame` says what it is; a request has
an `id`, and its answer is an object with the same `id`, with `ok`, and with `error` if `ok` is false. What the worker
sends by itself has a `frame` and no `id`.

The child's side blocks (`Channel`), the worker's never does (`Decoder`, and the socket in `process.py`). The end of the
socket means that the worker is gone: the child ends, since nobody would ever hear of what it still does.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping
from typing import Any

from longtask.core.errors import LongTaskError, Refused

FRAMES_FD = "LONGTASK_FRAMES_FD"
FRAME_BYTES_MAX = 8 * 1024 * 1024  # a turn with its tool results fits; a file goes to the artifact store

Frame = dict[str, Any]


class FrameError(LongTaskError):
    """The other side does not speak as agreed, or a frame is too large: the channel cannot be used any more."""


class CallRefused(Refused):
    """The worker has answered a call with an error; `reply` is its whole answer."""

    def __init__(self, message: str, reply: Frame) -> None:
        super().__init__(message)
        self.reply = reply


class WorkerGone(SystemExit):
    """The worker has died or let go of us.  Not an `Exception`: no handler of a tool or an agent may survive it."""

    def __init__(self) -> None:
        super().__init__(75)  # EX_TEMPFAIL


def encode(frame: Mapping[str, Any]) -> bytes:
    """Raises FrameError for what is too large or is not JSON."""
    name = frame.get("frame", "answer")
    try:
        body = json.dumps(frame, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"frame '{name}': cannot be written as JSON: {error}") from error
    if len(body) > FRAME_BYTES_MAX:
        raise FrameError(
            f"frame '{name}': {len(body)} bytes, at most {FRAME_BYTES_MAX}; store the content as an artifact"
        )
    return len(body).to_bytes(4, "big") + body


def answer(request: Mapping[str, Any], /, **fields: Any) -> Frame:
    return {"id": request["id"], "ok": True, **fields}


def refusal(request: Mapping[str, Any], error: str, /, **fields: Any) -> Frame:
    return {"id": request["id"], "ok": False, "error": error, **fields}


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")  # though Python reads NaN and Infinity, no database and no browser does


class Decoder:
    """Bytes as they come to whole frames."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, content: bytes) -> list[Frame]:
        """The frames that `content` completes.  Raises FrameError; after that the stream has no meaning any more."""
        self._pending += content
        found: list[Frame] = []
        while len(self._pending) >= 4:
            size = int.from_bytes(self._pending[:4], "big")
            if size > FRAME_BYTES_MAX:
                raise FrameError(f"a frame of {size} bytes is announced, at most {FRAME_BYTES_MAX}")
            if len(self._pending) < 4 + size:
                break
            body = bytes(self._pending[4 : 4 + size])
            del self._pending[: 4 + size]
            try:
                frame = json.loads(body, parse_constant=_no_constant)
            except (ValueError, RecursionError) as error:
                raise FrameError(f"a frame is not JSON: {error}") from error
            if not isinstance(frame, dict):
                raise FrameError(f"a frame is a JSON object, found {type(frame).__name__}")
            found.append(frame)
        return found


class Channel:
    """The child's side.  May be used by several threads; each waits for its own answer."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock = sock
        self._decoder = Decoder()
        self._sending = threading.Lock()
        self._turn = threading.Condition()  # guards all below
        self._reading = False  # one of the waiting threads reads for all
        self._gone = False
        self._last_id = 0
        self._answers: dict[int, Frame] = {}
        self._unasked: list[Frame] = []

    @classmethod
    def from_environment(cls) -> Channel:
        """The channel that the worker gave us.  Programs that we start do not get it.  Raises FrameError."""
        text = os.environ.pop(FRAMES_FD, "")
        try:
            os.set_inheritable(int(text), False)
            return cls(socket.socket(fileno=int(text)))
        except (ValueError, OSError) as error:
            raise FrameError(
                f"{FRAMES_FD} is '{text}': no socket of a worker; this program is started by a LongTask worker only"
            ) from error

    def send(self, name: str, /, **fields: Any) -> None:
        """Sends without an answer; blocks while the worker is slower than we are.  Raises WorkerGone, FrameError."""
        self._write(_named(name, fields))

    def call(self, name: str, /, **fields: Any) -> Frame:
        """Sends and waits for the answer.  Raises CallRefused if that is an error, WorkerGone, FrameError."""
        with self._turn:
            self._last_id += 1
            number = self._last_id
        self._write(_named(name, fields) | {"id": number})
        reply = self._wait_for(number)
        if reply.get("ok") is not True:
            raise CallRefused(f"{name}: {reply.get('error', 'refused')}", reply)
        return reply

    def receive(self) -> Frame:
        """The next frame that the worker sends by itself (the first is `start`); waits for it."""
        while True:
            with self._turn:
                if self._unasked:
                    return self._unasked.pop(0)
            self._read_for_all(None)

    def close(self) -> None:
        self._sock.close()

    def _write(self, frame: Frame) -> None:
        content = encode(frame)
        try:
            with self._sending:
                self._sock.sendall(content)
        except OSError as error:
            raise WorkerGone from error

    def _wait_for(self, number: int) -> Frame:
        while True:
            with self._turn:
                if number in self._answers:
                    return self._answers.pop(number)
            self._read_for_all(number)

    def _read_for_all(self, number: int | None) -> None:
        """Reads once and hands out what came, or waits until another thread has done so."""
        with self._turn:
            if self._gone:
                raise WorkerGone
            if number in self._answers or (number is None and self._unasked):
                return
            if self._reading:
                self._turn.wait()
                return
            self._reading = True
        content = b""
        frames: list[Frame] = []
        try:
            content = self._sock.recv(65536)
            frames = self._decoder.feed(content)
        except OSError:
            content = b""
        finally:
            with self._turn:
                self._reading = False
                self._gone = not content
                for frame in frames:
                    if "frame" in frame:
                        self._unasked.append(frame)
                    else:
                        self._answers[frame.get("id", 0)] = frame
                self._turn.notify_all()


def _named(name: str, fields: Frame) -> Frame:
    assert not fields.keys() & {"frame", "id"}, f"frame '{name}': `frame` and `id` are the frame's own words"
    return {"frame": name, **fields}
