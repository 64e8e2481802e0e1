"""Finds literals that look like keys, so that no secret is ever stored in a plan, a journal or an error message.

Two ways: by the shape that a provider gives its keys, and by a name (`API_TOKEN`) beside a value that looks drawn by
chance.  What is found is described, never repeated: `shown` is how messages of this package quote a user's value.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

# Every repetition that something must follow is bounded: a text of four million characters is searched in one pass.
SHAPES = {
    "an AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{22,}",
    "a GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "an Anthropic key": r"\bsk-ant-[A-Za-z0-9_-]{16,}",
    "an OpenAI key": r"\bsk-(?!ant-)(?:proj-|svcacct-)?[A-Za-z0-9_-]{0,60}[0-9][A-Za-z0-9_-]{19}",
    "a Google API key": r"\bAIza[0-9A-Za-z_-]{35}",
    "a Slack token": r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    "an npm token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "a PyPI token": r"\bpypi-[A-Za-z0-9_-]{40,}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "a Stripe key": r"\b[rs]k_live_[A-Za-z0-9]{16,}",
    "a signed web token": r"\beyJ[A-Za-z0-9_-]{10,300}\.eyJ[A-Za-z0-9_-]{10}",
    "a private key": r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----",
}
_ANY = re.compile("|".join(f"(?P<k{n}>{shape})" for n, shape in enumerate(SHAPES.values())))
_NAMES = tuple(SHAPES)
_TELLING = frozenset("TOKEN SECRET KEY APIKEY PASSWORD PASSWD PASSPHRASE PWD CREDENTIAL CREDENTIALS".split())
_HARMLESS_ENDS = ("_PATH", "_FILE", "_DIR", "_URL", "_ID", "_NAME", "_HEADER")
LENGTH_MIN = 16
ENTROPY_MIN = 3.2  # bits a character: hex of 16 bytes has 3.4 and more, words and dashes stay below 3
QUOTED_MAX = 40


def key_in(text: str) -> str | None:
    """What kind of key `text` contains by its shape; None if it contains none."""
    found = _ANY.search(text)
    return _NAMES[int((found.lastgroup or "k0")[1:])] if found else None


def key_under(name: str, value: str) -> bool:
    """Whether `value` looks like a key because of the `name` that it stands under."""
    upper = name.upper()
    if not _TELLING.intersection(upper.split("_")) or upper.endswith(_HARMLESS_ENDS):
        return False
    if (
        len(value) < LENGTH_MIN
        or "${{" in value
        or re.search(r"\s", value)
        or value.startswith(("/", "./", "~", "http"))
    ):
        return False
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return mixed and entropy(value) >= ENTROPY_MIN


def entropy(text: str) -> float:
    """Shannon entropy of the characters, in bits a character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def shown(value: Any) -> str:
    """A user's value as a message may quote it: short, and never a key."""
    if isinstance(value, str):
        if key_in(value):
            return "a text that looks like a key"
        return repr(value if len(value) <= QUOTED_MAX else value[: QUOTED_MAX - 1] + "…")
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)[:QUOTED_MAX]
    if isinstance(value, list | tuple):
        return "a list"
    return "a mapping" if isinstance(value, dict) else type(value).__name__
