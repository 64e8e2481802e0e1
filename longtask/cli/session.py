"""What one call of the command line shares: settings, output, the parts of LongTask, and how an end is told."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from longtask.boot import Parts, open_parts
from longtask.config import Config, load
from longtask.core.errors import Refused
from longtask.core.machine import status
from longtask.core.model import Step, Task

COMPLETED, FAILED, USAGE, WAITS, CANCELLED, DETACHED = 0, 1, 2, 3, 4, 130
INSIDE = ("LONGTASK_STEP", "LONGTASK_ATTEMPT")


@dataclass(slots=True)
class Session:
    """`json`: machine-readable output was asked for.  `out` is plain when stdout is no terminal."""

    database: str | None = None
    json: bool = False
    out: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False, soft_wrap=True))
    _parts: Parts | None = None

    @property
    def config(self) -> Config:
        return load(self.database)

    @property
    def parts(self) -> Parts:
        if self._parts is None:
            self._parts = open_parts(self.config)
        return self._parts

    def close(self) -> None:
        if self._parts is not None:
            self._parts.store.close()

    @property
    def interactive(self) -> bool:
        """A person sits there: both ends are terminals."""
        return sys.stdin.isatty() and sys.stdout.isatty() and not self.json

    @property
    def me(self) -> str:
        return os.environ.get("LONGTASK_USER") or getpass.getuser()

    def task(self, handle: str) -> Task:
        """By id, prefix, NAME-n or @last.  Raises NotFound."""
        return self.parts.store.get_task(handle)

    def step(self, task: Task, key: str) -> Step:
        return self.parts.desk.step(task.id, key)

    def say(self, text: str = "", **options: Any) -> None:
        if not self.json:
            self.out.print(text, markup=options.pop("markup", False), **options)

    def warn(self, text: str) -> None:
        self.err.print(text, markup=False, style="yellow" if self.err.is_terminal else None)

    def give(self, value: Any) -> None:
        """One JSON document on stdout."""
        print(json.dumps(value, ensure_ascii=False, default=str), flush=True)

    def give_line(self, value: Any) -> None:
        print(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str), flush=True)

    def outside_only(self, verb: str) -> None:
        """A guard-rail: what runs inside a step does not decide about its own task."""
        if any(os.environ.get(name) for name in INSIDE):
            step = os.environ.get("LONGTASK_STEP", "?")
            raise Refused(f"`longtask {verb}` is refused inside a step ({step!r}): a person decides, from outside")


def handle(task: Task) -> str:
    return f"{task.name}-{task.number}"


def exit_code(task: Task) -> int:
    word = status(task)
    return {"completed": COMPLETED, "failed": FAILED, "cancelled": CANCELLED}.get(word, WAITS)


def one_asking(session: Session, task: Task, key: str | None) -> Step:
    """The step that asks: the named one, or the only one.  Raises Refused, NotFound."""
    if key is not None:
        return session.step(task, key)
    asking = [step for _, step in session.parts.store.asking(task_id=task.id, limit=20)]
    if not asking:
        raise Refused(f"task {handle(task)!r} is {status(task)}: nothing asks for a decision")
    if len(asking) > 1:
        names = ", ".join(repr(step.key) for step in asking)
        raise Refused(f"task {handle(task)!r}: several steps ask ({names}); name one")
    return asking[0]


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """`longtask … | head` ends without a complaint."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
