"""One connection, and how statements travel on it: several at once as one message, each prepared at its first use.

A message is the simple protocol's: `execute name (literal, …); …; commit`.  Its statements run one after another, each
with a snapshot of its own; after one that fails, none runs, the commit neither.  It costs one round trip and one wait,
where the same statements in libpq's pipeline mode cost a wait each on this side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, Escaping, ExecStatus, TransactionStatus

from longtask.store.rows import Row

Trace = Callable[[str, Any], None]
JSON = ("rows", "keys")  # how the names of parameters end that the server reads as JSON
# What the server cannot hold as text, a NUL and half of a surrogate pair, is shown as such.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
SHOWN = "\ufffd"
ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u(?:0000|[dD][89a-fA-F]..)|\\.", re.DOTALL)
Statements = Mapping[str, tuple[str, tuple[str, ...]]]  # by name: with `$n`, and the names of those parameters


class Session:
    def __init__(self, line: psycopg.Connection[Any], statements: Statements, trace: Trace | None = None) -> None:
        self.line = line
        self._statements = statements
        self._trace = trace
        self._prepared: set[str] = set()
        self._cursor = line.cursor()
        self._loading = Transformer(line)
        self._literal = Escaping(line.pgconn).escape_literal
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        return not self.line.closed and self.line.info.transaction_status is TransactionStatus.IDLE

    @property
    def within(self) -> bool:
        """In a transaction, broken or not."""
        return not self.line.closed and self.line.info.transaction_status is not TransactionStatus.IDLE

    def call(self, name: str, params: Mapping[str, Any]) -> bytes:
        """The statement as text for `send`; it must be sent, since it may prepare the statement too."""
        sql, names = self._statements[name]
        values = [_storable_json(params[key]) if key.endswith(JSON) else params[key] for key in names]
        if self._trace is not None:
            self._trace(sql, values)
        first = b""
        if name not in self._prepared:
            self._prepared.add(name)
            types = ", ".join(map(_type, values))
            first = f"prepare {name}{f' ({types})' if types else ''} as {sql};".encode()
        if not values:
            return first + b"execute " + name.encode()
        return first + b"execute " + name.encode() + b"(" + b",".join(map(self._value, values)) + b")"

    def command(self, sql: str) -> bytes:
        if self._trace is not None:
            self._trace(sql, ())
        return sql.encode()

    def _value(self, value: Any) -> bytes:
        if type(value) is int:
            return b"%d" % value
        if value is None:
            return b"null"
        if isinstance(value, str):
            try:
                return self._literal((UNSTORABLE.sub(SHOWN, value) if "\0" in value else value).encode())
            except UnicodeEncodeError:
                return self._literal(UNSTORABLE.sub(SHOWN, value).encode())
        if isinstance(value, int):  # a bool, a member of an enum
            return b"%d" % int(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return b"bytea '\\x" + bytes(value).hex().encode() + b"'"
        assert isinstance(value, list), f"no way to send a {type(value).__name__}"
        if not value:
            return b"'{}'"
        return b"array[" + b",".join(map(self._value, value)) + b"]"

    def send(self, *parts: bytes) -> list[list[Row]]:
        """Rows of each part.  After an error `undo` must follow."""
        cursor = self._cursor.execute(b";".join(parts), prepare=False)
        found: list[list[Row]] = []
        while True:
            result = cursor.pgresult  # not `cursor.description`, which would describe every column
            found.append(cursor.fetchall() if result is not None and result.status == ExecStatus.TUPLES_OK else [])
            if not cursor.nextset():
                break
        return found[-len(parts) :] if len(found) == len(parts) else _without_prepares(found, parts)

    def last(self, *parts: bytes) -> list[Row]:
        """Rows of the last part alone: one call of libpq, a third of what a cursor costs."""
        pgconn = self.line.pgconn
        result = pgconn.exec_(b";".join(parts))
        if result.status == ExecStatus.TUPLES_OK:
            self._loading.set_pgresult(result)
            return self._loading.load_rows(0, result.ntuples, tuple)
        if result.status == ExecStatus.COMMAND_OK:
            return []
        if pgconn.status == ConnStatus.BAD:
            raise psycopg.OperationalError(result.error_message.decode(errors="replace"))
        raise errors.error_from_result(result)

    def undo(self) -> None:
        """Also forgets what was prepared: nobody knows how far a message came, or whether it was sent at all."""
        self._prepared.clear()
        self.last(*([self.command("rollback")] if self.within else []), b"deallocate all")


def _without_prepares(found: Sequence[list[Row]], parts: Sequence[bytes]) -> list[list[Row]]:
    rows: list[list[Row]] = []
    at = 0
    for part in parts:
        at += part.startswith(b"prepare ")
        rows.append(found[at])
        at += 1
    return rows


def _storable_json(text: str) -> str:
    """Nested texts, which are JSON too, keep what they have: in there it is an escaped escape."""
    return ESCAPE.sub(lambda found: SHOWN if len(found[0]) == 6 else found[0], text) if "\\u" in text else text


def _type(value: Any) -> str:
    """Numbers are told as such; what a text or a null is, the server sees from its place."""
    if isinstance(value, int):
        return "bigint"
    return "bytea" if isinstance(value, bytes | bytearray | memoryview) else "unknown"
