"""One line a workload, and the goal that it is held to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from operator import ge, le

DIGITS = 3
COMPARE: dict[str, Callable[[float, float], bool]] = {">=": ge, "<=": le}


@dataclass(frozen=True, slots=True)
class Result:
    """`probe` is what `value` is held against, in the same unit; `ratio` is value / probe.

    `goal` is a text such as "ratio >= 0.35"."""

    workload: str
    value: float
    unit: str
    probe: float
    ratio: float
    goal: str
    met: bool

    def line(self) -> str:
        return json.dumps(asdict(self))


def judged(workload: str, value: float, unit: str, probe: float, goal: str, ratio: float | None = None) -> Result:
    """`ratio` is handed in when it is a median of its own: the ratio of two medians would mix minutes."""
    ratio = value / probe if ratio is None else ratio
    what, compare, limit = goal.split()
    met = COMPARE[compare]({"ratio": ratio, "value": value}[what], float(limit))
    return Result(workload, rounded(value), unit, rounded(probe), rounded(ratio), goal, met)


def rounded(number: float) -> float:
    """To three significant digits: more would be noise."""
    short = float(f"{number:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


# --- the table of docs/performance.md -----------------------------------------------------------------------------

BEGIN, END = "<!-- begin: written by `python -m bench --write-doc` -->", "<!-- end -->"
HEADER = "| workload | measured | probe | ratio | goal | |\n|---|---:|---:|---:|---|---|"
ROW = re.compile(r"^\| `(\w+)` ")


def written(document: str, results: Sequence[Result], order: Sequence[str]) -> str:
    """The document with the rows of these results; rows of other workloads stay."""
    before, rest = document.split(BEGIN)
    table, after = rest.split(END, 1)
    rows = {found[1]: line for line in table.splitlines() if (found := ROW.match(line))}
    rows |= {result.workload: _row(result) for result in results}
    return "\n".join([before + BEGIN, HEADER, *(rows[name] for name in order if name in rows), END + after])


def _row(r: Result) -> str:
    word = "met" if r.met else "**missed**"
    return f"| `{r.workload}` | {r.value:,} {r.unit} | {r.probe:,} | {r.ratio} | {r.goal} | {word} |"
