"""An MCP server of the standard library: one tool, which writes down that it was called.  As a program over stdio, and
over HTTP for tests in this process."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

TOOL = {
    "name": "close",
    "description": "Close a ticket.",
    "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}


def answer(method: str, params: dict) -> dict | None:
    """None: no such method."""
    if method == "initialize":
        told = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
        return {**told, "serverInfo": {"name": "tickets", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        with open("closed.txt", "a") as closed:
            print(params["arguments"]["number"], file=closed)
        seen = sorted(name for name in os.environ if "KEY" in name or "TOKEN" in name)
        return {"content": [{"type": "text", "text": f"closed; sees {seen}"}], "isError": False}
    return None


def reply(message: dict) -> dict | None:
    """None: it was a notification."""
    if "id" not in message:
        return None
    result = answer(message["method"], message.get("params", {}))
    missing = {"error": {"code": -32601, "message": "no such method"}}
    return {"jsonrpc": "2.0", "id": message["id"], **({"result": result} if result else missing)}


class Handler(BaseHTTPRequestHandler):
    """Keeps what each request was authorized by."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        self.seen.append(self.headers["Authorization"])
        said = reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        content = b"" if said is None else json.dumps(said).encode()
        self.send_response(202 if said is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    for line in sys.stdin:
        said = reply(json.loads(line))
        if said is not None:
            print(json.dumps(said), flush=True)
