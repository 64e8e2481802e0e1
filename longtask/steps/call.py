"""`call` steps: work that is done elsewhere.  Send it there, park, and go on when its callback comes.

What is sent is a POST with JSON, the idempotency key `task/step/run` and the address of the callback.  A send that did
not go through is tried again within the attempt, with the same key; a lost attempt goes on with its run, and so with
its key too.  A further run, after a failure of the step, is another call and has another key.

The callback comes as the signal `callback` with this key in its payload, also before the step has parked: signals are
kept.  Its body is the step's result.  Nothing of a secret header is stored or told.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from longtask.core.errors import LongTaskError
from longtask.core.model import Done, Failed, JsonMap, Outcome, Parked, Stopped, WaitingFor
from longtask.core.policy import backoff_ms
from longtask.redaction import Mask
from longtask.steps.contract import Assignment, Desk, Ended, Handle, Render
from longtask.steps.posting import AddressRefused, Allowed, Answer, Post, PostError, shown
from longtask.steps.surroundings import as_text

SIGNAL = "callback"
PURPOSE = "callback"  # of the token in the address
SENDS_MAX = 5
SEND_TIMEOUT_S = 30.0
TOLD_MAX = 500  # characters of an answer that is told
BODY_BYTES_MAX = 1_000_000
AGAIN = frozenset({408, 425, 429})  # and 5xx: the same call may be taken later

Reached = Callable[[str, str, int], str]  # (task id, step, run) -> address of the callback; raises LongTaskError


def key_of(task_id: str, step: str, run: int) -> str:
    return f"{task_id}/{step}/{run}"


class CallExecutor:
    def __init__(self, render: Render, reached: Reached, allowed: Allowed, *, delay_ms: int = 1_000) -> None:
        """`delay_ms`: before the second send; it doubles."""
        self._render = render
        self._reached = reached
        self._allowed = allowed
        self._delay_ms = delay_ms

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        cause = assignment.cause or {}
        if "signal" in cause:
            return Ended(_told(cause["payload"]))
        key = key_of(assignment.task_id, assignment.step, assignment.run)
        if cause.get("deadline"):
            return Ended(Parked(WaitingFor.EVENT, {**_question(key), "late": True}, desk.now()))
        try:
            request = self._request(assignment, key)
        except (LongTaskError, ValueError) as error:
            return Ended(Failed(str(error), retryable=False))
        return CallHandle(request, assignment, desk, self._delay_ms)

    def _request(self, assignment: Assignment, key: str) -> Request:
        body = assignment.spec.body
        callback = {"url": self._reached(assignment.task_id, assignment.step, assignment.run), "key": key}
        scope = {**assignment.scope, "callback": callback}
        url = as_text(self._render(body["url"], scope))
        sent = self._render(body["body"], scope) if "body" in body else _usual(assignment, callback)
        content = json.dumps(sent, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        if len(content) > BODY_BYTES_MAX:
            raise ValueError(f"its body has {len(content):,} bytes, the limit is {BODY_BYTES_MAX:,}; send an address")
        headers = {name: as_text(self._render(text, scope)) for name, text in (body.get("headers") or {}).items()}
        secrets: JsonMap = body.get("secret_headers") or {}
        for header, name in secrets.items():
            if name not in os.environ:
                raise ValueError(f"secret {name!r} (header {header}) is not in this worker's environment")
            headers[header] = os.environ[name]
        headers |= {"Idempotency-Key": key, "LongTask-Callback": callback["url"]}
        # the address is a key, too: whoever has it may answer
        hidden = Mask([os.environ[name] for name in secrets.values()] + [callback["url"]])
        return Request(url, content, headers, self._allowed, hidden, key)


def _usual(assignment: Assignment, callback: JsonMap) -> JsonMap:
    """Of a call that says no body."""
    return {
        "task": assignment.task_id,
        "step": assignment.step,
        "run": assignment.run,
        "key": callback["key"],
        "callback": callback["url"],
    }


def _question(key: str) -> dict[str, object]:
    return {"name": SIGNAL, "match": {"key": key}}


def _told(payload: JsonMap) -> Outcome:
    if "failed" in payload:
        return Failed(f"the callback says that it failed: {payload['failed']}")
    return Done(payload.get("body"))


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent, the same each time."""

    url: str
    body: bytes
    headers: dict[str, str]
    allowed: Allowed
    hidden: Mask
    key: str

    def post(self) -> Post:
        return Post(self.url, self.body, self.headers, self.allowed, SEND_TIMEOUT_S)

    def safe(self, text: str) -> str:
        return str(self.hidden.value(text))


class CallHandle:
    """Sends in a thread.  A stop lets the send that is under way come to its end, since nobody knows else whether the
    call was taken; `kill` does not."""

    def __init__(self, request: Request, assignment: Assignment, desk: Desk, delay_ms: int) -> None:
        self._request = request
        self._timeout_ms: int | None = assignment.spec.body.get("timeout_ms")
        self._desk = desk
        self._delay_ms = delay_ms
        self._notes: deque[str] = deque()
        self._result: Answer | Failed | Stopped | None = None
        self._stop = threading.Event()
        self._post: Post | None = None
        threading.Thread(target=self._run, name="call", daemon=True).start()

    def poll(self) -> Outcome | None:
        result = self._result
        while self._notes:
            self._desk.output("note", f"{self._notes.popleft()}\n".encode())
        if not isinstance(result, Answer):
            return result
        question = {**_question(self._request.key), "url": shown(self._request.url)}
        due_at = self._desk.now() + self._timeout_ms if self._timeout_ms else 0
        return Parked(WaitingFor.EVENT, question, due_at)

    def stop(self, reason: str, grace_ms: int) -> None:
        self._stop.set()
        timer = threading.Timer(grace_ms / 1000, self._cut)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        self._stop.set()
        self._cut()

    def _cut(self) -> None:
        if self._post is not None:
            self._post.cut("stopped")

    def _run(self) -> None:
        try:
            self._result = self._sent()
        except Exception as error:  # noqa: BLE001  a thread that ends without a word would leave the step running
            self._result = Failed(self._request.safe(f"the call could not be made: {error}"), retryable=False)

    def _sent(self) -> Answer | Failed | Stopped:
        said = ""
        for n in range(1, SENDS_MAX + 1):
            if self._stop.is_set():
                return Stopped()
            self._post = self._request.post()
            wait_ms = backoff_ms(n, self._delay_ms)
            try:
                answer = self._post.send()
            except AddressRefused as error:
                return Failed(str(error), retryable=False)
            except PostError as error:
                if self._stop.is_set():
                    return Stopped()
                said = self._request.safe(str(error))
            else:
                said = f"answer {answer.status}"
                if answer.accepted:
                    self._say(n, said)
                    return answer
                text = self._request.safe(answer.body.decode("utf-8", "replace"))
                said += f": {' '.join(text.split())[:TOLD_MAX]}" if text.strip() else ""
                if 300 <= answer.status < 400:
                    return Failed(f"{shown(self._request.url)}: {said}; redirects are not followed", retryable=False)
                if answer.status < 500 and answer.status not in AGAIN:
                    return Failed(f"{shown(self._request.url)}: {said}", retryable=False)
                if answer.retry_after and answer.retry_after.isdigit():
                    wait_ms = max(wait_ms, min(int(answer.retry_after), 60) * 1000)
            self._say(n, said)
            if n < SENDS_MAX:
                self._stop.wait(wait_ms / 1000)
        return Failed(f"{shown(self._request.url)}: not taken in {SENDS_MAX} sends; the last one: {said}")

    def _say(self, n: int, said: str) -> None:
        self._notes.append(f"POST {shown(self._request.url)} (send {n}): {said}")
