"""Loads named SQL: `-- name: x`, then one statement, up to the next name.  Comments stay in the files.

`t.*` and `s.*` are sent as the columns that rows.py knows, so that a column which a later release adds to `task` or
`step` is none of this one's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from longtask.store.rows import STEP_COLUMNS, TASK_COLUMNS

SQL = Path(__file__).parent / "sql"
MARK = "-- name: "
PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
WHOLE = {letter + ".*": ", ".join(f"{letter}.{c}" for c in columns)
         for letter, columns in (("s", STEP_COLUMNS), ("t", TASK_COLUMNS))}  # fmt: skip


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
            for whole, columns in WHOLE.items():
                statement = re.sub(rf"\b{re.escape(whole)}", columns, statement)
            statements[name] = statement
    return statements


def numbered(statement: str) -> tuple[str, tuple[str, ...]]:
    """`:name` as `$1`, `$2` …, and the names in that order."""
    names = tuple(dict.fromkeys(PARAMETER.findall(statement)))
    return PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement), names
