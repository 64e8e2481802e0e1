"""Programs of agents for tests: the real ones, where they are, and a package registry on loopback for fetching them.

The real ones are looked for on the PATH and below `LONGTASK_TEST_AGENTS` (by itself `.venv`, so that they are kept
with the other tools): `longtask dev fetch NAME` with that folder as LONGTASK_HOME puts them there.
CI fetches those of `IN_CI`: there a test that is skipped for want of one of them fails.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from longtask.agents.programs import Program, find

IN_CI = ("opencode",)  # whose installation is well below 500 MB: `.ci/run` fetches it
HOME = Path(os.environ.get("LONGTASK_TEST_AGENTS") or Path(__file__).parents[2] / ".venv")


def program(name: str) -> Program:
    """Skips the test where the program is not here."""
    found = find(name, HOME)
    if found is None:
        reason = f"{name} is not here; `LONGTASK_HOME={HOME} longtask dev fetch {name}` fetches it"
        pytest.skip(reason if name in IN_CI else f"optional: {reason}")
    return found


@pytest.fixture(scope="session")
def claude_code() -> Program:
    return program("claude-code")


@pytest.fixture(scope="session")
def codex() -> Program:
    return program("codex")


@pytest.fixture(scope="session")
def opencode() -> Program:
    return program("opencode")


class Registry:
    """As much of a package registry as npm asks for.  `given`: how often each package's content was taken."""

    def __init__(self, packages: Mapping[tuple[str, str], Mapping[str, str]]) -> None:
        """`packages`: by name and version the files, and what is in them; each file may be run."""
        self.given: Counter[str] = Counter()
        self._packed = {key: _packed(*key, files) for key, files in packages.items()}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, content = registry.answer(unquote(self.path.partition("?")[0])[1:])
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, path: str) -> tuple[int, bytes]:
        for (name, version), content in self._packed.items():
            if path == f"{name}/-/{version}.tgz":
                self.given[name] += 1
                return 200, content
        versions = {version: content for (name, version), content in self._packed.items() if name == path}
        if not versions:
            return 404, b'{"error": "not found"}'
        known = {version: self._entry(path, version, content) for version, content in versions.items()}
        return 200, json.dumps({"name": path, "dist-tags": {"latest": next(iter(known))}, "versions": known}).encode()

    def _entry(self, name: str, version: str, content: bytes) -> dict[str, Any]:
        digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
        dist = {"tarball": f"{self.url}/{name}/-/{version}.tgz", "integrity": f"sha512-{digest}"}
        return {"name": name, "version": version, "dist": dist}

    @contextmanager
    def serving(self) -> Iterator[Registry]:
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


def _packed(name: str, version: str, files: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    whole = {"package.json": json.dumps({"name": name, "version": version}), **files}
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        for path, text in whole.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.mode, entry.size = 0o755, len(text.encode())
            packed.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()
