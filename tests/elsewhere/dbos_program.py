"""Run by the Python of a DBOS environment: an HTTP server that begins a durable workflow for each call.

    python dbos_program.py FOLDER        prints its port

The call's idempotency key is the workflow's id, so that a call which is sent again begins nothing new.  The workflow
writes a line for each of its runs, and answers to the callback's address as its last step.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

FOLDER = Path(sys.argv[1])


@DBOS.step()
def work(commit: str) -> str:
    with (FOLDER / "ran").open("a") as file:
        file.write(f"{commit}\n")
    return commit[:4]


@DBOS.step()
def tell(address: str, short: str) -> None:
    body = json.dumps({"short": short, "by": "dbos"}).encode()
    request = urllib.request.Request(address, body, {"content-type": "application/json"}, method="POST")
    urllib.request.urlopen(request, timeout=30).read()


@DBOS.workflow()
def deploy(commit: str, address: str) -> None:
    tell(address, work(commit))


class Calls(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with SetWorkflowID(self.headers["idempotency-key"]):
            DBOS.start_workflow(deploy, asked["commit"], asked["answer_to"])
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


config = DBOSConfig(
    name="elsewhere", system_database_url=f"sqlite:///{FOLDER / 'dbos.db'}", log_level="ERROR", run_admin_server=False
)
DBOS(config=config)
DBOS.launch()
server = ThreadingHTTPServer(("127.0.0.1", 0), Calls)
print(server.server_port, flush=True)
server.serve_forever()
