"""`longtask plan …` and `longtask init`."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from longtask import plan
from longtask.cli.session import Session
from longtask.core.errors import Refused
from longtask.core.graph import Graph, edges, gate_key
from longtask.core.model import Kind

TESTS = (  # what tells how a project is tested, first hit wins
    ("pyproject.toml", "pytest -q", "pytest"),
    ("pytest.ini", "pytest -q", "pytest"),
    ("setup.py", "pytest -q", "pytest"),
    ("package.json", "npm test", "n/m"),
    ("go.mod", "go test ./...", "n/m"),
    ("Cargo.toml", "cargo test", "n/m"),
    ("pom.xml", "mvn -q test", "n/m"),
    ("Makefile", "make test", "n/m"),
)
STARTER = """\
# A plan for LongTask.  Check it with `longtask plan check`, run it with `longtask run`.
longtask: 1
name: {name}
goal: Say here what is to be reached, for people and for agents.

workspace:
  repo: .            # a git repository; your working tree is never touched
limits: {{parallel: 4}}

stages:
  - name: look
    steps:
      - id: tests_before
        run: {command}
        progress: {progress}
        when_failed: continue          # how it stands now; a failure here is no failure of the task

  - name: check
    steps:
      - id: tests
        run: {command}
        progress: {progress}

  - name: decide
    steps:
      - id: review
        approval:
          ask: Does this look right?
          show: [diff]

  - name: deliver
    steps:
      - id: patch
        artifact: {{patch: {{name: change.patch}}}}
      - id: report
        artifact: {{report: {{name: report.md}}}}
"""


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Check and show plans.", no_args_is_help=True)
    app.add_typer(group, name="plan", rich_help_panel="Run")

    @group.command()
    def check(ctx: typer.Context, file: Annotated[Path, typer.Argument(metavar="PLAN")] = Path("longtask.yaml")) -> int:
        """Tell everything that is wrong with a plan; run nothing.

        Example: longtask plan check longtask.yaml
        """
        session: Session = ctx.obj
        loaded = plan.load_file(file)
        graph = plan.compile_plan(loaded)
        warnings = [str(w) for w in plan.warnings(loaded)]
        if session.json:
            session.give(
                {"ok": True, "steps": len(graph.planned), "stages": list(graph.options.stages), "notes": warnings}
            )
        for warning in warnings:
            session.say(f"note: {warning}")
        session.say(f"{file}: {len(graph.planned)} steps in {len(graph.options.stages)} stages, nothing wrong")
        return 0

    @group.command("show")
    def show_plan(
        ctx: typer.Context, file: Annotated[Path, typer.Argument(metavar="PLAN")] = Path("longtask.yaml")
    ) -> int:
        """Show what a plan does: stages, steps, and what each waits for.

        Example: longtask plan show longtask.yaml
        """
        session: Session = ctx.obj
        graph = plan.compile_plan(plan.load_file(file))
        if session.json:
            session.give(_graph_map(graph))
            return 0
        session.say(graph.name)
        for number, stage in enumerate(graph.options.stages or ("steps",), 1):
            session.say(f"  {stage}")
            for step in (p for p in graph.planned if p.stage == number):
                spec = graph.specs[step.spec]
                kind = (
                    f"for_each {graph.specs[spec.item].kind}"
                    if step.kind is Kind.FOR_EACH and spec.item
                    else str(step.kind)
                )
                needs = "" if step.needs is None else "  needs " + (", ".join(step.needs) or "nothing")
                extra = "".join(
                    [
                        f"  if {spec.condition}" if spec.condition else "",
                        f"  run_when {step.run_when}" if step.run_when != "success" else "",
                        f"  when_failed {step.when_failed}" if step.when_failed != "stop" else "",
                        "  with a fix" if spec.fix is not None else "",
                    ]
                )
                session.say(f"    {step.key}  {kind}{needs}{extra}")
        return 0

    @group.command()
    def schema(ctx: typer.Context) -> int:
        """Print the JSON Schema of plans, for editors.

        Example: longtask plan schema > longtask.schema.json
        """
        print(resources.files("longtask.plan").joinpath("schema.json").read_text(encoding="utf-8"), end="")
        return 0

    @app.command(rich_help_panel="Run")
    def init(
        ctx: typer.Context,
        folder: Annotated[Path, typer.Argument(help="a repository")] = Path("."),
        force: Annotated[bool, typer.Option("--force", help="overwrite longtask.yaml")] = False,
    ) -> int:
        """Write a starter plan, with the project's own test command.

        Example: longtask init
        """
        session: Session = ctx.obj
        target = folder / "longtask.yaml"
        if not folder.is_dir():
            raise Refused(f"folder {str(folder)!r}: no such folder")
        if target.exists() and not force:
            raise Refused(f"{str(target)!r} is there already; look at it, or overwrite it with --force")
        _, command, progress = next((t for t in TESTS if (folder / t[0]).exists()), ("", "make test", "n/m"))
        name = (
            "".join(c if c.isalnum() or c in "-_" else "-" for c in folder.resolve().name.lower()).strip("-_") or "work"
        )
        target.write_text(STARTER.format(name=json.dumps(name), command=command, progress=progress), encoding="utf-8")
        plan.load_file(target)
        if session.json:
            session.give({"file": str(target)})
        session.say(f"wrote {target}; look at it, then: longtask run {target}")
        return 0


def _graph_map(graph: Graph) -> dict[str, object]:
    stages = graph.options.stages or ("steps",)
    gates = {gate_key(n) for n in range(1, len(stages) + 1)}
    return {
        "name": graph.name,
        "goal": graph.options.goal,
        "stages": list(stages),
        "steps": [
            {
                "id": p.key,
                "kind": str(p.kind),
                "stage": stages[p.stage - 1],
                "needs": None if p.needs is None else list(p.needs),
            }
            for p in graph.planned
        ],
        "edges": [list(edge) for edge in edges(graph.planned, len(stages)) if not gates & set(edge)],
    }
