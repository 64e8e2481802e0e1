"""Where a PostgreSQL database is: its URL, and what of it may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from longtask.core.errors import StoreError, TaskLocked

SCHEMA_DEFAULT = "longtask"
SCHEMA_NAME = r"[a-z_][a-z0-9_]{0,53}"  # with what stands before it in `channel`, a name that the server keeps whole


@dataclass(frozen=True, slots=True)
class Address:
    """`conninfo` may hold a password and is never shown; `shown` holds none."""

    conninfo: str = field(repr=False)
    schema: str
    shown: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """`postgresql://user@host:port/name?schema=longtask`, with libpq's parameters.  Raises StoreError."""
        before, mark, query = url.partition("?")  # the rest stays as it is: libpq reads URLs by rules of its own
        pieces = query.split("&") if mark else []
        ours = [piece for piece in pieces if piece.partition("=")[0] == "schema"]
        schema = unquote(ours[-1].partition("=")[2]) if ours else SCHEMA_DEFAULT
        if not re.fullmatch(SCHEMA_NAME, schema) or schema.startswith("pg_"):
            raise StoreError(
                f"schema {schema!r}: use at most 54 small letters, digits and underscores, and no 'pg_' before them"
            )
        rest = "&".join(piece for piece in pieces if piece not in ours)
        conninfo = before + ("?" + rest if rest else "")
        try:
            known = conninfo_to_dict(conninfo)
        except psycopg.Error as error:
            raise _unreadable(_without_values(str(error))) from None
        _refuse_torn(before, str(known.get("port") or ""))
        host, port, name = (str(known.get(key) or "") for key in ("host", "port", "dbname"))
        place = f"[{host}]" if ":" in host else host
        return cls(conninfo, schema, f"'postgresql://{place}{':' + port if port else ''}/{name}'")

    @property
    def channel(self) -> str:
        """Of the hints."""
        return f"longtask_{self.schema}"

    def missing(self) -> StoreError:
        return StoreError(f"database {self.shown}: it has no schema {self.schema!r}; run 'longtask migrate'")

    def locked(self, task_id: str) -> TaskLocked:
        return TaskLocked(f"task {task_id!r}: another process holds it just now; try again")


def _refuse_torn(before: str, port: str) -> None:
    """A password with a character that means something in a URL: a piece of it would be taken for something else, and
    shown."""
    user = before.partition("://")[2].rpartition("@")[0]
    if "@" in user or "/" in user:
        raise _unreadable("an '@' stands where none belongs (in a password it is %40, '/' is %2F)")
    if not re.fullmatch(r"[0-9,]*", port):
        raise _unreadable("its port is no number (in a password '/' is %2F, '?' is %3F)")


def _unreadable(why: str) -> StoreError:
    return StoreError(f"database 'postgresql://…': {why}; write it as postgresql://user@host:5432/name")


def _without_values(text: str) -> str:
    """What is quoted may be a piece of a password, unless it is the name of a parameter."""
    name = re.fullmatch(r"(invalid URI query parameter: )\"([a-z_]+)\"", text.strip())
    return text.strip() if name else re.sub(r"[:\s]*\".*\"", "", text.strip(), flags=re.DOTALL)
