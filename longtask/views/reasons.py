"""What a task waits for, since when, and the command that helps: `longtask why`, and the last words of a view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longtask.core.decide import ANSWERS, RAISE_STAGE
from longtask.core.errors import LongTaskError, NotFound
from longtask.core.hands import TAKEN_FROM
from longtask.core.machine import status
from longtask.core.model import (
    PAUSED_BY_PARENT,
    Json,
    JsonMap,
    Kind,
    Question,
    Role,
    Step,
    StepState,
    Task,
    TaskState,
    WaitingFor,
)
from longtask.core.spending import limits_of, near, stage_limits, stage_spent
from longtask.store.contract import Ref, Store
from longtask.views.fleet import live_workers
from longtask.views.picture import STEPS_MAX, look, need_rows, parent_of
from longtask.views.proposed import lines_of
from longtask.views.text import clean, gist, problems_in
from longtask.views.words import duration, handle, named, near_limit, question_text, spent, waits_for

S = StepState
SHOWN_MAX = 10
ASKING_MAX = 20
QUEUE_SHOWN_MAX = 1_000  # places that are counted
WRITES = (Kind.RUN, Kind.AGENT, Kind.FUNCTION)  # kinds of steps that have an output to read
COMMANDS = {  # (verb, flags) by answer
    "again": ("retry",),
    "accept": ("approve",),
    "raise": ("approve",),
    RAISE_STAGE: ("approve", "--stage"),
    "give_up": ("reject",),
    "resolve": ("done", "--commit", "COMMIT"),
}


@dataclass(frozen=True, slots=True)
class Face:
    """For whom it is told.  `command`: words of a command, as that one would have to write it.  `value`: a stored value
    of a workspace, also one that was too large for a row."""

    store: Store
    command: Callable[..., str]
    value: Callable[[str, Json], Json]


@dataclass(frozen=True, slots=True)
class Reason:
    """`since`: an instant, 0 when it is not known.  `who`: who may decide, empty for anybody.  `help`: commands.
    `details`: of one step that is asked about, all problems, where its reason lists several; or the steps that it
    wants to add."""

    what: str
    since: int = 0
    help: tuple[str, ...] = ()
    step: str | None = None
    who: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


def reason_map(reason: Reason) -> dict[str, Any]:
    return {
        "what": reason.what,
        "since": reason.since or None,
        "help": list(reason.help),
        "step": reason.step,
        "who": list(reason.who),
        "details": list(reason.details),
    }


def why(face: Face, task: Task, step: Step | None) -> list[Reason]:
    found = list(_of_task(face, task) if step is None else _of_step(face, task, step))
    if found:
        return found if step is None else [replace(found[0], details=_details(face, task, step)), *found[1:]]
    return [
        Reason(f"{step.key} is {step.state}" if step else f"{handle(task)} is {status(task)}: nothing is in the way")
    ]


def _details(face: Face, task: Task, step: Step) -> tuple[str, ...]:
    """Of a step that has gone wrong, or asks: all problems, where its reason lists several; of a planner that asks, the
    steps."""
    if step.state not in (S.WAITING, S.READY, S.FAILED, S.CANCELLED):
        return ()
    if (step.question or {}).get("kind") == Question.PLAN:
        return proposed_lines(face, task, step.key, step.question or {})
    problems = problems_in(str((step.question or {}).get("reason") or step.reason or ""))
    return tuple(clean(line) for line in problems) if len(problems) > 1 else ()


def proposed_lines(face: Face, task: Task, key: str, question: JsonMap) -> tuple[str, ...]:
    """The steps that a planner wants to add, a line each, with those of their plans; or why they cannot be read."""
    try:
        return tuple(lines_of(face.value(task.workspace_id, question.get("result"))))
    except (LongTaskError, ValueError) as error:
        written = face.command("logs", handle(task), key)
        return (f"what it wants to add cannot be read: {clean(error)}; what the planner has written: {written}",)


def waits_for_somebody(face: Face, task: Task) -> list[Reason]:
    """What only a person can do now; empty if it goes on by itself."""
    word = status(task)
    if word == "paused":
        return [_paused(face, task)]
    if word == "waiting_budget":
        return [_over_budget(face, task)]
    return questions(face, task) if word == "waiting_user" else []


def questions(face: Face, task: Task) -> list[Reason]:
    """All that is asked, though other steps may still run."""
    asking = face.store.asking(task_id=task.id, limit=ASKING_MAX)
    return [_question(face, handle(task), step) for _, step in asking]


def answers(step: Step) -> tuple[str, ...]:
    """The words that answer what it asks."""
    question = step.question or {}
    return tuple(question.get("answers") or ANSWERS[Question(question["kind"])])


def commands_of(command: Callable[..., str], answers: Sequence[str], name: str, key: str) -> list[str]:
    """Those by which a step can be answered."""
    fitting = [COMMANDS[word] for word in answers if word in COMMANDS]
    return [command(verb, name, key, *flags) for verb, *flags in fitting]


def _of_task(face: Face, task: Task) -> Iterator[Reason]:
    name, c = handle(task), task.counts
    if task.state is TaskState.COMPLETED or task.state is TaskState.CANCELLED:
        yield Reason(f"{name} is {task.state}", task.ended_at)
        return
    steps = look(face.store, task.id, STEPS_MAX).steps
    bad = [s for s in steps if s.state in (S.FAILED, S.CANCELLED) and not s.tolerated and s.role is Role.OWN]
    if task.state is TaskState.FAILED:
        for step in bad[:SHOWN_MAX]:
            yield _failed(face, name, step)
        return
    if task.loading:
        yield Reason(f"{name} is still being submitted; submit the same plan with the same --key to continue it")
    if task.state is TaskState.PAUSED:
        yield _paused(face, task)
    if not task.within_budget:
        yield _over_budget(face, task)
    elif spent(task)[1]:
        yield _near_budget(face, task)
    yield from _near_stages(task)
    moving = c.running or c.running_system or c.ready or c.merging or c.untold or c.wait_timer
    if moving and not live_workers(face.store):
        yield Reason("no worker is alive: nothing works on it", 0, (face.command("worker"),))
    for step in bad[:3]:
        yield _failed(face, name, step)
    active = [s for s in steps if s.state in (S.WAITING, S.RUNNING, S.MERGING, S.READY)]
    active.sort(key=lambda s: s.state is not S.WAITING)
    for step in active[:SHOWN_MAX]:
        yield from _of_step(face, task, step)
    if len(active) > SHOWN_MAX:  # it is the first one's: who asks what the task itself waits for is not told of it
        text = f"… and {len(active) - SHOWN_MAX:,} more steps are under way"
        yield Reason(text, 0, (face.command("show", name),), step=active[SHOWN_MAX].key)


def _paused(face: Face, task: Task) -> Reason:
    name = handle(task)
    parent = parent_of(face.store, task) if task.pauses & PAUSED_BY_PARENT else None
    if parent is not None:
        why = f"{handle(parent)}, whose step {task.parent_step!r} it works for, is paused or has spent its budget"
        return Reason(f"{name} is held: {why}", 0, (face.command("why", handle(parent)),))
    return Reason(f"{name} is paused: nothing new is claimed", 0, (face.command("resume", name),))


def _over_budget(face: Face, task: Task) -> Reason:
    name = handle(task)
    if task.exceeded:
        helps = (face.command("resume", name, "--active", "DURATION"), face.command("cancel", name))
        return Reason(f"{name} has reached its limit of {task.exceeded} time", 0, helps)
    if task.budget_tokens is not None and task.spent_tokens >= task.budget_tokens:
        what = f"{task.spent_tokens:,} of {task.budget_tokens:,} tokens are used"
        return Reason(f"{name}: {what}", 0, (face.command("resume", name, "--tokens", "N"),))
    what = f"{task.spent_micros / 1e6:.2f} of {(task.budget_micros or 0) / 1e6:.2f} USD are spent"
    return Reason(f"{name}: {what}", 0, (face.command("resume", name, "--cost-usd", "N"),))


def _near_budget(face: Face, task: Task) -> Reason:
    name = handle(task)
    text = f"{name} comes near its limit: {spent(task)[0]}; at the limit its agents stop, and it waits"
    words = [("--cost-usd", "N")] if task.budget_micros is not None else []
    words += [("--tokens", "N")] if task.budget_tokens is not None else []
    return Reason(text, 0, tuple(face.command("resume", name, *pair) for pair in words))


def _near_stages(task: Task) -> Iterator[Reason]:
    for stage, name in enumerate(task.options.stages if task.stage_spent else (), 1):
        used = stage_spent(task, stage)
        for which, limit in stage_limits(task, stage).items():
            if near(used[which], limit):
                text = near_limit(task, which, used[which], limit, stage=True)
                yield Reason(f"stage {name!r} comes near its limit: {text}")


def _near_limits(face: Face, task: Task, step: Step) -> Iterator[Reason]:
    """Of the step: told of its task, since only a person can do something about it."""
    limits = limits_of(face.store.spec(task.id, step.spec), step.raises)
    used = face.store.spent(Ref(task.id, step.key), step.run) if limits else {}
    for which, limit in limits.items():
        if near(used[which], limit):
            text = near_limit(task, which, used[which], limit, step=True)
            yield Reason(f"step {step.key!r} comes near its limit: {text}")


def _failed(face: Face, name: str, step: Step) -> Reason:
    text = gist(step.reason) or "no reason is known"
    verbs = ("logs", "retry", "skip") if step.attempt and step.kind in WRITES else ("retry", "skip")
    commands = [face.command(verb, name, step.key) for verb in verbs] + _by_hand(face, name, step)
    return Reason(f"{step.key} {step.state}: {text}", step.ended_at, tuple(commands), step.key)


def _of_step(face: Face, task: Task, step: Step) -> Iterator[Reason]:
    name, now, key = handle(task), face.store.now(), step.key
    match step.state:
        case S.WAITING if step.waiting_for is WaitingFor.USER:
            yield _question(face, name, step)
        case S.WAITING if step.waiting_for is WaitingFor.MUTEX:
            yield _queueing(face, task, step)
        case S.WAITING if step.waiting_for is WaitingFor.TASK:
            yield _waiting_for_child(face, step)
        case S.WAITING:
            yield _waiting(face, name, step)
        case S.RUNNING if step.taken_by is not None:
            helps = (face.command("done", name, key), face.command("take", name, key, "--give-back"))
            yield Reason(f"{step.taken_by} works on {key} by hand", step.began_at, helps, key, (step.taken_by,))
        case S.RUNNING:
            what = f"{key} runs (attempt {step.attempt}, worker {step.worker})"
            yield Reason(what, step.began_at, (face.command("logs", name, key, "-f"),), key)
            if step.kind is Kind.AGENT:
                yield from _near_limits(face, task, step)
        case S.READY if step.due_at > now:
            after = f" after {step.failures or step.losses} failed attempts" if step.failures or step.losses else ""
            text = f": {gist(step.reason)}" if step.reason else ""
            yield Reason(f"{key} is tried again in {duration(step.due_at - now)}{after}{text}", 0, (), key)
        case S.READY:
            if task.state is TaskState.PAUSED or not task.within_budget:
                return  # told of the task
            full = task.admits < 2
            text = f"all {task.parallel} places of the task are taken" if full else "it waits for a free worker"
            pool = "" if step.pool == "default" else f" of pool {step.pool!r}"
            yield Reason(f"{key} is ready: {text}{pool}", step.due_at, (), key)
        case S.MERGING:
            yield Reason(f"{key} is done; its commit {str(step.commit)[:12]} is being merged", 0, (), key)
        case S.BLOCKED:
            yield from _blocked(face, task, step)
        case S.SKIPPED:
            because = step.because or "?"
            cause = "it was not wanted" if step.benign else f"{named(task, because)} did not succeed"
            gate = named(task, because) != repr(because)
            commands = () if step.benign else (face.command("why", name, *(() if gate else (because,))),)
            yield Reason(f"{key} was skipped: {cause}", step.ended_at, commands, key)
        case S.FAILED | S.CANCELLED:
            yield _failed(face, name, step)
        case _:
            yield Reason(f"{key} has completed", step.ended_at, (), key)


def _question(face: Face, name: str, step: Step) -> Reason:
    question = step.question or {}
    who = tuple(question.get("who") or ())
    key = step.key
    text = f"{key} asks {', '.join(who) if who else 'anybody'}: {question_text(step)}"
    commands: list[str] = []
    if "approve" in answers(step):
        shown = question.get("show") or {}
        commands += [face.command("diff", name, key)] if "diff" in shown else []
        commands += [face.command("artifacts", name, a["name"]) for a in shown.get("artifacts", ())]
        commands += [face.command("approve", name, key), face.command("reject", name, key, "-m", "REASON")]
    else:
        commands += [face.command("logs", name, key)] if step.attempt and step.kind in WRITES else []
        commands += commands_of(face.command, answers(step), name, key)
        commands += _by_hand(face, name, step) if question.get("kind") in TAKEN_FROM else []
    return Reason(text, step.began_at, tuple(commands), key, who)


def _by_hand(face: Face, name: str, step: Step) -> list[str]:
    """Other ways out of what went wrong than trying the same again."""
    if step.kind not in WRITES or step.role is not Role.OWN:
        return []
    words = {Kind.RUN: ("--run", "COMMAND"), Kind.AGENT: ("--prompt", "TEXT")}.get(step.kind, ("-f", "WORDS.yaml"))
    return [face.command("edit", name, step.key, *words, "--retry-now"), face.command("take", name, step.key)]


def _waiting(face: Face, name: str, step: Step) -> Reason:
    question = step.question or {}
    text = f"{step.key} {waits_for(step)}"
    if step.due_at:
        text += f", until {duration(max(step.due_at - face.store.now(), 0))} from now"
    if "name" not in question:
        return Reason(text, step.began_at, (), step.key)
    data = [f"{k}={v}" for k, v in (question.get("match") or {}).items()]
    return Reason(text, step.began_at, (face.command("signal", name, str(question["name"]), *data),), step.key)


def _waiting_for_child(face: Face, step: Step) -> Reason:
    try:
        child = face.store.get_task(str((step.question or {})["child"]))
    except NotFound:
        return Reason(f"{step.key} waits for its task, which is about to be made", step.began_at, (), step.key)
    name, word = handle(child), status(child)
    text = f"{step.key} waits for its task {name}, which is {word}"
    return Reason(text, step.began_at, (face.command("why", name), face.command("show", name)), step.key)


def _queueing(face: Face, task: Task, step: Step) -> Reason:
    """Who holds the mutex, since when, and how many come first."""
    store, name = face.store, step.mutex or ""
    queue = store.queue(name, QUEUE_SHOWN_MAX)
    place = next((n for n, row in enumerate(queue, 1) if (row.task_id, row.step) == (task.id, step.key)), 0)
    since = queue[place - 1].at if place else 0
    where = f"place {place} of {len(queue)}" if place else f"behind {len(queue):,} others"
    held, commands = store.mutex(name), (face.command("why", handle(task)),)
    if held is None:
        who = "which nobody holds now"
    else:
        other = store.get_task(held.task_id)
        whose = "" if other.id == task.id else f" of {handle(other)}"
        who = f"held by {held.step}{whose} for {duration(max(store.now() - held.at, 0))}"
        commands = (face.command("show", handle(other)),)
    more = "+" if len(queue) == QUEUE_SHOWN_MAX and place else ""
    return Reason(f"{step.key} waits for mutex {name!r}, {who}; {where}{more} in the queue", since, commands, step.key)


def _blocked(face: Face, task: Task, step: Step) -> Iterator[Reason]:
    name = handle(task)
    open_needs = [row for row in need_rows(face.store, task, step.key, 200) if row.open or row.told == ""]
    for row in open_needs[:SHOWN_MAX]:
        help_ = face.command("why", name) if row.gate else face.command("why", name, row.key)
        what = "which is not over" if row.gate else f"which is {row.state}"
        since = row.began_at if not row.gate and row.open else 0
        yield Reason(f"{step.key} waits for {named(task, row.key)}, {what}", since, (help_,), step.key)
    if len(open_needs) > SHOWN_MAX:
        yield Reason(f"{step.key} waits for {len(open_needs) - SHOWN_MAX:,} more steps", 0, (), step.key)
