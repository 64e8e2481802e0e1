"""What `--help` says: own line breaks are kept, examples stand on lines of their own, commands in groups.

The texts are docstrings.  A paragraph whose lines are indented is printed as it stands; others are filled.  The same
texts make docs/cli.md.
"""

from __future__ import annotations

import inspect
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from longtask.cli.paint import Line, Paper, ansi, text_of

WIDTH_MIN, WIDTH_MAX = 40, 100
GLOBAL = (
    ("--json", "machine-readable output: docs/json.md tells every shape"),
    ("--database PATH", "where tasks are kept; default: $LONGTASK_DATABASE, else a file in $LONGTASK_HOME"),
    ("--server URL", "ask this server, not a database; default: $LONGTASK_SERVER"),
    ("-h, --help", "this text"),
)
F = TypeVar("F", bound=Callable[..., Any])


class Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(painted(command_help(self, ctx.command_path, _width())))


class Group(TyperGroup):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(painted(group_help(self, ctx.command_path, _width())))


def commands(app: typer.Typer, panel: str) -> Callable[..., Callable[[F], F]]:
    """A decorator like `app.command`, for commands that stand in one group of the help."""

    def command(name: str | None = None) -> Callable[[F], F]:
        return app.command(name, cls=Command, rich_help_panel=panel)

    return command


def painted(lines: Iterator[Line]) -> str:
    make = ansi if Paper(sys.stdout).colour else text_of
    return "\n".join(make(line) for line in lines) + "\n"


def _width() -> int:
    return min(max(shutil.get_terminal_size((80, 24)).columns, WIDTH_MIN), WIDTH_MAX)


def command_help(command: Any, path: str, width: int) -> Iterator[Line]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = " ".join([path, "[OPTIONS]", *(_placeholder(p) for p in arguments)])
    yield [("Usage: ", "bold"), (usage, "")]
    yield []
    yield from paragraphs(command.help or "", width)
    if arguments:
        yield from _section("Arguments", [(_name(p), p.help or "") for p in arguments], width)
    yield from _section("Options", [*((_option(p), p.help or "") for p in options), *GLOBAL], width)


def group_help(group: Any, path: str, width: int) -> Iterator[Line]:
    yield [("Usage: ", "bold"), (f"{path} COMMAND [OPTIONS]", "")]
    yield []
    yield from paragraphs(group.help or "", width)
    panels: dict[str, list[tuple[str, str]]] = {}
    for name, command in group.commands.items():
        panels.setdefault(command.rich_help_panel or "Commands", []).append((name, summary(command)))
    longest = max(len(name) for rows in panels.values() for name, _ in rows)
    for panel, rows in panels.items():
        yield from _section(panel, rows, width, longest)
    yield from _section("Options", list(GLOBAL), width)


def summary(command: Any) -> str:
    return inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ").rstrip(".")


def paragraphs(text: str, width: int) -> Iterator[Line]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        if head.endswith(":") and rest.startswith("  "):  # a heading over lines that stand as they are
            yield [(head, "bold")]
            paragraph = rest
        if paragraph.startswith("  "):
            for line in paragraph.splitlines():
                yield [("  " + line.strip(" ") if len(line) - len(line.lstrip()) <= 4 else line, "")]
        else:
            for line in textwrap.wrap(paragraph, width, break_long_words=False, break_on_hyphens=False):
                yield [(line, "")]
        yield []


def _section(title: str, rows: list[tuple[str, str]], width: int, column: int = 0) -> Iterator[Line]:
    yield [(title + ":", "bold")]
    column = min(column or max(len(name) for name, _ in rows), width // 3)
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(width - column - 4, 20), break_on_hyphens=False) or [""]
        if len(name) > column:
            yield [("  ", ""), (name, "cyan")]
        else:
            yield [("  ", ""), (f"{name:<{column}}", "cyan"), ("  " + wrapped.pop(0), "")]
        for line in wrapped:
            yield [(" " * (column + 4) + line, "")]
    yield []


def _name(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _placeholder(parameter: Any) -> str:
    name = _name(parameter)
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _option(parameter: Any) -> str:
    names = ", ".join(sorted([*parameter.opts, *parameter.secondary_opts], key=lambda o: (o.startswith("--"), o)))
    if parameter.secondary_opts:
        names = "/".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {_name(parameter)}"


def reference(app: typer.Typer, width: int = 96) -> str:
    """All of it as Markdown."""
    root: Any = typer.main.get_command(app)
    parts = ["```text", *(text_of(line) for line in group_help(root, "longtask", width)), "```"]
    for path, command in _walk(root, "longtask"):
        parts += [f"\n## {path}\n", "```text", *(text_of(line) for line in command_help(command, path, width)), "```"]
    return "\n".join(parts).replace("\n\n```\n", "\n```\n") + "\n"


def _walk(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _walk(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command
