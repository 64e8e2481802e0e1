"""What the requests of one process share: who is known, how often each may call, how much is being read."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from longtask.api.access import local
from longtask.api.access.audit import AuditWriter
from longtask.api.access.caller import unknown
from longtask.api.access.limits import Buckets, Streams, network_of
from longtask.api.access.policy import Policy
from longtask.api.access.roles import Caller, Role
from longtask.api.access.tokens import KNOWN_S, Tokens
from longtask.api.problems import Problem
from longtask.api.settings import Settings, is_loopback
from longtask.config import person
from longtask.core.errors import Refused
from longtask.store.callers import Token
from longtask.store.contract import Store

KNOWN_MAX = 10_000
LOOKUPS_MAX = 4


class Access:
    """`asks`: for a token.  `secure`: browsers come by https."""

    def __init__(self, store: Store, policy: Policy, *, asks: bool, secure: bool = False) -> None:
        self.store, self.policy, self.asks, self.secure = store, policy, asks, secure
        self.tokens = Tokens(store)
        self.networks = policy.networks
        self.callers = Buckets(policy.caller_per_s, policy.caller_burst)
        self.strangers = Buckets(policy.stranger_per_s, policy.stranger_burst)
        self.streams = Streams(policy.streams_max, policy.streams_of_caller_max)
        self.reading_bytes = 0
        self._known: dict[str, tuple[Token, float]] = {}
        self._me = person()
        self._threads = CapacityLimiter(LOOKUPS_MAX)  # their own: routes may keep all others busy
        self.audit = AuditWriter(store, self._threads)

    async def caller(self, headers: local.Headers, address: str) -> Caller | None:
        """None: nobody that is known.  Raises Problem."""
        given = local.values(headers, b"authorization")
        if not given:
            return None if self.asks else Caller(self._me, frozenset(Role), address=address)
        scheme, _, text = given[0].partition(" ")
        token = None
        if len(given) == 1 and scheme.lower() == "bearer":
            token = await self._token(text.strip(), address)
        if token is None:
            self.strangers.take(network_of(address), time.monotonic())
            raise unknown(
                "the token is not known here, has expired or was revoked: longtask token list shows those that are good"
            )
        seen = None if token.workspaces is None else frozenset(token.workspaces)
        return Caller(token.name, frozenset(map(Role, token.roles)), seen, token.id, address)

    async def _token(self, text: str, address: str) -> Token | None:
        now = time.monotonic()
        known = self._known.get(text)
        if known is not None and now - known[1] < KNOWN_S:
            return known[0]
        if known is None and (wait := self.strangers.take(network_of(address), now, count=0)):
            raise too_many(wait)
        found = await self._find(text)
        if found is None:
            self._known.pop(text, None)
            return None
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[text] = found, now
        return found

    def forget(self) -> None:
        """Tokens are looked up anew."""
        self._known.clear()

    async def good(self, headers: local.Headers) -> bool:
        """The token of a request that was let in is still good."""
        given = local.values(headers, b"authorization")
        return not given or await self._find(given[0].partition(" ")[2].strip()) is not None

    async def _find(self, text: str) -> Token | None:
        return await run_sync(self.tokens.find, text, limiter=self._threads)


def make_access(store: Store, settings: Settings) -> Access:
    """Tokens are asked for wherever somebody from elsewhere may call."""
    public, policy = urlsplit(settings.public_url or ""), settings.policy
    reached = bool(public.hostname) and not is_loopback(public.hostname or "")
    asks = policy.tokens or bool(policy.proxies) or reached or not settings.local
    return Access(store, policy, asks=asks, secure=public.scheme == "https")


def too_many(wait_s: float, detail: str = "") -> Problem:
    seconds = max(1, round(wait_s + 0.5))
    return Problem(
        429,
        "too-many-requests",
        "too many requests",
        detail or f"slow down, and try again after {seconds} s",
        headers={"Retry-After": str(seconds)},
    )


def check_listening(access: Access, host: str) -> None:
    """Before a server listens.  Raises Refused."""
    if access.asks and not access.tokens.any_good():
        raise Refused(
            f"a server on {host!r} asks for tokens, and there is none that is good, so nobody could use it; make one: "
            "longtask token create NAME --role admin"
        )
