"""Reads a task out of one file, written by another installation.

1. The whole file is unpacked aside, every length and sum compared with the manifest, and the end of the file looked at.
2. The journal is folded by the machine, and header and rows must be what the file tells of them; the same audit that
   `longtask doctor` makes must find nothing.  The bundle must hold the task's commits, whole.
3. Only then something is stored: bytes of artifacts, then commits, then all rows in one transaction, then output, then
   references.  What a kill leaves before the rows is in nobody's way (bytes that no row names are collected, objects
   that no reference holds too); what is lacking after them is made up for by importing the same file again.

The task has its own id and journal here and a number of this store.  That it was brought, by whom and out of which
file, stands in its inbox as a signal, `task.imported`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from longtask.archive import manifest as m
from longtask.archive.container import BadArchive, Reader
from longtask.archive.manifest import Manifest
from longtask.core import codec, machine
from longtask.core.change import ArtifactRow, Change
from longtask.core.errors import LongTaskError, NotFound, Refused, StoreError, WorkspaceError
from longtask.core.events import Event, TaskSubmitted
from longtask.core.model import JsonMap, Signal, Step, Task
from longtask.core.oracle import audit
from longtask.store.archives import Brought, RunCall, Written
from longtask.store.artifacts import ArtifactStore
from longtask.store.contract import Store
from longtask.workspace.bundle import Bundle
from longtask.workspace.hub import Hub

log = logging.getLogger("longtask.archive")

SIGNAL = "task.imported"
SHOWN_MAX = 3  # of what is wrong
OUTPUT_SLICE = 50
FREE_BYTES_MIN = 100_000_000  # that stay free where the file is unpacked
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Imported:
    """`again`: this very file was imported before.  `told`: what could not be done, though the task is there."""

    task: Task
    again: bool = False
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Folded:
    task: Task
    change: Change
    events: list[Event]
    artifacts: list[tuple[ArtifactRow, int]]
    signals: list[Signal]
    plan: str | None


class Importer:
    """`home` and `shared` (LONGTASK_HUB): where hubs are."""

    def __init__(self, store: Store, artifacts: ArtifactStore, home: Path, shared: str | None) -> None:
        self._store, self._artifacts, self._home, self._shared = store, artifacts, home, shared

    def read(self, file: Path, who: str, may: Callable[[str], None] = lambda workspace_id: None) -> Imported:
        """`may` raises if `who` may not bring a task into that workspace ("": none).

        Raises BadArchive; Refused: a task of this id is there already.  Raises LongTaskError, OSError.
        """
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="longtask-import-")))
            told, mark = _unpack(file, folder, may)
            there = self._there(told.task["id"])
            again = there is not None and self._is_from(there, mark)
            if there is not None and not again:
                raise Refused(
                    f"task {there.name}-{there.number!r} ({there.id}) is here already; nothing was imported: a task "
                    "is in one installation once"
                )
            folded = _folded(told, folder)
            bundle = _opened(stack, told, folder)
            return self._bring(told, folder, folded, bundle, mark, who, again)

    def _bring(
        self, told: Manifest, folder: Path, folded: _Folded, bundle: Bundle | None, mark: str, who: str, again: bool
    ) -> Imported:
        workspace_id = folded.task.workspace_id
        for blob in told.files:
            if blob.name.startswith(m.BLOBS):
                with (folder / blob.sha256).open("rb") as content:
                    self._artifacts.put(workspace_id, content)
        hub = None
        if bundle is not None:
            assert told.code is not None
            hub = bundle.take(self._home, workspace_id, told.code, self._shared)
        if not again:
            again = not self._store_rows(folded, folder, Signal(0, mark, SIGNAL, _origin(told), who, self._store.now()))
        written = _lines(folder / m.OUTPUT, _written)
        while some := list(islice(written, OUTPUT_SLICE)):
            self._store.bring_output(folded.task.id, some)
        log.info("task.imported task=%s", folded.task.id)
        missed = () if hub is None or bundle is None else _point(bundle, hub, folded.task)
        return Imported(self._store.get_task(folded.task.id), again, missed)

    def _store_rows(self, folded: _Folded, folder: Path, note: Signal) -> bool:
        """False: another call has imported the same file meanwhile."""
        signals = [*folded.signals, replace(note, number=len(folded.signals) + 1)]
        try:
            self._store.bring(
                Brought(folded.change, folded.events, folded.artifacts, signals, _calls(folder), folded.plan)
            )
        except Refused:
            there = self._there(folded.task.id)
            if there is None or not self._is_from(there, note.delivery):
                raise
            return False
        except (TypeError, ValueError, OverflowError) as error:  # of a kind that no column takes
            raise BadArchive(f"the archive holds a value that cannot be kept: {error}") from error
        return True

    def _there(self, task_id: str) -> Task | None:
        try:
            found = self._store.get_task(task_id)
        except NotFound:
            return None
        return found if found.id == task_id else None

    def _is_from(self, task: Task, mark: str) -> bool:
        after = 0
        while page := self._store.inbox(task.id, after, 500):
            if any(signal.delivery == mark and signal.name == SIGNAL for signal in page):
                return True
            after = page[-1].number
        return False


def _opened(stack: ExitStack, told: Manifest, folder: Path) -> Bundle | None:
    """Until the stack is closed; None: the task has no code."""
    if told.code is None:
        return None
    base, head = str(told.task["base"]), str(told.task["head"])
    try:
        return stack.enter_context(Bundle.opened(folder, folder / m.CODE, told.task["id"], base, head))
    except WorkspaceError as error:
        raise BadArchive(f"the archive's {m.CODE} is no sound bundle: {error}") from error


def _point(bundle: Bundle, hub: Hub, task: Task) -> tuple[str, ...]:
    assert task.head is not None
    try:
        bundle.point(hub, task.id, task.head)
    except LongTaskError as error:
        return (f"its references could not be set: {error}; import the file again",)
    return ()


def _origin(told: Manifest) -> JsonMap:
    return {"database": told.database, "handle": f"{told.task['name']}-{told.task['number']}", "program": told.program}


# --- the file ---------------------------------------------------------------------------------------------------------


def _unpack(file: Path, folder: Path, may: Callable[[str], None]) -> tuple[Manifest, str]:
    """The manifest, and a delivery id that stands for exactly this file.  Artifacts lie under their digests."""
    with file.open("rb") as packed:
        reader = Reader(packed)
        first = reader.first(m.NAME, m.BYTES_MAX)
        told = m.load(first)
        may(told.task["workspace"])
        size = sum(entry.size_bytes for entry in told.files)
        if size > shutil.disk_usage(folder).free - FREE_BYTES_MIN:
            raise Refused(
                f"the archive unpacks to {size:,} bytes, and '{folder.parent}' has no room for it: set TMPDIR"
            )
        for entry in told.files:
            digest = hashlib.sha256()
            with (folder / entry.name.removeprefix(m.BLOBS)).open("xb") as target:
                for block in reader.member(entry.name, entry.size_bytes):
                    digest.update(block)
                    target.write(block)
            if digest.hexdigest() != entry.sha256:
                raise BadArchive(f"the archive is damaged: {entry.name} is not what its sum says")
        reader.end()
    return told, f"import:{hashlib.sha256(first).hexdigest()}"


def _lines(file: Path, read: Callable[[Any], T]) -> Iterator[T]:
    with file.open("rb") as lines:
        number = 0
        while line := lines.readline(m.LINE_BYTES_MAX):
            number += 1
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("it is cut, or too long")
                yield read(json.loads(line, parse_constant=_no_number))
            except (StoreError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                told = str(error).partition("; the database is damaged")[0]
                raise BadArchive(f"the archive's {file.name}, line {number}: {told}") from error


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _written(found: dict[str, Any]) -> Written:
    made = Written(**{**found, "body": b64decode(found["body"], validate=True)})
    _are(made, str, int, int, str, bytes, int)
    return made


def _calls(folder: Path) -> Iterator[RunCall]:
    def call(found: dict[str, Any]) -> RunCall:
        made = RunCall(**found)
        _are((*made[:7], *made[8:10], made.micros or 0, *made[11:]), str, int, int, str, str, str, *[int] * 6)
        return made

    return _lines(folder / m.CALLS, call)


def _are(values: tuple[Any, ...], *kinds: type) -> None:
    for value, kind in zip(values, kinds, strict=True):
        if type(value) is not kind or (isinstance(value, int) and not -(2**63) <= value < 2**63):
            raise ValueError(f"{value!r} is not {kind.__name__}")


# --- the journal ------------------------------------------------------------------------------------------------------


def _folded(told: Manifest, folder: Path) -> _Folded:
    """The machine's own fold, and nothing that it does not give."""
    try:
        task = codec.load(Task, json.loads((folder / m.TASK).read_bytes()))
    except (StoreError, ValueError, RecursionError) as error:
        raise BadArchive(f"the archive's {m.TASK}: {str(error).partition('; the database')[0]}") from error
    of = {"id": task.id, "name": task.name, "number": task.number, "state": str(task.state),
          "workspace": task.workspace_id, "base": task.base, "head": task.head}  # fmt: skip
    if of != told.task:
        raise BadArchive(f"the archive's {m.TASK} and its manifest tell of different tasks")
    if not task.ended:
        raise BadArchive(f"the archive is of a task that is {task.state}; one that has not ended is not imported")
    has_code = bool(task.workspace_id) and task.head is not None and task.base is not None
    if has_code != (told.code is not None):
        raise BadArchive(f"the archive of a task {'with' if has_code else 'without'} code needs {m.CODE}, or none")
    rows = {step.key: step for step in _lines(folder / m.STEPS, lambda found: codec.load(Step, found))}
    signals = list(_lines(folder / m.INBOX, lambda found: codec.load(Signal, found)))
    draft = machine.Draft(None, {}, 0)
    events: list[Event] = []
    artifacts: list[tuple[ArtifactRow, int]] = []
    for event in _lines(folder / m.JOURNAL, lambda found: _event(task.id, found)):
        draft.now = event.at
        try:
            draft.apply(event.fact)
        except (AssertionError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadArchive(f"the archive's journal cannot be folded: event {event.seq}: {error}") from error
        events.append(event)
        artifacts += [(row, event.at) for row in draft.artifacts]
        draft.artifacts.clear()
    if not events:
        raise BadArchive("the archive's journal is empty")
    _check(task, rows, draft, events, signals)
    for checked in (_calls(folder), _lines(folder / m.OUTPUT, _written)):
        for _ in checked:
            pass
    lacking = {str(row.content["digest"]) for row, _ in artifacts} - {f.sha256 for f in told.files} - {*told.missing}
    if lacking:
        raise BadArchive(f"the archive lacks the bytes of artifact {min(lacking)}")
    header = task._replace(parent_told=task.parent is not None)  # its parent, if it is here, was told elsewhere
    # What else a fold leaves to be written belongs to an open task: leases, waits, places in queues, errands.
    change = Change(
        header, rows, created=True, added=frozenset(rows), edges=tuple(draft.edges), specs=tuple(draft.specs)
    )
    return _Folded(task, change, events, artifacts, signals, _plan(folder))


def _plan(folder: Path) -> str | None:
    try:
        return (folder / m.PLAN).read_bytes().decode()
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise BadArchive(f"the archive's {m.PLAN} is no text: {error}") from error


def _event(task_id: str, found: dict[str, Any]) -> Event:
    fact = codec.load_fact(found["kind"], found["v"], json.dumps(found["body"]))
    if isinstance(fact, TaskSubmitted) and fact.number:
        raise ValueError("its journal is numbered")
    _are((found["seq"], found["at"], found["actor"], found["op"] or ""), int, int, str, str)
    return Event(task_id, found["seq"], found["at"], fact, found["actor"], found["op"])


def _check(
    task: Task, rows: Mapping[str, Step], draft: machine.Draft, events: list[Event], signals: list[Signal]
) -> None:
    if rows.keys() != draft.rows.keys():
        odd = min(rows.keys() ^ draft.rows.keys())
        raise BadArchive(f"the archive's journal does not give what it tells of the task: step {odd!r} is in one only")
    try:
        found = audit(
            task, rows, draft.edges, events, (), signals, dict(draft.specs), waits=(), mutexes=(), tickets=(), offers=()
        )
    except (AssertionError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadArchive(f"the archive's journal and rows cannot be compared: {error!r}") from error
    if [signal.number for signal in signals] != list(range(1, len(signals) + 1)):
        raise BadArchive("the archive's inbox has a gap")
    if found:
        more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
        shown = "; ".join(str(one) for one in found[:SHOWN_MAX])
        raise BadArchive(f"the archive's journal does not give what it tells of the task: {shown}{more}")
