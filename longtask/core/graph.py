"""What a submitted graph must satisfy, and how stages become gates.

Stages count from 1; each ends in a hidden gate (key `gate.K`), the last too.  Gate k needs all steps of stage k and
gate k-1.  A step without `needs` needs gate k-1; with `needs` (even empty) only what it names.
A stage of n steps before one of m costs n + m edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice

from .errors import BadPlan, Problem
from .events import NewStep
from .model import POOL_SYSTEM, Edge, Kind, RunWhen, StepSpec, TaskOptions, WhenFailed
from .policy import BATCH_MAX, EDGES_BATCH_MAX, EDGES_PER_STEP_MAX, PLAN_STEPS_MAX, WEIGHT

HINTS_MAX = 10  # "did you mean" in one report: whoever has misspelt more names needs none
CYCLE_SHOWN_MAX = 20  # keys of a cycle in a message
SYSTEM_KINDS = frozenset({Kind.APPROVAL, Kind.WAIT, Kind.FOR_EACH, Kind.TASK, Kind.ARTIFACT})


@dataclass(frozen=True, slots=True)
class Planned:
    """A step as the plan names it.  `needs` None: all earlier stages.  `path` says where it stands in the plan."""

    key: str
    kind: Kind
    stage: int
    spec: int
    needs: tuple[str, ...] | None = None
    weight: int = WEIGHT
    run_when: RunWhen = RunWhen.SUCCESS
    when_failed: WhenFailed = WhenFailed.STOP
    conditional: bool = False
    pool: str = "default"
    path: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """A plan, compiled.  `specs` are numbered by their place."""

    name: str
    options: TaskOptions
    specs: tuple[StepSpec, ...]
    planned: tuple[Planned, ...]
    parallel: int = 4
    priority: int = 0


def gate_key(stage: int) -> str:
    return f"gate.{stage}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Looks at a thousand names at most: a comparison takes some 30 µs, and a plan may have 200,000 of them."""
    alike = (name for name in known if abs(len(name) - len(word)) <= 3)
    close = get_close_matches(word, list(islice(alike, 1_000)), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check(planned: Sequence[Planned], stages: int) -> list[Problem]:
    """Everything that is wrong with the edges: duplicates, unknown needs, needs of oneself, cycles, limits."""
    problems: list[Problem] = []
    by_key: dict[str, Planned] = {}
    if len(planned) > PLAN_STEPS_MAX:
        return [
            Problem(
                f"the plan has {len(planned):,} steps, the limit is {PLAN_STEPS_MAX:,}; use for_each or several tasks"
            )
        ]
    for step in planned:
        if step.key in by_key:
            problems.append(Problem(f"step {step.key!r} is there twice; ids are unique within a plan", step.path))
        by_key[step.key] = step
    hints = HINTS_MAX
    for step in planned:
        needs = step.needs or ()
        if len(needs) > EDGES_PER_STEP_MAX:
            problems.append(
                Problem(
                    f"step {step.key!r} needs {len(needs):,} steps, the limit is {EDGES_PER_STEP_MAX:,}; use stages",
                    step.path,
                )
            )
        for need in needs:
            if need == step.key:
                problems.append(Problem(f"step {step.key!r} needs itself", step.path))
            elif need not in by_key:
                hint = did_you_mean(need, by_key) if hints else ""
                hints -= bool(hints)
                problems.append(Problem(f"step {step.key!r} needs {[need]!r}: no such step{hint}", step.path))
    if not problems:
        cycle = find_cycle(planned, stages)
        if cycle:
            problems.append(Problem("steps wait for each other: " + drawn(cycle), by_key[_first(cycle, by_key)].path))
    return problems


def drawn(cycle: Sequence[str]) -> str:
    """`a → b → a`; of a long one both ends."""
    shown = list(cycle)
    if len(shown) > CYCLE_SHOWN_MAX:
        half = CYCLE_SHOWN_MAX // 2
        shown = [*shown[:half], f"({len(shown) - 2 * half:,} more)", *shown[-half:]]
    return " → ".join(shown)


def _first(cycle: Sequence[str], by_key: dict[str, Planned]) -> str:
    return next(key for key in cycle if key in by_key)


def edges(planned: Iterable[Planned], stages: int) -> list[Edge]:
    """All edges, gates included, in the order: each step's own needs, then its edge to its gate."""
    out: list[Edge] = []
    for step in planned:
        if step.needs is not None:
            out += [Edge(need, step.key) for need in dict.fromkeys(step.needs)]
        elif step.stage > 1:
            out.append(Edge(gate_key(step.stage - 1), step.key))
        out.append(Edge(step.key, gate_key(step.stage)))
    out += [Edge(gate_key(k - 1), gate_key(k)) for k in range(2, stages + 1)]
    return out


def find_cycle(planned: Sequence[Planned], stages: int) -> list[str]:
    """One cycle as keys (gates shown as `stage K`), first key repeated at the end; empty if there is none."""
    waits: dict[str, int] = {}
    dependents: dict[str, list[str]] = {}
    needs: dict[str, list[str]] = {}
    for need, step in edges(planned, stages):
        waits[step] = waits.get(step, 0) + 1
        waits.setdefault(need, 0)
        dependents.setdefault(need, []).append(step)
        needs.setdefault(step, []).append(need)
    free = [key for key, count in waits.items() if count == 0]
    while free:
        key = free.pop()
        del waits[key]
        for step in dependents.get(key, ()):
            waits[step] -= 1
            if waits[step] == 0:
                free.append(step)
    if not waits:
        return []
    # whatever is left has a need that is left: walking needs must come back to a key seen before
    place: dict[str, int] = {}
    key = next(iter(waits))
    while key not in place:
        place[key] = len(place)
        key = next(need for need in needs[key] if need in waits)
    cycle = [*list(place)[place[key] :], key]
    return ["stage " + k.removeprefix("gate.") if k.startswith("gate.") else k for k in reversed(cycle)]


def build(graph: Graph) -> tuple[list[NewStep], list[Edge]]:
    """Rows with their counts, and edges.  Raises BadPlan with every problem."""
    stages = max(len(graph.options.stages), 1)
    problems = check(graph.planned, stages)
    if problems:
        raise BadPlan(problems)
    all_edges = edges(graph.planned, stages)
    blockers: dict[str, int] = {}
    for _, step in all_edges:
        blockers[step] = blockers.get(step, 0) + 1
    rows = [
        NewStep(
            key=p.key,
            kind=p.kind,
            spec=p.spec,
            stage=p.stage,
            weight=p.weight,
            run_when=p.run_when,
            when_failed=p.when_failed,
            conditional=p.conditional,
            pool=POOL_SYSTEM if p.kind in SYSTEM_KINDS else p.pool,
            blockers=blockers.get(p.key, 0),
            ready=not blockers.get(p.key) and not p.conditional,
        )
        for p in graph.planned
    ]
    rows += [
        NewStep(key=gate_key(k), kind=Kind.GATE, stage=k, blockers=blockers.get(gate_key(k), 0))
        for k in range(1, stages + 1)
    ]
    return rows, all_edges


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction of a submission adds; `first` rows are there before it."""

    first: int
    steps: tuple[NewStep, ...]
    edges: tuple[Edge, ...]
    specs: tuple[StepSpec, ...]
    first_spec: int


def batches(rows: Iterable[NewStep], all_edges: Iterable[Edge], specs: Sequence[StepSpec]) -> list[Batch]:
    """A built graph in pieces: no lock covers a whole stage.

    Gates come first, and an edge with the later of its two rows; so the thousands of edges of a gate come with the
    steps that it needs.  A row counts the edges of its own batch, those of later batches are added to it as they come.
    """
    ordered = sorted(rows, key=lambda row: row.kind is not Kind.GATE)
    place = {row.key: i for i, row in enumerate(ordered)}
    edges_at: list[list[Edge]] = [[] for _ in ordered]
    for edge in all_edges:
        edges_at[max(place[edge.need], place[edge.step])].append(edge)
    starts, edges_here = [0], 0
    for i, mine in enumerate(edges_at):
        edges_here += len(mine)
        if i - starts[-1] >= BATCH_MAX or (edges_here > EDGES_BATCH_MAX and i > starts[-1]):
            starts.append(i)
            edges_here = len(mine)
    share = -(-len(specs) // len(starts))  # nobody needs a spec before all is there
    found = []
    for n, (start, end) in enumerate(zip(starts, [*starts[1:], len(ordered)], strict=True)):
        edges_now = tuple(edge for mine in edges_at[start:end] for edge in mine)
        count = Counter(edge.step for edge in edges_now)
        steps = tuple(replace(row, blockers=count[row.key]) for row in ordered[start:end])
        found.append(Batch(start, steps, edges_now, tuple(specs[n * share : (n + 1) * share]), n * share))
    return found
