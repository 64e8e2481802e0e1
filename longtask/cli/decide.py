"""What people decide: approve, reject, and the diff that they look at first."""

from __future__ import annotations

import os
import pydoc
from collections.abc import Sequence
from typing import Annotated

import typer

from longtask.cli.background import ensure_worker
from longtask.cli.fork import foresee
from longtask.cli.help import commands
from longtask.cli.paint import SGR
from longtask.cli.session import TASK, Session, one_asking
from longtask.core.decide import RAISE_STAGE
from longtask.core.errors import Refused
from longtask.core.model import JsonMap, Question, Step, Task
from longtask.engine.desk import Superseded
from longtask.store.contract import Ref
from longtask.views import reasons
from longtask.views.changes import changes_map, end_of, range_of
from longtask.views.documents import acted_map
from longtask.views.files import commit_at
from longtask.views.text import clean
from longtask.views.words import handle

PATHS_SHOWN = 12
LINES_SHOWN = 20
STEPS_SHOWN = 50
DIFF_COLOURS = (("+++", "bold"), ("---", "bold"), ("diff ", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))


def shown_lines(session: Session, task: Task, key: str, question: JsonMap) -> list[str]:
    """What is asked, and what it is about."""
    text = str(question.get("text") or question.get("reason") or question["kind"])
    asked = text.strip().splitlines()
    out = [clean(line) for line in asked[:LINES_SHOWN]]
    if len(asked) > LINES_SHOWN:
        out.append(f"… and {len(asked) - LINES_SHOWN:,} more lines: {session.command('show', handle(task), '--json')}")
    if question.get("kind") == Question.PLAN:
        steps = reasons.proposed_lines(session.face, task, key, question)
        out += [f"  {line}" for line in steps[:STEPS_SHOWN]]
        if len(steps) > STEPS_SHOWN:
            out.append(f"  … and {len(steps) - STEPS_SHOWN:,} more: {session.command('why', handle(task), key)}")
    if question.get("who"):
        out.append(f"asked: {', '.join(question['who'])}")
    show = question.get("show") or {}
    diff = show.get("diff")
    if diff:
        range_ = f"{diff['base'][:12]}..{diff['head'][:12]}"
        out.append(f"diff {range_}: {diff['files']} files, +{diff['insertions']} -{diff['deletions']}")
        out += [f"  {clean(path)}" for path in diff["paths"][:PATHS_SHOWN]]
        if diff["files"] > PATHS_SHOWN:
            out.append(f"  … and {diff['files'] - PATHS_SHOWN} more")
    for a in show.get("artifacts", ()):
        out.append(
            f"artifact {a['name']} ({a['size_bytes']:,} bytes): {session.command('artifacts', handle(task), a['name'])}"
        )
    out += [f"file {clean(name)}" for name in show.get("files", ())]
    return out


# --- the diff -----------------------------------------------------------------------------------------------------


def show_diff(session: Session, task: Task, step: Step | None) -> None:
    base, head = range_of(task, step)
    show_patch(session, session.parts.merger.workspace(task.workspace_id).diff(base, head))


def show_patch(session: Session, patch: bytes) -> None:
    """In a pager on a terminal; byte for byte elsewhere, so that it can be applied."""
    if not session.out.terminal:
        session.out.content(patch)
        return
    text = "".join(
        _coloured(clean_keep(line), session.out.colour) for line in patch.decode(errors="replace").splitlines()
    )
    if session.live:
        os.environ.setdefault("LESS", "FRX")  # as git sets it: colours, and no pager for what fits the screen
        pydoc.pager(text)
    else:
        session.out.raw(text)


def clean_keep(line: str) -> str:
    """A line of code, without what would move the cursor; blanks and tabs as they are."""
    return "".join(c for c in line if c == "\t" or (c.isprintable() or c == " "))


def _coloured(line: str, colour: bool) -> str:
    style = next((style for start, style in DIFF_COLOURS if line.startswith(start)), "") if colour else ""
    return f"\033[{SGR[style]}m{line}\033[0m\n" if style else line + "\n"


# --- commands -----------------------------------------------------------------------------------------------------


def register(app: typer.Typer) -> None:
    command = commands(app, "Decide")

    @command()
    def diff(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        step: Annotated[str | None, typer.Argument(help="what this step has changed, or asks about")] = None,
        stat: Annotated[bool, typer.Option("--stat", help="only names and numbers")] = False,
        since: Annotated[
            str | None, typer.Option(metavar="COMMIT", help="only what has changed since this commit of the task")
        ] = None,
    ) -> int:
        """Show what the task has changed so far, or one step, as a patch.

        With --json names and numbers only. Of a step that asks, exactly what it asks about.

        Examples:
            longtask diff @last
            longtask diff @last review | git apply
        """
        session: Session = ctx.obj
        found = session.task(task)
        row = session.step(found, step) if step else None
        if since is None:
            base, head = range_of(found, row)
        else:
            base, head = commit_at(session.parts.merger.workspace, found, since), end_of(found, row)
        workspace = session.parts.merger.workspace(found.workspace_id)
        if not stat and not session.json:
            show_patch(session, workspace.diff(base, head))
            return 0
        changed = workspace.stat(base, head).files
        shown = changes_map(found, base, head, changed)
        if session.json:
            session.give(shown)
        for file in shown["files"]:
            session.say(f"{clean(file['path'])}  +{file['insertions']} -{file['deletions']}")
        return 0

    @command()
    def approve(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument(help="may be left out if only one step asks")] = None,
        digest: Annotated[
            str | None, typer.Option(metavar="TEXT", help="only if this is the digest of what is shown")
        ] = None,
        text: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="a word for the record")] = "",
        stage: Annotated[bool, typer.Option("--stage", help="raise the limit for all steps of the stage")] = False,
    ) -> int:
        """Say yes to what a step asks; to a question of the machine: accept it as done, or raise the limit.

        Examples:
            longtask approve @last
            longtask approve @last review -m "looked at base.py closely"
        """
        session: Session = ctx.obj
        session.outside_only("approve")
        return _decide(session, task, step, True, text, digest, stage=stage)

    @command()
    def reject(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument(help="may be left out if only one step asks")] = None,
        reason: Annotated[
            str, typer.Option("-m", "--message", metavar="TEXT", help="what is wrong; an agent may act on it")
        ] = "",
        digest: Annotated[
            str | None, typer.Option(metavar="TEXT", help="only if this is the digest of what is shown")
        ] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="only tell what would become of it")] = False,
    ) -> int:
        """Say no, with a reason; to a question of the machine: give up.

        Examples:
            longtask reject @last review -m "keep the old names as aliases"
        """
        session: Session = ctx.obj
        if dry_run:
            found = session.task(task)
            return foresee(session, Ref(found.id, one_asking(session, found, step).key), "reject")
        session.outside_only("reject")
        return _decide(session, task, step, False, reason, digest)


def _decide(
    session: Session, name: str, key: str | None, yes: bool, text: str, digest: str | None, *, stage: bool = False
) -> int:
    task = session.task(name)
    step = one_asking(session, task, key)
    fitting = reasons.answers(step) if step.question else None
    word = word_for(session, handle(task), step.key, fitting, yes, text, stage=stage)
    ref = Ref(task.id, step.key)
    try:
        row = session.parts.desk.answer(ref, word, session.me, ask=step.ask or None, digest=digest, text=text)
    except Superseded:
        ensure_worker(session)  # who asks anew
        raise
    ensure_worker(session)
    task = session.task(task.id)
    if session.json:
        session.give(acted_map(task, step=row.key, answer=word, by=session.me))
    session.say(f"{step.key}: {word.replace('_', ' ')}, recorded; watch: {session.command('watch', handle(task))}")
    return 0


def word_for(
    session: Session, task: str, key: str, answers: Sequence[str] | None, yes: bool, text: str, *, stage: bool = False
) -> str:
    """The answer that a yes or a no is.  `answers`: those that fit; None: it asks nothing.  Raises Refused."""
    approval = answers is None or "approve" in answers  # else it is a question of the machine
    word = ("approve" if yes else "reject") if approval else ("accept" if yes else "give_up")
    if answers is None:
        return word
    if stage:
        if RAISE_STAGE not in answers:
            raise Refused(f"step {key!r} does not ask about the limit of a stage; leave out --stage")
        return RAISE_STAGE
    if yes and "raise" in answers:
        return "raise"
    if approval and not yes and not text:
        raise Refused(f"step {key!r}: rejecting takes a reason, so that somebody can act on it: -m REASON")
    if word not in answers:
        fit = reasons.commands_of(session.command, answers, task, key)
        raise Refused(
            f"step {key!r}: `{'approve' if yes else 'reject'}` is no answer to it; what fits: {', '.join(fit)}"
        )
    return word
