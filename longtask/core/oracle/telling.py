"""The graph: what each step has heard is a recount of what its needs have told, and its state fits that."""

from __future__ import annotations

from collections.abc import Iterator

from longtask.core.model import Step, StepState, Verdict

from .view import View, Violation, is_open, meaning, shown

S, V = StepState, Verdict
BEGUN = (S.READY, S.RUNNING, S.WAITING, S.MERGING, S.COMPLETED)


def edges(view: View) -> Iterator[Violation]:
    """Each edge joins two rows, once.  An owned step has one edge, to its owner; nobody else may need it."""
    seen = set()
    out: dict[str, list[str]] = {}
    for need, step in view.edges:
        if (need, step) in seen:
            yield Violation("edge", f"{need!r} → {step!r} is there twice")
        seen.add((need, step))
        out.setdefault(need, []).append(step)
        # while a task is loading, what a step needs may still be under way; if it was cancelled then, it never came
        if step not in view.steps or (need not in view.steps and not view.task.loading and view.tells):
            yield Violation("edge", f"{need!r} → {step!r} joins no two rows")
    for row in view.steps.values():
        if row.owner is not None and out.get(row.key, []) != [row.owner]:
            yield Violation("edge", f"owned step {row.key!r} is told to {out.get(row.key, [])}, not to {row.owner!r}")
        if row.owner is not None and row.owner not in view.steps:
            yield Violation("edge", f"owned step {row.key!r}: its owner {row.owner!r} is not there")


def no_cycle(view: View) -> Iterator[Violation]:
    """A full search, whatever the rules of growth may promise."""
    waits = {key: sum(need in view.steps for need in view.needs.get(key, ())) for key in view.steps}
    dependents: dict[str, list[str]] = {}
    for need, step in view.edges:
        dependents.setdefault(need, []).append(step)
    free = [key for key, count in waits.items() if not count]
    while free:
        key = free.pop()
        del waits[key]
        for step in dependents.get(key, ()):
            if step in waits:
                waits[step] -= 1
                if not waits[step]:
                    free.append(step)
    if waits:
        yield Violation("cycle", f"steps wait for each other: {shown(waits)}")


def recount(view: View) -> Iterator[Violation]:
    """blockers, vetoes, omits.  An owned step is a blocker of its owner, no more: its end is judged."""
    if not view.tells:
        return
    for row in view.steps.values():
        blockers = vetoes = omits = 0
        for key in view.needs.get(row.key, ()):
            need = view.steps.get(key)
            told = V.NONE if need is None else view.heard(need, row)
            blockers += told is V.NONE
            if need is None or need.owner != row.key:
                vetoes += told is V.VETO
                omits += told is V.OMIT
        found = (row.blockers, row.vetoes, row.omits)
        if found != (blockers, vetoes, omits):
            yield Violation(
                "recount",
                f"step {row.key!r}: blockers, vetoes, omits are {found}, its needs have told "
                f"{(blockers, vetoes, omits)}",
            )


def final(view: View) -> Iterator[Violation]:
    """Only a veto is ever taken back: what has been told as ok or omit is so."""
    for row in view.steps.values():
        for told in (row.told, row.telling):
            if told in (V.OK, V.OMIT) and told is not meaning(row):
                yield Violation("final", f"step {row.key!r} told {told!s} and is {row.state} now")


def states(view: View) -> Iterator[Violation]:
    """What a step has heard allows the state that it is in."""
    if not view.tells or view.task.loading:
        return
    for row in view.steps.values():
        said = list(_misfit(row))
        if row.state in BEGUN:
            late = [key for key in view.needs.get(row.key, ()) if _in_the_way(view, row, key)]
            said += [f"with {shown(late)} in the way"] if late else []
        for text in said:
            heard = f"blockers {row.blockers}, vetoes {row.vetoes}, omits {row.omits}"
            yield Violation("state", f"step {row.key!r} is {row.state} {text} ({heard})")


def _misfit(row: Step) -> Iterator[str]:
    if row.state is S.BLOCKED:
        if not row.blockers:
            yield "and nothing blocks it"
        if row.vetoes and not row.heedless and not row.gate:
            yield "though something that it needs has failed"
    elif row.state is S.SKIPPED and not row.benign:
        if not row.vetoes:
            yield "and nothing vetoes it any more"
        if row.gate and row.blockers:
            yield "though its stage has not drained"
        if row.heedless:
            yield "by a veto, which it does not heed"
    elif row.state is S.COMPLETED and row.gate and (row.vetoes or row.blockers):
        yield "though its stage did not succeed"
    elif row.state in BEGUN and not row.heedless and not row.gate and (row.blockers or row.vetoes or row.omits):
        yield "and should not have begun"
    if row.gate and row.state not in (S.BLOCKED, S.COMPLETED, S.SKIPPED):
        yield "which no gate may be"


def _in_the_way(view: View, row: Step, key: str) -> bool:
    """A need that forbids that the step has begun.  Heedless steps and gates need ends, not successes; and a heedless
    step that has begun is not disturbed when one of its needs is taken up again."""
    need = view.steps.get(key)
    if need is None:
        return True
    if need.owner == row.key:
        return is_open(need)
    if row.heedless:
        return False
    told = view.heard(need, row)
    return told is not V.OK and not (row.gate and told is V.OMIT)


def gates(view: View) -> Iterator[Violation]:
    """In order, when everybody knows everything; and their number is that of the current stage."""
    if not view.settled or view.task.loading:
        return
    ended = {row.stage: not is_open(row) for row in view.steps.values() if row.gate}
    for stage, over in sorted(ended.items()):
        if over and not ended.get(stage - 1, True):
            yield Violation("gates", f"stage {stage} has ended before stage {stage - 1}")
    if set(ended) != set(range(1, len(ended) + 1)):
        yield Violation("gates", f"stages {sorted(ended)} do not count from 1 without a hole")
    if view.task.counts.gates != sum(ended.values()):
        yield Violation("gates", f"counter says {view.task.counts.gates} ended gates, rows {sum(ended.values())}")


CHECKS = (edges, no_cycle, recount, final, states, gates)
