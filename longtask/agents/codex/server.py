"""`codex app-server`: calls over a pipe, without the key that JSON-RPC asks for."""

from __future__ import annotations

from longtask.agents.native.rpc import Peer


class Server(Peer):
    def begin(self, version: str) -> None:
        info = {"name": "longtask", "title": "LongTask", "version": version}
        self.call("initialize", clientInfo=info, capabilities={"experimentalApi": True})
        self.tell("initialized")
