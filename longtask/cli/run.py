"""`longtask run`: a plan becomes a task, a worker is found, and the terminal watches."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from longtask import boot, plan
from longtask.cli.background import ensure_worker
from longtask.cli.session import Session, handle
from longtask.cli.viewing import view
from longtask.core.errors import BadPlan, NotFound
from longtask.core.model import Kind, StepSpec, Task
from longtask.workspace.workspace import Workspace

Dirty = Literal["refuse", "ignore", "include"]


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
) -> Task:
    """Checks the plan, resolves its base and stores the task.  Raises BadPlan, Refused, WorkspaceError."""
    if not file.is_file():
        raise NotFound(f"plan {str(file)!r}: no such file; write a starter with: longtask init")
    loaded = plan.load_file(file)
    if name is not None:
        loaded.name = name
    if parallel is not None:
        loaded.limits.parallel = parallel
    folder = file.resolve().parent
    for warning in plan.warnings(loaded):
        session.warn(f"note: {warning}")
    graph = plan.compile_plan(loaded, attended=attended)
    graph = replace(graph, specs=tuple(_placed(spec, folder) for spec in graph.specs))
    workspace_id, commit = "", None
    if loaded.workspace is not None:
        workspace = Workspace.open(session.config.home, folder / (loaded.workspace.repo or "."))
        aside = (session.config.home, file.resolve())
        chosen = dirty or loaded.workspace.dirty or "refuse"
        found = workspace.base(base or loaded.workspace.base, cast(Dirty, chosen), aside)
        if found.note:
            session.warn(f"note: {found.note}")
        workspace_id, commit = workspace.id, found.commit
    elif base or dirty:
        raise BadPlan("--base and --dirty need a plan with a workspace; add: workspace: {repo: .}")
    return session.parts.desk.submit(
        graph,
        by=session.me,
        workspace_id=workspace_id,
        base=commit,
        idempotency_key=key,
        plan_text=file.read_text(encoding="utf-8", errors="replace"),
    )


def _placed(spec: StepSpec, folder: Path) -> StepSpec:
    """A plan names its recordings from its own folder; a worker may stand anywhere."""
    given = spec.body.get("recording")
    if spec.kind is not Kind.AGENT or not given or "${{" in given:
        return spec
    return replace(spec, body={**spec.body, "recording": str((folder / given).resolve())})


def in_process(session: Session, slots: int, look: Callable[[Callable[[], bool]], int], lease_ms: int = 15_000) -> int:
    """Runs a worker in this process while `look` watches; both end together."""
    running = boot.make_loop(boot.open_parts(session.config), slots=slots, lease_ms=lease_ms)
    thread = threading.Thread(target=running.loop.run, name="loop", daemon=True)
    thread.start()
    try:
        return look(thread.is_alive)
    finally:
        running.loop.stop()
        thread.join()
        running.close()


def register(app: typer.Typer) -> None:
    @app.command(rich_help_panel="Run")
    def run(
        ctx: typer.Context,
        file: Annotated[Path, typer.Argument(metavar="PLAN", help="a plan: YAML or JSON")] = Path("longtask.yaml"),
        foreground: Annotated[
            bool, typer.Option("--foreground", help="work in this process, not in the background")
        ] = False,
        detach: Annotated[bool, typer.Option("--detach", "-d", help="do not watch")] = False,
        dirty: Annotated[str | None, typer.Option(help="what is not committed: refuse, ignore or include")] = None,
        base: Annotated[str | None, typer.Option(help="begin from this branch, tag or commit")] = None,
        attended: Annotated[
            bool | None,
            typer.Option("--attended/--unattended", help="ask a person when in doubt; default: on a terminal"),
        ] = None,
        name: Annotated[str | None, typer.Option(help="instead of the plan's name")] = None,
        parallel: Annotated[int | None, typer.Option(help="steps at once", min=1)] = None,
        slots: Annotated[int, typer.Option(help="of a worker that is started", min=1, max=256)] = 4,
        key: Annotated[str | None, typer.Option(help="the same key returns the same task")] = None,
    ) -> int:
        """Run a plan, and watch.  It survives this terminal: a background worker goes on with it.

        Example: longtask run longtask.yaml --dirty include
        """
        session: Session = ctx.obj
        if dirty not in (None, "refuse", "ignore", "include"):
            raise BadPlan(f"--dirty {dirty!r}: choose refuse, ignore or include")
        is_attended = session.interactive if attended is None else attended
        task = submit(
            session,
            file,
            attended=is_attended,
            dirty=cast(Dirty | None, dirty),
            base=base,
            name=name,
            parallel=parallel,
            key=key,
        )
        if not foreground:
            ensure_worker(session, ("--slots", str(slots)))
        if session.json and detach:
            session.give({"task": task.id, "handle": handle(task)})
        if detach:
            session.say(f"{handle(task)} runs in the background; watch it: longtask watch {handle(task)}")
            return 0
        if not session.json:
            print(f"task {handle(task)} ({task.id})", file=sys.stderr)
        if foreground:
            return in_process(session, slots, lambda alive: view(session, task, alive=alive))
        return view(session, task)
