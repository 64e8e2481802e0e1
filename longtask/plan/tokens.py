"""The words of a CEL expression: where a template ends, which steps it reads, how many macros it uses.

The library parses and evaluates; it does not show its tree.  What we must know beyond it is decided by CEL on its
tokens alone (a macro is a call by name, a step is `steps.ID`), so that tokens are enough and text in quotes never
misleads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from longtask.core.errors import BadPlan

_TOKEN = re.compile(
    r"""
    (?P<space>[\ \t\r\n\f]+|//[^\n]*)
  | (?P<string>(?:[rR][bB]?|[bB][rR]?)?(?:\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}))
  | (?P<raw>(?:[rR][bB]?|[bB][rR])(?:"[^"\n]*"|'[^'\n]*'))
  | (?P<quoted>[bB]?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[uU]?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%!?:<>.,()\[\]{}])
    """,
    re.VERBOSE,
)
MACROS = frozenset(("all", "exists", "exists_one", "existsOne", "map", "filter"))
_CLOSES = {")": "(", "]": "[", "}": "{"}


class Token(NamedTuple):
    kind: str  # name, text, number, mark
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Reading:
    """`steps.STEP.FIELD.NAME` as written; None where it goes no further by a plain name."""

    step: str
    field: str | None
    name: str | None


def tokens(text: str, start: int = 0, template: bool = False) -> tuple[list[Token], int]:
    """The tokens from `start`, and where they end: of a template, at the `}}` that closes it; -1 if none does."""
    out: list[Token] = []
    depth = 0
    at = start
    while at < len(text):
        if template and depth == 0 and text.startswith("}}", at):
            return out, at
        found = _TOKEN.match(text, at)
        if found is None:
            if text[at] in "'\"":
                raise BadPlan(f"a quote at column {at - start + 1} is not closed")
            raise BadPlan(f"unexpected {text[at]!r} at column {at - start + 1}")
        kind = found.lastgroup or ""
        if kind != "space":
            word = found.group()
            kind = "text" if kind in ("string", "raw", "quoted") else kind
            out.append(Token(kind, word, at))
            if kind == "mark":
                depth += (word in "([{") - (word in ")]}")
        at = found.end()
    return out, -1 if template else at


def macros(words: Sequence[Token]) -> list[int]:
    """Positions of the comprehension macros: a name of theirs called as a method."""
    return [
        n
        for n in range(1, len(words) - 1)
        if words[n].text in MACROS and words[n - 1].text == "." and words[n + 1].text == "("
    ]


def bound(words: Sequence[Token], macro: int) -> tuple[str, int, int]:
    """The name that the macro binds, and the range of tokens in which it is known."""
    depth = 0
    for n in range(macro + 1, len(words)):
        depth += (words[n].text in "([{") - (words[n].text in ")]}") if words[n].kind == "mark" else 0
        if depth == 0:
            break
    name = words[macro + 2].text if macro + 2 < len(words) else ""
    return name, macro + 1, n


def names(words: Sequence[Token]) -> list[int]:
    """Positions of the names that stand for values: no fields, functions or literals."""
    return [
        n
        for n, word in enumerate(words)
        if word.kind == "name"
        and word.text not in ("true", "false", "null", "in")
        and not (n and words[n - 1].text == ".")
        and not (n + 1 < len(words) and words[n + 1].text == "(")
    ]


def path_after(words: Sequence[Token], at: int, count: int) -> list[str]:
    """Up to `count` plain names that follow: `.a`, `['a']`."""
    out: list[str] = []
    n = at + 1
    while len(out) < count and n + 1 < len(words):
        following = words[n + 2].text if n + 2 < len(words) else ""
        if words[n].text == "." and words[n + 1].kind == "name" and following != "(":
            out.append(words[n + 1].text)
            n += 2
        elif words[n].text == "[" and words[n + 1].kind == "text" and following == "]":
            literal = words[n + 1].text
            if literal[0] not in "'\"" or "\\" in literal:
                break
            out.append(literal.strip(literal[0]))
            n += 3
        else:
            break
    return out
