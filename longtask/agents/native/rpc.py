"""Calls both ways over a pipe: JSON objects, one a line, as JSON-RPC words them.

Three things come: answers to our calls, what has happened (`notices`), and questions (`questions`), which are answered
later, in any order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longtask.agents.native.program import Launch, ProgramError
from longtask.core.model import JsonMap

LOOK_S = 1.0
ANSWER_S = 60.0  # of calls that no model is asked for
UNKNOWN_METHOD = -32_601


@dataclass(frozen=True, slots=True)
class Question:
    method: str
    params: JsonMap
    _id: Any
    _send: Callable[[JsonMap], None]

    def answer(self, result: JsonMap) -> None:
        self._send({"id": self._id, "result": result})

    def refuse(self, why: str) -> None:
        self._send({"id": self._id, "error": {"code": UNKNOWN_METHOD, "message": why}})


class CallFailed(ProgramError):
    """The other side answers with an error: {code, message, data?}."""

    def __init__(self, method: str, error: JsonMap) -> None:
        super().__init__(f"the program refuses {method!r}: {error.get('message')}")
        self.error = error


class Peer:
    """`stamp`: keys that each message has; not all programs want the one that JSON-RPC asks for."""

    def __init__(self, program: Launch, *, stamp: JsonMap | None = None, answer_s: float = ANSWER_S) -> None:
        self._program = program
        self._stamp = stamp or {}
        self._answer_s = answer_s
        self._calls = 0
        self.notices: deque[tuple[str, JsonMap]] = deque()
        self.questions: deque[Question] = deque()
        self.ended = False

    @property
    def said(self) -> str:
        """The last of what the program has written to stderr."""
        return self._program.said

    def call(self, method: str, **params: Any) -> JsonMap:
        """What it answers.  Raises CallFailed, ProgramError."""
        answers: list[JsonMap] = []
        number = self.ask(method, **params)
        waited_s = 0.0
        while not answers:
            if not self.hear(lambda message: answers.append(message) if message["id"] == number else None):
                waited_s += LOOK_S
            if self.ended or waited_s > self._answer_s:
                raise ProgramError(f"the program does not answer {method!r}: {self._program.said or 'it says nothing'}")
        if "error" in answers[0]:
            raise CallFailed(method, answers[0]["error"])
        return dict(answers[0].get("result") or {})

    def ask(self, method: str, **params: Any) -> int:
        """Without waiting for the answer."""
        self._calls += 1
        self._send({"method": method, "id": self._calls, "params": params})
        return self._calls

    def tell(self, method: str, **params: Any) -> None:
        self._send({"method": method, **({"params": params} if params else {})})

    def hear(self, answered: Callable[[JsonMap], object] = lambda message: None) -> bool:
        """Waits a moment for the next message; False: nothing came."""
        message = self._program.next(LOOK_S)
        if message is None:
            self.ended = True
        elif not message:
            return False
        elif "method" not in message:
            answered(message)
        elif "id" in message:
            question = Question(message["method"], message.get("params") or {}, message["id"], self._send)
            self.questions.append(question)
        else:
            self.notices.append((message["method"], message.get("params") or {}))
        return True

    def _send(self, message: JsonMap) -> None:
        self._program.send({**self._stamp, **message})
