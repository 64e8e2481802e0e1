"""What the pairs say: medians, spreads, ratios, goals; as a table and as a picture.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, le
from statistics import median
from typing import Any

from bench.peers.plan import GOALS, OWN, PEERS, WORKLOADS, Goal
from bench.result import rounded

BEGIN = "<!-- begin: written by python -m bench.peers --write-doc -->"
END = "<!-- end: peers -->"
Line = Mapping[str, Any]
FIGURES = {
    "repeated": "finished steps repeated",
    "bytes_each": "bytes of memory each",
    "idle_percent": "% of a core idle",
}


@dataclass(frozen=True, slots=True)
class Spread:
    middle: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(median(values), min(values), max(values))

    def text(self) -> str:
        middle = f"{rounded(self.middle):,}"
        if rounded(self.least) == rounded(self.most):
            return middle
        return f"{middle} ({rounded(self.least):,}–{rounded(self.most):,})"


@dataclass(frozen=True, slots=True)
class Row:
    """A peer beside LongTask in one case.  `ratio`: LongTask / peer, of pairs in which both have a figure; `said`: what
    stands for a figure that is missing."""

    workload: str
    database: str
    peer: str
    peer_database: str
    n: int
    rounds: int
    theirs: Spread | None
    ours: Spread | None
    ratio: Spread | None
    other: float
    said: str
    notes: tuple[str, ...]


def rows(lines: Iterable[Line]) -> list[Row]:
    cases: dict[tuple[str, str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        cases[line["workload"], line["database"], line["peer"], line["peer_database"]].append(line)
    order = {name: number for number, name in enumerate(WORKLOADS)}
    peers = {name: number for number, name in enumerate(PEERS)}
    made = [_row(key, group) for key, group in cases.items()]
    return sorted(made, key=lambda row: (order[row.workload], row.database != "sqlite", peers[row.peer]))


def _row(key: tuple[str, str, str, str], group: Sequence[Line]) -> Row:
    theirs, ours = _values(group, "theirs"), _values(group, "ours")
    both = [
        (line["ours"]["value"], line["theirs"]["value"])
        for line in group
        if line["ours"].get("value") and line["theirs"].get("value")
    ]
    others = [side["other"] for line in group for side in (line["theirs"], line["ours"]) if "other" in side]
    return Row(
        *key,
        n=group[-1]["n"],
        rounds=len(group),
        theirs=Spread.of(theirs) if theirs else None,
        ours=Spread.of(ours) if ours else None,
        ratio=Spread.of([own / other for own, other in both]) if both else None,
        other=max(others, default=0.0),
        said=_said(key[0], group[-1]["theirs"]),
        notes=_notes(group),
    )


def _values(group: Sequence[Line], side: str) -> list[float]:
    return [line[side]["value"] for line in group if line[side].get("value") is not None]


def _said(workload: str, theirs: Mapping[str, Any]) -> str:
    for word in ("error", "skipped"):
        if word in theirs:
            return f"{word}: {theirs[word]}"
    return "never" if workload == "takeover" and theirs.get("value") is None else ""


def _notes(group: Sequence[Line]) -> tuple[str, ...]:
    """Of the peer's side: remarks of its driver, and figures beside the value."""
    notes: list[str] = []
    for figures in (group[-1]["theirs"],):
        notes += [f"{rounded(figures[name]):,} {words}" for name, words in FIGURES.items() if name in figures]
        if "parked" in figures:
            notes.append(f"{figures['parked']:,} parked")
        if figures.get("all_woken") is False:
            notes.append("not all woke in time")
        if "note" in figures:
            notes.append(str(figures["note"]))
    return tuple(notes)


# --- goals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    goal: Goal
    measured: float | None
    against: str
    met: bool | None  # None: not measured

    def line(self) -> dict[str, Any]:
        return {
            "workload": self.goal.workload,
            "database": self.goal.database,
            "what": self.goal.what,
            "measured": None if self.measured is None else rounded(self.measured),
            "against": self.against,
            "goal": f"{self.goal.what} {self.goal.compare} {self.goal.limit:g}",
            "met": self.met,
        }


def verdicts(lines: Sequence[Line]) -> list[Verdict]:
    table = rows(lines)
    return [_verdict(goal, lines, table) for goal in GOALS]


def _verdict(goal: Goal, lines: Sequence[Line], table: Sequence[Row]) -> Verdict:
    measured, against = {"ratio": _ratio, "growth": _growth}.get(goal.what, _figure)(goal, lines, table)
    met = None if measured is None else bool({">=": ge, "<=": le}[goal.compare](measured, goal.limit))
    return Verdict(goal, measured, against, met)


def _ratio(goal: Goal, lines: Sequence[Line], table: Sequence[Row]) -> tuple[float | None, str]:
    """To the best peer: the one beside which LongTask looks worst."""
    found = [
        (row.ratio.middle, PEERS[row.peer].title)
        for row in table
        if row.ratio is not None
        and (row.workload, row.database) == (goal.workload, goal.database)
        and goal.peer in (None, row.peer)
    ]
    if not found:
        return None, ""
    return min(found) if goal.compare == ">=" else max(found)


def _growth(goal: Goal, lines: Sequence[Line], table: Sequence[Row]) -> tuple[float | None, str]:
    """What a step of the large fan-out costs against one of the small."""
    large, small = (_of_ours(lines, name, goal.database, "value") for name in (goal.workload, "fanout_1000"))
    if not large or not small:
        return None, ""
    return median(large) / median(small), "its own fan-out of 1,000"


def _figure(goal: Goal, lines: Sequence[Line], table: Sequence[Row]) -> tuple[float | None, str]:
    found = _of_ours(lines, goal.workload, goal.database, goal.what)
    return (median(found) if found else None), ""


def _of_ours(lines: Sequence[Line], workload: str, database: str, name: str) -> list[float]:
    return [
        line["ours"][name]
        for line in lines
        if (line["workload"], line["database"]) == (workload, database) and line["ours"].get(name) is not None
    ]


# --- the document -------------------------------------------------------------------------------------------------


def written(document: str, text: str) -> str:
    before, rest = document.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def document(lines: Sequence[Line], versions: Mapping[str, Mapping[str, str]]) -> str:
    table = rows(lines)
    parts = [
        goals_table(verdicts(lines)),
        peers_table(table),
        growth_table(lines),
        versions_table(versions),
    ]
    return "\n\n".join(part for part in parts if part)


def goals_table(found: Sequence[Verdict]) -> str:
    out = ["| workload | database | goal | measured | against | |", "|---|---|---|---:|---|---|"]
    words = {True: "met", False: "**missed**", None: "not measured"}
    for verdict in found:
        measured = "" if verdict.measured is None else f"{rounded(verdict.measured):,}"
        goal = f"{verdict.goal.what} {verdict.goal.compare} {verdict.goal.limit:,g}"
        cells = [
            f"`{verdict.goal.workload}`",
            verdict.goal.database,
            goal,
            measured,
            verdict.against,
            words[verdict.met],
        ]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def peers_table(table: Sequence[Row]) -> str:
    out = [
        "| workload | database | peer | peer's | LongTask's | LongTask / peer | rounds | other | |",
        "|---|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in table:
        where = "" if row.peer_database in (row.database, OWN) else f" on {row.peer_database}"
        notes = [*row.notes, *([row.said] if ":" in row.said else [])]
        notes += [] if row.n == WORKLOADS[row.workload].n else [f"n = {row.n}"]
        cells = [
            f"`{row.workload}`, {WORKLOADS[row.workload].unit}",
            row.database,
            PEERS[row.peer].title + where,
            row.theirs.text() if row.theirs else row.said.split(":")[0],
            row.ours.text() if row.ours else "",
            row.ratio.text() if row.ratio else "",
            str(row.rounds),
            f"{row.other:.2f}",
            "; ".join(notes).replace("|", "/"),
        ]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def growth_table(lines: Sequence[Line]) -> str:
    """Of each peer, as of LongTask: a step of a fan-out of 5,000 against one of 1,000."""
    costs: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for line in lines:
        if line["theirs"].get("value") and line["workload"] in ("fanout_1000", "fanout_5000"):
            costs[line["workload"], line["peer"], line["peer_database"]].append(line["theirs"]["value"])
    out = ["| peer | database | a step of 5,000 against one of 1,000 |", "|---|---|---:|"]
    for name, peer in PEERS.items():
        for database in peer.databases:
            large, small = (costs.get((workload, name, database)) for workload in ("fanout_5000", "fanout_1000"))
            if large and small:
                out.append(f"| {peer.title} | {database} | {rounded(median(large) / median(small))} |")
    return "\n".join(out) if len(out) > 2 else ""


def versions_table(versions: Mapping[str, Mapping[str, str]]) -> str:
    if not versions:
        return ""
    out = ["| | versions |", "|---|---|"]
    for name, found in versions.items():
        title = PEERS[name].title if name in PEERS else name
        out.append(f"| {title} | {', '.join(f'{package} {version}' for package, version in found.items())} |")
    return "\n".join(out)
