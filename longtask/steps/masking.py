"""Values of secrets are taken out of everything that a process tree writes, before anybody sees it.

It is a net, not a wall: a program that encodes or cuts a secret gets it through.  A value of fewer than 6 characters is
not looked for, since it would hide ordinary words.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from longtask.core.model import Json

LENGTH_MIN = 6
SHOWN = "***"


class Mask:
    """For one stream of bytes.  A secret that is cut between two chunks is found: its beginning is held back."""

    def __init__(self, values: Iterable[str]) -> None:
        lines = {line for value in values for line in (value, *value.splitlines())}  # of a key block each line
        self._texts = sorted((text for text in lines if len(text) >= LENGTH_MIN), key=len, reverse=True)
        self._secrets = [text.encode("utf-8", "surrogateescape") for text in self._texts]
        self._held = b""

    def feed(self, content: bytes) -> bytes:
        if not self._secrets:
            return content
        content = self._held + content
        for secret in self._secrets:
            content = content.replace(secret, SHOWN.encode())
        keep = max((_begun(content, secret) for secret in self._secrets), default=0)
        self._held = content[len(content) - keep :]
        return content[: len(content) - keep]

    def rest(self) -> bytes:
        """What was held back; the stream has ended."""
        held, self._held = self._held, b""
        return held

    def whole(self, content: bytes) -> bytes:
        """Of bytes that come in one piece."""
        return self.feed(content) + self.rest()

    def value(self, value: Json) -> Json:
        """JSON with the secrets taken out of its texts, keys included."""
        if not self._texts:
            return value
        match value:
            case str():
                for text in self._texts:
                    value = value.replace(text, SHOWN)
                return value
            case dict():
                return {self.value(key): self.value(inner) for key, inner in value.items()}
            case list():
                return [self.value(inner) for inner in value]
        return value


def mask_of(names: Iterable[str]) -> Mask:
    """For the secrets of these names, as they stand in this process."""
    return Mask(os.environ[name] for name in names if name in os.environ)


def _begun(content: bytes, secret: bytes) -> int:
    """How many bytes at the end of the content are the beginning of the secret."""
    for length in range(min(len(secret) - 1, len(content)), 0, -1):
        if content.endswith(secret[:length]):
            return length
    return 0
