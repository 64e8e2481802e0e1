"""The probe on PostgreSQL: the statements that a run sent, replayed bare on the database as it was before.

As with SQLite no Python of ours is left in the measured part: messages are made beforehand, libpq sends them, nobody
looks at the rows.  They travel as the store sends them (what needs no answer goes with what does), so that the probe
pays for no round trip that the run did not pay for; but every block commits by itself, as if nothing were grouped.
Blocks that were read ahead together are written by one statement, so they stay together here too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence

import psycopg
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from bench.probe import COMMIT, Statement
from longtask.store.postgres.session import Session
from longtask.store.queries import load, numbered

BEGIN = "begin"
COMMANDS = (BEGIN, COMMIT, "rollback")
LOCKS = ("lock_task", "lock_task_now", "lock_ahead")
ANSWERS = re.compile(r"\breturning\b|^\s*select\b", re.IGNORECASE)


def ungrouped(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Each block in a transaction of its own.  A block begins with the lock of its task."""
    locks = {numbered(load("postgres")[name])[0] for name in LOCKS}
    blocks = 0
    for sql, params in statements:
        if sql == BEGIN:
            blocks = 0
        elif sql in locks:
            if blocks:
                yield COMMIT, ()
                yield BEGIN, ()
            blocks += 1
        yield sql, params


def together(statements: Iterable[Statement]) -> Iterator[list[Statement]]:
    """The messages: outside a transaction each statement by itself; inside, what answers nothing waits for company."""
    locks = {numbered(load("postgres")[name])[0] for name in LOCKS}
    message: list[Statement] = []
    inside = False
    for sql, params in statements:
        message.append((sql, params))
        if sql == BEGIN:
            inside = True
        elif sql in COMMANDS:
            inside = False
            yield message
            message = []
        elif not inside or (sql not in locks and ANSWERS.search(sql)):
            yield message
            message = []
    if message:
        yield message


def replayed(url: str, statements: Sequence[Statement]) -> float:
    """The seconds that it took.  Statements are prepared before the clock runs."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=longtask") as line:
        messages = [b";".join(parts) for parts in _written(line, statements)]
        send = line.pgconn.exec_
        begun = time.perf_counter()
        results = [send(message) for message in messages]
        took_s = time.perf_counter() - begun
        for message, result in zip(messages, results, strict=True):
            _check(result, message)
    return took_s


def _check(result: PGresult, message: bytes) -> None:
    if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        raise AssertionError(f"the probe's {message[:200]!r} failed: {result.error_message!r}")


def _written(line: psycopg.Connection, statements: Sequence[Statement]) -> Iterator[list[bytes]]:
    """Values become text by the store's own rules, since the server reads them as the store sends them."""
    names: dict[tuple[str, str], str] = {}
    known: dict[str, tuple[str, tuple[str, ...]]] = {}
    session = Session(line, known)
    made = []
    for message in together(statements):
        parts = []
        for sql, values in message:
            if isinstance(values, tuple):  # a command, which the store sends as it stands: `begin`, `notify`
                parts.append(sql.encode())
                continue
            places = tuple(str(n) for n in range(len(values)))
            name = names.setdefault((sql, _types(values)), f"probe_{len(names)}")
            known[name] = (sql, places)
            call = session.call(name, dict(zip(places, values, strict=True)))
            if call.startswith(b"prepare "):
                prepare, _, call = call.partition(b";execute ")
                _check(line.pgconn.exec_(prepare), prepare)
                call = b"execute " + call
            parts.append(call)
        made.append(parts)
    return iter(made)


def _types(values: Sequence[object]) -> str:
    """A statement is prepared for the types of its first values: a null here and a number there are two statements."""
    return ",".join("null" if value is None else type(value).__name__ for value in values)
