"""What a store promises about callers over HTTP: tokens, the audit of changes, and requests that may be repeated.

1. Of a token only a hash is kept.  The store finds it and says nothing about whether it is good: see `Token.good`.
2. A row of the audit is durable before the change is made (`begin_audit`), and is told afterwards what came of it
   (`end_audit`).  Status 0: the server ended before it was known; the task's journal tells then.
3. Of the requests with one idempotency key, caller and route, one carries it out at a time: whoever `begin_requests`
   answers with None.  It ends with `end_requests`, whose answer everybody else is given, or with `drop_request`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

REQUEST_KEPT_MS = 86_400_000  # a day: whoever repeats a call later has forgotten it
REQUEST_LOST_MS = 60_000  # who has not ended a request by then never will: its server was killed


@dataclass(frozen=True, slots=True)
class Token:
    """`workspaces` None: all.  `expires_at` None: never.  `used_at` 0: never used; else right within a minute."""

    id: str
    name: str
    roles: tuple[str, ...]
    workspaces: tuple[str, ...] | None
    created_by: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    used_at: int = 0

    def good(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class FoundToken(NamedTuple):
    """`hash` as it is stored, to be compared in constant time.  `until`: of a token that was rotated, how long its old
    form is good; None: the form is the newest."""

    token: Token
    hash: str
    until: int | None


@dataclass(frozen=True, slots=True)
class Audit:
    """One request that wanted to change something.  `status` is HTTP's; 0: not known.  `outcome`: the type of the
    problem that it was refused with."""

    id: str
    at: int
    who: str
    token: str | None
    address: str
    action: str
    task_id: str | None = None
    step: str | None = None
    status: int = 0
    outcome: str = ""


class AuditEnd(NamedTuple):
    id: str
    status: int
    outcome: str
    task_id: str | None = None  # of a task that the request has made


class RequestKey(NamedTuple):
    caller: str
    key: str
    route: str


class RequestBegin(NamedTuple):
    key: RequestKey
    digest: str
    holder: str


class RequestEnd(NamedTuple):
    """`answer` None: nothing is kept of it but its status."""

    key: RequestKey
    holder: str
    status: int
    answer: str | None


@dataclass(frozen=True, slots=True)
class Request:
    """`done_at` 0: it is being carried out.  `answer` is JSON, as it was given to `end_requests`."""

    key: RequestKey
    digest: str
    holder: str
    begun_at: int
    done_at: int
    expires_at: int
    status: int
    answer: str | None


class Callers(Protocol):
    """The part on callers of `contract.Store`."""

    # tokens
    def find_token(self, hash: str) -> FoundToken | None: ...
    def tokens(self, after: str, limit: int) -> list[Token]:
        """By id, ids above `after`."""

    def add_token(self, token: Token, hash: str) -> None: ...
    def rotate_token(self, id: str, hash: str, old_until: int, expires_at: int | None) -> None:
        """The form before the last is good no more.  Raises NotFound for none that is good."""

    def revoke_token(self, id: str) -> None:
        """Raises NotFound."""

    def touch_token(self, id: str, before: int) -> None:
        """It is used now; written only if it was last used before that."""

    # the audit
    def begin_audit(self, rows: Sequence[Audit]) -> None: ...
    def end_audit(self, ends: Sequence[AuditEnd]) -> None: ...
    def audit(self, *, task_id: str | None, who: str | None, before: str, limit: int) -> list[Audit]:
        """Newest first, ids below `before` ("": from the newest)."""

    def forget_audit(self, before: int, limit: int) -> int:
        """Takes away rows from before that instant, oldest first; answers how many."""

    # requests that may be repeated
    def begin_requests(self, asked: Sequence[RequestBegin]) -> list[Request | None]:
        """Of each in this order.  None: it is this holder's to carry out.  Else what is on record; its digest says
        whether it is the same."""

    def end_requests(self, ends: Sequence[RequestEnd]) -> list[bool]:
        """Of each in this order.  False: another holder has taken it over meanwhile."""

    def drop_request(self, key: RequestKey, holder: str) -> None:
        """It was not carried out: whoever repeats it carries it out."""

    def forget_requests(self, limit: int) -> int:
        """Takes away those that have expired; answers how many."""
