"""What one call of the command line shares: settings, output, the parts of LongTask, and how things are named."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from longtask.boot import Parts, open_parts
from longtask.cli.paint import Line, Paper, ReaderGone
from longtask.client.course import Limits
from longtask.client.servers import SERVER
from longtask.config import Config, load, person
from longtask.core.errors import NotFound, Refused
from longtask.core.graph import did_you_mean
from longtask.core.machine import status
from longtask.core.model import Step, Task
from longtask.views.reasons import ASKING_MAX, Face
from longtask.views.words import handle

if TYPE_CHECKING:
    from longtask.client.client import Client  # it loads httpx, which most commands do without

COMPLETED, FAILED, USAGE, WAITS, CANCELLED, DETACHED = 0, 1, 2, 3, 4, 130
INSIDE = ("LONGTASK_STEP", "LONGTASK_MARK")  # set in what a step starts
PATIENCE = Limits(patience_s=5.0)  # somebody waits at a terminal
TASKS_SUGGESTED_FROM = 200
TASK = "id, prefix of it (8 characters or more), NAME-n, or @last"  # help text of the argument


class Session:
    """`json`: machine-readable output was asked for.  `submitting`: what is refused now was never begun."""

    def __init__(self, database: str | None = None, json: bool = False) -> None:
        self.database = database
        self.server: str | None = None  # who answers in place of a database: its address
        self.json = json
        self.submitting = False
        self.environment: dict[str, str] = {}  # what printed commands must be called with (the demo's own folder)
        self.out = Paper(sys.stdout)
        self.err = Paper(sys.stderr)
        self.above: Callable[[str], None] | None = None  # while a live view is drawn, which warnings would tear apart
        self._parts: Parts | None = None
        self._client: Client | None = None

    @property
    def config(self) -> Config:
        return load(self.database)

    @property
    def parts(self) -> Parts:
        if self._parts is None:
            self._parts = open_parts(self.config)
        return self._parts

    @property
    def client(self) -> Client:
        """Of the server that was named."""
        if self._client is None:
            from longtask.client.client import Client

            self._client = Client(self.server, limits=PATIENCE)
        return self._client

    @property
    def face(self) -> Face:
        return Face(self.parts.store, self.command, self.parts.records.value)

    def close(self) -> None:
        if self._parts is not None:
            self._parts.store.close()
        if self._client is not None:
            self._client.close()

    @property
    def interactive(self) -> bool:
        """A person sits there: both ends are terminals."""
        return sys.stdin.isatty() and self.out.terminal and not self.json

    @property
    def live(self) -> bool:
        return self.interactive and os.environ.get("TERM", "dumb") != "dumb"

    @property
    def me(self) -> str:
        return person()

    # tasks and steps by name

    def task(self, name: str) -> Task:
        """By id, prefix, NAME-n or @last.  Raises NotFound that names the nearest, Refused when several fit."""
        store = self.parts.store
        try:
            return store.get_task(name)
        except NotFound:
            if name == "@last":
                raise NotFound("there is no task yet; begin with: longtask init, or: longtask demo") from None
            newest = store.tasks(open_only=False, workspace_id=None, before=0, limit=TASKS_SUGGESTED_FROM)
            same = [handle(task) for task in newest if task.name == name]
            hint = f"; did you mean {same[0]!r}?" if same else did_you_mean(name, [handle(task) for task in newest])
            raise NotFound(f"no task {name!r}{hint or '; list them: ' + self.command('ls')}") from None

    def step(self, task: Task, key: str) -> Step:
        """Raises NotFound that names the nearest."""
        try:
            return self.parts.desk.step(task.id, key)
        except NotFound as error:
            more = "" if "did you mean" in str(error) else f"; look: {self.command('show', handle(task))}"
            raise NotFound(f"{str(error).replace('task has', f'task {handle(task)!r} has')}{more}") from None

    def command(self, *words: str) -> str:
        """A command as the user would have to type it."""
        given = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        where = ["--database", shlex.quote(self.config.database_shown)] if self.database else []
        if self.server is not None and self.server != os.environ.get(SERVER):
            where = ["--server", shlex.quote(self.server)]
        return " ".join([*given, _program(), *where, *(w if w.isupper() else shlex.quote(w) for w in words)])

    # output

    def say(self, line: Line | str = "", *, crop: bool = False) -> None:
        """For people; nothing when JSON was asked for."""
        if not self.json:
            self.out.write(line, crop=crop)

    def warn(self, text: str) -> None:
        if self.above is not None:
            self.above(text)
        else:
            self.err.write([(text, "yellow")])

    def give(self, value: Any) -> None:
        """The JSON document of a command, on one line of stdout."""
        self._json(value)

    def give_line(self, value: Any) -> None:
        """One document of many, a line each."""
        self._json(value, separators=(",", ":"))

    def _json(self, value: Any, **options: Any) -> None:
        text = json.dumps(value, ensure_ascii=not self.out.whole_unicode, default=str, **options)
        try:
            text.encode()
        except UnicodeEncodeError:  # a name that is no UTF-8, as a lone surrogate
            text = json.dumps(value, default=str, **options)
        self.out.raw(text + "\n")

    def outside_only(self, verb: str) -> None:
        """A guard-rail: what runs inside a step does not decide about tasks."""
        if inside_step():
            step = os.environ.get("LONGTASK_STEP", "?")
            raise Refused(f"`longtask {verb}` is refused inside a step ({step!r}): a person decides, from outside")


def inside_step() -> bool:
    return any(os.environ.get(name) for name in INSIDE)


def exit_code(task: Task) -> int:
    return {"completed": COMPLETED, "failed": FAILED, "cancelled": CANCELLED}.get(status(task), WAITS)


def _program() -> str:
    """`longtask`, or the path it was called by when it is not the one on the PATH."""
    called = sys.argv[0]
    found = shutil.which("longtask")
    if os.path.basename(called) != "longtask" or (found and os.path.realpath(found) == os.path.realpath(called)):
        return "longtask"
    return shlex.quote(called)


def one_asking(session: Session, task: Task, key: str | None) -> Step:
    """The step that asks: the named one, or the only one.  Raises Refused, NotFound."""
    if key is not None:
        return session.step(task, key)
    asking = [step for _, step in session.parts.store.asking(task_id=task.id, limit=ASKING_MAX)]
    if not asking:
        why = session.command("why", handle(task))
        raise Refused(f"task {handle(task)!r} is {status(task)}: nothing asks for a decision; {why}")
    if len(asking) > 1:
        names = ", ".join(repr(step.key) for step in asking)
        raise Refused(f"task {handle(task)!r}: several steps ask ({names}); name one")
    return asking[0]


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """`longtask … | head` ends without a complaint, also of what is written out at the very end."""
    try:
        yield
        sys.stdout.flush()
    except (ReaderGone, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
