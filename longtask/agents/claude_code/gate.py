"""Where the hooks of Claude Code ask whether a tool may run: a socket that only this user reaches."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from longtask.core.model import JsonMap

from . import hook

EVENT = "PreToolUse"
ASK_S = 5.0  # a hook that has connected asks at once
WAIT_S = 86_400  # it waits for its answer as long as what it stands before is being saved


@dataclass(frozen=True, slots=True)
class Question:
    """A tool that Claude Code would run.  `agent`: of a subagent, else empty."""

    id: str
    tool: str
    args: JsonMap
    agent: str
    _way: socket.socket

    def allow(self, args: JsonMap | None = None, remark: str = "") -> None:
        """`args`: others than the model's.  `remark`: the model reads it."""
        more = {**({} if args is None else {"updatedInput": args}), **({"additionalContext": remark} if remark else {})}
        self._answer("allow", "allowed", **more)

    def deny(self, why: str) -> None:
        self._answer("deny", why)

    def defer(self) -> None:
        """The program ends, and asks again when its session goes on."""
        self._answer("defer", "a person is asked")

    def _answer(self, decision: str, why: str, **more: object) -> None:
        said = {"hookEventName": EVENT, "permissionDecision": decision, "permissionDecisionReason": why, **more}
        with contextlib.suppress(OSError), self._way:  # a program that was killed meanwhile hears nothing
            self._way.sendall(json.dumps({"hookSpecificOutput": said}).encode())


class Gate:
    """`asked`: questions that have come and were not answered yet; whoever answers takes them out."""

    def __init__(self, path: Path) -> None:
        self.asked: list[Question] = []
        self._path = path
        path.unlink(missing_ok=True)
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(hook.short(str(path)))
        self._door.listen(64)
        path.chmod(0o600)

    def fileno(self) -> int:
        return self._door.fileno()

    @property
    def settings(self) -> JsonMap:
        """For Claude Code: every tool is asked about here."""
        command = " ".join(f'"{word}"' for word in (sys.executable, "-I", "-S", hook.__file__, str(self._path)))
        return {
            "hooks": {
                EVENT: [{"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": WAIT_S}]}],
            }
        }

    def open(self) -> None:
        """Somebody is at the door."""
        way, _ = self._door.accept()
        way.settimeout(ASK_S)
        try:
            said = b""
            while part := way.recv(65_536):
                said += part
            asked = json.loads(said)
            args = asked["tool_input"]
            question = Question(asked["tool_use_id"], asked["tool_name"], args, str(asked.get("agent_id") or ""), way)
        except (OSError, ValueError, KeyError, TypeError):
            way.close()  # its tool is refused
            return
        self.asked.append(question)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._door.close()
        self._path.unlink(missing_ok=True)
