"""Which command is meant, and how errors are told.

Only the module of the command that was called is imported.  `--database`, `--server` and `--json` may stand anywhere.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import typer

from longtask import __version__
from longtask.cli.help import Group
from longtask.cli.session import DETACHED, FAILED, USAGE, Session, quiet_pipe
from longtask.client.servers import SERVER, server_url
from longtask.core.errors import BadPlan, LongTaskError, NotFound, Refused, StoreBusy, StoreError, WorkspaceError
from longtask.core.graph import did_you_mean

COMMANDS = {  # and the modules that they are in
    "run": "run",
    "demo": "demo",
    "init": "plans",
    "plan": "plans",
    "ls": "look",
    "show": "look",
    "why": "look",
    "watch": "follow",
    "events": "follow",
    "logs": "follow",
    "trace": "trace",
    "diff": "decide",
    "artifacts": "look",
    "files": "files",
    "approve": "decide",
    "reject": "decide",
    "signal": "act",
    "pause": "act",
    "resume": "act",
    "cancel": "act",
    "retry": "act",
    "skip": "act",
    "fork": "fork",
    "add": "hands",
    "edit": "hands",
    "take": "hands",
    "done": "hands",
    "up": "serve",
    "server": "serve",
    "worker": "worker",
    "health": "health",
    "fleet": "fleet",
    "webhook": "webhooks",
    "workspace": "workspaces",
    "doctor": "doctor",
    "migrate": "migrate",
    "prune": "prune",
    "export": "archives",
    "import": "archives",
    "token": "tokens",
    "audit": "tokens",
    "login": "login",
    "logout": "login",
    "dev": "dev",
}
ABOUT_SERVERS = ("login", "logout")
FOR_SERVERS = ("worker",)  # work for a server that is named on the command line, with what this machine has
ERROR_WORDS = (
    (BadPlan, "bad_plan"),
    (NotFound, "not_found"),
    (Refused, "refused"),
    (StoreBusy, "store_busy"),
    (StoreError, "store"),
    (WorkspaceError, "workspace"),
)
HELP = """Carry engineering work to its end that is too big for one agent run.

    longtask init                 write a starter plan
    longtask run longtask.yaml    run it, and watch
    longtask show @last           where it stands
    longtask why @last            what it waits for, since when, and what helps
    longtask demo                 a real migration, with the recorded words of a model

A task is named by its id or a prefix of it, by NAME-n, or by @last. Exit codes: 0 completed, 1 failed, 2 bad plan or
usage, 3 waits for somebody, 4 cancelled, 130 detached.
"""


HELP_WORDS = frozenset({"-h", "--help"})
PLACES = {"--database": "a path", "--server": "an address"}


class Usage(Exception):
    """The command line cannot be understood."""


def make_app(only: str | None = None) -> typer.Typer:
    """`only`: just the commands of this module."""
    app = typer.Typer(
        name="longtask",
        cls=Group,
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def top() -> None:
        """A group, even of one command."""

    for module in dict.fromkeys([only] if only else COMMANDS.values()):
        importlib.import_module(f"longtask.cli.{module}").register(app)
    return app


def split_global(words: Sequence[str]) -> tuple[list[str], dict[str, str], bool]:
    """Takes `--database X`, `--server URL` and `--json` out, wherever they stand before a `--`.  Raises Usage."""
    rest: list[str] = []
    where: dict[str, str] = {}
    json = False
    left = iter(words)
    for word in left:
        if word == "--":
            rest += [word, *left]
        elif word == "--json":
            json = True
        elif word.partition("=")[0] in PLACES:
            option, equals, value = word.partition("=")
            value = value if equals else next(left, "")
            if not value or value.startswith("--"):
                raise Usage(f"option {option} needs {PLACES[option]}")
            where[option] = value
        else:
            rest.append(word)
    if len(where) > 1:
        raise Usage("--database and --server: give one of them; a server has its own database")
    return rest, where, json


def ask_server(app: typer.Typer, words: Sequence[str], asked: bool) -> None:
    """The command is answered by a server; one that is about this machine is refused if a server was asked for, and
    works here as ever if it stands in the environment only."""
    from longtask.cli import remote

    grouped = any(group.name == words[0] for group in app.registered_groups)
    called = " ".join(words[: 2 if grouped else 1])
    if (name := remote.answered(words)) is not None:
        remote.take_over(app, name)
    elif asked and called not in ABOUT_SERVERS and not HELP_WORDS.intersection(words) and words[int(grouped) :]:
        raise Refused(f"`longtask {called}` is about this machine, and no server answers it; call it without --server")


def run_command(session: Session, words: list[str], asked: bool = False) -> int:
    """`asked`: for an answer by the server, on this command line."""
    name = next((word for word in words[:1] if not word.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        raise Usage(f"no command {name!r}{did_you_mean(name, COMMANDS)}; list them: longtask --help")
    app = make_app(COMMANDS[name] if name else None)
    app.info.context_settings = {**(app.info.context_settings or {}), "obj": session}
    if name in FOR_SERVERS:
        session.server = session.server if asked else None
    elif session.server is not None and name is not None:
        ask_server(app, words, asked)
    try:
        code = app(args=words, standalone_mode=False, prog_name="longtask")
        return code if isinstance(code, int) else 0
    except typer.Exit as ended:
        return int(ended.exit_code)
    except Exception as error:
        # What typer makes of a wrong command line has another family of classes in nearly every version.
        if type(error).__name__ == "NoArgsIsHelpError":
            print((str(getattr(error, "message", "")) or f"see: longtask {name or ''} --help").rstrip("\n"))
            return USAGE
        if isinstance(error, LongTaskError) or not hasattr(error, "format_message"):
            raise
        text = str(error.format_message()).strip().rstrip(".")
        path = getattr(getattr(error, "ctx", None), "command_path", "longtask")
        raise Usage(f"{text[:1].lower()}{text[1:]}; see: {path} --help") from None


def call(words: Sequence[str]) -> int:
    """Runs one call and answers its exit code; no exception leaves it."""
    for name in ("stdout", "stderr"):  # `longtask … >&-`
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    session = Session(json="--json" in words)
    try:
        rest, where, _ = split_global(words)
        session.database, session.server = where.get("--database"), where.get("--server")
        if not where:
            session.server = os.environ.get(SERVER) or None
        if session.server is not None:
            session.server = server_url(session.server)
        if rest[:1] in (["--version"], ["-V"]):
            print(f"longtask {__version__}")
            return 0
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(message)s")
        code = 0  # when whoever read has gone away
        with quiet_pipe():
            code = run_command(session, rest, "--server" in where)
        return code
    except (typer.Abort, KeyboardInterrupt):
        return tell(session, "stopped", "stopped", DETACHED)
    except Usage as error:
        return tell(session, "usage", str(error), USAGE)
    except LongTaskError as error:
        return tell_error(session, error)
    except Exception as error:  # noqa: BLE001  the last word: short for people, whole in a file
        file = Path(tempfile.mkstemp(prefix="longtask-error-", suffix=".txt")[1])
        file.write_text(traceback.format_exc())
        text = f"unexpected {type(error).__name__}: {error}; the whole story, for a report, is in {file}"
        return tell(session, "unexpected", text, FAILED)
    finally:
        session.close()


def tell_error(session: Session, error: LongTaskError) -> int:
    word = next((word for kind, word in ERROR_WORDS if isinstance(error, kind)), "error")
    usage = isinstance(error, BadPlan | NotFound) or session.submitting
    problems = [str(p) for p in error.problems] if isinstance(error, BadPlan) else None
    return tell(session, word, str(error), USAGE if usage else FAILED, problems)


def tell(session: Session, word: str, text: str, code: int, problems: list[str] | None = None) -> int:
    """An error: for people on stderr; as the one JSON document on stdout too, if JSON was asked for."""
    if session.json:
        more = {} if problems is None else {"problems": problems}
        session.give({"error": word, "message": text, "exit_code": code, **more})
    for line in problems or [text]:
        session.err.write(f"longtask: {line}")
    return code
