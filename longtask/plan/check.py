"""What every part of a plan is checked with: telling where something is wrong, and expressions.

A template is checked where it stands; what it reads of other steps is noted, and judged when all steps are known
(flow.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from longtask.core.errors import BadPlan
from longtask.core.graph import did_you_mean
from longtask.core.model import Json

from . import expressions
from .duration import duration_ms
from .problems import Findings, Loc
from .suspicious import shown
from .tokens import Reading

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Read:
    """`step` reads something of another step, by an expression that stands at `loc`."""

    step: str
    reading: Reading
    where: str
    loc: Loc


@dataclass(frozen=True, slots=True)
class Section:
    """Whose words are being read: the step's id, how messages name it, where it stands, what its expressions know."""

    step: str
    where: str
    loc: Loc
    item: bool = False
    depth: int = 0
    call: bool = False  # its expressions know the callback

    @property
    def prefix(self) -> str:
        return f"{self.where}: " if self.where else ""

    def below(self, *parts: str | int, depth: int = 0) -> Section:
        return replace(self, loc=(*self.loc, *parts), depth=self.depth + depth)


class Checks:
    """Tells problems, and collects what the expressions of a plan read."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.reads: list[Read] = []
        self.templates: set[Loc] = set()  # where `${{` is evaluated; everywhere else it is a mistake
        self.inputs: frozenset[str] | None = None  # that the plan declares; None: it is no part of another one
        self._reading: set[str] = set()  # steps read by the spec that is being made

    def _add(self, place: Section, word: str, message: str) -> None:
        """A problem of one word; `message` goes on from its name."""
        loc = (*place.loc, word)
        self.findings.add(f"{place.prefix}{_inner(place.below(word))} {message}", loc)

    def _say(self, place: Section, message: str) -> None:
        self.findings.add(f"{place.prefix}{message}", place.loc)

    def _ms(self, text: str, place: Section, word: str) -> int:
        ms = duration_ms(text)
        if ms == 0:
            self._add(place, word, "must be longer than nothing; leave it out for no limit")
        return ms

    def _given_ms(self, own: str | None, default: str | None, place: Section, word: str) -> int | None:
        """The step's own duration, else that of the defaults, which are checked where they stand."""
        if own is not None:
            return self._ms(own, place, word)
        return None if default is None else duration_ms(default)

    def variables(self, names: Iterable[str], where: str, loc: Loc) -> None:
        for name in names:
            if not VARIABLE.fullmatch(name):
                prefix = f"{where}: " if where else ""
                kind = "secret" if loc[-1] == "secrets" else "env name"
                message = (
                    f"{prefix}{kind} {shown(name)} is no name of a variable; write letters, digits and underscores"
                )
                self.findings.add(message, (*loc, name) if kind == "env name" else loc, key=True)

    # --- expressions ---

    def template(self, value: Json, place: Section, *below: str | int) -> None:
        """Check the expressions of a template and note what they read."""
        if isinstance(value, str):
            if expressions.OPEN not in value:
                return
            inner = place.below(*below)
            self.templates.add(inner.loc)
            try:
                for text in expressions.expressions(value):
                    self._expression(text, inner)
            except BadPlan as error:
                self._say(inner, f"{_inner(inner)}: {error}")
        elif isinstance(value, Mapping):
            for key, one in value.items():
                self.template(one, place, *below, str(key))
        elif isinstance(value, list | tuple):
            for n, one in enumerate(value):
                self.template(one, place, *below, n)

    def _bare(self, text: str | None, place: Section, word: str, no_item: str) -> str | None:
        """`if` and `for_each`: an expression with or without `${{ }}`; without when it leaves here."""
        if text is None:
            return None
        inner = place.below(word)
        self.templates.add(inner.loc)
        try:
            bare = expressions.bare(text)
            self._expression(bare, inner, no_item)
        except BadPlan as error:
            self._say(inner, f"{word}: {error}")
            return text
        return bare

    def _expression(self, text: str, place: Section, no_item: str = "only a step with `for_each` has items") -> None:
        expression = expressions.checked(text)
        for root in ("item", "index"):
            if root in expression.roots and not place.item:
                raise BadPlan(f"{root!r} is not known here; {no_item}")
        if "callback" in expression.roots and not place.call:
            raise BadPlan("'callback' is not known here; only what a `call` sends may name it")
        if "inputs" in expression.roots:
            self._inputs(expression)
        for reading in expression.readings:
            self._reading.add(reading.step)
            self.reads.append(Read(place.step, reading, place.where, place.loc))

    def _inputs(self, expression: expressions.Expression) -> None:
        if self.inputs is None:
            raise BadPlan("'inputs' is not known here; only the plan of a `task` step is handed any")
        for name in sorted(expression.inputs - self.inputs):
            hint = did_you_mean(name, self.inputs) or f"; it declares {', '.join(sorted(self.inputs)) or 'none'}"
            raise BadPlan(f"the plan has no input {name!r}{hint}")

    def _read(self) -> tuple[str, ...]:
        return tuple(sorted(self._reading))


def _inner(place: Section) -> str:
    """The path of `place` within its step, as a message names it."""
    start = next((n + 2 for n, part in enumerate(place.loc) if part == "steps"), 0)
    out = ""
    for part in place.loc[start:]:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else str(part)
    return out
