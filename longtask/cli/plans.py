"""`longtask plan …` and `longtask init`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from longtask import plan
from longtask.cli.help import Group, commands
from longtask.cli.session import Session
from longtask.core.errors import NotFound, Refused
from longtask.core.graph import Graph, Planned, edges, gate_key
from longtask.core.model import Kind
from longtask.views.text import clean, counted
from longtask.workspace.git import Place, git

PLAN = "longtask.yaml"
STEPS_SHOWN_MAX = 2_000
FILE = typer.Argument(metavar="[PLAN]", help=f"YAML or JSON; default: {PLAN}")


def _make_has_test(folder: Path) -> bool:
    return any(
        line.startswith("test:")
        for name in ("Makefile", "makefile", "GNUmakefile")
        if (folder / name).is_file()
        for line in (folder / name).read_text(errors="replace").splitlines()
    )


def _npm_has_test(folder: Path) -> bool:
    try:
        return "test" in json.loads((folder / "package.json").read_text())["scripts"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _any(*names: str) -> Callable[[Path], bool]:
    return lambda folder: any((folder / name).exists() for name in names)


# What tells how a project is tested, first hit wins: (does it?, command, progress if one is sure of it, set-up, folders
# that it fills).
KINDS: tuple[tuple[Callable[[Path], bool], str, str, str, tuple[str, ...]], ...] = (
    (_make_has_test, "make test", "", "", ()),
    (_any("uv.lock"), "uv run pytest -q", "pytest", "uv sync", (".venv",)),
    (
        _any("pytest.ini", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini"),
        "python3 -m pytest -q",
        "pytest",
        "",
        (),
    ),
    (lambda f: _npm_has_test(f) and (f / "package-lock.json").exists(), "npm test", "", "npm ci", ("node_modules",)),
    (_npm_has_test, "npm test", "", "npm install", ("node_modules",)),
    (_any("go.mod"), "go test ./...", "go", "", ()),
    (_any("Cargo.toml"), "cargo test", "cargo", "", ()),
    (_any("mvnw"), "./mvnw -B test", "maven", "", ()),
    (_any("pom.xml"), "mvn -B test", "maven", "", ()),
    (_any("gradlew"), "./gradlew test", "gradle", "", ()),
)
UNKNOWN = ('echo "put the command of your tests here"', "", "", ())
STARTER = """\
# A plan for LongTask.  Check it with `longtask plan check`, run it with `longtask run`.
longtask: 1
name: {name}
goal: Say here what is to be reached, for people and for agents.

workspace:
  repo: .  # a git repository; your working tree is never touched
{setup}limits: {{parallel: 4}}

stages:
  - name: look
    steps:
      - id: tests_before
        run: {command}
{progress}        when_failed: continue  # how it stands now; a failure here is no failure of the task

  # - name: change
  #   steps:
  #     - id: backend
  #       agent: {{prompt: "Say what is to be changed, and how one sees that it is right."}}

  - name: check
    steps:
      - id: tests
        run: {command}
{progress}
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
        needs: [patch]
        artifact: {{report: {{name: report.md}}}}
"""


def starter(folder: Path) -> str:
    """A plan that runs as it is, with the project's own tests."""
    found = next((row[1:] for row in KINDS if row[0](folder)), UNKNOWN)
    command, progress, setup, cache = found
    name = "".join(c if (c.isascii() and c.isalnum()) or c in "-_" else "-" for c in folder.resolve().name.lower())
    name = name.strip("-_") or "work"
    if not name[0].isalpha():
        name = f"work-{name}"
    lines = f"  setup: {json.dumps(setup)}\n  cache: [{', '.join(cache)}]\n" if setup else ""
    told = f"        progress: {progress}\n" if progress else ""
    return STARTER.format(name=json.dumps(name), command=json.dumps(command), progress=told, setup=lines)


def register(app: typer.Typer) -> None:
    group = typer.Typer(cls=Group, help="Check and show plans, without running anything.", no_args_is_help=True)
    app.add_typer(group, name="plan", rich_help_panel="Run")
    command = commands(group, "Commands")

    @command()
    def check(ctx: typer.Context, file: Annotated[Path, FILE] = Path(PLAN)) -> int:
        """Tell everything that is wrong with a plan, by line and column; run nothing.

        Exit code 2 if anything is wrong.

        Examples:
            longtask plan check
            longtask plan check plan.yaml --json | jq .problems
        """
        session: Session = ctx.obj
        loaded, graph = _load(file)
        notes = [str(w) for w in plan.warnings(loaded)]
        if session.json:
            stages = list(graph.options.stages)
            session.give(
                {"ok": True, "name": graph.name, "steps": len(graph.planned), "stages": stages, "notes": notes}
            )
        for note in notes:
            session.say(f"note: {note}")
        size = f"{counted(len(graph.planned), 'step')} in {counted(len(graph.options.stages), 'stage')}"
        session.say(f"{file}: {size}, nothing wrong")
        return 0

    @command("show")
    def show_plan(ctx: typer.Context, file: Annotated[Path, FILE] = Path(PLAN)) -> int:
        """Show what a plan does: stages, steps, and what each waits for.

        Examples:
            longtask plan show
            longtask plan show plan.yaml --json | jq .edges
        """
        session: Session = ctx.obj
        _, graph = _load(file)
        if session.json:
            session.give(graph_map(graph))
            return 0
        for line in _graph_lines(graph):
            session.say(line)
        return 0

    @command()
    def schema(ctx: typer.Context) -> int:
        """Print the JSON Schema of plans, for editors.

        Examples:
            longtask plan schema > longtask.schema.json
        """
        session: Session = ctx.obj
        session.out.raw(resources.files("longtask.plan").joinpath("schema.json").read_text(encoding="utf-8"))
        return 0

    @commands(app, "Run")()
    def init(
        ctx: typer.Context,
        folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="a repository; default: here")] = Path("."),
        force: Annotated[bool, typer.Option("--force", help=f"overwrite {PLAN}")] = False,
    ) -> int:
        """Write a starter plan, with the project's own test command.

        Examples:
            longtask init
            longtask init ~/src/shop --force
        """
        return _init(ctx.obj, folder, force)


def _init(session: Session, folder: Path, force: bool) -> int:
    target = folder / PLAN
    if not folder.is_dir():
        raise NotFound(f"folder {str(folder)!r}: no such folder")
    if target.exists() and not force:
        raise Refused(f"{str(target)!r} is there already; look at it, or overwrite it with --force")
    text = starter(folder)
    plan.load(text)  # raises BadPlan
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(f"{str(target)!r} cannot be written: {error.strerror}; change its permissions") from None
    run = "longtask run" if folder == Path(".") else f"longtask run {target}"
    notes = []
    if git(Place(cwd=folder), "rev-parse", "--git-dir", ok=(0, 128)).code:
        notes.append(f"{str(folder.resolve())!r} is no git repository yet: run `git init` there, and commit")
    if session.json:
        session.give({"file": str(target), "notes": notes})
    for note in notes:
        session.say(f"note: {note}")
    session.say(f"wrote {target}; look at it, then: {run}")
    return 0


def _load(file: Path) -> tuple[plan.Plan, Graph]:
    if not file.is_file():
        raise NotFound(f"plan {str(file)!r}: no such file; write a starter with: longtask init")
    loaded = plan.load_file(file)
    return loaded, plan.compile_plan(loaded)


def _graph_lines(graph: Graph) -> Iterator[str]:
    yield clean(graph.name)
    if graph.options.goal:
        yield f"  {clean(graph.options.goal)}"
    for number, stage in enumerate(graph.options.stages or ("steps",), 1):
        mine = [p for p in graph.planned if p.stage == number]
        yield f"  {clean(stage)}" + (f"  ({len(mine):,} steps)" if len(mine) > 1 else "")
        yield from (f"    {_step_line(graph, step)}" for step in mine[:STEPS_SHOWN_MAX])
        if len(mine) > STEPS_SHOWN_MAX:
            yield f"    … and {len(mine) - STEPS_SHOWN_MAX:,} more; all of them: --json"


def _step_line(graph: Graph, step: Planned) -> str:
    spec = graph.specs[step.spec]
    kind = str(step.kind)
    if step.kind is Kind.FOR_EACH and spec.item is not None:
        kind = f"for_each {graph.specs[spec.item].kind}"
    words = [step.key, kind]
    if step.needs is not None:
        words.append("needs " + (", ".join(step.needs) or "nothing"))
    words += [f"if {clean(spec.condition)}"] if spec.condition else []
    words += [f"run_when {step.run_when}"] if step.run_when != "success" else []
    words += [f"when_failed {step.when_failed}"] if step.when_failed != "stop" else []
    words += ["with a fix"] if spec.fix is not None else []
    words += ["with a revision"] if spec.revise is not None else []
    words += [f"up to {spec.parallel_max} subagents"] if spec.kind is Kind.AGENT and spec.item is not None else []
    return "  ".join(words)


def graph_map(graph: Graph) -> dict[str, object]:
    """The shape of `plan show --json`.  `edges`: [need, step], gates left out."""
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
                "if": graph.specs[p.spec].condition,
                "run_when": str(p.run_when),
                "when_failed": str(p.when_failed),
            }
            for p in graph.planned
        ],
        "edges": [list(edge) for edge in edges(graph.planned, len(stages)) if not gates & set(edge)],
    }
