"""The commands, and how errors are told."""

from __future__ import annotations

import logging
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import click
import typer

from longtask import __version__
from longtask.cli import act, decide, demo, doctor, look, plans, run, worker
from longtask.cli.session import FAILED, USAGE, Session, quiet_pipe
from longtask.core.errors import BadPlan, LongTaskError

HELP = """Carry engineering work to its end that is too big for one agent run.

    longtask init                 write a starter plan
    longtask run longtask.yaml    run it, and watch
    longtask show @last           where it stands
    longtask why @last            what it waits for, and what helps
    longtask demo                 a real migration, with recorded words of a model

A TASK is named by its id or a prefix of it, by NAME-n, or by @last.
Exit codes: 0 completed, 1 failed, 2 bad plan or usage, 3 waits for somebody, 4 cancelled, 130 detached.
"""


def make_app(session: Session) -> typer.Typer:
    app = typer.Typer(
        name="longtask",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"], "obj": session, "max_content_width": 110},
    )

    @app.callback()
    def top(
        database: str = typer.Option(None, "--database", metavar="PATH", help="where tasks are kept"),
        json: bool = typer.Option(False, "--json", help="machine-readable output"),
        version: bool = typer.Option(False, "--version", help="show the version"),
    ) -> None:
        """Also accepted after the command."""

    for group in (run, look, decide, act, worker, doctor, demo):
        group.register(app)
    plans.register(app)
    return app


def split_global(words: Sequence[str]) -> tuple[list[str], str | None, bool]:
    """Takes `--database X` and `--json` out, wherever they stand before a `--`."""
    rest: list[str] = []
    database, json = None, False
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            rest += words[at:]
            break
        if word == "--json":
            json = True
        elif word == "--database" and at + 1 < len(words):
            at += 1
            database = words[at]
        elif word.startswith("--database="):
            database = word.partition("=")[2]
        else:
            rest.append(word)
        at += 1
    return rest, database, json


def run_command(session: Session, words: list[str]) -> int:
    app = make_app(session)
    try:
        with quiet_pipe():
            code = app(args=words, standalone_mode=False, prog_name="longtask")
            return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return USAGE
    except click.ClickException as error:
        error.show(sys.stderr)
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        print("longtask: stopped", file=sys.stderr)
        return 130
    except click.exceptions.Exit as ended:
        return ended.exit_code


def call(words: Sequence[str]) -> int:
    """Runs one call and answers its exit code; no exception leaves it."""
    rest, database, json = split_global(words)
    if "--version" in rest[:1]:
        print(f"longtask {__version__}")
        return 0
    session = Session(database, json)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(message)s")
    try:
        return run_command(session, rest)
    except BadPlan as bad:
        if json:
            session.give({"error": "bad_plan", "problems": [str(p) for p in bad.problems]})
        for problem in bad.problems:
            print(f"longtask: {problem}", file=sys.stderr)
        return USAGE
    except LongTaskError as error:
        if json:
            session.give({"error": type(error).__name__, "message": str(error)})
        print(f"longtask: {error}", file=sys.stderr)
        return FAILED if not isinstance(error, BadPlan) else USAGE
    except Exception as error:  # noqa: BLE001  the last word: short for people, whole in a file
        file = Path(tempfile.mkstemp(prefix="longtask-error-", suffix=".txt")[1])
        file.write_text(traceback.format_exc())
        print(f"longtask: unexpected {type(error).__name__}: {error}; the whole story is in {file}", file=sys.stderr)
        return FAILED
    finally:
        session.close()
