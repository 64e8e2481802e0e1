"""The part on callers of the contract (`callers.Callers`), in SQL."""

from __future__ import annotations

import itertools
import json
import secrets
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from longtask.core.codec import dump_json
from longtask.core.errors import NotFound
from longtask.store.base import SqlBlocks, below
from longtask.store.callers import (
    REQUEST_KEPT_MS,
    REQUEST_LOST_MS,
    Audit,
    AuditEnd,
    FoundToken,
    Request,
    RequestBegin,
    RequestEnd,
    RequestKey,
    Token,
)
from longtask.store.rows import Row

TEXT_MAX = 200
_COUNT = itertools.count()
NEWEST_ID = "g"  # above every UUID


def first_id(at: int) -> str:
    """Below every UUIDv7 of that instant and later, above every earlier one."""
    return str(uuid.UUID(int=max(at, 0) << 80))


def new_audit_id(at: int) -> str:
    """A UUIDv7 of that instant; of those that one process makes within a millisecond, the later one is above."""
    n = next(_COUNT) & 0xFFF
    return str(uuid.UUID(int=at << 80 | 0x7 << 76 | n << 64 | 0b10 << 62 | secrets.randbits(62)))


def _kept(text: str | None) -> str | None:
    """What comes from outside as any database can keep it."""
    return None if text is None else text[:TEXT_MAX].encode("utf-8", "replace").decode().replace("\0", "?")


def _token(row: Row) -> Token:
    id_, name, roles, workspaces, *more = row
    seen = None if workspaces is None else tuple(json.loads(workspaces))
    return Token(id_, name, tuple(json.loads(roles)), seen, *more)


class SqlAccess(SqlBlocks):
    """`callers.Callers`."""

    # tokens

    def find_token(self, hash: str) -> FoundToken | None:
        rows = self.select("token_by_hash", {"hash": hash})
        return FoundToken(_token(rows[0][:-2]), rows[0][-2], rows[0][-1]) if rows else None

    def tokens(self, after: str, limit: int) -> list[Token]:
        return [_token(row) for row in self.select("tokens", {"after": after, "limit": below(limit)})]

    def add_token(self, token: Token, hash: str) -> None:
        self.single("insert_token", {
            "id": token.id, "name": token.name, "hash": hash, "roles": dump_json(token.roles),
            "workspaces": None if token.workspaces is None else dump_json(token.workspaces),
            "created_by": token.created_by, "created_at": token.created_at, "expires_at": token.expires_at,
        })  # fmt: skip

    def rotate_token(self, id: str, hash: str, old_until: int, expires_at: int | None) -> None:
        params = {"id": id, "hash": hash, "old_until": old_until, "expires_at": expires_at}
        if not self.single("rotate_token", params):
            raise NotFound(f"no token {id!r} that is good; list them: longtask token list")

    def revoke_token(self, id: str) -> None:
        if not self.single("revoke_token", {"id": id, "now": self.now()}):
            raise NotFound(f"no token {id!r}; list them: longtask token list")

    def touch_token(self, id: str, before: int) -> None:
        self.single("touch_token", {"id": id, "before": before, "now": self.now()})

    # the audit

    def begin_audit(self, rows: Sequence[Audit]) -> None:
        params = {"rows": dump_json([
            (r.id, r.at, *map(_kept, (r.who, r.token, r.address, r.action, r.task_id, r.step)), r.status, r.outcome)
            for r in rows
        ])}  # fmt: skip
        self.together(lambda: self.single("insert_audit", params))

    def end_audit(self, ends: Sequence[AuditEnd]) -> None:
        rows = [(end.id, end.status, _kept(end.outcome), _kept(end.task_id)) for end in ends]
        params = {"rows": dump_json(rows)}
        self.together(lambda: self.single("end_audit", params))

    def audit(self, *, task_id: str | None, who: str | None, before: str, limit: int) -> list[Audit]:
        params = {"before": before or NEWEST_ID, "limit": below(limit)}
        if task_id is not None:
            rows = self.select("audit_of_task", params | {"task_id": task_id, "who": who})
        elif who is not None:
            rows = self.select("audit_of_person", params | {"who": who})
        else:
            rows = self.select("audit", params)
        return [Audit(*row) for row in rows]

    def forget_audit(self, before: int, limit: int) -> int:
        return len(self.single("forget_audit", {"before": first_id(before), "limit": below(limit)}))

    # requests that may be repeated

    def begin_requests(self, asked: Sequence[RequestBegin]) -> list[Request | None]:
        now = self.now()
        until = {"now": now, "expires_at": now + REQUEST_KEPT_MS, "lost": now - REQUEST_LOST_MS}
        params = [one.key._asdict() | {"digest": one.digest, "holder": one.holder} | until for one in asked]
        found: list[Request | None] = [None] * len(asked)
        left = sorted(range(len(asked)), key=lambda n: asked[n].key)  # so two servers never wait for each other
        while left:
            lost = self.together(partial(self._not_begun, left, params))
            for n in lost:
                if rows := self.select("request", asked[n].key._asdict()):
                    found[n] = Request(RequestKey(*rows[0][:3]), *rows[0][3:])
            left = [n for n in lost if found[n] is None]  # it was dropped in this moment
        return found

    def _not_begun(self, numbers: list[int], params: list[dict[str, Any]]) -> list[int]:
        return [n for n in numbers if not self.single("begin_request", params[n])]

    def end_requests(self, ends: Sequence[RequestEnd]) -> list[bool]:
        now = self.now()
        params = [
            e.key._asdict() | {"holder": e.holder, "status": e.status, "answer": e.answer, "now": now} for e in ends
        ]
        order = sorted(range(len(ends)), key=lambda n: ends[n].key)
        ended = self.together(lambda: {n for n in order if self.single("end_request", params[n])})
        return [n in ended for n in range(len(ends))]

    def drop_request(self, key: RequestKey, holder: str) -> None:
        self.single("drop_request", key._asdict() | {"holder": holder})

    def forget_requests(self, limit: int) -> int:
        return len(self.single("forget_requests", {"now": self.now(), "limit": below(limit)}))
