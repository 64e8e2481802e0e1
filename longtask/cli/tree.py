"""A task as a tree of stages and steps: lines for people, a map for programs.

Large tasks are folded: the items of a for_each into counts, and of a stage the steps that say nothing new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from longtask.cli.session import handle
from longtask.core.machine import status
from longtask.core.model import OPEN, Role, Step, StepState, Task, WaitingFor
from longtask.engine.records import TaskRecords
from longtask.store.contract import Progress, Store

S = StepState
MARK = {
    S.BLOCKED: ("·", "dim"),
    S.READY: ("○", ""),
    S.RUNNING: ("●", "cyan"),
    S.WAITING: ("◆", "yellow"),
    S.MERGING: ("◑", "cyan"),
    S.COMPLETED: ("✓", "green"),
    S.FAILED: ("✗", "red"),
    S.CANCELLED: ("⊘", "red"),
    S.SKIPPED: ("–", "dim"),
}
FOLD_ABOVE = 12  # steps of a stage that look the same
STEPS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Picture:
    """What a view shows, read in one go."""

    task: Task
    steps: list[Step]
    progress: dict[str, Progress]
    now: int


def look(store: Store, records: TaskRecords, task_id: str, limit: int = STEPS_MAX) -> Picture:
    task = store.get_task(task_id)
    progress = {row.step: row for row in store.progress(task_id, 1_000)}
    return Picture(task, records.steps(task_id, limit), progress, store.now())


def duration(ms: int) -> str:
    seconds = max(ms, 0) / 1000
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def percent(task: Task) -> int:
    return 100 if not task.counts.weight else int(100 * task.counts.weight_done / task.counts.weight)


def head_line(picture: Picture) -> Text:
    task = picture.task
    word = status(task)
    colour = {"completed": "green", "failed": "red", "cancelled": "red"}.get(
        word, "yellow" if "wait" in word else "cyan"
    )
    took = (task.ended_at or picture.now) - task.created_at
    line = Text.assemble((handle(task), "bold"), "  ", (word, colour), f"  {percent(task)}%  {duration(took)}")
    if task.spent_micros or task.spent_tokens:
        line.append(f"  {task.spent_micros / 1e6:.2f} USD, {task.spent_tokens:,} tokens", "dim")
    return line


def lines(picture: Picture, *, all_steps: bool = False) -> Iterator[Text]:
    task, steps = picture.task, picture.steps
    yield head_line(picture)
    if task.options.goal:
        yield Text(f"  {' '.join(task.options.goal.split())}", "dim")
    names = task.options.stages or ("steps",)
    for number, name in enumerate(names, 1):
        mine = [s for s in steps if s.stage == number]
        word = stage_word(task, mine, number)
        yield Text.assemble("  ", (name, "bold"), ("" if word in ("running", "completed") else f"  {word}", "dim"))
        own = [s for s in mine if s.role is Role.OWN]
        yield from _stage(picture, own, mine, all_steps)
    if task.counts.steps - len(names) > len(steps):
        yield Text(f"  … {task.counts.steps - len(names) - len(steps):,} more steps; see them with --json", "dim")


def stage_word(task: Task, mine: list[Step], number: int) -> str:
    if task.counts.gates >= number:
        bad = [s for s in mine if s.state in (S.FAILED, S.CANCELLED) and not s.tolerated and s.role is Role.OWN]
        if bad:
            return "failed"
        return "skipped" if mine and all(s.state is S.SKIPPED for s in mine) else "completed"
    if task.counts.gates == number - 1:
        return "running"
    return "ahead" if any(s.state is not S.BLOCKED for s in mine) else "upcoming"


def _stage(picture: Picture, own: list[Step], mine: list[Step], all_steps: bool) -> Iterator[Text]:
    counts = Counter(s.state for s in own)
    folded: set[StepState] = set()
    if not all_steps and len(own) > FOLD_ABOVE:
        folded = {state for state, n in counts.items() if n > FOLD_ABOVE // 2 and state not in (S.FAILED, S.WAITING)}
    for step in own:
        if step.state not in folded:
            yield from step_lines(picture, step, mine, "    ")
    for state in sorted(folded):
        mark, colour = MARK[state]
        yield Text.assemble("    ", (mark, colour), f" {counts[state]:,} steps {state}")


def step_lines(picture: Picture, step: Step, among: list[Step], indent: str) -> Iterator[Text]:
    mark, colour = MARK[step.state]
    line = Text.assemble(indent, (mark, colour), f" {step.key}")
    note = step_note(picture, step)
    if note:
        line.append(f"  {note}", "dim")
    yield line
    reason = (step.reason or "").strip()
    if reason and step.state in (S.FAILED, S.CANCELLED, S.READY):
        first = reason.splitlines()[0]
        yield Text(f"{indent}    {first[:150]}", "red" if step.state is S.FAILED else "dim")
    owned = [s for s in among if s.owner == step.key]
    items = [s for s in owned if s.role is Role.ITEM]
    if len(items) > FOLD_ABOVE:
        counts = Counter(str(s.state) for s in items)
        shown = ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))
        yield Text(f"{indent}    {step.items} items: {shown}", "dim")
        owned = [s for s in owned if s.role is not Role.ITEM or s.state in (S.FAILED, S.WAITING, S.RUNNING)]
    for child in owned:
        yield from step_lines(picture, child, among, indent + "    ")


def step_note(picture: Picture, step: Step) -> str:
    """What one wants to know beside a step's name: progress, time, attempt, what it waits for."""
    parts: list[str] = []
    progress = picture.progress.get(step.key)
    if step.state is S.RUNNING:
        if progress is not None and progress.attempt == step.attempt:
            parts.append(f"{progress.done}/{progress.total}" if progress.total else progress.text)
        parts.append(duration(picture.now - step.began_at))
    elif step.state is S.WAITING:
        parts.append(waits_for(step))
    elif step.state not in OPEN and step.began_at and step.ended_at:
        if progress is not None and progress.attempt == step.attempt and progress.text:
            parts.append(progress.text)
        parts.append(duration(step.ended_at - step.began_at))
    elif step.state is S.READY and step.due_at > picture.now:
        parts.append(f"again in {duration(step.due_at - picture.now)}")
    if step.attempt > 1:
        parts.append(f"attempt {step.attempt}")
    if step.rounds:
        parts.append(f"round {step.rounds}")
    if step.state is S.SKIPPED:
        parts.append("not wanted" if step.benign else f"because of {step.because}")
    if step.waived:
        parts.append("skipped by hand")
    elif step.state in (S.FAILED, S.CANCELLED) and step.tolerated:
        parts.append("tolerated")
    return "  ".join(parts)


def waits_for(step: Step) -> str:
    question = step.question or {}
    if step.waiting_for is WaitingFor.USER:
        return f"asks: {question.get('text') or question.get('reason') or question.get('kind')}".splitlines()[0][:100]
    if "name" in question:
        match = ", ".join(f"{k}={v}" for k, v in (question.get("match") or {}).items())
        return f"waits for signal {question['name']}" + (f" with {match}" if match else "")
    return f"waits for {step.waiting_for}"


def as_map(picture: Picture) -> dict[str, Any]:
    """The shape of `show --json`."""
    task = picture.task
    return {
        "id": task.id,
        "handle": handle(task),
        "name": task.name,
        "goal": task.options.goal,
        "state": str(task.state),
        "status": status(task),
        "percent": percent(task),
        "created_at": task.created_at,
        "ended_at": task.ended_at or None,
        "base": task.base,
        "head": task.head,
        "cost_micros": task.spent_micros,
        "tokens": task.spent_tokens,
        "stages": [
            {"name": name, "status": stage_word(task, [s for s in picture.steps if s.stage == n], n)}
            for n, name in enumerate(task.options.stages or ("steps",), 1)
        ],
        "counts": task.counts._asdict(),
        "steps": [step_map(picture, step) for step in picture.steps],
    }


def step_map(picture: Picture, step: Step) -> dict[str, Any]:
    progress = picture.progress.get(step.key)
    shown = progress if progress is not None and progress.attempt == step.attempt else None
    return {
        "key": step.key,
        "kind": str(step.kind),
        "stage": step.stage,
        "state": str(step.state),
        "owner": step.owner,
        "attempt": step.attempt,
        "run": step.run,
        "rounds": step.rounds,
        "began_at": step.began_at or None,
        "ended_at": step.ended_at or None,
        "due_at": step.due_at or None,
        "reason": step.reason,
        "because": step.because,
        "benign": step.benign,
        "tolerated": step.tolerated,
        "waiting_for": str(step.waiting_for) or None,
        "question": step.question,
        "ask": step.ask or None,
        "commit": step.commit,
        "result": step.result,
        "progress": None if shown is None else {"done": shown.done, "total": shown.total, "text": shown.text},
    }
