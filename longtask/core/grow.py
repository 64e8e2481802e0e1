"""Growth: steps that a planner or a person adds to a task that is under way (SEMANTICS rules 25-29).

What has completed is never changed by it, and no cycle can come of it, without a walk over the graph:

- a new step needs new steps that stand before it, and existing ones of its own stage or of earlier stages;
- what goes before a step X needs only completed steps and what X itself needs directly;
- no edge ever joins two existing steps.

All of one growth enters one stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from . import events as e
from .errors import BadPlan, Problem, Refused
from .graph import SYSTEM_KINDS, Planned, did_you_mean, gate_key
from .model import POOL_SYSTEM, Edge, Failed, Json, Role, Step, StepSpec, StepState, Task, TaskState, Verdict
from .policy import GROWTH_EDGES_MAX, GROWTH_MAX, REASON_LENGTH_MAX, STEPS_MAX
from .settle import counts

S = StepState

GO_ON = {  # from what a task that has ended has done
    TaskState.COMPLETED: "begin a new task from its branch (--base), or fork it instead",
    TaskState.FAILED: "retry what has failed and add then, or fork it instead",
}


@dataclass(frozen=True, slots=True)
class Growth:
    """`specs` are numbered by their place; the stages of `planned` do not count.

    `before`: the existing step that all of it goes in front of.  `stage`: the name of the stage that it enters; None:
    that of `before`, else the one that is under way."""

    planned: tuple[Planned, ...]
    specs: tuple[StepSpec, ...]
    before: str | None = None
    stage: str | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """What growth is judged by, as read under the task's lock.

    `rows`: of `named`, those that exist.  `direct`: what `before` needs, gates included.  `specs`: how many the task
    has."""

    rows: Mapping[str, Step]
    direct: Sequence[str] = ()
    specs: int = 0


def entered(task: Task, growth: Growth, before: Step | None) -> int:
    """The number of the stage that the growth enters; 0: there is none of that name."""
    names = task.options.stages
    if growth.stage is not None:
        return names.index(growth.stage) + 1 if growth.stage in names else 0
    return before.stage if before is not None else min(task.counts.gates + 1, max(len(names), 1))


def named(growth: Growth, stage: int) -> list[str]:
    """The keys of all existing rows that the growth may be about."""
    keys = [step.key for step in growth.planned]
    keys += [need for step in growth.planned for need in step.needs or ()]
    keys += [key for step in growth.planned for key in _read(growth.specs, step.spec)]
    keys += [gate_key(stage), gate_key(stage - 1), *([growth.before] if growth.before else [])]
    return list(dict.fromkeys(keys))


def grow(task: Task, growth: Growth, around: Around, by: str | None) -> tuple[e.Fact, ...]:
    """The rows with what their needs have told so far.  The caller lets each new row react to its counts.

    Raises Refused (the task takes no steps now), BadPlan with every problem."""
    if task.ended or task.state is TaskState.CLOSING:
        word = "is being cancelled" if task.state is TaskState.CLOSING else f"is {task.state}"
        raise Refused(
            f"task {task.id!r} {word}: no step can be added to it; {GO_ON.get(task.state, 'fork it instead')}"
        )
    if task.loading:
        raise Refused(f"task {task.id!r} is still being submitted; wait until it is, then add")
    before = around.rows.get(growth.before) if growth.before else None
    stage = entered(task, growth, before)
    planned = [replace(step, stage=stage) for step in growth.planned]
    problems = list(_problems(task, growth, planned, stage, before, around))
    if problems:
        raise BadPlan(problems)
    needs = {step.key: _needs(step, before, around) for step in planned}
    edges: list[Edge] = []
    for step in planned:
        edges += [Edge(need, step.key) for need in needs[step.key]]
        edges += [Edge(step.key, before.key)] if before is not None else []
        edges.append(Edge(step.key, gate_key(stage)))
    if len(edges) > GROWTH_EDGES_MAX:
        raise BadPlan(f"growth of {len(edges):,} edges, the limit is {GROWTH_EDGES_MAX:,}; use stages or for_each")
    rows = tuple(_row(step, needs[step.key], around) for step in planned)
    specs = tuple(renumbered(spec, around.specs) for spec in growth.specs)
    added = e.StepsAdded(rows, tuple(edges), specs, around.specs, by)
    held = (e.StepHeld(before.key),) if before is not None and before.state is S.READY else ()
    return (*held, added)


# --- what may not be ----------------------------------------------------------------------------------------------


def _problems(
    task: Task, growth: Growth, planned: Sequence[Planned], stage: int, before: Step | None, around: Around
) -> Iterator[Problem]:
    if not planned:
        yield Problem("it adds no step; give it `steps`")
    if len(planned) > GROWTH_MAX:
        yield Problem(f"{len(planned):,} steps at once, the limit is {GROWTH_MAX}; use for_each, or add in parts")
    if task.counts.steps + len(planned) > STEPS_MAX:
        yield Problem(
            f"the task has {task.counts.steps:,} steps, and {STEPS_MAX:,} is the limit; use for_each or tasks"
        )
    if growth.before is not None:
        yield from _before_problems(growth.before, before, around)
    if stage == 0:
        known = task.options.stages
        hint = did_you_mean(growth.stage or "", known) or f"; the task has {', '.join(known)}"
        yield Problem(f"stage {growth.stage!r}: no such stage{hint}")
        return
    if before is not None and before.stage != stage:
        yield Problem(f"stage {growth.stage!r} is not that of {before.key!r}; leave it out")
    gate = around.rows.get(gate_key(stage))
    if gate is None or gate.state is not S.BLOCKED:
        over = "over" if gate is None or gate.state is S.COMPLETED else "over, and it has failed"
        yield Problem(f"stage {_stage_name(task, stage)!r} is {over}; name a later one")
    earlier: dict[str, frozenset[str]] = {}  # new steps so far, each with all that it is known to wait for
    for step in planned:
        yield from _step_problems(step, stage, before, around, earlier)
        yield from _reading_problems(step, growth.specs, stage, around, earlier)
        earlier[step.key] = _behind(step, earlier)


def _before_problems(key: str, before: Step | None, around: Around) -> Iterator[Problem]:
    """Rule 26: only what has not begun, or stands behind its own fix, can be put behind other work."""
    if before is None:
        yield Problem(f"before: the task has no step {key!r}")
    elif before.gate:
        yield Problem(f"before: {key!r} is the end of a stage; add to the stage instead")
    elif before.role is not Role.OWN:
        yield Problem(f"before: {key!r} belongs to {before.owner!r}; name that one")
    elif before.state not in (S.BLOCKED, S.READY):
        yield Problem(f"before: {key!r} is {before.state}; only what has not begun can be put behind others")
    elif before.commit is not None or before.items:
        yield Problem(f"before: {key!r} has done its work already; add a step that needs it")


def _step_problems(
    step: Planned, stage: int, before: Step | None, around: Around, earlier: Mapping[str, object]
) -> Iterator[Problem]:
    if step.key in earlier:
        yield Problem(f"step {step.key!r} is there twice; ids are unique within a task", step.path)
    elif step.key in around.rows:
        yield Problem(f"step {step.key!r} is in the task already; give it another id", step.path)
    for need in step.needs or ():
        if need in earlier:
            continue
        row = around.rows.get(need)
        if row is None:
            hint = did_you_mean(need, [*earlier, *around.rows])
            later = hint or "; of new steps, only those that stand before it can be needed"
            yield Problem(f"step {step.key!r} needs {[need]!r}: no such step{later}", step.path)
        elif row.gate or row.role is not Role.OWN:
            what = "is the end of a stage" if row.gate else f"belongs to {row.owner!r}"
            yield Problem(f"step {step.key!r} needs {need!r}, which {what}: it cannot be needed", step.path)
        elif row.stage > stage:
            yield Problem(f"step {step.key!r} needs {need!r} of a later stage", step.path)
        elif before is not None and row.state is not S.COMPLETED and need not in around.direct:
            yield Problem(
                f"step {step.key!r} goes before {before.key!r}, so it can need what has completed and what "
                f"{before.key!r} needs itself; {need!r} is {row.state}",
                step.path,
            )


def _reading_problems(
    step: Planned, specs: Sequence[StepSpec], stage: int, around: Around, earlier: Mapping[str, frozenset[str]]
) -> Iterator[Problem]:
    """What its expressions read must have ended when it begins."""
    behind = _behind(step, earlier)
    for key in _read(specs, step.spec):
        row = around.rows.get(key)
        if key in behind or (row is not None and row.state is S.COMPLETED):
            continue
        if row is not None and step.needs is None and row.stage < stage:
            continue
        known = row is not None or key in earlier
        hint = f"add {key!r} to its needs" if known else "no such step" + did_you_mean(key, [*earlier, *around.rows])
        yield Problem(f"step {step.key!r} reads steps.{key}, but does not wait for it; {hint}", step.path)


def _behind(step: Planned, earlier: Mapping[str, frozenset[str]]) -> frozenset[str]:
    needs = step.needs or ()
    return frozenset(needs).union(*(earlier[need] for need in needs if need in earlier))


def _read(specs: Sequence[StepSpec], number: int) -> set[str]:
    """The steps that a spec reads, and those that it owns."""
    found: set[str] = set()
    stack, seen = [number], set[int]()
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            found.update(specs[n].reads)
            stack += [m for m in _owned(specs[n]) if m is not None]
    return found


# --- rows ---------------------------------------------------------------------------------------------------------


def _needs(step: Planned, before: Step | None, around: Around) -> Sequence[str]:
    """Without `needs`: the stages before it, or what the step needs that it goes in front of."""
    if step.needs is not None:
        return tuple(dict.fromkeys(step.needs))
    if before is not None:
        return around.direct
    return (gate_key(step.stage - 1),) if step.stage > 1 else ()


def _row(step: Planned, needs: Iterable[str], around: Around) -> e.NewStep:
    """A need that has ended counts with what its dependents have been told, on the new row's side of the cursor."""
    sums = (0, 0, 0)
    for need in needs:
        row = around.rows.get(need)
        told = Verdict.NONE if row is None else known_to(row, step.key)
        sums = (sums[0] + counts(told)[0], sums[1] + counts(told)[1], sums[2] + counts(told)[2])
    return e.NewStep(
        key=step.key,
        kind=step.kind,
        spec=step.spec + around.specs,
        stage=step.stage,
        weight=step.weight,
        run_when=step.run_when,
        when_failed=step.when_failed,
        conditional=step.conditional,
        pool=POOL_SYSTEM if step.kind in SYSTEM_KINDS else step.pool,
        blockers=sums[0],
        vetoes=sums[1],
        omits=sums[2],
    )


def steps_in(result: Json) -> list[Json]:
    """What a planner has handed over; an empty list is a plan, too.  Raises BadPlan."""
    steps = result.get("steps") if isinstance(result, dict) else None
    if not isinstance(steps, list):
        found = "there is none" if steps is None else f"found {str(steps)[:60]!r}"
        raise BadPlan(f"it has to hand over `steps`, a list of steps in the language of plans; {found}")
    return steps


def refusal(error: BadPlan) -> Failed:
    """What is wrong with a planner's steps goes back to it: its next run is told.  As many problems as a reason holds,
    each whole, and how many more."""
    lines = ["the steps that it has handed over cannot be added:"]
    told = [str(problem) for problem in error.problems]
    room = REASON_LENGTH_MAX - len(lines[0]) - len("\nand 1,000,000 more")
    for n, problem in enumerate(told):
        room -= len(problem) + 1
        if room < 0:
            lines.append(f"and {len(told) - n:,} more" if n else problem[: room + len(problem)])
            break
        lines.append(problem)
    return Failed("\n".join(lines), retryable=True)


def known_to(need: Step, dependent: str) -> Verdict:
    """What a dependent of this key knows of the need, while a pass of telling may be under way."""
    return need.telling if need.telling is not None and dependent <= need.cursor else need.told


def _owned(spec: StepSpec) -> tuple[int | None, ...]:
    return spec.fix, spec.revise, spec.item, spec.conflict


def renumbered(spec: StepSpec, first: int) -> StepSpec:
    fix, revise, item, conflict = (None if n is None else n + first for n in _owned(spec))
    return replace(spec, fix=fix, revise=revise, item=item, conflict=conflict)


def _stage_name(task: Task, stage: int) -> str:
    names = task.options.stages
    return names[stage - 1] if stage <= len(names) else str(stage)
