"""`codex app-server`: JSON objects on a pipe, one a line, without the key that JSON-RPC asks for.

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


@dataclass(frozen=True, slots=True)
class Question:
    method: str
    params: JsonMap
    _id: Any
    _program: Launch

    def answer(self, result: JsonMap) -> None:
        self._program.send({"id": self._id, "result": result})

    def refuse(self, why: str) -> None:
        self._program.send({"id": self._id, "error": {"code": -32_601, "message": why}})


class CallFailed(ProgramError):
    """The server answers with an error."""


class Server:
    def __init__(self, program: Launch) -> None:
        self._program = program
        self._calls = 0
        self.notices: deque[tuple[str, JsonMap]] = deque()
        self.questions: deque[Question] = deque()
        self.ended = False

    @property
    def said(self) -> str:
        """The last of what the program has written to stderr."""
        return self._program.said

    def begin(self, version: str) -> None:
        info = {"name": "longtask", "title": "LongTask", "version": version}
        self.call("initialize", clientInfo=info, capabilities={"experimentalApi": True})
        self._program.send({"method": "initialized"})

    def call(self, method: str, **params: Any) -> JsonMap:
        """What it answers.  Raises CallFailed, ProgramError."""
        answers: list[JsonMap] = []
        number = self.ask(method, **params)
        waited_s = 0.0
        while not answers:
            if not self.hear(lambda message: answers.append(message) if message["id"] == number else None):
                waited_s += LOOK_S
            if self.ended or waited_s > ANSWER_S:
                raise ProgramError(f"the program does not answer {method!r}: {self._program.said or 'it says nothing'}")
        if "error" in answers[0]:
            raise CallFailed(f"the program refuses {method!r}: {answers[0]['error'].get('message')}")
        return dict(answers[0].get("result") or {})

    def ask(self, method: str, **params: Any) -> int:
        """Without waiting for the answer."""
        self._calls += 1
        self._program.send({"method": method, "id": self._calls, "params": params})
        return self._calls

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
            question = Question(message["method"], message.get("params") or {}, message["id"], self._program)
            self.questions.append(question)
        else:
            self.notices.append((message["method"], message.get("params") or {}))
        return True
