"""The child's side of an agent or a function: what both programs do with the socket to their worker.

An outcome is a frame; a program that ends without one has failed, whatever its exit code says.  The end of the socket
means that the worker is gone: the program ends at that moment, in the middle of whatever it does.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import longtask
from longtask.core.model import Done, Expanded, Failed, JsonMap, Outcome, Parked, Question, WaitingFor
from longtask.core.policy import REASON_LENGTH_MAX
from longtask.steps.frames import Channel, Frame, FrameError, WorkerGone

PROTOCOL_ERROR = 76  # EX_PROTOCOL
TRACEBACK_LINES = 12
DIGEST_LENGTH_MAX = 100
_HERE = os.path.dirname(__file__)

# The program is started without its folder in front of what can be imported: the worktree may hold a `json.py`, or
# LongTask itself.  It uses the very package that its worker does, and only that comes from there.
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import longtask; del sys.path[0]; "
    "from longtask.steps import {0}; sys.exit({0}.main())"
)


def command(module: str, *, bare: bool) -> list[str]:
    """Runs `longtask.steps.MODULE`.  `bare`: PYTHONPATH and the like are for its children, not for itself."""
    flags = ["-E"] if bare else []
    root = str(Path(longtask.__file__).absolute().parent.parent)
    return [sys.executable, *flags, "-P", "-X", "utf8", "-c", _START.format(module), root]


def begin() -> tuple[Channel, Frame]:
    """The channel and the worker's `start`."""
    channel = Channel.from_environment()
    return channel, channel.receive()


def end_with_worker(channel: Channel) -> None:
    """From now on, the end of the socket is the end of this process.  The worker sends only answers any more."""

    def watch() -> None:
        try:
            while True:
                channel.receive()
        except WorkerGone:
            os._exit(os.EX_TEMPFAIL)
        except FrameError:
            os._exit(PROTOCOL_ERROR)

    threading.Thread(target=watch, name="worker", daemon=True).start()


def send_outcome(channel: Channel, outcome: Outcome) -> None:
    """The last frame.  One that is no JSON, or too large, is told as a failure."""
    try:
        channel.send("outcome", **_fields(outcome))
    except FrameError as error:
        channel.send("outcome", **_fields(Failed(f"its result cannot be handed over: {error}", retryable=False)))


def _fields(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Done():
            return {"outcome": "done", "result": outcome.result}
        case Failed():
            fields = {"reason": outcome.reason, "retryable": outcome.retryable, "digest": outcome.digest}
            return {"outcome": "failed", **fields}
        case Parked():
            fields = {"waiting_for": str(outcome.waiting_for), "due_at": outcome.due_at}
            return {"outcome": "parked", **fields, "question": dict(outcome.question)}
        case Expanded():
            return {"outcome": "expanded", **outcome.listing}
    raise AssertionError(f"a child answers done, failed, parked or expanded, not {outcome!r}")


def outcome_of(frame: JsonMap) -> Done | Failed | Parked | Expanded:
    """What an `outcome` frame says.  Raises FrameError."""
    try:
        match frame["outcome"]:
            case "done":
                return Done(frame["result"])
            case "failed":
                digest = None if frame["digest"] is None else str(frame["digest"])[:DIGEST_LENGTH_MAX]
                return Failed(str(frame["reason"]), bool(frame["retryable"]), digest)
            case "parked":
                return _parked(WaitingFor(frame["waiting_for"]), dict(frame["question"]), frame["due_at"])
            case "expanded":
                tasks = [{"name": str(task["name"]), "prompt": str(task["prompt"])} for task in frame["tasks"]]
                return Expanded(len(tasks), {"bound": str(frame["bound"]), "tasks": tasks})
    except (KeyError, ValueError, TypeError) as error:
        wrong = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FrameError(f"frame 'outcome': {wrong}") from error
    raise FrameError(f"frame 'outcome': '{frame['outcome']}' is no outcome")


def _parked(waiting_for: WaitingFor, question: JsonMap, due_at: object) -> Parked:
    """Only waits that something can end.  Raises KeyError, ValueError."""
    if not isinstance(due_at, int) or not 0 <= due_at < 2**53:
        raise ValueError(f"due_at is an instant in ms, found {due_at!r}")
    match waiting_for:
        case WaitingFor.USER:
            Question(question["kind"])
        case WaitingFor.EVENT | WaitingFor.CI:
            if not isinstance(question["name"], str):
                raise ValueError("the name of a signal is a text")
        case WaitingFor.TIMER if due_at:
            pass
        case _:
            raise ValueError(f"nothing would end a wait for {str(waiting_for)!r}")
    return Parked(waiting_for, question, due_at)


def told(error: BaseException) -> str:
    """An exception as a reason: its message first, then the last frames of code that is not ours."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<frozen ", _HERE))]
    message = "".join(traceback.format_exception_only(error)).strip()
    lines = "".join(traceback.format_list(frames)).splitlines()[-TRACEBACK_LINES:]
    text = "\n".join([message, *lines])
    return text if len(text) <= REASON_LENGTH_MAX else text[:REASON_LENGTH_MAX] + " …"
