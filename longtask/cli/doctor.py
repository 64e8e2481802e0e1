"""`longtask doctor`: what is wrong with this installation and its database, why it matters, and what mends it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from longtask.cli.background import live_workers
from longtask.cli.session import FAILED, Session, handle
from longtask.core.errors import LongTaskError
from longtask.core.machine import status
from longtask.core.model import Edge, Step, StepSpec, Task
from longtask.core.oracle import audit
from longtask.store.contract import Store
from longtask.workspace.git import check_version
from longtask.workspace.workspace import Workspace

PAGE = 500
STEPS_AUDITED_MAX = 20_000  # a larger task is audited when it is named
FREE_BYTES_MIN = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """`mend` is a command, or what to do."""

    what: str
    why: str
    mend: str


def register(app: typer.Typer) -> None:
    @app.command(rich_help_panel="Operate")
    def doctor(
        ctx: typer.Context,
        task: Annotated[str | None, typer.Argument(help="only this task, at any size")] = None,
        limit: Annotated[int, typer.Option(help="audit at most so many tasks, newest first", min=1)] = 200,
    ) -> int:
        """Check the installation and the database: every invariant of the tasks, on the live rows.

        Example: longtask doctor
        """
        session: Session = ctx.obj
        findings: list[Finding] = []
        checked: list[str] = []
        if task is None:
            findings += _place(session)
            findings += _database(session.parts.store)
            findings += _workers(session)
        tasks = [session.task(task)] if task else _tasks(session.parts.store, limit)
        for found in tasks:
            if task is None and found.counts.steps > STEPS_AUDITED_MAX:
                checked.append(
                    f"{handle(found)}: {found.counts.steps:,} steps, not audited; longtask doctor {handle(found)}"
                )
                continue
            findings += _task(session, found)
        if session.json:
            session.give({"ok": not findings, "tasks": len(tasks), "findings": [asdict(f) for f in findings]})
        for finding in findings:
            session.say(f"✗ {finding.what}\n    why: {finding.why}\n    mend: {finding.mend}")
        for note in checked:
            session.say(f"- {note}")
        if not findings:
            session.say(
                f"nothing wrong: {session.config.database}, {len(tasks)} tasks audited, git and folders in order"
            )
        return FAILED if findings else 0


def _place(session: Session) -> Iterator[Finding]:
    try:
        check_version()
    except LongTaskError as error:
        yield Finding(str(error), "merging and checkpoints need it", "install a newer git")
    home = session.config.home
    if home.exists():
        if stat.S_IMODE(home.stat().st_mode) & 0o077 and home.stat().st_uid == os.getuid():
            yield Finding(
                f"folder {home} is open to others", "outputs and code of your tasks lie there", f"chmod 700 {home}"
            )
        free = shutil.disk_usage(home).free
        if free < FREE_BYTES_MIN:
            yield Finding(
                f"only {free / 1e9:.1f} GB are free at {home}", "a full disk stops every task", "free some; longtask ls"
            )


def _database(store: Store) -> Iterator[Finding]:
    for problem in store.verify():
        yield Finding(
            f"the database is damaged: {problem}",
            "rows may be missing or wrong",
            "stop the workers, keep a copy of the file, and restore a backup",
        )


def _workers(session: Session) -> Iterator[Finding]:
    tasks = session.parts.store.tasks(open_only=True, workspace_id=None, before=0, limit=100)
    moving = [t for t in tasks if status(t) in ("running", "queued", "cancelling")]
    if moving and not live_workers(session):
        yield Finding(f"{len(moving)} open tasks and no living worker", "nothing works on them", "longtask worker")


def _tasks(store: Store, limit: int) -> list[Task]:
    out: list[Task] = []
    before = 0
    while len(out) < limit:
        page = store.tasks(open_only=False, workspace_id=None, before=before, limit=min(PAGE, limit - len(out)))
        if not page:
            break
        out += page
        before = page[-1].number
    return out


def _task(session: Session, task: Task) -> Iterator[Finding]:
    """Audited twice if something looks wrong: a worker may have written between two reads."""
    if _violations(session, task):
        for violation in _violations(session, session.parts.store.get_task(task.id)):
            yield Finding(
                f"{handle(task)}: {violation}",
                "an invariant of the machine does not hold: this is a bug of LongTask or a damaged database",
                f"longtask pause {handle(task)}, keep a copy of {session.config.database}, and report it",
            )
    yield from _references(session, task)


def _violations(session: Session, task: Task, tries: int = 5) -> list[str]:
    store = session.parts.store
    steps: dict[str, Step] = {}
    after = ""
    while page := store.steps(task.id, after, PAGE):
        steps |= {row.key: row for row in page}
        after = page[-1].key
    edges: list[Edge] = []
    at = ("", "")
    while found := store.edges(task.id, at, PAGE):
        edges += [Edge(*pair) for pair in found]
        at = found[-1]
    events = []
    seq = 0
    while journal := store.events(task.id, seq, PAGE):
        events += journal
        seq = journal[-1].seq
    signals = []
    number = 0
    while inbox := store.inbox(task.id, number, PAGE):
        signals += inbox
        number = inbox[-1].number
    specs: dict[int, StepSpec] = {
        n: store.spec(task.id, n) for n in {row.spec for row in steps.values() if not row.gate}
    }
    leases = store.leases(task.id, 10_000)
    newer = store.get_task(task.id)
    if newer.seq != task.seq:  # it moved while it was read; a busy task may have to be paused to be audited
        return _violations(session, newer, tries - 1) if tries else []
    found_wrong = audit(task, steps, edges, events, leases, signals, specs, now=store.now())
    return [f"{v.rule}: {v.text}" for v in found_wrong]


def _references(session: Session, task: Task) -> Iterator[Finding]:
    if not task.workspace_id or not task.head:
        return
    try:
        workspace = Workspace.at(session.config.home, task.workspace_id)
        if not workspace.has_commit(task.head):
            yield Finding(
                f"{handle(task)}: commit {task.head[:12]} is not in its hub",
                "the task's code cannot be read",
                "restore the hub from a backup, or cancel the task",
            )
    except LongTaskError as error:
        yield Finding(f"{handle(task)}: {error}", "the task's code cannot be read", "restore the hub from a backup")
