"""Where a plan's parts stand in its text, and the list of everything that is wrong with it.

A `Loc` is the path of keys and indexes from the top: `("stages", 0, "steps", 2, "retry")`.  `Places` knows line and
column of the values and keys of a text; a plan made in Python has none, and its problems name the path instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from longtask.core.errors import BadPlan, Problem

Loc = tuple[str | int, ...]
Place = tuple[int, int]  # line and column, counted from 1
PROBLEMS_MAX = 50  # beyond it nobody reads on


@dataclass(slots=True, eq=False)
class Places:
    file: str = ""
    keys: dict[Loc, Place] = field(default_factory=dict)
    values: dict[Loc, Place] = field(default_factory=dict)
    parts: dict[Loc, Places] = field(default_factory=dict)  # of files that stand in the place of a part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places)  # the same plan, wherever its parts stand

    def part(self, loc: Loc) -> tuple[Places, Loc]:
        """Of the file that holds the place, and where it is in there."""
        for size in range(len(loc), 0, -1) if self.parts else ():
            if loc[:size] in self.parts:
                return self.parts[loc[:size]].part(loc[size:])
        return self, loc

    def all_parts(self) -> Iterator[Places]:
        for part in self.parts.values():
            yield part
            yield from part.all_parts()

    def of(self, loc: Loc, key: bool = False) -> Place:
        """The place of a value (or of its key); of the nearest thing around it if it is not there; else (0, 0)."""
        if key and loc in self.keys:
            return self.keys[loc]
        while loc:
            if loc in self.values:
                return self.values[loc]
            loc = loc[:-1]
        return self.values.get((), (0, 0))


class Refused:
    """Stands in a value for a part that was refused already, so that nothing more is said about it."""


class Findings:
    """Collects problems; `raise_if_any` raises them all, in the order of the text."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.found: dict[tuple[Loc, str, Place], Problem] = {}  # the same words about the same place count once

    def add(self, message: str, loc: Loc = (), key: bool = False, place: Place | None = None) -> None:
        """`key`: the problem is the key at `loc`, not its value.  `place`: where, if not where `loc` stands."""
        places, inner = self.places.part(loc)
        line, column = place or places.of(inner, key)
        problem = Problem(message, path_text(loc), line, column, places.file)
        self.found.setdefault((loc, message, (line, column)), problem)

    def take(self, error: BadPlan, loc: Loc) -> None:
        """Problems of a text of its own, which stands at `loc`."""
        for problem in error.problems:
            self.found.setdefault((loc, problem.message, (problem.line, problem.column)), problem)

    def raise_if_any(self) -> None:
        """Raises BadPlan if anything was found."""
        if self.found:
            raise BadPlan(in_order(self.found.values()))


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By line and column, those without a place last; at most PROBLEMS_MAX, then how many more."""
    ordered = sorted(problems, key=lambda p: (p.line == 0, p.line, p.column))
    more = len(ordered) - PROBLEMS_MAX
    return [*ordered[:PROBLEMS_MAX], Problem(f"and {more:,} more")] if more > 0 else ordered


def path_text(loc: Loc) -> str:
    """`stages[0].steps[2].retry`"""
    out = ""
    for part in loc:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out
