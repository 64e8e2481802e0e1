"""`longtask run`: a plan becomes a task, a worker is found, and the terminal watches."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from longtask import boot, plan
from longtask.cli.background import Keeper, ensure_worker
from longtask.cli.help import commands
from longtask.cli.session import Session
from longtask.cli.viewing import Keep, view
from longtask.core.errors import BadPlan, LongTaskError, NotFound, StoreError
from longtask.core.machine import status
from longtask.core.model import Task
from longtask.core.policy import LEASE_MS
from longtask.telemetry.logs import formatter
from longtask.views.words import handle
from longtask.workspace.workspace import Workspace

Dirty = Literal["refuse", "ignore", "include"]
DIRTY = ("refuse", "ignore", "include")
PLAN = "longtask.yaml"


def submit(
    session: Session,
    file: Path,
    *,
    attended: bool,
    dirty: Dirty | None = None,
    base: str | None = None,
    name: str | None = None,
    parallel: int | None = None,
    key: str | None = None,
    secrets: tuple[str, ...] = (),
    text: str | None = None,
) -> Task:
    """Checks the plan, resolves its base and stores the task.  `secrets`: names beside the plan's own.  `text`: the
    plan itself, as if it stood in `file`.

    Raises BadPlan, NotFound, Refused, WorkspaceError: then nothing was begun."""
    loaded = loaded_from(file, text)
    if name is not None:
        loaded.name = name
    if parallel is not None:
        loaded.limits.parallel = parallel
    folder = file.resolve().parent
    for warning in plan.warnings(loaded):
        session.warn(f"note: {warning}")
    graph = plan.compile_plan(loaded, attended=attended)
    options = replace(graph.options, secrets=tuple(dict.fromkeys((*graph.options.secrets, *secrets))))
    graph = plan.placed(replace(graph, options=options), folder)
    workspace_id, commit = "", None
    desk = session.parts.desk  # first of all: it makes our folder, for its owner alone
    if loaded.workspace is not None:
        workspace = Workspace.open(session.config.home, folder / (loaded.workspace.repo or "."), session.config.hub)
        aside = (session.config.home, file.resolve(), *plan.files_of(loaded))
        chosen = dirty or loaded.workspace.dirty or "refuse"
        found = workspace.base(base or loaded.workspace.base, cast(Dirty, chosen), aside)
        if found.note:
            session.warn(f"note: {found.note}")
        workspace_id, commit = workspace.id, found.commit
    elif base or dirty:
        raise BadPlan("--base and --dirty need a plan with a workspace; add: workspace: {repo: .}")
    return desk.submit(
        graph,
        by=session.me,
        workspace_id=workspace_id,
        base=commit,
        idempotency_key=key,
        plan_text=plan.whole_text(loaded, file.read_text(encoding="utf-8", errors="replace") if text is None else text),
    )


def loaded_from(file: Path, text: str | None) -> plan.Plan:
    """Raises BadPlan, NotFound."""
    if text is not None:
        return plan.load(text)
    if not file.is_file():
        raise NotFound(f"plan {str(file)!r}: no such file; write a starter with: longtask init")
    return plan.load_file(file)


def text_of(session: Session, file: Path, prompt: str | None, agent: str | None, model: str | None) -> str | None:
    """The plan of a plain run; None: the plan is a file.  Raises BadPlan, NotFound."""
    if prompt is None:
        if agent or model:
            raise BadPlan("--agent and --model are for -p TEXT; in a plan they stand in the plan")
        return None
    if file != Path(PLAN):
        raise BadPlan(f"-p TEXT is a run without a plan, and {str(file)!r} is one; give one of them")
    from longtask.cli.plain import plan_of

    return plan_of(session, prompt, agent, model)


def in_process(session: Session, slots: int, look: Callable[[Keep], int], lease_ms: int = LEASE_MS) -> int:
    """Runs a worker in this process while `look` watches; both end together."""
    logs = session.config.logs
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = logging.FileHandler(logs / "worker.log")
    file.setFormatter(formatter())
    handlers = logging.getLogger().handlers
    before, handlers[:] = handlers[:], [file]  # warnings would tear the view apart
    running = boot.make_loop(boot.open_parts(session.config), slots=slots, lease_ms=lease_ms)
    failed: list[Exception] = []

    def work() -> None:
        try:
            running.loop.run()
        except Exception as error:  # noqa: BLE001  it is told by the thread that watches
            failed.append(error)

    thread = threading.Thread(target=work, name="loop", daemon=True)
    thread.start()
    try:
        code = look(lambda task: thread.is_alive())
    finally:
        running.loop.stop()
        thread.join()
        running.close()
        handlers[:] = before
        file.close()
    if failed:
        raise failed[0] if isinstance(failed[0], LongTaskError) else StoreError(f"the worker ended: {failed[0]!r}")
    return code


def register(app: typer.Typer) -> None:
    command = commands(app, "Run")

    @command()
    def run(
        ctx: typer.Context,
        file: Annotated[Path, typer.Argument(metavar="[PLAN]", help=f"a plan, YAML or JSON; default: {PLAN}")] = Path(
            PLAN
        ),
        foreground: Annotated[
            bool,
            typer.Option("--foreground", help="work in this process, not in the background; Ctrl-C stops the work"),
        ] = False,
        detach: Annotated[bool, typer.Option("-d", "--detach", help="do not watch")] = False,
        dirty: Annotated[
            str | None,
            typer.Option(metavar="WORD", help="what is not committed: refuse (default), ignore it, or include it"),
        ] = None,
        base: Annotated[str | None, typer.Option(metavar="REF", help="begin from this branch, tag or commit")] = None,
        attended: Annotated[
            bool | None,
            typer.Option(
                "--attended/--unattended", help="ask a person when in doubt, or fail; default: ask on a terminal"
            ),
        ] = None,
        name: Annotated[str | None, typer.Option(metavar="NAME", help="instead of the plan's")] = None,
        parallel: Annotated[int | None, typer.Option(metavar="N", help="steps at once, of this task", min=1)] = None,
        slots: Annotated[
            int,
            typer.Option(metavar="N", help="steps at once, of a worker that is started; default: 4", min=1, max=256),
        ] = 4,
        key: Annotated[str | None, typer.Option(metavar="TEXT", help="the same key returns the same task")] = None,
        prompt: Annotated[
            str | None,
            typer.Option("-p", "--prompt", metavar="TEXT", help="no plan: one run of an agent; @FILE reads it"),
        ] = None,
        agent: Annotated[
            str | None, typer.Option(metavar="NAME", help="with -p; default: LONGTASK_AGENT, or one that is found here")
        ] = None,
        model: Annotated[str | None, typer.Option(metavar="NAME", help="with -p, as the agent names it")] = None,
    ) -> int:
        """Run a plan, and watch.

        The work survives this terminal: a background worker is found or started and goes on with it, and Ctrl-C only
        detaches. Your working tree is never touched; the result is a branch `longtask/NAME-n`, and artifacts.

        Examples:
            longtask run
            longtask run plan.yaml --dirty include
            longtask run plan.yaml --detach --json | jq -r .handle
            longtask run -p "fix the crash on an empty file" --agent claude-code
        """
        session: Session = ctx.obj
        text = text_of(session, file, prompt, agent, model)
        if dirty is not None and dirty not in DIRTY:
            raise BadPlan(f"--dirty {dirty!r}: choose {', '.join(DIRTY)}")
        if foreground and detach:
            raise BadPlan("--foreground works in this process, so it cannot --detach; leave one out")
        session.submitting = True
        task = submit(
            session,
            file,
            attended=session.interactive if attended is None else attended,
            dirty=cast(Dirty | None, dirty),
            base=base,
            name=name,
            parallel=parallel,
            key=key,
            text=text,
        )
        session.submitting = False
        extra = ("--slots", str(slots))
        if not foreground:
            ensure_worker(session, extra)
        if session.json:
            session.give_line(
                {"type": "task.submitted", "task": task.id, "handle": handle(task), "status": status(task)}
            )
        if detach:
            session.say(f"{handle(task)} runs in the background; watch it: {session.command('watch', handle(task))}")
            return 0
        if not session.live and not session.json:
            print(f"task {handle(task)} ({task.id})", file=sys.stderr)
        if foreground:
            left = "nothing works on it now, what was running is given back"
            return in_process(session, slots, lambda keep: view(session, task, keep=keep, left=left))
        return view(session, task, keep=Keeper(session, extra))
