"""Which step comes before which: what an expression may read, and what may run beside an approval.

Needs as in core.graph: a step's own, or the gate of the stage before it.  Only steps that read something are looked
at; a search goes no further back than what it looks for, in topological order, and all of them are bounded together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longtask.core.graph import Planned, did_you_mean, edges, gate_key
from longtask.core.model import Kind, StepSpec

from .check import Read

BESIDE_SHOWN = 3  # names in one warning
HINTS_MAX = 20  # a hint compares with every step
NEAR_MAX = 1_000  # steps looked at on the way back
VISITS_MAX = 5_000_000  # of all searches in one plan; a few seconds
APPROVALS_MAX = 100  # looked at for warnings; beyond it nobody reads them


class Order:
    """The needs of every step and gate, and their place in a topological order."""

    def __init__(self, planned: Sequence[Planned], stages: int) -> None:
        self.needs: dict[str, list[str]] = {gate_key(k): [] for k in range(1, stages + 1)}
        self.dependents: dict[str, list[str]] = {}
        for need, step in edges(planned, stages):
            self.needs.setdefault(step, []).append(need)
            self.dependents.setdefault(need, []).append(step)
        for row in planned:
            self.needs.setdefault(row.key, [])
        waits = {key: len(needs) for key, needs in self.needs.items()}
        free = [key for key, count in waits.items() if count == 0]
        self.rank: dict[str, int] = {}
        self._after: dict[str, set[str]] = {}  # all that comes after a step
        self._visits = 0
        for key in free:  # grows while it is walked
            self.rank[key] = len(self.rank)
            for step in self.dependents.get(key, ()):
                waits[step] -= 1
                if waits[step] == 0:
                    free.append(step)

    def before(self, step: str, wanted: str) -> bool:
        """Whether `step` waits for `wanted`, directly or not.

        Looks back from `step` first, which finds what is near; what is far is looked up among all that comes after
        `wanted`, found once.  True when VISITS_MAX is used up: an attempt will tell it better than a check that
        takes minutes.
        """
        if wanted in self._after:
            return step in self._after[wanted]
        floor = self.rank[wanted]
        seen = {step}
        stack = [step]
        while stack:
            for need in self.needs[stack.pop()]:
                if need == wanted:
                    return True
                if need not in seen and self.rank[need] > floor:
                    seen.add(need)
                    stack.append(need)
            if len(seen) > NEAR_MAX:
                break
        self._visits += len(seen)
        if not stack or self._visits > VISITS_MAX:
            return bool(stack)
        self._after[wanted] = self.reach(wanted, onward=True)
        self._visits += len(self._after[wanted])
        return step in self._after[wanted]

    def reach(self, start: str, onward: bool) -> set[str]:
        """All that comes before `start`, or after it."""
        edges_of = self.dependents if onward else self.needs
        seen = {start}
        stack = [start]
        while stack:
            for key in edges_of.get(stack.pop(), ()):
                if key not in seen:
                    seen.add(key)
                    stack.append(key)
        return seen


def reading_problems(
    planned: Sequence[Planned], specs: Sequence[StepSpec], reads: Sequence[Read], stages: int
) -> Iterator[tuple[Read, str]]:
    """What the expressions read and cannot: unknown steps and outputs, steps that do not come first."""
    if not reads:
        return
    by_key = {step.key: step for step in planned}
    order: Order | None = None
    seen: set[tuple[str, str]] = set()
    unknown = 0
    for read in reads:
        id = read.reading.step
        source, step = by_key.get(id), by_key[read.step]
        if source is None:
            unknown += 1
            hint = did_you_mean(id, by_key) if unknown <= HINTS_MAX else ""
            yield read, f"steps.{id}: no such step{hint}"
            continue
        if source is step:
            yield read, "a step cannot read its own outputs"
            continue
        if message := output_problem(read, source, specs):
            yield read, message
        near = source.stage < step.stage if step.needs is None else id in step.needs
        if near or (step.key, id) in seen:
            continue
        seen.add((step.key, id))
        order = order or Order(planned, stages)
        if not order.before(step.key, id):
            fix = f"add {id!r} to its needs" if step.needs else f"add `needs: [{id}]`"
            yield read, f"reads steps.{id}, but does not wait for it; {fix}"


def output_problem(read: Read, source: Planned, specs: Sequence[StepSpec]) -> str:
    """What is wrong with the output that is named; empty if nothing, or if nobody can know."""
    reading = read.reading
    if reading.field != "outputs" or reading.name is None:
        return ""
    if source.kind is Kind.FOR_EACH:
        path = f"steps.{reading.step}.outputs"
        return (
            f"{path} is a list, one entry for each item; write {path}[0].{reading.name}, "
            f"or {path}.map(o, o.{reading.name}) for all"
        )
    declared = specs[source.spec].outputs
    if declared and reading.name not in declared:
        hint = did_you_mean(reading.name, declared)
        return f"step {reading.step!r} has no output {reading.name!r}; it declares {', '.join(declared)}{hint}"
    return ""


def beside(planned: Sequence[Planned], specs: Sequence[StepSpec], stages: int) -> Iterator[tuple[Planned, list[str]]]:
    """Approvals, each with the steps that may change the code while it is asked."""
    committing = [step.key for step in planned if _commits(step, specs)]
    approvals = [step for step in planned if step.kind is Kind.APPROVAL][:APPROVALS_MAX]
    if not committing or not approvals:
        return
    order = Order(planned, stages)
    for step in approvals:
        apart = order.reach(step.key, onward=False) | order.reach(step.key, onward=True)
        if found := [key for key in committing if key not in apart]:
            yield step, found


def _commits(step: Planned, specs: Sequence[StepSpec]) -> bool:
    spec = specs[step.spec]
    return spec.commits or (spec.item is not None and specs[spec.item].commits)
