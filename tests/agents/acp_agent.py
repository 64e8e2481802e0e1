"""An agent that speaks the Agent Client Protocol and says what a script tells it, for what real ones do now and then.

    python acp_agent.py SCRIPT.json

    {"load": true, "lost": false, "resume": true, "auth": false, "stops_when_refused": true, "turns": [
        {"text": "I look.", "calls": ["ls"], "asks": ["terminal/create"]},
        {"text": "Done.", "stop": "end_turn", "usage": {"inputTokens": 7, "outputTokens": 3}}]}

`lost`: what it loads is empty.  `resume`: it says that it does, and knows nothing of it.
Which turn is next, and what it has heard, stand beside the script: they outlive its processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Agent:
    def __init__(self, script: Path) -> None:
        self._script = json.loads(script.read_text())
        self._at = script.with_suffix(".at")
        self._heard = script.with_suffix(".heard")
        self._asked = 0

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            with self._heard.open("a") as heard:
                heard.write(line)
            if "id" in message and "method" in message:
                self._answer(message)

    def _answer(self, message: dict[str, Any]) -> None:
        match message["method"]:
            case "initialize":
                able: dict[str, Any] = {"sessionCapabilities": {"resume": {}}} if self._script.get("resume") else {}
                able["loadSession"] = self._script.get("load", False)
                result = {"protocolVersion": 1, "agentCapabilities": able}
            case "session/resume":
                result = {"error": {"code": -32601, "message": "Method not found"}}
            case "session/new" if self._script.get("auth"):
                self._send(id=message["id"], error={"code": -32000, "message": "Authentication required"})
                return
            case "session/new":
                option = {"id": "which", "category": "model", "currentValue": "small"}
                result = {"sessionId": "one", "configOptions": [option]}
            case "session/load":
                self._update(sessionUpdate="available_commands_update", availableCommands=[])
                if not self._script.get("lost"):
                    said = {"type": "text", "text": "Said long ago."}
                    self._update(sessionUpdate="agent_message_chunk", content=said)
                result = {}
            case "session/prompt":
                result = self._play()
            case _:
                result = {}
        known = "error" not in result
        self._send(id=message["id"], **({"result": result} if known else result))

    def _play(self) -> dict[str, Any]:
        while True:
            at = int(self._at.read_text()) if self._at.exists() else 0
            turn = self._script["turns"][at]
            self._at.write_text(str(at + 1))
            if "error" in turn:
                return {"error": turn["error"]}
            if turn.get("text"):
                self._update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": turn["text"]})
            if "cost" in turn:
                cost = {"amount": turn["cost"], "currency": "USD"}
                self._update(sessionUpdate="usage_update", used=1, size=2, cost=cost)
            if "used" in turn:
                told = {"usage": turn["used"]}
                self._update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": ""}, _meta=told)
            for method in turn.get("asks", ()):
                self._ask(method, sessionId="one")
            allowed = [self._call(f"{at}-{n}", command) for n, command in enumerate(turn.get("calls", ()))]
            if not allowed or (not all(allowed) and self._script.get("stops_when_refused")):
                return {"stopReason": turn.get("stop", "end_turn"), "usage": turn.get("usage")}

    def _call(self, id: str, command: str) -> bool:
        about = {"toolCallId": id, "kind": "execute", "rawInput": {"command": command}}
        self._update(sessionUpdate="tool_call", title="run", status="pending", **about)
        options = [{"optionId": kind, "kind": kind, "name": kind} for kind in ("allow_once", "reject_once")]
        answer = self._ask("session/request_permission", sessionId="one", toolCall=about, options=options)
        allowed = answer["result"]["outcome"].get("optionId") == "allow_once"
        said = "refused"
        if allowed:
            said = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True).stdout
        content = [{"type": "content", "content": {"type": "text", "text": said}}]
        status = "completed" if allowed else "failed"
        self._update(sessionUpdate="tool_call_update", toolCallId=id, status=status, content=content)
        return allowed

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._asked += 1
        self._send(id=self._asked, method=method, params=params)
        for line in sys.stdin:
            with self._heard.open("a") as heard:
                heard.write(line)
            message = json.loads(line)
            if message.get("id") == self._asked and "method" not in message:
                return dict(message)
        raise SystemExit(0)

    def _update(self, **update: Any) -> None:
        self._send(method="session/update", params={"sessionId": "one", "update": update})

    def _send(self, **message: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    Agent(Path(sys.argv[1])).serve()
