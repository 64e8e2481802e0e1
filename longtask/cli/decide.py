"""What people decide: approve, reject, diff."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from longtask.cli.background import ensure_worker
from longtask.cli.session import Session, handle, one_asking
from longtask.core.decide import ANSWERS
from longtask.core.errors import Refused
from longtask.core.model import JsonMap, Question, Step, Task
from longtask.store.contract import Ref
from longtask.workspace.workspace import Workspace

PATHS_SHOWN = 12
TASK = "a task: id, prefix, NAME-n or @last"
PANEL = "Decide"


def shown_lines(question: JsonMap) -> list[str]:
    """What is asked, and what it is about."""
    out = str(question.get("text") or question.get("reason") or question["kind"]).splitlines()
    show = question.get("show") or {}
    diff = show.get("diff")
    if diff:
        out.append(
            f"diff {diff['base'][:12]}..{diff['head'][:12]}: "
            f"{diff['files']} files, +{diff['insertions']} -{diff['deletions']}"
        )
        out += [f"  {path}" for path in diff["paths"][:PATHS_SHOWN]]
        if len(diff["paths"]) > PATHS_SHOWN:
            out.append(f"  … and {len(diff['paths']) - PATHS_SHOWN} more")
    out += [f"artifact {a['name']} ({a['size_bytes']:,} bytes)" for a in show.get("artifacts", ())]
    out += [f"file {name}" for name in show.get("files", ())]
    return out


def answer_words(question: JsonMap) -> dict[str, str]:
    """Keys of a prompt, and the answers that they stand for."""
    kind = Question(question["kind"])
    words = question.get("answers") or ANSWERS[kind]
    keys = {"approve": "a", "reject": "r", "again": "t", "accept": "a", "give_up": "g"}
    return {keys[word]: word for word in words if word in keys}


def show_diff(session: Session, task: Task, step: Step | None) -> None:
    text = diff_text(session, task, step)
    if session.interactive:
        with session.out.pager(styles=False):
            session.out.print(text, markup=False)
    else:
        print(text, end="")


def diff_text(session: Session, task: Task, step: Step | None) -> str:
    """Of a question the frozen range; of a step its own commit; else all of the task.  Raises Refused."""
    if not task.workspace_id or task.base is None or task.head is None:
        raise Refused(f"task {handle(task)!r} has no workspace, hence no diff")
    workspace = Workspace.at(session.config.home, task.workspace_id)
    base, head = task.base, task.head
    if step is not None:
        frozen = ((step.question or {}).get("show") or {}).get("diff")
        if frozen:
            base, head = frozen["base"], frozen["head"]
        elif step.commit is not None and step.base is not None:
            base, head = step.base, step.commit
        else:
            raise Refused(f"step {step.key!r} has changed no code; the whole task: longtask diff {handle(task)}")
    return workspace.diff(base, head).decode(errors="replace")


def _decide(session: Session, task_name: str, step_key: str | None, yes: bool, text: str, digest: str | None) -> int:
    task = session.task(task_name)
    step = one_asking(session, task, step_key)
    question = step.question or {}
    approval = question.get("kind") == Question.APPROVAL
    word = ("approve" if yes else "reject") if approval else ("accept" if yes else "give_up")
    if step.question is not None and not yes and approval and not text:
        raise Refused(f"step {step.key!r}: rejecting takes a reason, so that somebody can act on it: -m REASON")
    row = session.parts.desk.answer(
        Ref(task.id, step.key), word, session.me, ask=step.ask or None, digest=digest, text=text
    )
    ensure_worker(session)
    if session.json:
        session.give({"task": task.id, "step": row.key, "answer": word, "by": session.me})
    session.say(f"{step.key}: {word.replace('_', ' ')}, recorded; the task goes on: longtask watch {handle(task)}")
    return 0


def register(app: typer.Typer) -> None:
    @app.command(rich_help_panel=PANEL)
    def approve(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument(help="may be left out if only one step asks")] = None,
        digest: Annotated[str | None, typer.Option(help="only if this is what is shown")] = None,
        text: Annotated[str, typer.Option("--text", "-m", help="a word for the record")] = "",
    ) -> int:
        """Say yes to what a step asks; to a question of the machine: accept.

        Example: longtask approve @last
        """
        session: Session = ctx.obj
        session.outside_only("approve")
        return _decide(session, task, step, True, text, digest)

    @app.command(rich_help_panel=PANEL)
    def reject(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument()] = None,
        reason: Annotated[str, typer.Option("--message", "-m", help="what is wrong; an agent reads it")] = "",
        digest: Annotated[str | None, typer.Option(help="only if this is what is shown")] = None,
    ) -> int:
        """Say no, with a reason; to a question of the machine: give up.

        Example: longtask reject @last review -m "keep the old names as aliases"
        """
        session: Session = ctx.obj
        session.outside_only("reject")
        return _decide(session, task, step, False, reason, digest)

    @app.command(rich_help_panel=PANEL)
    def diff(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=TASK)],
        step: Annotated[str | None, typer.Argument(help="what this step changed, or asks about")] = None,
        stat: Annotated[bool, typer.Option("--stat", help="only names and numbers")] = False,
    ) -> int:
        """What the task has changed so far, or one step, as a patch.

        Example: longtask diff @last | git apply --stat
        """
        session: Session = ctx.obj
        found = session.task(task)
        row = session.step(found, step) if step else None
        if stat or session.json:
            shown = _stat(session, found, row)
            if session.json:
                session.give(shown)
            for file in shown["files"]:
                session.say(f"{file['path']}  +{file['insertions']} -{file['deletions']}")
            return 0
        show_diff(session, found, row)
        return 0


def _stat(session: Session, task: Task, step: Step | None) -> dict[str, Any]:
    if not task.workspace_id or task.base is None or task.head is None:
        raise Refused(f"task {handle(task)!r} has no workspace, hence no diff")
    base, head = task.base, task.head
    if step is not None and step.base and step.commit:
        base, head = step.base, step.commit
    found = Workspace.at(session.config.home, task.workspace_id).stat(base, head)
    files = [{"path": f.path, "insertions": f.insertions, "deletions": f.deletions} for f in found.files]
    return {"base": base, "head": head, "files": files}
