"""What an act would make stale, named before it is done: which steps run again, and what stays.

    by_fork      a fork: what has completed and is done again, and what is kept
    by_retry     a retry: what comes back by itself (SEMANTICS rules 4, 5)
    by_edit      other words for a step: itself, and what comes back with it if it has ended badly
    by_reject    a rejection: what is asked again, or skipped (rules 3, 8, 46)

All of it follows from rows and edges as they are; what moves meanwhile may change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .errors import Refused
from .fork import Forked
from .machine import verdict
from .model import Edge, Question, Role, Step, StepSpec, StepState, Task, Verdict, WaitingFor

S, V = StepState, Verdict


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Keys of steps of the plan, stage by stage.

    `again`: it has been begun, and runs again.  `begins`: it has not been begun yet, and is to run.  `skipped`: it will
    not run.  `kept`: it has ended for good, and stays.  `gone`: it was added later than a fork looks.  `items`: of a
    `for_each` that runs again, how many of its items are kept.  `seq` and `head`: what a fork begins from.
    """

    step: str
    again: tuple[str, ...] = ()
    begins: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    items: Mapping[str, int] = field(default_factory=dict)
    seq: int = 0
    head: str | None = None
    asks: bool = False  # a person is asked first whether it goes on
    revised: bool = False  # a revision is put in front, and the question is asked again


def by_fork(fork: Forked, step: str, rows: Iterable[Step]) -> Foreseen:
    """`rows`: of the source, as they are now."""
    stays = {row.key for row in fork.rows if row.brought is not None and row.brought.state is not None}
    there = {row.key for row in fork.rows}
    kept_items: dict[str, int] = {}
    for row in fork.rows:
        if row.role is Role.ITEM and row.owner is not None and row.owner not in stays:
            kept_items[row.owner] = kept_items.get(row.owner, 0) + 1
    plan = _of_plan(rows)
    runs = [row for row in plan if row.key in there and row.key not in stays]
    return Foreseen(
        step,
        again=_keys(row for row in runs if _begun(row)),
        begins=_keys(row for row in runs if not _begun(row)),
        kept=_keys(row for row in plan if row.key in stays),
        gone=_keys(row for row in plan if row.key not in there),
        items=kept_items,
        seq=fork.seq,
        head=fork.task.head,
    )


def by_retry(rows: Mapping[str, Step], edges: Iterable[Edge], step: Step) -> Foreseen:
    """What was skipped because of the step comes back, unless something else vetoes it as well.  (Behind a gate, which
    waits for all its stage, that may be taken up too; it is skipped again.)  Heedless steps are not disturbed."""
    back = {step.key}
    spread = [step.key]
    needs, dependents = _neighbours(edges)
    while spread:
        for key in dependents.get(spread.pop(), ()):
            row = rows.get(key)
            if row is None or key in back or row.state is not S.SKIPPED or row.benign:
                continue
            vetoes = [need for need in needs[key] if need in rows and verdict(rows[need]) is V.VETO]
            if all(need in back for need in vetoes):
                back.add(key)
                spread.append(key)
    return _foreseen(step, rows, [rows[key] for key in back], ())


def by_edit(rows: Mapping[str, Step], edges: Iterable[Edge], step: Step) -> Foreseen:
    """Nothing has read what an open step has not handed over yet: only its own attempts become stale.  One that was
    skipped begins when that is taken back which it was skipped for, and not by an edit."""
    if step.state in (S.FAILED, S.CANCELLED):
        return by_retry(rows, edges, step)
    return _foreseen(step, rows, [step] if step.open else [], ())


def by_reject(task: Task, rows: Mapping[str, Step], edges: Iterable[Edge], step: Step, spec: StepSpec) -> Foreseen:
    """Raises Refused: the step asks for no decision now."""
    kind = (step.question or {}).get("kind")
    if step.waiting_for is not WaitingFor.USER or kind != Question.APPROVAL:
        raise Refused(f"step {step.key!r} is {step.state}: it asks for no decision now")
    if spec.revise is not None and step.rounds < spec.revise_rounds_max:
        return _foreseen(step, rows, [step], (), revised=True)
    asks = task.options.attended and str(step.when_failed) == "ask"
    if step.when_failed == "continue":
        return _foreseen(step, rows, [], ())
    if task.options.fail_fast and not asks:
        return _foreseen(step, rows, [], [row for row in rows.values() if row.open and row is not step])
    out: set[str] = set()
    spread = [step.key]
    _, dependents = _neighbours(edges)
    while spread:
        for key in dependents.get(spread.pop(), ()):
            row = rows.get(key)
            if row is None or key in out or row.state is not S.BLOCKED or row.heedless or row.key == step.owner:
                continue
            out.add(key)
            spread.append(key)
    return _foreseen(step, rows, [], [rows[key] for key in out], asks=asks)


def _foreseen(
    step: Step,
    rows: Mapping[str, Step],
    back: Iterable[Step],
    skipped: Iterable[Step],
    *,
    asks: bool = False,
    revised: bool = False,
) -> Foreseen:
    plan = _of_plan(back)
    return Foreseen(
        step.key,
        again=_keys(row for row in plan if _begun(row)),
        begins=_keys(row for row in plan if not _begun(row)),
        skipped=_keys(_of_plan(skipped)),
        kept=_keys(row for row in _of_plan(rows.values()) if verdict(row) in (V.OK, V.OMIT)),
        asks=asks,
        revised=revised,
    )


def _of_plan(rows: Iterable[Step]) -> list[Step]:
    """Gates and what is owned say nothing by themselves."""
    return sorted((row for row in rows if not row.gate and row.role is Role.OWN), key=lambda r: (r.stage, r.key))


def _begun(row: Step) -> bool:
    return row.attempt > 0


def _keys(rows: Iterable[Step]) -> tuple[str, ...]:
    return tuple(row.key for row in rows)


def _neighbours(edges: Iterable[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What each step needs, and what needs it."""
    needs: dict[str, list[str]] = {}
    dependents: dict[str, list[str]] = {}
    for need, step in edges:
        needs.setdefault(step, []).append(need)
        dependents.setdefault(need, []).append(step)
    return needs, dependents
