"""How tasks, steps and times are called."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from longtask.core.model import Step, StepState, Task, WaitingFor
from longtask.core.policy import NEAR_PERCENT
from longtask.views.text import clean, first_line, gist

S = StepState


def handle(task: Task) -> str:
    return f"{task.name}-{task.number}"


def named(task: Task, key: str) -> str:
    """A step as people know it: a gate by the stage that it ends."""
    gate, _, number = key.rpartition(".")
    stages = task.options.stages
    if gate == "gate" and number.isdigit() and 0 < int(number) <= len(stages):
        return f"stage {stages[int(number) - 1]!r}"
    return repr(key)


def percent(task: Task) -> int:
    return 100 if not task.counts.weight else int(100 * task.counts.weight_done / task.counts.weight)


def spent(task: Task) -> tuple[str, bool]:
    """What has been spent of what may be, "" if nothing is; and whether a limit is near, or reached."""
    if not task.spent_micros and not task.spent_tokens:
        return "", False
    money, tokens = f"{task.spent_micros / 1e6:.2f}", f"{task.spent_tokens:,}"
    if task.budget_micros is not None:
        money += f" of {task.budget_micros / 1e6:.2f}"
    if task.budget_tokens is not None:
        tokens += f" of {task.budget_tokens:,}"
    pairs = ((task.spent_micros, task.budget_micros), (task.spent_tokens, task.budget_tokens))
    near = any(limit is not None and 100 * used >= NEAR_PERCENT * limit for used, limit in pairs)
    return f"{money} USD, {tokens} tokens", near


def near_limit(task: Task, which: str, used: int, limit: int, *, step: bool = False, stage: bool = False) -> str:
    """How much of it is used, and what comes then.  Amounts as in `core.spending`; `step`: it is a step's own, `stage`:
    that of a stage."""
    if stage:
        then = f"its agents stop, and {'somebody is asked' if task.options.attended else 'they fail'}"
    elif not step:
        then = "its agents stop, and it waits"
    elif which == "requests":
        then = "its run fails"
    else:
        then = f"its agent stops, and {'somebody is asked' if task.options.attended else 'it fails'}"
    return f"{_used_of(which, used, limit)}; at the limit {then}"


def _used_of(which: str, used: int, limit: int) -> str:
    match which:
        case "micros":
            return f"{used / 1e6:.2f} of {limit / 1e6:.2f} USD"
        case "active_ms":
            return f"{duration(used)} of {duration(limit)}"
    return f"{used:,} of {limit:,} {which}"


def stages(task: Task) -> Sequence[str]:
    """A plan without stages has one, which nobody has named."""
    return task.options.stages or ("steps",)


def stage(task: Task) -> str | None:
    """The one that runs; None: it has ended."""
    names, ended = stages(task), task.counts.gates
    return names[ended] if not task.ended and ended < len(names) else None


def stage_word(task: Task, own: Sequence[Step], number: int) -> str:
    """`own`: the stage's steps, owned ones left out."""
    if task.counts.gates >= number:
        if any(s.state in (S.FAILED, S.CANCELLED) and not s.tolerated for s in own):
            return "failed"
        return "skipped" if own and all(s.state is S.SKIPPED for s in own) else "completed"
    if task.counts.gates == number - 1:
        return "running"
    return "ahead" if any(s.state is not S.BLOCKED for s in own) else "upcoming"


def waits_for(step: Step) -> str:
    question = step.question or {}
    if step.waiting_for is WaitingFor.USER:
        who = ", ".join(question.get("who") or ())
        return f"asks{' ' + who if who else ''}: {question_text(step)}"
    if step.waiting_for is WaitingFor.TASK:
        return "waits for its task"
    if "name" in question:
        match = ", ".join(f"{k}={v}" for k, v in (question.get("match") or {}).items())
        return clean(f"waits for signal {question['name']}" + (f" with {match}" if match else ""))
    return f"waits for {step.waiting_for}"


def question_text(step: Step) -> str:
    question = step.question or {}
    return first_line(question.get("text") or "") or gist(question.get("reason")) or str(question.get("kind") or "")


def duration(ms: int, *, whole: bool = False) -> str:
    """`whole`: no tenths, which flicker."""
    seconds = max(ms, 0) / 1000
    if seconds < 9.95 and not whole:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds) if whole else round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")


def command(*words: str) -> str:
    """A command as one types it on a machine where nothing else must be said; words in capitals are to be filled in."""
    return " ".join(["longtask", *(word if word.isupper() else shlex.quote(word) for word in words)])
