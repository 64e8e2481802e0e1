"""`longtask doctor`: what is wrong with this installation and its database, why it matters, and what mends it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, TypeVar

import typer

from longtask.cli.background import idle
from longtask.cli.help import commands
from longtask.cli.session import FAILED, TASK, Session
from longtask.core.errors import LongTaskError, NotFound, StoreError
from longtask.core.model import Edge, StepSpec, Task
from longtask.core.oracle import audit
from longtask.store.contract import Store
from longtask.views.families import Wrong, audit_below
from longtask.views.fleet import live_workers
from longtask.views.words import handle
from longtask.workspace.git import check_version

PAGE = 500
STEPS_AUDITED_MAX = 20_000  # a larger task is audited when it is named
LEASES_MAX = 10_000
TICKETS_MAX = 1_000_000  # a step has one at most
FREE_BYTES_MIN = 1_000_000_000
READS_MAX = 5  # of a task that moves while it is read
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """`mend` is a command, or what to do."""

    what: str
    why: str
    mend: str


def register(app: typer.Typer) -> None:
    command = commands(app, "Operate")

    @command()
    def doctor(
        ctx: typer.Context,
        task: Annotated[str | None, typer.Argument(help=f"only this one, of any size: {TASK}")] = None,
        limit: Annotated[
            int,
            typer.Option("-n", "--limit", metavar="N", help="audit so many tasks, newest first; default: 200", min=1),
        ] = 200,
    ) -> int:
        """Check the installation and the database.

        Every invariant of the machine is checked on the live rows: the journal folded anew must give them, counters
        must equal a recount, and a task must agree with those below it. Exit code 1 if anything is wrong.

        Examples:
            longtask doctor
            longtask doctor release-12
        """
        session: Session = ctx.obj
        findings: list[Finding] = []
        notes: list[str] = []
        if task is None:
            findings += [*_place(session), *_database(session), *_workers(session)]
        audited = 0
        tops: dict[str, None] = {}
        for found in _named(session, task, limit, findings):
            if task is None and found.counts.steps > STEPS_AUDITED_MAX:
                more = session.command("doctor", handle(found))
                notes.append(f"{handle(found)} has {found.counts.steps:,} steps and is not audited; do it with: {more}")
                continue
            audited += 1
            findings += _task(session, found, notes)
            tops[found.ancestors[-1].task_id if found.ancestors else found.id] = None
        for top in tops:
            findings += _family(session, top)
        return _tell(session, findings, notes, audited)


def _tell(session: Session, findings: list[Finding], notes: list[str], audited: int) -> int:
    if session.json:
        session.give({"ok": not findings, "tasks": audited, "findings": [asdict(f) for f in findings], "notes": notes})
    for finding in findings:
        session.say([("✗ ", "red"), (finding.what, "bold")])
        session.say(f"    why:  {finding.why}")
        session.say([("    mend: ", ""), (finding.mend, "cyan")])
    for note in notes:
        session.say(f"- {note}")
    tasks = "1 task" if audited == 1 else f"{audited:,} tasks"
    if not findings:
        session.say(
            f"nothing is wrong: {tasks} audited, database, git and folders in order ({session.config.database_shown})"
        )
    else:
        session.say(f"{len(findings)} found, {tasks} audited")
    return FAILED if findings else 0


def _named(session: Session, task: str | None, limit: int, findings: list[Finding]) -> Iterator[Task]:
    if task is not None:
        yield session.task(task)
        return
    before = 0
    while limit > 0:
        try:
            page = session.parts.store.tasks(open_only=False, workspace_id=None, before=before, limit=min(PAGE, limit))
        except Exception as error:  # noqa: BLE001  damaged rows raise whatever they like
            findings.append(_unreadable(session, "the list of tasks", error))
            return
        yield from page
        if not page:
            return
        limit -= len(page)
        before = page[-1].number


def _unreadable(session: Session, what: str, error: Exception) -> Finding:
    return Finding(
        f"{what} cannot be read: {type(error).__name__}: {error}",
        "the database is damaged, or was written by another program",
        _restore(session),
    )


def _restore(session: Session) -> str:
    return f"stop the workers, keep a copy of {session.config.database_shown}, and restore a backup"


# --- the installation ---------------------------------------------------------------------------------------------


def _place(session: Session) -> Iterator[Finding]:
    try:
        check_version()
    except LongTaskError as error:
        yield Finding(str(error), "merging and checkpoints need it", "install a newer git")
    home = session.config.home
    if not home.exists():
        return
    if stat.S_IMODE(home.stat().st_mode) & 0o077 and home.stat().st_uid == os.getuid():
        yield Finding(
            f"folder {home} is open to others", "code and outputs of your tasks lie there", f"chmod 700 {home}"
        )
    free = shutil.disk_usage(home).free
    if free < FREE_BYTES_MIN:
        what = f"only {free / 1e9:.1f} GB are free at {home}"
        yield Finding(what, "a full disk stops every task", "free some there; LONGTASK_HOME names another place")


def _database(session: Session) -> Iterator[Finding]:
    try:
        problems = session.parts.store.verify()
    except LongTaskError as error:
        problems = [str(error)]
    for problem in problems[:20]:
        yield Finding(f"the database is damaged: {problem}", "rows may be missing or wrong", _restore(session))
    if problems:
        return
    for alarm in session.parts.store.alarms():
        yield Finding(alarm.what, alarm.why, alarm.mend)


def _workers(session: Session) -> Iterator[Finding]:
    try:
        tasks = session.parts.store.tasks(open_only=True, workspace_id=None, before=0, limit=PAGE)
        nobody = idle(session, tasks)
        living = {row.id for row in live_workers(session.parts.store)}
        here = os.uname().nodename
        gone = [row for row in session.parts.store.workers(1_000) if row.host == here and row.id not in living]
        held = [lease for task in tasks for lease in session.parts.store.leases(task.id, LEASES_MAX)]
    except Exception as error:  # noqa: BLE001  damaged rows raise whatever they like
        yield _unreadable(session, "the workers", error)
        return
    if nobody:
        yield Finding(
            "open tasks have work to do, and no worker is alive", "nothing works on them", session.command("worker")
        )
        return
    dead = {row.id for row in gone}
    late = [lease for lease in held if lease.worker in dead and lease.due_at < session.parts.store.now() - 60_000]
    for lease in late[:20]:
        yield Finding(
            f"step {lease.step!r} is held by worker {lease.worker!r}, which is dead, a minute beyond its lease",
            "no scheduler has taken the step back",
            session.command("worker"),
        )


# --- a task -------------------------------------------------------------------------------------------------------


def _task(session: Session, task: Task, notes: list[str]) -> Iterator[Finding]:
    """Audited twice if something looks wrong: a worker may have written between two reads."""
    mend = f"{session.command('pause', handle(task))}, keep a copy of {session.config.database_shown}, and report it"
    try:
        wrong = _violations(session, task, notes) and _violations(session, session.parts.store.get_task(task.id), notes)
    except Exception as error:  # noqa: BLE001  damaged rows raise whatever they like
        yield _unreadable(session, f"task {handle(task)!r}", error)
        return
    for text in wrong:
        why = "an invariant of the machine does not hold: a bug of LongTask, or a damaged database"
        yield Finding(f"{handle(task)}: {text}", why, mend)
    yield from _code(session, task)
    yield from _artifacts(session, task)


def _family(session: Session, top: str) -> Iterator[Finding]:
    """Between a task and all below it."""
    store = session.parts.store
    try:
        try:
            task = store.get_task(top)
        except NotFound:
            return  # pruned meanwhile
        for wrong in audit_below(store, task):
            yield owed(session, wrong)
    except Exception as error:  # noqa: BLE001  damaged rows raise whatever they like
        yield _unreadable(session, f"what stands between task {top!r} and those below it", error)


def owed(session: Session, wrong: Wrong) -> Finding:
    """A task that has been pruned meanwhile is named by its id."""
    named = []
    for task_id in wrong.tasks:
        try:
            named.append(handle(session.parts.store.get_task(task_id)))
        except NotFound:
            named.append(task_id)
    why = "what tasks owe each other is not on its way: a bug of LongTask, or a damaged database"
    return Finding(f"{' and '.join(named)}: {wrong.rule}: {wrong.text}", why, _mended(session, wrong.rule, named))


def _mended(session: Session, rule: str, named: list[str]) -> str:
    if rule == "orphan":
        return session.command("cancel", named[-1])
    if rule == "relay":  # a new wish is told to all
        return f"{session.command('pause', named[0])}, then {session.command('resume', named[0])}"
    pause = session.command("pause", named[0])
    return f"{pause}, keep a copy of {session.config.database_shown}, and report it"


def _violations(session: Session, task: Task, notes: list[str]) -> list[str]:
    for _ in range(READS_MAX):
        found = _audit(session.parts.store, task)
        newer = session.parts.store.get_task(task.id)
        if newer.seq == task.seq:
            return found
        task = newer
    notes.append(
        f"{handle(task)} moves too fast to be audited; pause it first: {session.command('pause', handle(task))}"
    )
    return []


def _audit(store: Store, task: Task) -> list[str]:
    steps = {row.key: row for row in _all(lambda after: store.steps(task.id, after, PAGE), lambda row: row.key, "")}
    edges = [Edge(*pair) for pair in _all(lambda after: store.edges(task.id, after, PAGE), lambda pair: pair, ("", ""))]
    events = _all(lambda after: store.events(task.id, after, PAGE), lambda event: event.seq, 0)
    signals = _all(lambda after: store.inbox(task.id, after, PAGE), lambda signal: signal.number, 0)
    specs: dict[int, StepSpec] = {
        n: store.spec(task.id, n) for n in {row.spec for row in steps.values() if not row.gate}
    }
    leases = store.leases(task.id, LEASES_MAX)
    # a signal that is still being told to its waiters leaves some of them waiting beside it, for a moment
    telling = [signal.number for signal in signals] if task.id in store.unheard(PAGE) else []
    found = audit(
        task,
        steps,
        edges,
        events,
        leases,
        signals,
        specs,
        mutexes=store.mutexes(task.id, LEASES_MAX),
        tickets=store.tickets(task.id, TICKETS_MAX),
        offers=store.offers(task.id, PAGE),
        now=store.now(),
        unheard=telling,
    )
    return [f"{violation.rule}: {violation.text}" for violation in found]


K = TypeVar("K")


def _all(page: Callable[[K], list[T]], cursor: Callable[[T], K], start: K) -> list[T]:
    out: list[T] = []
    while found := page(start):
        out += found
        start = cursor(found[-1])
    return out


def _code(session: Session, task: Task) -> Iterator[Finding]:
    if not task.workspace_id or not task.head:
        return
    lost = "the task's code cannot be read"
    try:
        workspace = session.parts.merger.workspace(task.workspace_id)
        if not workspace.has_commit(task.head):
            mend = f"restore {workspace.hub.path} from a backup, or {session.command('cancel', handle(task))}"
            yield Finding(f"{handle(task)}: commit {task.head[:12]} is not in its hub", lost, mend)
    except LongTaskError as error:
        yield Finding(f"{handle(task)}: {error}", lost, f"restore {session.config.home / 'hubs'} from a backup")


def _artifacts(session: Session, task: Task) -> Iterator[Finding]:
    for artifact in session.parts.records.artifacts(task.id):
        try:
            there = session.parts.artifacts.has(task.workspace_id, artifact["digest"])
        except StoreError as error:
            yield Finding(str(error), "artifacts can neither be kept nor shown", "see there; then run doctor again")
            return
        if not there:
            what = f"{handle(task)}: the bytes of artifact {artifact['name']!r} are gone"
            yield Finding(what, "it cannot be fetched or shown", f"restore {session.config.artifacts} from a backup")
