"""What is left of a task, as one list: failures first, a page at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import typer

from longtask.cli.paint import Line, cropped
from longtask.cli.tree import MARK, head, note
from longtask.core.model import Kind, Role, Step, StepState
from longtask.views.picture import Picture
from longtask.views.text import clean

S = StepState
ORDER = (S.FAILED, S.CANCELLED, S.WAITING, S.RUNNING, S.MERGING, S.READY, S.BLOCKED)
PAGE = 50


def left(steps: Iterable[Step]) -> list[Step]:
    """Steps that have not done what they are there for, in the plan's order within each state.

    Of an item of a for_each that began anew the newest row counts; what an agent hands out again is other work.  A
    for_each stands for itself while it is open."""
    steps = list(steps)
    lists = {step.key for step in steps if step.kind is Kind.FOR_EACH}
    newest: dict[str, Step] = {}
    for step in steps:
        key = step.key.partition("~")[0] if step.role is Role.ITEM and step.owner in lists else step.key
        before = newest.get(key)
        if before is None or _round(step) > _round(before):
            newest[key] = step
    found = [step for step in newest.values() if step.state in ORDER and not step.waived]
    return sorted(found, key=lambda step: ORDER.index(step.state))


def _round(step: Step) -> int:
    return int(step.key.partition("~")[2] or 1) if step.role is Role.ITEM else 0


def unbegun(steps: Iterable[Step]) -> dict[str, int]:
    """Of each open for_each: how many items have no row yet."""
    steps = list(steps)
    rows = Counter(step.owner for step in _of_items(steps))
    open_lists = (step for step in steps if step.kind is Kind.FOR_EACH and step.open and step.items)
    return {step.key: n for step in open_lists if (n := step.items - rows[step.key]) > 0}


def _of_items(steps: Iterable[Step]) -> Sequence[Step]:
    """The newest row of each item that has one."""
    return list({step.key.partition("~")[0]: step for step in steps if step.role is Role.ITEM}.values())


def paged(only_left: bool, limit: int | None, skip: int | None) -> tuple[int, int]:
    """How many are skipped, and then shown.  Raises typer's error of usage where nothing is listed."""
    if not only_left and (limit is not None or skip is not None):
        raise typer.BadParameter("they page what --left lists; add --left", param_hint="-n / --skip")
    return skip or 0, limit or PAGE


def lines_left(picture: Picture, skip: int, limit: int, width: int) -> Iterator[Line]:
    """`width` 0: as wide as it gets."""
    found = left(picture.steps)
    for line in head(picture):
        yield cropped(line, width)
    counts = Counter(step.state for step in found)
    told = [f"{counts[state]:,} {state}" for state in ORDER if counts[state]]
    waiting = unbegun(picture.steps)
    told += [f"{n:,} items of {key} not begun" for key, n in waiting.items()]
    yield [("  left: " + (", ".join(told) or "nothing"), "bold")]
    for step in found[skip : skip + limit]:
        begin: Line = [("  ", ""), MARK[step.state], (f" {clean(step.key)}", "")]
        yield cropped([*begin, *([("  ", ""), *note(picture, step)])], width)
    more = len(found) - skip - limit
    if more > 0:
        yield [(f"  … {more:,} more: --skip {skip + limit}", "dim")]
