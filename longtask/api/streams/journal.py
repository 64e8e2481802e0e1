"""Events as messages, of one task and of all that a caller may see.

A task's stream goes by its own numbers: they have no gap, so that both ends see when something is missing, and they are
there as soon as they are committed.  The feed of all tasks has a cursor for each event; it is what the reader of the
process reads, for both kinds of streams.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from longtask.api.streams.channel import Frame, Page
from longtask.api.streams.sse import Place, body, mark_of, message, messages, moved, place_of
from longtask.core.errors import NotFound
from longtask.core.events import Event, TaskCancelled, TaskCompleted, TaskFailed
from longtask.core.machine import status
from longtask.core.model import Task
from longtask.store.contract import Progress, Store
from longtask.views.events import Agents, cloud_events
from longtask.views.words import handle

PAGE = 250
PAGES_MAX = 4  # in one round
TASKS_MAX = 2_000  # whose stages and agents are kept in mind
IDS_MAX = 500
PROGRESS_MAX = 1_000
GONE = 0
ENDS = (TaskCompleted, TaskFailed, TaskCancelled)

T = TypeVar("T")


class Telling:
    """Events -> the bodies of their messages.  Of one thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: OrderedDict[str, tuple[Task, Agents]] = OrderedDict()

    def task(self, task_id: str) -> tuple[Task, Agents]:
        """Raises NotFound."""
        found = self._tasks.get(task_id)
        if found is None:
            found = self._tasks[task_id] = self._store.get_task(task_id), Agents(self._store, task_id)
            if len(self._tasks) > TASKS_MAX:
                self._tasks.popitem(last=False)
        else:
            self._tasks.move_to_end(task_id)
        return found

    def bodies(self, event: Event) -> list[bytes]:
        task, agents = self.task(event.task_id)
        return [body(told) for told in cloud_events(task, event, agents)]


def progress_message(row: Progress) -> bytes:
    told = {
        "step": row.step, "attempt": row.attempt, "done": row.done, "total": row.total, "text": row.text, "at": row.at,
    }  # fmt: skip
    return message("progress", body(told))


@dataclass(frozen=True, slots=True)
class TaskJournal:
    """`channel.Source`."""

    store: Store
    task_id: str
    gapless: bool = True

    @staticmethod
    def key_of(task_id: str) -> Hashable:
        return "task", task_id

    @property
    def key(self) -> Hashable:
        return self.key_of(self.task_id)

    def read(self, after: Place) -> Page:
        events = self.store.events(self.task_id, after[0], PAGE)
        telling = Telling(self.store)
        frames = [Frame((e.seq,), messages("event", telling.bodies(e), (e.seq,))) for e in events]
        place = frames[-1].place if frames else after
        if len(events) == PAGE:
            return Page(frames, place, more=True)
        task = self.store.get_task(self.task_id)
        over = ended_map(task) if task.ended and task.seq == place[0] else None
        return Page(frames, place, over=over)


def ended_map(task: Task) -> dict[str, object]:
    return {"task": task.id, "handle": handle(task), "status": status(task)}


@dataclass(frozen=True, slots=True)
class Everything:
    """`channel.Source`: all tasks that whoever may see these workspaces sees (None: all)."""

    store: Store
    workspaces: frozenset[str] | None
    sees: Callable[[str], bool]
    gapless: bool = False

    @property
    def key(self) -> Hashable:
        return "all", self.workspaces

    def read(self, after: Place) -> Page:
        events = self.store.tail(mark_of(after), PAGE)
        telling = Telling(self.store)
        frames: list[Frame] = []
        place = after
        for event, cursor in events:
            place = place_of(cursor)
            if (made := self._frame(telling, event, place)) is not None:
                frames.append(made)
        if events and (not frames or frames[-1].place != place):
            frames.append(Frame(place, (moved(place),)))
        return Page(frames, place, more=len(events) == PAGE)

    def _frame(self, telling: Telling, event: Event, place: Place) -> Frame | None:
        try:
            if not self.sees(telling.task(event.task_id)[0].workspace_id):
                return None
            return Frame(place, messages("event", telling.bodies(event), place))
        except NotFound:  # pruned in this moment
            return None


@dataclass(slots=True)
class Round:
    """What one round of the reader has found."""

    cursor: str
    events: int = 0
    more: bool = False
    moved: set[str] = field(default_factory=set)  # every task of which there was an event
    tasks: dict[str, tuple[list[Frame], bool]] = field(default_factory=dict)  # of those watched; may they have ended?
    all: list[tuple[str, Frame]] = field(default_factory=list)  # with the workspace
    heads: dict[str, int] | None = None  # of the tasks watched; None: not looked at
    progress: list[tuple[str, str, bytes]] = field(default_factory=list)  # task, step, message; empty: not any more


class Reader:
    """Reads for everybody, in a thread of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._telling = Telling(store)
        self._progress: dict[tuple[str, str], Progress] = {}
        self.forgotten: set[str] = set()  # tasks whose progress is told anew when they are watched again
        self.thread: ThreadPoolExecutor | None = None

    async def begin(self) -> str:
        """The cursor to begin with."""
        return await self._apart(self._begin)

    def _begin(self) -> str:
        self._progress = {}
        return self._store.feed_end()

    async def round(self, cursor: str, watched: set[str], everything: bool, *, look: bool, progress: bool) -> Round:
        return await self._apart(lambda: self._round(cursor, watched, everything, look, progress))

    async def _apart(self, act: Callable[[], T]) -> T:
        if self.thread is None:
            self.thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        return await asyncio.get_running_loop().run_in_executor(self.thread, act)

    def _round(self, cursor: str, watched: set[str], everything: bool, look: bool, progress: bool) -> Round:
        found = Round(cursor)
        tasks: dict[str, list[Frame]] = defaultdict(list)
        ends: set[str] = set()
        for _ in range(PAGES_MAX):
            page = self._store.tail(found.cursor, PAGE)
            for event, at in page:
                found.cursor = at
                found.moved.add(event.task_id)
                if everything or event.task_id in watched:
                    self._tell(found, event, tasks if event.task_id in watched else None, everything)
                if isinstance(event.fact, ENDS):
                    ends.add(event.task_id)
            found.events += len(page)
            found.more = len(page) == PAGE
            if not found.more:
                break
        found.tasks = {task_id: (frames, task_id in ends) for task_id, frames in tasks.items()}
        ids = sorted(watched)
        if look:
            found.heads = dict.fromkeys(ids, GONE)
            for some in _parts(ids):
                found.heads |= self._store.heads(some)
        if progress:
            found.progress = self._progressed(ids)
        return found

    def _tell(self, found: Round, event: Event, tasks: dict[str, list[Frame]] | None, everything: bool) -> None:
        try:
            workspace_id = self._telling.task(event.task_id)[0].workspace_id
            bodies = self._telling.bodies(event)
        except NotFound:  # pruned in this moment
            return
        if tasks is not None:
            tasks[event.task_id].append(Frame((event.seq,), messages("event", bodies, (event.seq,))))
        if everything:
            place = place_of(found.cursor)
            found.all.append((workspace_id, Frame(place, messages("event", bodies, place))))

    def _progressed(self, ids: Sequence[str]) -> list[tuple[str, str, bytes]]:
        rows = {
            (task_id, row.step): row
            for some in _parts(ids)
            for task_id, row in self._store.progress_of(some, PROGRESS_MAX)
        }
        forgotten, self.forgotten = self.forgotten, set()
        self._progress = {key: row for key, row in self._progress.items() if key[0] not in forgotten}
        news = [(*key, progress_message(row)) for key, row in rows.items() if self._progress.get(key) != row]
        news += [(*key, b"") for key in self._progress if key not in rows]
        self._progress = rows
        return news


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[n : n + IDS_MAX] for n in range(0, len(ids), IDS_MAX)]
