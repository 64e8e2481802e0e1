"""Writes a task that has ended into one file.

What the file says of itself comes first, so what is small and made here (rows as lines, the bundle) is written aside
before; artifacts go straight through.  Nothing is kept in memory but a page of rows, and the names of artifacts.

What is written was redacted when it came in.  The journal of an agent's run is kept as its model saw it, for the model;
here, as wherever people see it, what looks like a key is taken out of it too.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from longtask import __version__
from longtask.archive import manifest as m
from longtask.archive.container import Writer
from longtask.archive.manifest import File, Manifest
from longtask.core.codec import dump_fact, dump_json, form
from longtask.core.errors import NotFound, Refused
from longtask.core.events import Event, TaskSubmitted
from longtask.core.machine import status
from longtask.core.model import Json, JsonMap, Signal, Step, Task
from longtask.redaction import redact_value
from longtask.store.archives import RunCall, Written
from longtask.store.artifacts import ArtifactStore
from longtask.store.contract import Store
from longtask.store.upkeep import SESSION, VALUE
from longtask.workspace import bundle
from longtask.workspace.workspace import Workspace

PAGE = 500
OUTPUT_PAGE = 50  # chunks have 64 KB
ARTIFACTS_MAX = 1_000_000
T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Exported:
    """`missing`: names of artifacts whose bytes are gone, so that the file does not hold them."""

    task: Task
    sha256: str
    size_bytes: int
    files: int
    missing: tuple[str, ...] = ()


class Exporter:
    """`workspace` opens one by its id, or raises NotFound."""

    def __init__(self, store: Store, artifacts: ArtifactStore, workspace: Callable[[str], Workspace]) -> None:
        self._store, self._artifacts, self._workspace = store, artifacts, workspace

    def write(self, task_id: str, target: Path) -> Exported:
        """The file appears whole or not at all; of one state of a task it has the same bytes every time.

        Raises Refused: the task has not ended, or moves.  Raises LongTaskError, OSError.
        """
        task = self._store.get_task(task_id)
        if not task.ended:
            raise Refused(
                f"task {task.name}-{task.number!r} is {status(task)}: export it when it has ended; an open task is "
                "more than its journal, and two installations must not go on with it; to look at it so far: "
                "longtask events, logs or diff; to keep all tasks as they are: back up the database"
            )
        handle, made = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file, tempfile.TemporaryDirectory(prefix="longtask-export-") as folder:
                exported = self._write(task, Path(folder), file)
                file.flush()
                os.fsync(file.fileno())
            if self._store.get_task(task.id).seq != task.seq:
                raise Refused(f"task {task.name}-{task.number!r} was taken up again while it was read; export it later")
            os.replace(made, target)
        finally:
            Path(made).unlink(missing_ok=True)
        return exported

    def _write(self, task: Task, folder: Path, file: BinaryIO) -> Exported:
        aside = _Aside(folder)
        aside.add(m.TASK, [json.dumps(form(Task).dump(task), indent=1, sort_keys=True) + "\n"])
        if (plan := self._store.get_plan(task.id)) is not None:
            aside.add(m.PLAN, [plan])
        aside.add(m.JOURNAL, map(_event_line, self._events(task.id)))
        aside.add(m.STEPS, (_line(form(Step).dump(step)) for step in self._steps(task.id)))
        aside.add(m.INBOX, (_line(form(Signal).dump(signal)) for signal in self._inbox(task.id)))
        aside.add(m.CALLS, map(_call_line, self._calls(task.id)))
        aside.add(m.OUTPUT, map(_output_line, self._output(task.id)))
        about = self._code(task, aside)
        blobs, missing, lost = self._blobs(task, aside)
        of = {"id": task.id, "name": task.name, "number": task.number, "state": str(task.state),
              "workspace": task.workspace_id, "base": task.base, "head": task.head}  # fmt: skip
        told = Manifest(
            f"longtask {__version__}", self._store.identity(), of, [*aside.files, *blobs], about, sorted(missing)
        )
        counted = _Counted(file)
        content = told.dump()
        writer = Writer(counted)
        with (folder / m.NAME).open("w+b") as first:
            first.write(content)
            first.seek(0)
            writer.add(m.NAME, len(content), first)
        for entry in told.files:
            with aside.open(entry.name) or self._artifacts.open(task.workspace_id, entry.sha256) as source:
                writer.add(entry.name, entry.size_bytes, source)
        writer.close()
        return Exported(task, counted.sha256, counted.size_bytes, len(told.files), lost)

    def _code(self, task: Task, aside: _Aside) -> JsonMap | None:
        if not task.workspace_id or task.head is None or task.base is None:
            return None
        hub = self._workspace(task.workspace_id).hub
        target = aside.folder / m.CODE
        bundle.write(hub, task.id, task.base, task.head, target)
        aside.take(m.CODE, target)
        return bundle.known(hub)

    def _blobs(self, task: Task, aside: _Aside) -> tuple[list[File], set[str], tuple[str, ...]]:
        """Files; digests that a row names and whose bytes are gone; the names of such artifacts.  What is named in the
        journal alone was a value of a step that has had another one since, and is there or not."""
        named = {row.digest: row.name for row in self._store.artifacts(task.id, ARTIFACTS_MAX)}
        named |= {digest: f"a value of a step ({digest[:12]})" for digest in aside.values(m.STEPS) - named.keys()}
        files: list[File] = []
        missing: set[str] = set()
        for digest in sorted(named.keys() | aside.values(m.JOURNAL)):
            if self._artifacts.has(task.workspace_id, digest):
                with suppress(NotFound):
                    size = self._artifacts.path(task.workspace_id, digest).stat().st_size
                    files.append(File(f"{m.BLOBS}{digest}", size, digest))
                    continue
            if digest in named:
                missing.add(digest)
        return files, missing, tuple(sorted({named[digest] for digest in missing}))

    # what a store tells, in pages

    def _events(self, task_id: str) -> Iterator[Event]:
        yield from _pages(lambda after: self._store.events(task_id, after, PAGE), lambda event: event.seq, 0)

    def _steps(self, task_id: str) -> Iterator[Step]:
        yield from _pages(lambda after: self._store.steps(task_id, after, PAGE), lambda step: step.key, "")

    def _inbox(self, task_id: str) -> Iterator[Signal]:
        yield from _pages(lambda after: self._store.inbox(task_id, after, PAGE), lambda signal: signal.number, 0)

    def _calls(self, task_id: str) -> Iterator[RunCall]:
        def page(after: tuple[str, int, int]) -> list[RunCall]:
            return self._store.calls_of_task(task_id, after, PAGE)

        yield from _pages(page, lambda call: (call.step, call.run, call.n), ("", 0, 0))

    def _output(self, task_id: str) -> Iterator[Written]:
        def page(after: tuple[str, int, int]) -> list[Written]:
            return self._store.output_of_task(task_id, after, OUTPUT_PAGE)

        yield from _pages(page, lambda one: (one.step, one.attempt, one.n), ("", 0, 0))


class _Aside:
    """Files that are written before it is known how long they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[File] = []
        self._values: dict[str, set[str]] = {}

    def add(self, name: str, texts: Iterable[str]) -> None:
        values: set[str] = set()
        with (self.folder / name).open("wb") as file:
            for text in texts:
                values.update(VALUE.findall(text))
                file.write(text.encode())
        self._values[name] = values
        self.take(name, self.folder / name)

    def take(self, name: str, file: Path) -> None:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        self.files.append(File(name, file.stat().st_size, digest))

    def values(self, name: str) -> set[str]:
        """Digests of what was too large to stand in the rows of this file."""
        return self._values[name]

    def open(self, name: str) -> BinaryIO | None:
        return (self.folder / name).open("rb") if "/" not in name else None


class _Counted:
    """A file, with the sum of what was written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._sum, self.size_bytes = file, hashlib.sha256(), 0

    def write(self, content: bytes) -> None:
        self._file.write(content)
        self._sum.update(content)
        self.size_bytes += len(content)

    @property
    def sha256(self) -> str:
        return self._sum.hexdigest()


def _pages(page: Callable[[K], Sequence[T]], key: Callable[[T], K], after: K) -> Iterator[T]:
    while found := page(after):
        yield from found
        after = key(found[-1])


def _line(value: Json) -> str:
    return dump_json(value) + "\n"


def _event_line(event: Event) -> str:
    fact = event.fact
    if isinstance(fact, TaskSubmitted):
        fact = replace(fact, number=0)  # each installation counts its own
    kind, v, body = dump_fact(fact)
    told: dict[str, Any] = {"seq": event.seq, "at": event.at, "kind": kind, "v": v, "actor": event.actor}
    return _line({**told, "op": event.op, "body": json.loads(body)})


def _call_line(call: RunCall) -> str:
    body = call.body
    if isinstance(body, dict):
        # blocks of a session that only an open step goes on from
        body = {key: value for key, value in body.items() if key != SESSION}
    return _line(call._replace(body=redact_value(body))._asdict())


def _output_line(one: Written) -> str:
    return _line({**one._asdict(), "body": b64encode(one.body).decode()})
