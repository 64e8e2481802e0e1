"""What a store promises; the only thing that the engine sees.  *A store finds and keeps; it never decides.*

    with store.group():                                # one commit; nothing is durable before its end
        with store.task(task_id, key) as tx:           # locks this task to the end of the block
            facts = decide.finish(...)                 # pure
            tx.save(machine.fold(tx.task, {key: tx.step(key)}, facts, now=tx.now))

1. `task` is the one way to write a task.  Its writes happen at the end of the block, all or none; a block left by an
   exception writes nothing.  Outside a group each block commits by itself, and is durable when the block is left.
2. In a group the blocks commit together when it ends.  If the commit fails, none of them happened: what was claimed
   must not be started, what was reported must be reported again.  Blocks of one group see each other's writes.
3. Peeks take no lock and may be stale: whoever acts on one looks again under the lock.
4. The writes of a running attempt (beat, journal, checkpoint, output) stand outside the task's lock.  Each names
   (task, step, attempt) and is refused, by answering False or None, unless that attempt's lease row is there, which is
   looked up in the same statement.
5. Time is the store's: `now()` and `tx.now`, read after the lock is held, in ms since 1970 UTC.
6. Every list takes a limit, and the limit is above zero.

Errors: `NotFound` (no such task or step), `StoreBusy` (try again), `StoreError` (disk full, read-only, corrupt, newer
version, not a local disk): each says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from longtask.core.change import Change, MutexRow, OfferRow, TicketRow
from longtask.core.events import Event
from longtask.core.model import Json, JsonMap, Lease, MutexView, Signal, Step, StepSpec, Task
from longtask.store.archives import Archives
from longtask.store.callers import Callers
from longtask.store.gauges import Gauges
from longtask.store.outward import Notice as Notice
from longtask.store.outward import Outward

T = TypeVar("T")


class Ref(NamedTuple):
    task_id: str
    step: str


class Beat(NamedTuple):
    """The answer to a beat.  `stop`: the reason why the attempt is to stop, None to go on."""

    stop: str | None


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One finished or begun turn or tool call of a run.  `body` None: begun, its end is not known."""

    n: int  # counts from 1 within the run
    kind: str  # turn | tool
    name: str  # model or tool
    fingerprint: str  # of the request
    attempt: int
    body: Json = None
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int | None = 0
    started_at: int = 0
    done_at: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run can go on from here: its journal up to `position`, and the worktree as `tree`."""

    run: int
    position: int
    tree: str | None
    attempt: int
    at: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Output of an attempt.  `n` counts from 1 within it; `stream` is out, err or note; `at` the store's time."""

    n: int
    stream: str
    body: bytes
    at: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """`128 / 183`, as last told by the running attempt.  `total` 0: not known."""

    step: str
    attempt: int
    done: int
    total: int
    text: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class WorkerRow:
    id: str
    host: str
    pid: int
    pools: tuple[str, ...]
    slots: int
    started_at: int
    seen_at: int = 0
    version: str = ""  # of longtask


class PoolLoad(NamedTuple):
    """Steps of a pool that a worker could claim now, in tasks that admit claims."""

    pool: str
    ready: int
    due_at: int  # of the one that has been ready longest


@dataclass(frozen=True, slots=True)
class ArtifactEntry:
    task_id: str
    step: str
    attempt: int
    name: str
    digest: str
    size_bytes: int
    media_type: str
    at: int


AUDIT_KEPT_MS = 400 * 86_400_000  # a year, and time to look at it
BLOB_UNUSED_MS = 7 * 86_400_000  # so long after its last use nothing that is about to be recorded can name it
BLOB_CONDEMNED_MS = 120_000  # a collector that has not taken the bytes away by then never will


class Blob(NamedTuple):
    """Bytes that were put: see the part on upkeep."""

    workspace_id: str
    digest: str
    size_bytes: int
    used_at: int


class Pruned(NamedTuple):
    """What must be known of a task whose header is gone."""

    task_n: int
    task_id: str
    workspace_id: str


class ErrandRow(NamedTuple):
    """What a task has to do to another one (`core.family`), as its store keeps it; `body` is JSON."""

    n: int
    task_id: str
    step: str
    kind: str
    target: str
    seq: int
    tokens: int
    micros: int
    body: str | None = None


class Over(NamedTuple):
    """A task that counts what another one spends, and usage below it that it does not count yet."""

    task: Task
    tokens: int
    micros: int


class Found(NamedTuple):
    """What every kind of search for a scheduler has found, each as the peek of its name tells."""

    expired: list[Lease]
    overdue: list[Ref]
    unheard: list[str]
    closing: list[str]
    unsettled: list[Ref]
    callable: list[Ref]
    mergeable: list[Ref]
    errands: list[ErrandRow]


class Alarm(NamedTuple):
    """What the database's operators should look at; `mend` is a command, or what to do."""

    what: str
    why: str
    mend: str


class Tx(Protocol):
    """One task, locked.  Reads see the task as it was when the block began; `save` may be called once."""

    @property
    def now(self) -> int: ...
    @property
    def task(self) -> Task: ...
    def step(self, key: str) -> Step:
        """Raises NotFound."""

    def steps(self, keys: Sequence[str]) -> dict[str, Step]:
        """Those that exist."""

    def spec(self, number: int) -> StepSpec: ...
    def lease(self, key: str) -> Lease | None: ...
    def spent(self, key: str, run: int, *, but: int = 0) -> dict[str, int]:
        """`tokens` and `micros` of all calls of all runs of the step that stand in its run journal, `requests` of the
        model in that run; without those of row `but` of it."""

    def dependents(self, key: str, after: str, limit: int) -> list[Step]:
        """Steps that need `key`, by key, keys above `after`."""

    def needs(self, key: str, limit: int) -> list[str]:
        """What the step needs directly, gates and what it owns included, by key."""

    def spec_count(self) -> int:
        """The number that the next new spec of the task gets."""

    def owned_open(self, key: str, limit: int) -> list[Step]:
        """Open steps that stand before `key` and report to it."""

    def completed_items(self, key: str, after: int, limit: int) -> list[int]:
        """Indexes of the completed items of a for_each, of any expansion, ascending, above `after` (-1: all)."""

    def ready(self, pool: str, limit: int) -> list[Step]:
        """Ready steps of the pool that are due, earliest first."""

    def sweepable(self, limit: int) -> list[Step]:
        """For the sweep of a closing task: open steps that are not running, running ones that nobody has yet asked to
        cancel (`lease.stop` other than `cancel`), and ended ones that are still untold."""

    def running(self, limit: int) -> list[Step]: ...
    def unasked(self, limit: int) -> list[str]:
        """Running steps that nobody has asked to stop, by key."""

    def waiters(self, name: str, after: str, limit: int) -> list[Step]:
        """Waiting steps that a signal of this name may wake, by key, keys above `after`."""

    def delivered(self, delivery: str) -> Signal | None:
        """The signal of the inbox with this delivery id."""

    def signals(self, name: str, after: int, limit: int) -> list[Signal]:
        """Signals of this name with a number above `after`, earliest first."""

    def add_signal(self, name: str, delivery: str, payload: JsonMap, sender: str) -> Signal:
        """Numbers it and puts it into the inbox, unheard; written at the end of the block with the rest."""

    def unheard(self) -> tuple[Signal, str] | None:
        """The earliest signal that not every waiter has heard, and the key of the last one that has ("": none)."""

    def hear(self, number: int, heard: str | None) -> None:
        """How far the waiters have heard a signal; None: all have.  Written at the end of the block."""

    def drop_errands(self, numbers: Sequence[int]) -> None:
        """Takes away errands of this task; at the end of the block.  Fine if they are gone."""

    def done_op(self, op: str) -> bool:
        """An event of this task carries this operation id: the same call has been carried out before."""

    def rival(self, pool: str, served_at: int) -> bool:
        """Another task that admits claims has a ready, due step in the pool and was served earlier than `served_at`."""

    def mutex(self, name: str, step: str) -> MutexView:
        """As this step finds it.  A look may be stale: see `save`."""

    def save(self, change: Change, *, actor: str = "", op: str | None = None) -> None:
        """A change that takes a mutex which is not free any more is refused: leaving the block raises Refused, with
        nothing written, and a group goes on.  Taking one never waits for another transaction."""


class Store(Callers, Outward, Gauges, Archives, Protocol):
    def now(self) -> int: ...
    def group(self) -> AbstractContextManager[None]: ...
    def together(self, act: Callable[[], T]) -> T:
        """What `act` writes, in a group of its own or in one with what other threads hand in at the same time: where a
        commit is what costs.  Another thread may carry it out, and again if the first group was lost.  If it raises
        Refused it must have written nothing."""

    def create(self, task_id: str) -> AbstractContextManager[Tx]:
        """A block for a task that is not there yet: `tx.task` must not be read; `save` takes a change with `created`.

        The store numbers tasks upwards: the header is written with the next number of the store.  A number that a lost
        block took may stay unused."""

    def task(self, task_id: str, key: str | None = None, telling: int = 0) -> AbstractContextManager[Tx]:
        """`key`: a step that will surely be read; it comes with the header.  `telling`: so many of its dependents will
        be read, from the first on; they come along where a journey costs more than the rows."""

    def ahead(self, refs: Sequence[Ref], telling: int = 0) -> None:
        """A hint within a group: its next blocks are about these.  Where a journey costs, their tasks are locked and
        read in one; the block of a task that somebody else holds just then raises TaskLocked."""

    def close(self) -> None: ...

    @property
    def hinted(self) -> bool:
        """`wait` is ended by what others do, so that who waits may look less often by itself.  May change any time."""

    def wait(self, seconds: float) -> None:
        """For whoever has found nothing to do: at most so long, less if somebody else says that there may be work.

        A hint may be lost, and may be wrong."""

    # peeks
    def look(self, limit: int) -> Found:
        """All peeks of a scheduler at once."""

    def claimable(self, pool: str, limit: int, workspaces: Sequence[str] | None = None) -> list[Ref]:
        """Of each task that admits claims, its earliest due ready step; tasks least recently served first.
        `workspaces`: of tasks in these only; None: of all."""

    def callable(self, limit: int) -> list[Ref]:
        """Of each mutex that nobody holds, the first step of its queue whose task admits its claim; none if one was
        called within CALL_MS and has not been claimed yet."""

    def unsettled(self, limit: int) -> list[Ref]:
        """Steps whose dependents do not know their verdict; closing tasks excepted."""

    def overdue(self, limit: int) -> list[Ref]:
        """Waiting steps whose deadline has passed, in open tasks that are not closing."""

    def unheard(self, limit: int) -> list[str]:
        """Tasks with a signal that not every waiter has heard."""

    def mergeable(self, limit: int) -> list[Ref]:
        """Merging steps that are due."""

    def errands(self, limit: int) -> list[ErrandRow]:
        """Those that have waited longest; a child that is to be ended not before it has been made."""

    def expired(self, limit: int) -> list[Lease]: ...
    def closing(self, limit: int) -> list[str]:
        """Tasks in closing that have something to sweep or to end."""

    def next_due_at(self) -> int | None:
        """The earliest instant at which a ready, waiting or merging step, a lease or a mutex call falls due; None:
        nothing does."""

    # a running attempt
    def beat(self, ref: Ref, attempt: int, due_at: int) -> Beat | None:
        """Prolongs the lease, never beyond its timeout.  None: the lease is lost, stop the work."""

    def tell_progress(self, ref: Ref, attempt: int, done: int, total: int, text: str) -> bool: ...
    def journal_started(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool:
        """Repeating it with the same fingerprint is answered True (an attempt that begins a call again).

        A turn of an attempt that is asked to stop is not begun."""

    def journal_done(self, ref: Ref, attempt: int, run: int, row: JournalRow) -> bool: ...
    def put_checkpoint(self, ref: Ref, checkpoint: Checkpoint) -> bool: ...
    def put_output(self, ref: Ref, attempt: int, chunks: Sequence[Chunk]) -> bool: ...
    def drop_output(self, ref: Ref, attempt: int, numbers: range) -> bool:
        """Deletes chunks from the middle of a flood: the first and the last part are kept."""

    # reads
    def get_task(self, handle: str) -> Task:
        """By id, by a unique prefix of it (8 characters or more), by `NAME-number`, or `@last` (never a child).

        Raises NotFound."""

    def tasks(
        self, *, open_only: bool, workspace_id: str | None, before: int, limit: int, children: bool = True
    ) -> list[Task]:
        """Newest first, with a number below `before` (0: from the newest).  `children` False: without those that were
        made for a step of another task."""

    def timed(self, before: int, limit: int) -> list[Task]:
        """Open tasks with a limit of active time, newest first, with a number below `before` (0: from the newest)."""

    def has_heard(self, task_id: str, delivery: str) -> bool:
        """A signal with this delivery id lies in its inbox."""

    def newest_children(self, task_id: str, limit: int) -> list[Task]: ...

    def task_by_key(self, idempotency_key: str) -> Task | None: ...
    def get_step(self, ref: Ref) -> Step: ...
    def spec(self, task_id: str, number: int) -> StepSpec: ...
    def steps(self, task_id: str, after: str, limit: int) -> list[Step]:
        """By key, keys above `after`."""

    def edges(self, task_id: str, after: tuple[str, str], limit: int) -> list[tuple[str, str]]: ...
    def needs(self, ref: Ref, limit: int) -> list[str]: ...
    def items(self, ref: Ref, after: int, limit: int) -> list[Step]:
        """Of a for_each: for each index above `after` (-1: from the start) that has rows, the completed row, else the
        newest one; by index."""

    def items_passed(self, ref: Ref) -> int:
        """Of a for_each: how many items earlier expansions have completed, so that the newest one passes them over."""

    def results(self, task_id: str, keys: Sequence[str]) -> dict[str, Step]:
        """The named steps that exist (for expressions)."""

    def over(self, task_id: str) -> list[Over]:
        """The task, then all over it, its parent first, with what they will count as soon as it is told: one moment."""

    def errands_of(self, task_id: str, limit: int) -> list[ErrandRow]: ...
    def awaited(self, task_id: str, after: str, limit: int) -> list[tuple[str, str]]:
        """(step, child) of steps that wait for a child, by key, keys above `after`; it may not be there yet."""

    def asking(self, *, task_id: str | None, limit: int) -> list[tuple[str, Step]]:
        """(task id, step) of all steps that wait for a person, oldest first."""

    def leases(self, task_id: str, limit: int) -> list[Lease]: ...
    def leases_of_worker(self, worker: str, limit: int) -> list[Lease]: ...
    def mutex(self, name: str) -> MutexRow | None:
        """Who holds it; None: nobody does."""

    def queue(self, name: str, limit: int) -> list[TicketRow]:
        """Who waits for a mutex, first come first."""

    def mutexes(self, task_id: str, limit: int) -> list[MutexRow]:
        """Those that the task holds, by step."""

    def tickets(self, task_id: str, limit: int) -> list[TicketRow]:
        """The task's own, first come first."""

    def offers(self, task_id: str, limit: int) -> list[OfferRow]:
        """What the task has for each pool, by pool."""

    def events(self, task_id: str, after: int, limit: int) -> list[Event]:
        """Events with seq > `after`, oldest first, at most `limit`.  Raises NotFound."""

    def feed(self, cursor: str, limit: int) -> tuple[list[Event], str]:
        """Events of all tasks after the cursor ("": from the first), and the next cursor.

        Those of one task come in their order, and none is ever passed over: an event that commits late comes late."""

    def tail(self, cursor: str, limit: int) -> list[tuple[Event, str]]:
        """The same, each event with the cursor behind it.  A cursor is one number, or several joined by dots; those of
        one database, compared number by number, stand in the order of the feed."""

    def feed_end(self) -> str:
        """The cursor behind all that the feed can tell now."""

    def heads(self, task_ids: Sequence[str]) -> dict[str, int]:
        """The number of the newest event, by task; who is not there is not named."""

    def progress_of(self, task_ids: Sequence[str], limit: int) -> list[tuple[str, Progress]]:
        """As `progress`, of many tasks at once, each with its task."""

    def journal(self, ref: Ref, run: int) -> list[JournalRow]: ...
    def spent(self, ref: Ref, run: int) -> dict[str, int]:
        """`tokens` and `micros` of all runs of the step, `requests` of the model in that run."""

    def checkpoint(self, ref: Ref, run: int) -> Checkpoint | None:
        """The newest of the run."""

    def output(self, ref: Ref, attempt: int, after: int, limit: int) -> list[Chunk]: ...
    def progress(self, task_id: str, limit: int) -> list[Progress]: ...
    def inbox(self, task_id: str, after: int, limit: int) -> list[Signal]: ...
    def artifacts(self, task_id: str, limit: int, *, named: bool = False) -> list[ArtifactEntry]:
        """Of accepted outcomes, oldest first.  `named`: without what attempts leave by the way (`output/…`,
        `leftovers/…`, `transcript/…`), of which a task may have thousands."""

    def get_plan(self, task_id: str) -> str | None:
        """The plan's text as submitted."""

    def put_plan(self, task_id: str, text: str) -> None: ...

    # workers
    def worker_seen(self, worker: WorkerRow) -> None: ...
    def worker_gone(self, worker_id: str) -> None: ...
    def workers(self, limit: int) -> list[WorkerRow]: ...
    def forget_workers(self, before: int, limit: int) -> int:
        """Takes away rows of workers that were last seen before that; answers how many."""

    def worker_loads(self, limit: int) -> dict[str, int]:
        """Attempts that hold a lease, by worker; who holds none is not named."""

    def pool_loads(self, limit: int) -> list[PoolLoad]:
        """By pool; where nothing is ready is not named."""

    def pool_named(self, pool: str) -> bool:
        """A step that has not ended, of a task that has not, names this pool."""

    # upkeep
    def alarms(self) -> list[Alarm]:
        """What makes the database slow, full or forgetful though its rows are in order."""

    def verify(self) -> list[str]:
        """What is wrong with the stored form as such (the database's own integrity check); empty if nothing is."""

    def identity(self) -> str:
        """Names this database for ever, so that artifacts know whose they are."""

    # upkeep: bytes that were put.  `used_at` below zero: condemned at that instant, the bytes are being taken away
    def use_blob(self, workspace_id: str, digest: str, size_bytes: int) -> bool:
        """Registers the bytes, or notes that they are used now: nobody collects them within BLOB_UNUSED_MS.

        False: they are being collected at this moment; try again until they are gone.  Who condemned them more than
        BLOB_CONDEMNED_MS ago is dead or has given up, and they are taken over."""

    def stale_blobs(self, before: int, limit: int) -> list[Blob]:
        """Condemned, or not used since `before`; those first that were used longest ago."""

    def blob_named(self, workspace_id: str, digest: str) -> bool:
        """An artifact of a task of this workspace names it."""

    def stored_values(self, after: tuple[int, str], limit: int) -> tuple[list[tuple[str, str]], tuple[int, str] | None]:
        """(workspace id, digest) of values of steps that were too large for a row; and where to go on (None: no more).
        The first call is made after (0, "")."""

    def kept_sessions(self, after: tuple[int, str], limit: int) -> tuple[list[tuple[str, str]], tuple[int, str] | None]:
        """(workspace id, digest) of the blocks of agents' sessions that a run may still go on from: of steps that have
        not ended, by the newest row that has kept one.  As `stored_values`."""

    def condemn_blob(self, blob: Blob, at: int) -> bool:
        """Only if it was not used since it was looked at, and no artifact names it."""

    def forget_blob(self, workspace_id: str, digest: str, condemned_at: int) -> bool:
        """Its bytes are gone.  False: somebody has taken it over meanwhile."""

    # upkeep: tasks that ended long ago.  The header goes first, so that from then on nobody sees the task; what is left
    # of it is listed by `half_pruned` until `end_pruning`
    def prunable(self, before: int, after: tuple[int, int], limit: int) -> list[Task]:
        """Ended by `before`, without a parent, without an open child and with nothing left to tell another task, those
        first that ended longest ago; (ended_at, number) above `after`."""

    def children(self, task_id: str, limit: int, after: int = 0) -> list[Task]:
        """Oldest first, with a number above `after`."""

    def prune_task(self, task_id: str, before: int) -> bool:
        """Takes the header away, if the task has ended by `before` and has no child.  False: not now."""

    def half_pruned(self, after: int, limit: int) -> list[Pruned]:
        """Tasks whose header is gone and whose rows are not, by number, above `after`."""

    def prune_rows(self, task_n: int, rows_max: int, lock_max_ms: int) -> int:
        """One transaction, ended when so many rows are gone or so much time has passed.  0: nothing is left."""

    def prune_output(self, task_id: str, chunks_max: int) -> int:
        """The same for output."""

    def end_pruning(self, task_n: int) -> None: ...
