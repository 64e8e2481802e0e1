"""`longtask dev …`: what helps while plans and agents are tried out."""

from __future__ import annotations

import os
import shlex
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtask.agents import programs
from longtask.cli.fleet import table
from longtask.cli.help import Group, commands
from longtask.cli.paint import ReaderGone
from longtask.cli.serve import ended_by_signal
from longtask.cli.session import Session
from longtask.core.model import JsonMap
from longtask.views.text import clean

if TYPE_CHECKING:
    from longtask.modelserver.playback import Request  # it loads the language of scripts

OFFERED_SHOWN_MAX = 30
Name = Annotated[str, typer.Argument(metavar="NAME", help=f"one of {', '.join(programs.KINDS)}")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(cls=Group, help="Try plans and agents out.", no_args_is_help=True)
    app.add_typer(group, name="dev", rich_help_panel="Operate")
    command = commands(group, "Commands")

    @command("model-server")
    def model_server(
        ctx: typer.Context,
        script: Annotated[
            list[str], typer.Option("--script", metavar="FILE", help="what the model says; NAME=FILE for several")
        ],
        port: Annotated[int, typer.Option(metavar="N", help="0: any that is free", min=0, max=65_535)] = 0,
        check: Annotated[bool, typer.Option("--check", help="read the script, and do not serve")] = False,
    ) -> int:
        """Play a script as a model would answer, for agents on this machine: no key, no network, no cost.

        It speaks Anthropic Messages, OpenAI Responses and OpenAI Chat Completions, whole and as streams. A script says
        turn by turn what the model says and which tools it calls:

            turns:
              - text: First I look.
                calls: [{read: hello.txt}]
              - calls: [{edit: {path: hello.txt, old: hello, new: hello world}}]
                faults: {status: 529, times: 2, retry_after: 1s}
              - calls: [{shell: make test}]
              - text: All done.

        shell, write, edit and read become the tools that the agent offers. How to start Claude Code, Codex and opencode
        with it, and every word of scripts: docs/agents.md.

        A script that is named is played behind /s/NAME. What was asked: GET /_requests; where it is: GET /_state.

        Examples:
            longtask dev model-server --script script.yaml
            longtask dev model-server --script one=one.yaml --script two=two.yaml --port 8099
            longtask dev model-server --script script.yaml --check
        """
        session: Session = ctx.obj
        return play(session, script, port, check)

    @command()
    def agents(ctx: typer.Context) -> int:
        """List the agents' programs that LongTask knows to fetch, and where they are on this machine.

        Examples:
            longtask dev agents
        """
        session: Session = ctx.obj
        found = [_listed(name, session.config.home) for name in programs.KINDS]
        if session.json:
            session.give(found)
            return 0
        rows = [
            (
                str(one["name"]),
                str(one["version"] or "does not tell") if one["path"] else "is not here",
                str(one["path"] or session.command("dev", "fetch", str(one["name"]))),
            )
            for one in found
        ]
        for line in table(("agent", "version", "where"), rows):
            session.say(line)
        return 0

    @command()
    def fetch(ctx: typer.Context, name: Name) -> int:
        """Fetch the program of an agent, of the one version that LongTask is tested with, by your own npm.

        It is put below $LONGTASK_HOME/agents, and used when there is none on the PATH.

        Examples:
            longtask dev fetch codex
        """
        session: Session = ctx.obj
        program = programs.fetch(name, session.config.home, session.err.write)
        if session.json:
            session.give(_document(program))
        session.say(f"{name} {program.version} is at {program.path}")
        return 0


def play(session: Session, named: list[str], port: int, check: bool) -> int:
    """Until a signal.  Raises BadPlan, Refused."""
    from longtask.modelserver.app import DEFAULT
    from longtask.modelserver.server import ModelServer, environment

    def told(request: Request) -> None:
        with suppress(ReaderGone):  # `… | head`
            session.say([(f"{request.number:>4} ", "dim"), (_line(request), "yellow" if request.problem else "")])

    server = ModelServer(port=port, watch=told)
    scripts = [
        (name, file) if equals else (DEFAULT, name) for name, equals, file in (one.partition("=") for one in named)
    ]
    for name, file in scripts:
        server.load(name, Path(file))
    if check:
        if session.json:
            session.give({"scripts": [name for name, _ in scripts]})
        session.say(f"{len(scripts)} script{'s' if len(scripts) > 1 else ''}: nothing is wrong")
        return 0
    over = threading.Event()
    with ended_by_signal(over.set), server:
        places = {name: server.url_of(name) for name, _ in scripts}
        if session.json:
            urls = {name: {"url": url, "environment": environment(url)} for name, url in places.items()}
            session.give_line({"type": "model_server.started", "pid": os.getpid(), "url": server.url, "scripts": urls})
        for name, url in places.items():
            session.say(f"# script {name!r} is played at {url}; agents are told by:")
            for variable, value in environment(url).items():
                session.say(f"export {variable}={shlex.quote(value)}")
        over.wait()
        states = [server.state(name) for name, _ in scripts]
    problems = [f"{state['name']}: {problem}" for state in states for problem in state["problems"]]
    for problem in problems:
        session.warn(clean(problem))
    if session.json:
        session.give_line({"type": "model_server.ended", "scripts": states})
    return 1 if problems else 0


def _line(request: Request) -> str:
    cue = request.cue
    turn = f"turn {cue.number}" if cue and cue.number else "beside the turns"
    if request.problem:
        turn = request.problem
    elif cue and cue.fault:
        turn += f", fault {cue.fault.kind}"
    elif request.calls:
        turn += f", calls {', '.join(request.calls)}"
        offered = request.asked.tools if request.asked else {}
        if strange := [name for name in request.calls if name not in offered]:
            turn += f"; not offered: {', '.join(strange)}; there is {', '.join(sorted(offered)[:OFFERED_SHOWN_MAX])}"
    return clean(f"{request.path}: {turn}")


def _listed(name: str, home: Path) -> JsonMap:
    found = programs.find(name, home)
    if found is not None:
        return _document(found)
    return {"name": name, "path": None, "version": None, "fetched": False}


def _document(program: programs.Program) -> JsonMap:
    return {
        "name": program.name,
        "path": str(program.path),
        "version": program.version or None,
        "fetched": program.fetched,
    }
