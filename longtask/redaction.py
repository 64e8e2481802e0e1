"""Redaction: what must not be seen is taken out where it comes in, before anybody stores or shows it.

Two things are taken out, and `***` stands in their place:

- **values**: of the secrets that a step is given, and of those that the environment names (`configured`);
- **shapes**: texts that look like keys, whoever has written them: by the form that a provider gives its keys, private
  keys, signed web tokens, what follows `Bearer`, and passwords in addresses.

Where: output of processes (both), outcomes and what people and programs send (both), problems, logs, traces and
previews (both).  The journal of an agent's run keeps what its tools have answered but for values: a file that holds
something like a key is the work itself, and an agent that was shown `***` would write `***` back.  Whatever shows that
journal to people takes out shapes too.

It is a net, not a wall: a program that encodes or cuts a secret gets it through.  A value of fewer than 6 characters
is not looked for, since it would hide ordinary words.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from longtask.core.model import Json

LENGTH_MIN = 6
SHOWN = "***"
NAMES = "LONGTASK_REDACT"  # names of further variables whose values are secret, divided by commas or blanks
HELD_MAX = 16_384  # of a stream: so much of what may be the beginning of a key waits for its end
LINE = r"[A-Za-z0-9+/=]"
BREAK = r"(?:\s|\\[nr])"


class Shape(NamedTuple):
    """`literals`: one of them stands in every such text, so that most texts are done with at once.  `found`: what a
    plan that holds one is refused for.  What the group `k` of the pattern holds is kept.

    Every repetition that something must follow is bounded: a text of four million characters is searched in one pass.
    """

    name: str
    literals: tuple[str, ...]
    pattern: str
    found: bool = True


SHAPES = (
    Shape("an AWS access key", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    Shape(
        "a GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{22,}",
    ),
    Shape("a GitLab token", ("glpat-",), r"\bglpat-[A-Za-z0-9_.-]{20,}"),
    Shape("an Anthropic key", ("sk-ant-",), r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
    Shape(
        "an OpenAI key",
        ("sk-",),
        r"\bsk-(?!ant-)(?:proj-|svcacct-)?[A-Za-z0-9_-]{0,60}[0-9][A-Za-z0-9_-]{19}[A-Za-z0-9_-]*",
    ),
    Shape("a Google API key", ("AIza",), r"\bAIza[0-9A-Za-z_-]{35}"),
    Shape("a Google access token", ("ya29.",), r"\bya29\.[0-9A-Za-z_.-]{20,}"),
    Shape("a Slack token", ("xox", "xapp-"), r"\bxox[abeprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}"),
    Shape("a Slack webhook", ("hooks.slack.com/",), r"\bhooks\.slack\.com/services/[A-Za-z0-9/_-]{20,}"),
    Shape("an npm token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b"),
    Shape("a PyPI token", ("pypi-",), r"\bpypi-[A-Za-z0-9_-]{40,}"),
    Shape("a Hugging Face token", ("hf_",), r"\bhf_[A-Za-z0-9]{30,}"),
    Shape("a Stripe key", ("k_live_",), r"\b[rs]k_live_[A-Za-z0-9]{16,}"),
    Shape("a webhook's secret", ("whsec_",), r"\bwhsec_[A-Za-z0-9+/=]{20,}"),
    Shape("a token of LongTask", ("lt_",), r"\blt_[0-9A-Za-z]{43}\b"),
    Shape(
        "a signed web token",
        ("eyJ",),
        r"\beyJ[A-Za-z0-9_-]{10,400}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+)*",
    ),
    Shape(
        "a private key",
        ("PRIVATE KEY",),
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:{BREAK}{{1,4}}[A-Za-z0-9-]{{1,40}}: [^\s\\]{{1,200}}){{0,8}}(?:{BREAK}{{1,4}}{LINE}{{16,}})*"
        rf"(?:{BREAK}{{0,4}}{LINE}{{1,80}}(?={BREAK}{{0,4}}-----END))?",
    ),
    Shape(
        "what follows Bearer",
        ("earer", "EARER"),
        r"(?P<k>\b[Bb](?:earer|EARER) {1,4})(?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/=-]{16,}",
        False,
    ),
    Shape(
        "basic credentials",
        ("asic ",),
        r"(?P<k>\b[Bb]asic {1,4})(?=[A-Za-z+/]{0,200}[0-9=])[A-Za-z0-9+/]{8,}={0,2}",
        False,
    ),
    Shape("a storage key", ("AccountKey=",), r"(?P<k>\bAccountKey=)[A-Za-z0-9+/=]{40,}", False),
    Shape(
        "a password in an address", ("://",), r"(?P<k>://[^\s/:@'\"<>]{0,100}:)(?![$*{])[^\s/'\"<>]{1,200}(?=@)", False
    ),
)
FOUND = tuple((literal, shape) for shape in SHAPES if shape.found for literal in shape.literals)
# What may be the beginning of a shape at the end of a piece of a stream: its literal and what may follow ...
OPEN = (
    rb"(?:(?:\b(?:AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|sk-|AIza|ya29\.|xox|xapp-|npm_|pypi-|hf_|[rs]k_live_|whsec_|lt_"
    rb"|eyJ)|hooks\.slack\.com/|AccountKey=|[Bb](?:earer|EARER|asic) {1,4})[A-Za-z0-9._~+/=-]{0,4096}"
    rb"|://[^\s/'\"<>]{0,300})\Z"
)
OPEN_MAX = 4_200
# ... or of a private key, whose end has not come ...
OPEN_KEY = rb"-----BEGIN [A-Z0-9 ]{0,80}(?:-{0,5}|PRIVATE KEY[A-Z ]{0,6}-----[A-Za-z0-9+/=\s\\:,-]*)\Z"
# ... or the beginning of the literal itself.
STARTS = (
    {
        literal
        for shape in SHAPES
        for literal in shape.literals
        if literal not in ("earer", "EARER", "asic ", "PRIVATE KEY")
    }
    | {"Bearer ", "bearer ", "BEARER ", "Basic ", "basic ", "-----BEGIN ", "sk_live_", "rk_live_"}
) - {"k_live_"}
PREFIXES = {start[:n].encode() for start in STARTS for n in range(1, len(start))}
PREFIX_MAX = max(map(len, PREFIXES))
_TELLING = frozenset("TOKEN SECRET KEY APIKEY PASSWORD PASSWD PASSPHRASE PWD CREDENTIAL CREDENTIALS".split())
_HARMLESS_ENDS = ("_PATH", "_FILE", "_DIR", "_URL", "_ID", "_NAME", "_HEADER")
CHANCE_LENGTH_MIN = 16
ENTROPY_MIN = 3.2  # bits a character: hex of 16 bytes has 3.4 and more, words and dashes stay below 3
T = TypeVar("T", str, bytes)


@cache  # expressions are made when a text first needs them: most programs never come to that
def _made(pattern: T) -> re.Pattern[T]:
    return re.compile(pattern)


def key_in(text: str) -> str | None:
    """What kind of key `text` contains by its shape; None if it contains none."""
    for literal, shape in FOUND:
        if literal in text and _made(shape.pattern).search(text):
            return shape.name
    return None


def key_under(name: str, value: str) -> bool:
    """Whether `value` looks like a key because of the `name` that it stands under."""
    upper = name.upper()
    if not _TELLING.intersection(upper.split("_")) or upper.endswith(_HARMLESS_ENDS):
        return False
    if (
        len(value) < CHANCE_LENGTH_MIN
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


class Mask:
    """Of one stream of bytes, or of whole texts.  A secret that is cut between two pieces of a stream is found: its
    beginning is held back."""

    def __init__(self, values: Iterable[str] = (), *, shapes: bool = True) -> None:
        lines = {line for value in values for line in (value, *value.splitlines())}  # of a key block each line
        self._texts = sorted((text for text in lines if len(text) >= LENGTH_MIN), key=len, reverse=True)
        self._secrets = [text.encode("utf-8", "surrogateescape") for text in self._texts]
        self._shapes = shapes
        self._held = b""
        self._last = b""  # what came before that: within a word no key begins

    def feed(self, content: bytes) -> bytes:
        content = self._held + content
        for secret in self._secrets:
            content = content.replace(secret, SHOWN.encode())
        keep = max((_begun(content, secret) for secret in self._secrets), default=0)
        if self._shapes:
            keep = max(keep, min(_open(self._last + content), len(content)))
        ready, self._held = content[: len(content) - keep], content[len(content) - keep :]
        self._last = ready[-1:] or self._last
        return without_shapes(ready) if self._shapes else ready

    def rest(self) -> bytes:
        """What was held back; the stream has ended."""
        held, self._held = self._held, b""
        return without_shapes(held) if self._shapes else held

    def whole(self, content: bytes) -> bytes:
        """Of bytes that come in one piece."""
        for secret in self._secrets:
            content = content.replace(secret, SHOWN.encode())
        return without_shapes(content) if self._shapes else content

    def text(self, text: str) -> str:
        for value in self._texts:
            text = text.replace(value, SHOWN)
        return without_shapes(text) if self._shapes else text

    def value(self, value: Json) -> Json:
        """JSON with the secrets taken out of its texts, keys included."""
        if not self._texts and not self._shapes:
            return value
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.value(key): self.value(inner) for key, inner in value.items()}
            case list():
                return [self.value(inner) for inner in value]
        return value


def without_shapes(content: T) -> T:
    """Text or bytes without what looks like a key."""
    for literal, pattern in _rows(type(content)):
        if literal in content:
            content = _made(pattern).sub(_hidden, content)
    return content


@cache
def _rows(kind: type[T]) -> tuple[tuple[T, T], ...]:
    """Literals with the pattern that each stands for, in the order of SHAPES."""
    rows: Any = tuple((literal, shape.pattern) for shape in SHAPES for literal in shape.literals)
    if kind is bytes:
        rows = tuple((literal.encode(), pattern.encode()) for literal, pattern in rows)
    return cast("tuple[tuple[T, T], ...]", rows)


def _hidden(found: re.Match[T]) -> T:
    kept = found.groupdict().get("k")
    if isinstance(found[0], str):
        return f"{kept or ''}{SHOWN}"
    return (kept or b"") + SHOWN.encode()


def _begun(content: bytes, secret: bytes) -> int:
    """How many bytes at the end of the content are the beginning of the secret."""
    for length in range(min(len(secret) - 1, len(content)), 0, -1):
        if content.endswith(secret[:length]):
            return length
    return 0


def _open(content: bytes) -> int:
    """How many bytes at the end of the content may be the beginning of something that looks like a key."""
    end = content[-HELD_MAX:]
    keep = next((n for n in range(min(PREFIX_MAX, len(end)), 0, -1) if end[-n:] in PREFIXES and _begins(end, n)), 0)
    if opened := _made(OPEN).search(end, max(len(end) - OPEN_MAX, 0)):
        keep = max(keep, len(end) - opened.start())
    begin = end.rfind(b"-----BEGIN ")
    if begin >= 0 and b"-----END" not in end[begin:] and _made(OPEN_KEY).match(end, begin):
        keep = max(keep, len(end) - begin)
    return keep


def _begins(content: bytes, count: int) -> bool:
    """A word may begin so many bytes before the end."""
    return not (content[-count:][:1].isalnum() and content[: len(content) - count][-1:].isalnum())


def mask_of(names: Iterable[str], *, shapes: bool = True) -> Mask:
    """For the secrets of these names, as they stand in this process."""
    return Mask((os.environ[name] for name in names if name in os.environ), shapes=shapes)


def configured(environment: Mapping[str, str]) -> list[str]:
    """Values that are secret wherever they turn up in this process: of the variables that LONGTASK_REDACT names, and
    of those whose name and value both look like a secret's."""
    named = re.split(r"[,\s]+", environment.get(NAMES, ""))
    return [value for name, value in environment.items() if value and (name in named or key_under(name, value))]


@cache
def _values() -> tuple[str, ...]:
    return tuple(configured(os.environ))


@cache
def _whole() -> Mask:
    return everywhere()


def everywhere() -> Mask:
    """For a stream of this process."""
    return Mask(_values())


def redact(text: str) -> str:
    """A text that somebody will see, or that will be stored."""
    return _whole().text(text)


def redact_value(value: Json) -> Any:
    return _whole().value(value)


def redact_bytes(content: bytes) -> bytes:
    return _whole().whole(content)
