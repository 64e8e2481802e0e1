"""A question asked on the terminal of whoever watches.

The answer is a letter and Enter, so that no stray key decides.  While it waits it looks whether somebody else has
answered meanwhile, or the task has ended.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

from longtask.cli.decide import show_diff, shown_lines
from longtask.cli.session import Session
from longtask.core.errors import Refused
from longtask.core.model import Step, Task
from longtask.store.contract import Ref
from longtask.views import reasons

LOOK_EVERY_S = 0.3
KEYS = {
    "approve": "a",
    "reject": "r",
    "again": "t",
    "accept": "a",
    "raise": "r",
    "raise_stage": "s",
    "give_up": "g",
}
WORDS = {
    "approve": "[a]pprove",
    "reject": "[r]eject",
    "again": "[t]ry again",
    "accept": "[a]ccept",
    "raise": "[r]aise the limit",
    "raise_stage": "raise it for the whole [s]tage",
    "give_up": "[g]ive up",
}
TAKES_A_REASON = ("reject", "give_up")


def ask_inline(session: Session, task: Task, step: Step) -> bool:
    """False: the person left it open."""
    question = step.question or {}
    session.say()
    session.say([(f"{step.key} asks", "bold yellow")])
    for text in shown_lines(session, task, step.key, question):
        session.say("  " + text)
    words = {KEYS[word]: word for word in reasons.answers(step) if word in KEYS}
    has_diff = "diff" in (question.get("show") or {})
    hint = "  ".join(
        [*(WORDS[word] for word in words.values()), *(["[d]iff"] if has_diff else []), "[q] leave it open"]
    )

    def still() -> bool:
        now = session.parts.store.get_step(Ref(task.id, step.key))
        return now.ask == step.ask and now.question is not None

    while True:
        key = read_line(session, f"  {hint} > ", still)
        if key is None:
            session.say("  it is answered, or not asked any more")
            return True
        key = key.strip().lower()
        if key in ("q", "quit"):
            say_open(session, task)
            return False
        if has_diff and key in ("d", "diff"):
            show_diff(session, task, step)
            continue
        word = words.get(key) or next((w for w in words.values() if key == w.replace("_", " ")), None)
        if word is None:
            continue
        text = ""
        if word in TAKES_A_REASON:
            text = (read_line(session, "  why? an agent or the report will say it > ", still) or "").strip()
            if not text and word == "reject":
                session.say("  rejecting takes a reason, so that somebody can act on it")
                continue
        try:
            session.parts.desk.answer(
                Ref(task.id, step.key), word, session.me, ask=step.ask, digest=question.get("digest"), text=text
            )
        except Refused as refused:
            session.say(f"  {refused}")
        return True


def say_open(session: Session, task: Task) -> None:
    for reason in reasons.questions(session.face, task):
        session.say(reason.what)
        for text in reason.help:
            session.say([(f"  {text}", "cyan")])


def read_line(session: Session, prompt: str, still: Callable[[], bool]) -> str | None:
    """A line from the terminal; None: the question is over.  The end of input leaves it open (`q`)."""
    session.out.raw(prompt)
    while not select.select([sys.stdin], [], [], LOOK_EVERY_S)[0]:
        if not still():
            session.say()
            return None
    line = os.read(sys.stdin.fileno(), 4096)
    return line.decode(errors="replace") if line else "q"
