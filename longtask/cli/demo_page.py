"""The page beside the demo: a server of its own on the demo's database, for as long as the demo lasts.

However the demo ends, it ends: where it cannot be told any more, the system tells it that its parent is gone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longtask.cli.browser import page_is_built
from longtask.config import DATABASE
from longtask.steps.warden import PR_SET_PDEATHSIG, prctl

DYING_S = 15


@contextmanager
def server_beside(database: str, place: Path) -> Iterator[str | None]:
    """Its address; None: it does not run, and the demo goes without it.  Its log lies in `place`."""
    # not as an argument, which every user of the machine can read: a URL may hold a password
    environment = {**os.environ, DATABASE: database}
    log = place / "server.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "longtask.cli.main", "server", "--port", "0", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env=environment,
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )
    try:
        yield _told(process)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=DYING_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.communicate()


def _told(process: subprocess.Popen[bytes]) -> str | None:
    assert process.stdout is not None
    try:
        return str(json.loads(process.stdout.readline())["url"])
    except (ValueError, KeyError):
        return None


def where_to_watch(url: str | None, task_id: str, log: Path) -> str:
    if url is None:
        return f"the page does not run; {log} tells why"
    if not page_is_built():
        return f"the API is served at {url}/v1/tasks/{task_id}; its page is not built here: make page"
    return f"watch and approve in the page: {url}/tasks/{task_id}"
