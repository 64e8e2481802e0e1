"""The journal in words: a line for people, CloudEvents for programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from longtask.cli.paint import Line, clean, first_line, gist
from longtask.cli.session import named
from longtask.core import events as e
from longtask.core.model import Kind, Task
from longtask.core.public import public
from longtask.store.contract import Store

# Nothing that a person watching would miss: others of these tell the same.
QUIET = frozenset({"step.ready", "longtask.recorded", "step.added", "agent.run.started", "artifact.created"})
COLOURS = {"failed": "red", "cancelled": "red", "completed": "green", "required": "yellow", "waiting": "yellow"}
TEXT_MAX = 160


class Agents:
    """The steps that agents work on, looked up when an event names one."""

    def __init__(self, store: Store, task_id: str) -> None:
        self._store = store
        self._task_id = task_id
        self._known: dict[str, bool] = {}

    def __contains__(self, key: object) -> bool:
        name = str(key)
        if name not in self._known:
            row = self._store.results(self._task_id, [name]).get(name)
            self._known[name] = row is not None and row.kind is Kind.AGENT
        return self._known[name]


def cloud_events(task: Task, event: e.Event, agents: Agents) -> Iterator[dict[str, Any]]:
    """The shape of `events --json`: one for each public event; those of one fact share its number."""
    for shown in public(event.fact, task.options.stages, agents):
        yield {
            "specversion": "1.0",
            "id": f"{task.id}/{event.seq}",
            "source": f"/tasks/{task.id}",
            "type": shown.name,
            "time": iso(event.at),
            "seq": event.seq,
            "actor": event.actor or None,
            "data": dict(shown.fields),
        }


def iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")


def local(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def event_lines(task: Task, event: e.Event, when: str, *, quiet: bool) -> Iterator[Line]:
    """For people.  `quiet`: without what watching needs not tell."""
    for name, subject, text in _told(task, event.fact):
        over = name == "stage.completed" and text in ("", "completed")
        if quiet and (name in QUIET or over):
            continue
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
        subject = shown.fields.get("step") or shown.fields.get("stage") or task.name
        if shown.name == "step.added":
            subject = ", ".join(shown.fields["steps"][:5])
        yield shown.name, str(subject), _text(task, shown.name, dict(shown.fields))


def _text(task: Task, name: str, fields: dict[str, Any]) -> str:
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
    return f"by {fields['by']}" if fields.get("by") and name != "step.started" else ""
