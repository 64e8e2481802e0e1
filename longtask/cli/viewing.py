"""Watching a task until it ends or waits for somebody: a live tree on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Group
from rich.live import Live
from rich.prompt import Prompt
from rich.text import Text

from longtask.cli.session import DETACHED, WAITS, Session, exit_code, handle
from longtask.cli.tree import lines, look, waits_for
from longtask.core.machine import status
from longtask.core.model import Step, Task
from longtask.core.public import public
from longtask.engine.records import TaskRecords
from longtask.store.contract import Ref

LOOK_EVERY_S = 0.2
EVENTS_PAGE = 500
QUIET = {"step.ready", "usage.recorded", "step.added", "agent.run.started", "artifact.created"}
SETTLED_LOOKS = 3  # looks in a row at which it waits for somebody: else a step is about to wake it


@dataclass(slots=True)
class Cursor:
    """How far a plain view has told the journal, so that it can go on after a question."""

    after: int = 0


def view(session: Session, task: Task, *, alive: Callable[[], bool] = lambda: True) -> int:
    """The exit code.  `alive` False: whoever works on the task has ended.  Ctrl-C detaches."""
    try:
        if session.interactive:
            return _live(session, task.id, alive)
        return plain_view(session, task.id, alive)
    except KeyboardInterrupt:
        session.say()
        session.say(f"detached; the work goes on.  Come back with: longtask watch {handle(task)}")
        return DETACHED


def waiting_lines(session: Session, task: Task) -> list[str]:
    """Who is waited for, and the command that answers."""
    out = []
    for _, step in session.parts.store.asking(task_id=task.id, limit=5):
        out.append(f"{step.key} {waits_for(step)}")
        kind = (step.question or {}).get("kind")
        name = f"{handle(task)} {step.key}"
        if kind == "approval":
            out.append(f"  longtask diff {name}")
            out.append(f"  longtask approve {name}    or: longtask reject {name} -m REASON")
        else:
            out.append(
                f"  longtask retry {name}    or: longtask approve {name} (accept), longtask reject {name} (give up)"
            )
    return out


def plain_view(
    session: Session, task_id: str, alive: Callable[[], bool], cursor: Cursor | None = None, *, quiet: bool = False
) -> int:
    """A line for each event; `quiet` writes none.  Ends when the task has, or waits for somebody."""
    store, cursor, looks = session.parts.store, cursor or Cursor(), 0
    while True:
        page = store.events(task_id, cursor.after, EVENTS_PAGE)
        task = store.get_task(task_id)
        for event in page:
            cursor.after = event.seq
            for shown in public(event.fact, task.options.stages):
                if quiet:
                    continue
                if session.json:
                    session.give_line({"seq": event.seq, "type": shown.name, "at": event.at, **shown.fields})
                elif shown.name not in QUIET:
                    session.say(plain_line(task, event.at, shown.name, dict(shown.fields)))
        if page:
            looks = 0
            continue
        if task.ended:
            return _ended(session, task)
        looks = looks + 1 if status(task) == "waiting_user" else 0
        if looks >= SETTLED_LOOKS:
            session.say(f"{handle(task)} waits for somebody:")
            for line in waiting_lines(session, task):
                session.say(f"  {line}")
            return WAITS
        if not alive():
            return _ended(session, store.get_task(task_id))
        time.sleep(LOOK_EVERY_S)


def plain_line(task: Task, at: int, name: str, fields: dict[str, object]) -> str:
    seconds = (at - task.created_at) / 1000
    subject = fields.get("step") or fields.get("stage") or task.name
    more = ""
    for key in ("reason", "summary", "runtime"):
        if fields.get(key):
            more = "  " + str(fields[key]).splitlines()[0][:120]
            break
    result = fields.get("result")
    if not more and isinstance(result, dict):
        words = [str(result[k]) for k in ("summary", "decision") if result.get(k)]
        more = "  " + words[0][:120] if words else ""
    if name == "approval.required" and isinstance(fields.get("question"), dict):
        more = "  " + str(fields["question"].get("text") or fields["question"].get("reason"))[:120]  # type: ignore[attr-defined]
    return f"{seconds:7.1f}s  {name:<18} {subject}{more}"


def _ended(session: Session, task: Task) -> int:
    word = status(task)
    session.say(f"{handle(task)} {word}")
    if word == "failed":
        for line in failed_lines(session.parts.records, task):
            session.say(f"  {line}")
        session.say(f"  why: longtask why {handle(task)}")
    return exit_code(task)


def failed_lines(records: TaskRecords, task: Task) -> list[str]:
    bad = [
        s for s in records.steps(task.id) if s.state in ("failed", "cancelled") and not s.tolerated and s.owner is None
    ]
    return [f"{s.key} {s.state}: {(s.reason or '').splitlines()[0] if s.reason else ''}".rstrip(": ") for s in bad[:10]]


def _live(session: Session, task_id: str, alive: Callable[[], bool]) -> int:
    parts = session.parts
    while True:
        asked = None
        with Live(console=session.out, auto_refresh=False, transient=True, vertical_overflow="ellipsis") as live:
            quiet = 0
            while True:
                picture = look(parts.store, parts.records, task_id)
                live.update(Group(*lines(picture)), refresh=True)
                task = picture.task
                if task.ended or not alive():
                    break
                asking = parts.store.asking(task_id=task_id, limit=1)
                quiet = quiet + 1 if asking else 0
                if quiet >= SETTLED_LOOKS:
                    asked = asking[0][1]
                    break
                time.sleep(LOOK_EVERY_S)
        if asked is None:
            session.out.print(Group(*lines(picture)))
            return exit_code(picture.task)
        if not ask_inline(session, picture.task, asked):
            return WAITS


def ask_inline(session: Session, task: Task, step: Step) -> bool:
    """Asks on the terminal; False: the person left it open."""
    from longtask.cli.decide import answer_words, show_diff, shown_lines

    question = step.question or {}
    session.out.print(Text(f"\n{step.key} asks", "bold yellow"))
    for line in shown_lines(question):
        session.out.print(Text("  " + line))
    words = answer_words(question)
    choices = {**words, **({"d": "diff"} if "diff" in (question.get("show") or {}) else {}), "q": "leave it open"}
    while True:
        hint = "  ".join(f"[{key}] {word}" for key, word in choices.items())
        key = Prompt.ask(Text("  " + hint), choices=list(choices), show_choices=False, console=session.out)
        if key == "q":
            for line in waiting_lines(session, task):
                session.out.print(Text("  " + line))
            return False
        if key == "d":
            show_diff(session, task, step)
            continue
        text = Prompt.ask("  reason", default="", console=session.out) if words[key] in ("reject", "give_up") else ""
        session.parts.desk.answer(
            Ref(task.id, step.key), words[key], session.me, ask=step.ask, digest=question.get("digest"), text=text
        )
        return True
