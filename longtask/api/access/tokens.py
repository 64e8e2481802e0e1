"""Tokens: `lt_` and 43 random letters and digits, which are 256 bits.  Whoever holds one is its caller.

The store keeps SHA-256 of a token and never the token.  A fast hash is enough: slow ones protect words that people
choose, which can be guessed by trying; nobody tries 2^256.  A slow one would even harm: whoever sends rubbish would
keep the server busy.  The hash that was found is compared in constant time once more, so that nothing hangs on how an
index compares.

A token that is rotated gets a new form under the same id; the old form is good for a grace, so that whoever uses it can
be given the new one.  One that expires or is revoked is good no more, within `KNOWN_S` in every process.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Collection, Sequence
from dataclasses import replace

from longtask.api.access.roles import Role
from longtask.core.errors import BadPlan, NotFound, Refused
from longtask.store.callers import Token
from longtask.store.contract import Store

PREFIX = "lt_"
LETTERS = string.ascii_letters + string.digits
LENGTH = 43  # 62^43 > 2^256
FORM = re.compile(r"lt_[0-9A-Za-z]{43}")
ID_LENGTH = 10
NAME_MAX = 64
NAME = re.compile(r"[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?")

KNOWN_S = 2.0
USED_EVERY_MS = 60_000
EXPIRES_MS = 90 * 86_400_000
GRACE_MS = 86_400_000
PAGE = 500


def fresh() -> str:
    return PREFIX + "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def roles_of(words: Collection[str]) -> tuple[str, ...]:
    """Raises BadPlan."""
    for word in words:
        if word not in [str(role) for role in Role]:
            raise BadPlan(f"no role {word!r}; roles are {', '.join(Role)}")
    if not words:
        raise BadPlan(f"a token needs a role: {', '.join(Role)}")
    return tuple(str(role) for role in Role if str(role) in words)


class Tokens:
    def __init__(self, store: Store) -> None:
        self._store = store

    def create(
        self,
        name: str,
        roles: Collection[str],
        *,
        by: str,
        workspaces: Sequence[str] | None = None,
        expires_ms: int | None = EXPIRES_MS,
    ) -> tuple[Token, str]:
        """The token's text is seen here and never again.  `expires_ms` None: never.  Raises BadPlan."""
        if len(name) > NAME_MAX or not NAME.fullmatch(name):
            raise BadPlan(f"name {name!r}: give 1 to {NAME_MAX} characters, no control characters and no outer spaces")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise BadPlan(f"name {name!r} is no text in UTF-8") from error
        now, text = self._store.now(), fresh()
        made = Token(
            id="".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(ID_LENGTH)),
            name=name,
            roles=roles_of(roles),
            workspaces=None if workspaces is None else tuple(dict.fromkeys(workspaces)),
            created_by=by,
            created_at=now,
            expires_at=None if expires_ms is None else now + expires_ms,
        )
        self._store.add_token(made, hash_of(text))
        return made, text

    def rotate(self, id: str, *, grace_ms: int = GRACE_MS, expires_ms: int | None = EXPIRES_MS) -> tuple[Token, str]:
        """A new form; one that never expires goes on so.  Raises NotFound, Refused."""
        known = self.get(id)
        now, text = self._store.now(), fresh()
        if known.revoked_at is not None:
            raise Refused(f"token {known.id!r} was revoked; make another one: longtask token create {known.name}")
        expires_at = None if known.expires_at is None or expires_ms is None else now + expires_ms
        self._store.rotate_token(known.id, hash_of(text), now + grace_ms, expires_at)
        return replace(known, expires_at=expires_at), text

    def revoke(self, id: str) -> Token:
        """Raises NotFound."""
        known = self.get(id)
        self._store.revoke_token(known.id)
        return known

    def get(self, id: str) -> Token:
        """By id, or by a name that only one good token has.  Raises NotFound, Refused."""
        every, now = self.list(), self._store.now()
        found = [token for token in every if token.id == id]
        found = found or [token for token in every if token.name == id and token.good(now)]
        if not found:
            raise NotFound(f"no token {id!r}; list them: longtask token list")
        if len(found) > 1:
            ids = ", ".join(repr(token.id) for token in found)
            raise Refused(f"several tokens are named {id!r} ({ids}); give the id")
        return found[0]

    def list(self) -> list[Token]:
        found: list[Token] = []
        while page := self._store.tokens(found[-1].id if found else "", PAGE):
            found += page
        return found

    def any_good(self) -> bool:
        now = self._store.now()
        return any(token.good(now) for token in self.list())

    def find(self, text: str) -> Token | None:
        """The token that this is the text of, if it is good now."""
        if not FORM.fullmatch(text):
            return None
        hash_, now = hash_of(text), self._store.now()
        found = self._store.find_token(hash_)
        if found is None or not hmac.compare_digest(found.hash, hash_):
            return None
        if not found.token.good(now) or (found.until is not None and now >= found.until):
            return None
        if now - found.token.used_at >= USED_EVERY_MS:
            self._store.touch_token(found.token.id, now - USED_EVERY_MS + 1)
        return found.token
