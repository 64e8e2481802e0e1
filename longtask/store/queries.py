"""Loads named SQL: `-- name: x`, then one statement, up to the next name.  Comments stay in the files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

SQL = Path(__file__).parent / "sql"
MARK = "-- name: "


def parse(text: str) -> Iterator[tuple[str, str]]:
    """(name, statement) of a file's text."""
    name, lines = "", list[str]()
    for line in [*text.splitlines(), MARK]:
        if line.startswith(MARK):
            if name:
                yield name, "\n".join(lines).strip()
            name, lines = line.removeprefix(MARK).strip(), []
        elif name and line.strip() and not line.startswith("--"):
            lines.append(line)


@cache
def load(dialect: str) -> dict[str, str]:
    """The statements of `common.sql` and of the dialect, by name; a name stands once."""
    statements: dict[str, str] = {}
    for file in ("common.sql", f"{dialect}.sql"):
        for name, statement in parse((SQL / file).read_text(encoding="utf-8")):
            assert name not in statements, f"{file}: statement {name!r} is there twice"
            statements[name] = statement
    return statements
