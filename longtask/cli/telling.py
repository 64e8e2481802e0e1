"""The journal in words: a line for people, CloudEvents for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from longtask.cli.paint import Line
from longtask.core import events as e
from longtask.core.model import Task
from longtask.core.public import public
from longtask.views.text import clean, first_line, gist
from longtask.views.words import named, near_limit

# Nothing that a person watching would miss: others of these tell the same.
QUIET = frozenset({"step.ready", "longtask.recorded", "step.added", "agent.run.started", "artifact.created"})
COLOURS = {"failed": "red", "cancelled": "red", "completed": "green",
           "required": "yellow", "waiting": "yellow", "near": "yellow"}  # fmt: skip
TEXT_MAX = 160


def local(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def event_lines(task: Task, event: e.Event, when: str, *, quiet: bool) -> Iterator[Line]:
    """For people.  `quiet`: without what watching needs not tell."""
    for name, subject, text in _told(task, event.fact):
        yield from _line(name, subject, text, when, quiet)


def cloud_lines(task: Task, name: str, fields: Mapping[str, Any], when: str, *, quiet: bool) -> Iterator[Line]:
    """The same of a CloudEvent: its type and its data.  Of moves without a public name it knows nothing."""
    yield from _line(*_public(task, name, fields), when, quiet)


def _line(name: str, subject: str, text: str, when: str, quiet: bool) -> Iterator[Line]:
    over = name == "stage.completed" and text in ("", "completed")
    if quiet and (name in QUIET or over):
        return
    colour = COLOURS.get(name.rpartition(".")[2], "")
    line = [(when, "dim"), ("  ", ""), (f"{name:<18}", colour), (" ", ""), (clean(subject), "")]
    yield [*line, (f"  {first_line(text, TEXT_MAX)}", "dim")] if text else line


def _told(task: Task, fact: e.Fact) -> Iterator[tuple[str, str, str]]:
    """(name, subject, text).  Moves that have no public name and yet explain what follows are told too."""
    match fact:
        case e.FixRequested():
            what = "a reviewer asks for a revision" if fact.revise else "a fix begins"
            yield "fix.requested", fact.step, f"round {fact.round}: {what}: {gist(fact.reason)}"
        case e.MergeConflicted():
            paths = ", ".join(fact.paths[:5]) + (" …" if len(fact.paths) > 5 else "")
            yield "merge.conflicted", fact.step, paths
        case e.StepReleased():
            yield "step.released", fact.step, fact.reason
        case e.StepRetired() | e.StepWaived():
            yield "step.retired" if isinstance(fact, e.StepRetired) else "step.waived", fact.step, f"by {fact.by}"
        case e.StepRestored() if fact.by:
            yield "step.restored", fact.step, f"by {fact.by}"
    for shown in public(fact, task.options.stages):
        yield _public(task, shown.name, shown.fields)


def _public(task: Task, name: str, fields: Mapping[str, Any]) -> tuple[str, str, str]:
    subject = fields.get("step") or fields.get("stage") or task.name
    if name == "step.added":
        subject = ", ".join(fields["steps"][:5])
    return name, str(subject), _text(task, name, dict(fields))


def _text(task: Task, name: str, fields: dict[str, Any]) -> str:
    if name == "budget.near":
        of = {"step": "step" in fields, "stage": "stage" in fields}
        return near_limit(task, fields["which"], fields["used"], fields["limit"], **of)
    question = fields.get("question")
    if isinstance(question, dict):
        if question.get("name"):
            match = ", ".join(f"{k}={v}" for k, v in (question.get("match") or {}).items())
            return f"signal {question['name']}" + (f" with {match}" if match else "")
        return str(question.get("text") or gist(question.get("reason")) or "")
    cause = fields.get("cause")
    if isinstance(cause, dict):
        words = [cause.get("decision") or cause.get("answer") or "", f"by {cause['by']}" if cause.get("by") else ""]
        words += [f"signal {cause['signal']}"] if cause.get("signal") else []
        words += ["deadline passed"] if cause.get("deadline") else []
        return " ".join([*(w for w in words if w), *([f"({cause['text']})"] if cause.get("text") else [])])
    because = f"because of {named(task, str(fields['because']))}" if fields.get("because") else ""
    if because or fields.get("benign"):
        return because if not fields.get("benign") else f"not wanted {because}".rstrip()
    if fields.get("reason"):
        return gist(str(fields["reason"]))
    for key in ("outcome", "runtime", "goal"):
        if fields.get(key):
            return str(fields[key])
    result = fields.get("result")
    if isinstance(result, dict):
        return next((str(result[k]) for k in ("summary", "decision", "name") if result.get(k)), "")
    by = f"by {fields['by']}" if fields.get("by") and name != "step.started" else ""
    return f"{by}, at once" if by and fields.get("now") else by
