"""How a worker does, in a file that it writes every other second; `longtask health` reads it, for container probes.

A worker that only beats is not in order: what counts is that rounds of work and of scheduling end without an error.
A thread of its own writes, which asks the store nothing, so a worker that hangs still tells that it does.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from longtask import __version__
from longtask.cli.help import commands
from longtask.cli.session import COMPLETED, FAILED, Session
from longtask.engine.loop import Loop
from longtask.plan.duration import duration_ms
from longtask.views.health import STALLED_MS, judged
from longtask.views.words import duration

log = logging.getLogger("longtask.health")

WRITE_EVERY_S = 2.0
ENDED = "the worker has ended"


class HealthFile:
    """Written whole or not at all.  A disk that takes no file leaves an old one, which the reader finds too old."""

    def __init__(
        self,
        path: Path,
        loop: Loop,
        about: dict[str, Any],
        *,
        lease_ms: int,
        stalled_ms: int = STALLED_MS,
        every_s: float = WRITE_EVERY_S,
    ) -> None:
        """`about`: what does not change, such as the worker's id.  Raises OSError: it cannot be written."""
        self._path = path.absolute()
        self._loop = loop
        self._about = {**about, "host": socket.gethostname(), "pid": os.getpid(), "version": __version__}
        self._lease_ms, self._stalled_ms, self._every_s = lease_ms, stalled_ms, every_s
        self._over = threading.Event()
        self._failed = False
        self._write(self.look())
        self._thread = threading.Thread(target=self._keep, name="health", daemon=True)
        self._thread.start()

    def look(self) -> dict[str, Any]:
        pulse = self._loop.pulse()
        at = time.time_ns() // 1_000_000
        wrong = judged(pulse, self._lease_ms, self._stalled_ms)
        return {
            "at": at,
            **self._about,
            "ok": wrong is None,
            "reason": wrong or pulse.reason,
            "running": pulse.running,
            "progress_at": at - pulse.progress_age_ms,
            "beat_at": at - pulse.beat_age_ms,
        }

    def close(self) -> None:
        """The last that it tells: it has ended."""
        self._over.set()
        self._thread.join()
        with suppress(OSError):
            self._write({**self.look(), "ok": False, "reason": ENDED})

    def _keep(self) -> None:
        while not self._over.wait(self._every_s):
            try:
                self._write(self.look())
                self._failed = False
            except OSError as error:
                if not self._failed:
                    log.warning("health.error file=%s: %s", self._path, error.strerror)
                self._failed = True

    def _write(self, content: dict[str, Any]) -> None:
        handle, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(json.dumps(content) + "\n")
                os.fchmod(file.fileno(), 0o644)  # the probe may be another user
            os.replace(name, self._path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise


def register(app: typer.Typer) -> None:
    command = commands(app, "Operate")

    @command()
    def health(
        ctx: typer.Context,
        file: Annotated[Path, typer.Argument(help="what `longtask worker --health FILE` writes")],
        max_age: Annotated[
            str, typer.Option("--max-age", metavar="TIME", help="an older file is not believed; default: 30s")
        ] = "30s",
    ) -> int:
        """Tell whether a worker is in order: exit code 0 if it is, else 1, and one line that says why.

        For the probes of containers: the file is that of `longtask worker --health FILE`. Neither the worker nor the
        database is asked. A worker that beats but makes no progress is not in order.

        Examples:
            longtask health /run/longtask.json
            longtask health /run/longtask.json --max-age 10s || echo restart it
        """
        session: Session = ctx.obj
        age_max_ms = duration_ms(max_age)
        told = read(file, age_max_ms, time.time_ns() // 1_000_000)
        if session.json:
            session.give(told)
        elif told["ok"]:
            session.say(
                f"ok: worker {told.get('worker')} runs {told.get('running')} of {told.get('slots')}"
                + (f"; {told['reason']}" if told.get("reason") else "")
            )
        else:
            session.say(f"not ok: {told['reason']}")
        return COMPLETED if told["ok"] else FAILED


def read(file: Path, age_max_ms: int, now: int) -> dict[str, Any]:
    """What the file tells, with `ok` and `reason` as of now."""
    try:
        told = json.loads(file.read_text())
        age_ms = now - int(told["at"])
        told = {**told, "ok": bool(told["ok"])}
    except OSError as error:
        return {"ok": False, "reason": f"file {str(file)!r}: {(error.strerror or str(error)).lower()}"}
    except (ValueError, KeyError, TypeError):
        return {"ok": False, "reason": f"file {str(file)!r} was not written by a worker"}
    if told["ok"] and age_ms > age_max_ms:
        text = f"file {str(file)!r} is {duration(age_ms)} old: its worker has ended, is frozen or cannot write it"
        return {**told, "ok": False, "reason": text}
    return told
