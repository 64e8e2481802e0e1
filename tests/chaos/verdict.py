"""What must hold when all is over.  Told from four sides that know nothing of each other: the database, git, /proc, and
the witness, a file to which every command has written what it did."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from longtask import boot
from longtask.boot import branch_of
from longtask.core import events as e
from longtask.core.model import Kind, StepState, Task
from longtask.steps import warden
from longtask.store.contract import Ref
from longtask.workspace import exchange, names
from longtask.workspace.workspace import Workspace
from tests.chaos.fleet import Fleet, Life
from tests.chaos.shapes import Place, Shape
from tests.engine.audit import journal, pages, violations

DOCTOR_MAX_S = 600
OVER = (e.StepCompleted, e.StepDelivered)
REPORTS = (*OVER, e.StepFailed, e.StepRetried, e.StepReleased, e.StepParked, e.StepLost, e.FixRequested, e.StepExpanded)


class Line(NamedTuple):
    what: str
    task: str
    step: str
    attempt: int
    pid: int
    mutex: str


@dataclass(slots=True)
class Verdict:
    wrong: list[str] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)


def witnessed(path: Path) -> list[Line]:
    lines: list[Line] = []
    for text in path.read_text().splitlines() if path.exists() else []:
        what, task, step, attempt, pid, mutex = text.split(" ")
        lines.append(Line(what, task, step, int(attempt), int(pid), mutex))
    return lines


def judge(
    fleet: Fleet, parts: boot.Parts, place: Place, repository: Path, ids: Mapping[str, str], shapes: Sequence[Shape]
) -> Verdict:
    """Nobody may write any more."""
    verdict = Verdict()
    lines = witnessed(place.witness)
    tasks = {id: parts.store.get_task(id) for id in ids.values()}
    journals = {id: journal(parts.store, id) for id in tasks}
    verdict.wrong += _all_there(parts, ids, shapes)
    for shape in shapes:
        task = tasks.get(ids.get(shape.name, ""))
        if task is None:
            continue
        wrong = [*_ended(parts, task, shape), *_of_task(parts, task, repository, journals[task.id])]
        wrong += [*fenced(journals[task.id]), *failures(journals[task.id])]
        verdict.wrong += [f"{shape.name}: {text}" for text in wrong]
        if wrong:
            told = (f"{event.seq} {event.at} {event.fact}" for event in journals[task.id])
            (fleet.folder / f"journal-{shape.name}.txt").write_text("\n".join(told))
    verdict.wrong += repeated(lines, journals)
    verdict.wrong += overlapping(lines)
    verdict.wrong += orphans(fleet.folder, list(tasks))
    verdict.wrong += doctor(fleet, len(tasks))
    verdict.figures = _figures(fleet, lines, tasks, journals)
    return verdict


# --- tasks --------------------------------------------------------------------------------------------------------


def _all_there(parts: boot.Parts, ids: Mapping[str, str], shapes: Sequence[Shape]) -> Iterator[str]:
    """Each was stored once, however often its submission was repeated."""
    found = Counter(
        task.name
        for task in pages(
            lambda before: parts.store.tasks(open_only=False, workspace_id=None, before=before, limit=500),
            lambda task: task.number,
            0,
        )
    )
    for shape in shapes:
        if found[shape.name] != 1 or shape.name not in ids:
            yield f"task {shape.name!r} is there {found[shape.name]} times"
    if sum(found.values()) != len(shapes):
        yield f"there are {sum(found.values())} tasks, {len(shapes)} were submitted"


def _ended(parts: boot.Parts, task: Task, shape: Shape) -> Iterator[str]:
    if task.state == shape.end:
        return
    yield f"it is {task.state}, and must be {shape.end}"
    for row in pages(lambda after: parts.store.steps(task.id, after, 500), lambda row: row.key, ""):
        if row.state is StepState.FAILED:
            yield f"step {row.key!r} failed: {row.reason}"


def _of_task(parts: boot.Parts, task: Task, repository: Path, events: Sequence[e.Event]) -> Iterator[str]:
    if not task.workspace_id:
        yield from violations(parts.store, task.id)
        return
    workspace = Workspace.at(parts.config.home, task.workspace_id, parts.config.hub)
    yield from violations(parts.store, task.id, lambda ancestor, commit: workspace.contains(commit, ancestor))
    assert task.head is not None
    ref = names.head_ref(task.id)
    found = exchange.listed(workspace.hub, ref).get(ref) if workspace.hub.remote else workspace.head(task.id)
    if found != task.head:
        yield f"the hub's head is {found}, the journal says {task.head}"
    branch = subprocess.run(
        ["git", "-C", str(repository), "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch_of(task)}"],
        capture_output=True,
        text=True,
    ).stdout.strip()
    if branch != ("" if task.head == task.base else task.head):
        yield f"the user's branch is at {branch or None}, the journal's head is {task.head}"
    rows = list(pages(lambda after: parts.store.steps(task.id, after, 500), lambda row: row.key, ""))
    for row in rows:
        if row.state is StepState.COMPLETED and row.commit and not workspace.contains(task.head, row.commit):
            yield f"commit {row.commit} of step {row.key!r} is not in the head"
    for entry in parts.store.artifacts(task.id, 1_000):
        if len(parts.artifacts.read(task.workspace_id, entry.digest)) != entry.size_bytes:
            yield f"artifact {entry.name!r} is not what was stored"
    spent = sum(
        call.tokens_in + call.tokens_out
        for row in rows
        if row.kind is Kind.AGENT
        for run in range(1, row.run + 1)
        for call in parts.store.journal(Ref(task.id, row.key), run)
    )
    told = sum(x.fact.tokens_in + x.fact.tokens_out for x in events if isinstance(x.fact, e.UsageRecorded))
    if not spent == told == task.spent_tokens:
        yield f"its run journals have {spent} tokens, its journal {told}, its header {task.spent_tokens}"


def fenced(events: Sequence[e.Event]) -> Iterator[str]:
    """What an attempt has reported is of the newest one, and of one that was not given up before."""
    newest: dict[str, int] = {}
    over: set[tuple[str, int]] = set()
    completed: set[str] = set()
    for event in events:
        fact = event.fact
        if isinstance(fact, e.StepClaimed):
            if fact.step in completed:
                yield f"step {fact.step!r} is claimed again at {event.seq}, though it has completed"
            if fact.attempt <= newest.get(fact.step, 0):
                yield f"step {fact.step!r}: attempt {fact.attempt} at {event.seq} is not newer than the one before"
            newest[fact.step] = fact.attempt
        elif isinstance(fact, REPORTS) and fact.attempt:
            told, name = (fact.step, fact.attempt), type(fact).__name__
            if fact.attempt != newest.get(fact.step):
                yield f"{name} of step {fact.step!r}, attempt {fact.attempt}, at {event.seq}: it is old"
            if told in over and getattr(fact, "by", None) is None:
                yield f"{name} of step {fact.step!r}, attempt {fact.attempt}, at {event.seq}: it was over"
            over.add(told)
        if isinstance(fact, e.StepCompleted | e.StepMerged):
            completed.add(fact.step)


def failures(events: Sequence[e.Event]) -> Iterator[str]:
    """A step fails by itself because its plan says so, and for no other reason."""
    for event in events:
        if isinstance(event.fact, e.StepRetried) and event.fact.step != "flaky":
            yield f"step {event.fact.step!r} failed by itself at {event.seq}: {event.fact.reason}"


# --- what was done ------------------------------------------------------------------------------------------------


def repeated(lines: Sequence[Line], journals: Mapping[str, Sequence[e.Event]]) -> Iterator[str]:
    """By the order of the file: attempts of a step follow one another, and after the one that counts comes nothing."""
    counts: dict[tuple[str, str], int] = {}
    for task, events in journals.items():
        counts |= {(task, x.fact.step): x.fact.attempt for x in events if isinstance(x.fact, OVER)}
    newest: dict[tuple[str, str], int] = {}
    finished: set[tuple[str, str]] = set()
    for line in lines:
        step = line.task, line.step
        said = f"step {line.step!r} of {line.task}: attempt {line.attempt} says {line.what!r}"
        if line.attempt < newest.get(step, 0):
            yield f"{said} after a newer one began"
        elif step in finished and step in counts:
            yield f"{said} after the end that counted"
        newest[step] = max(line.attempt, newest.get(step, 0))
        if line.what == "end" and line.attempt == counts.get(step) and ".fix." not in line.step:
            finished.add(step)
    for step, attempt in counts.items():
        if newest.get(step, attempt) > attempt:  # an older one: an agent goes on without doing it again
            yield f"step {step[1]!r} of {step[0]}: attempt {attempt} counts, the last that worked was {newest[step]}"


def overlapping(lines: Sequence[Line]) -> Iterator[str]:
    """Of steps that share a mutex, one has not worked between two lines of another attempt."""
    last: dict[str, tuple[str, str, int]] = {}
    over: dict[str, set[tuple[str, str, int]]] = defaultdict(set)
    for line in lines:
        if line.mutex == "-":
            continue
        this = line.task, line.step, line.attempt
        if this in over[line.mutex]:
            yield f"mutex {line.mutex!r}: {line.step!r} of {line.task}, attempt {line.attempt}, works beside another"
        if line.mutex in last and last[line.mutex] != this:
            over[line.mutex].add(last[line.mutex])
        last[line.mutex] = this


def orphans(folder: Path, tasks: Sequence[str]) -> Iterator[str]:
    """Processes of our tasks, by their mark, or with our folder in their environment."""
    marks = [f"{warden.MARK}={task}/".encode() for task in tasks] + [f"LONGTASK_HOME={folder}/".encode()]
    ours = {os.getpid(), os.getppid()}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in ours:
            continue
        try:
            environment = (entry / "environ").read_bytes()
            program = os.path.basename(os.readlink(entry / "exe"))
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if program == "postgres" or "sleep infinity" in command:  # ours, and ended later
            continue
        if any(mark in environment for mark in marks):
            yield f"process {entry.name} lives on: {command[:200]}"


def doctor(fleet: Fleet, tasks: int) -> Iterator[str]:
    words = [sys.executable, "-m", "longtask.cli.main", "--json", "--database", fleet.database]
    done = subprocess.run(
        [*words, "doctor", "--limit", str(tasks + 1)], capture_output=True, text=True, timeout=DOCTOR_MAX_S
    )
    try:
        said = json.loads(done.stdout)
    except ValueError:
        yield f"doctor ended with {done.returncode}: {done.stderr[-500:]}"
        return
    for finding in said["findings"]:
        yield f"doctor: {finding['what']}"
    if said["tasks"] != tasks:
        yield f"doctor has audited {said['tasks']} tasks of {tasks}"


# --- figures ------------------------------------------------------------------------------------------------------


def _figures(
    fleet: Fleet, lines: Sequence[Line], tasks: Mapping[str, Task], journals: Mapping[str, Sequence[e.Event]]
) -> dict[str, object]:
    facts = Counter(type(event.fact).__name__ for events in journals.values() for event in events)
    started = [life for machine in fleet.machines for life in machine.lives]
    lives = {life.worker: life for life in started if life.worker}
    noticed = sorted(s for events in journals.values() for s in noticed_seconds(events, lives))
    logs = "".join(life.log.read_text(errors="replace") for life in started)
    return {
        "tasks": len(tasks),
        "steps": sum(task.counts.steps for task in tasks.values()),
        "attempts": facts["StepClaimed"],
        "lost": facts["StepLost"],
        "given_back": facts["StepReleased"],
        "retried": facts["StepRetried"],
        "refused_reports": logs.count("report.refused"),
        "leases_lost": logs.count("lease.lost"),
        "commands": sum(line.what == "begin" for line in lines),
        "worker_processes": len(started),
        "round_errors": logs.count("tick.error") + logs.count("schedule.error"),
        "tracebacks": logs.count("Traceback (most recent"),
        "loss_noticed_median_s": round(statistics.median(noticed), 2) if noticed else None,
        "loss_noticed_max_s": noticed[-1] if noticed else None,
    }


def noticed_seconds(events: Sequence[e.Event], lives: Mapping[str, Life]) -> Iterator[float]:
    """From the instant at which a worker was gone, to that at which its step may run elsewhere.  When it does depends
    on what else there is to do: here all slots are taken most of the time."""
    held: dict[str, tuple[str, int]] = {}
    for event in events:
        fact = event.fact
        if isinstance(fact, e.StepClaimed):
            held[fact.step] = fact.worker, event.at
        elif isinstance(fact, e.StepLost):
            worker, claimed_at = held[fact.step]
            gone = [at for at in (lives[worker].gone if worker in lives else ()) if at <= event.at]
            if gone:
                yield round((event.at - max(gone[-1], claimed_at)) / 1000, 2)
