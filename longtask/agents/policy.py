"""Which of an agent's calls may be made: each is allowed, asked about, or denied.

A rule names a tool, or a tool with what it is about: `shell`, `shell(git push *)`, `write(migrations/*)`, `mcp.*`.
Both parts are patterns of fnmatch.  `deny` goes before `ask`, `ask` before `tools`; without `tools`, all are allowed.

A shell command is looked at as a whole and in its parts, so that `cd x && git push` falls under `shell(git push*)`.
This is a guard-rail against mistakes, not a wall: what bash can do in other words, no pattern sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

_RULE = re.compile(r"(?P<tool>[A-Za-z0-9_*][A-Za-z0-9_.*-]*)(?:\((?P<about>.+)\))?", re.DOTALL)
_PARTS = re.compile(r"&&|\|\||[;&|\n(){}`]")


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Policy:
    """`tools` None: every tool that the runtime has."""

    tools: tuple[str, ...] | None = None
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def of(self, tool: str, about: str = "") -> Verdict:
        """`about`: the command of a shell, the path of a file; empty for other tools."""
        if _any(self.deny, tool, about):
            return Verdict.DENY
        if _any(self.ask, tool, about):
            return Verdict.ASK
        return Verdict.ALLOW if self.tools is None or _any(self.tools, tool, about) else Verdict.DENY

    def offers(self, tool: str) -> bool:
        """Whether some call of it could be made: a model is not shown the others."""
        if any(about is None and fnmatchcase(tool, name) for name, about in map(parse, self.deny)):
            return False
        rules = (*(self.tools or ()), *self.ask)
        return self.tools is None or any(fnmatchcase(tool, parse(rule)[0]) for rule in rules)


def parse(rule: str) -> tuple[str, str | None]:
    """(tool, what it is about; None: whatever).  Raises ValueError."""
    match = _RULE.fullmatch(rule.strip())
    if match is None:
        raise ValueError(f"rule {rule!r}: write a tool, or a tool with what it is about, such as `shell(git push *)`")
    return match["tool"], match["about"]


def _any(rules: Sequence[str], tool: str, about: str) -> bool:
    return any(
        fnmatchcase(tool, name) and (wanted is None or any(fnmatchcase(part, wanted) for part in _parts(tool, about)))
        for name, wanted in map(parse, rules)
    )


def _parts(tool: str, about: str) -> Iterator[str]:
    yield about
    if tool == "shell":
        yield from (part.strip() for part in _PARTS.split(about) if part.strip())
