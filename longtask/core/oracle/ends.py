"""An ended task: each end follows from the final ends of what the step needs (rules 1, 3, 8, 11, 12), restated here
as a fixpoint that neither knows counters nor the order in which things happened."""

from __future__ import annotations

from collections.abc import Iterator

from longtask.core.model import RunWhen, Step, StepState, TaskState, Verdict

from .history import Past
from .view import View, Violation, meaning

S, V = StepState, Verdict
TRIED = (S.COMPLETED, S.FAILED, S.CANCELLED)


def check(view: View, past: Past) -> Iterator[Violation]:
    if view.task.state not in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED):
        return
    yield from _merged(view)
    if not view.tells:
        return  # swept: its steps ended by decree
    for step in view.steps.values():
        needs = [meaning(view.steps[k]) for k in view.needs.get(step.key, ()) if view.steps[k].owner != step.key]
        if step.owner is not None:
            continue  # an owned step is judged by its owner, and needs nothing
        allowed = set(_gate(needs) if step.gate else _step(step, needs, step.key in past.retired))
        if (step.state, step.benign) not in allowed:
            kind = f"{step.state}{' (not wanted)' if step.benign else ''}"
            heard = ", ".join(sorted(set(needs))) or "nothing"
            yield Violation("fixpoint", f"step {step.key!r} is {kind}, its needs have ended: {heard}")


def _merged(view: View) -> Iterator[Violation]:
    head = view.task.head
    for step in view.steps.values():
        if step.state is not S.COMPLETED or step.commit is None:
            continue
        if head is None or view.contains(step.commit, head) is False:
            yield Violation("merge", f"step {step.key!r} has completed and {step.commit!r} is not in {head!r}")


def _gate(needs: list[Verdict]) -> list[tuple[StepState, bool]]:
    return [(S.SKIPPED, False)] if V.VETO in needs else [(S.COMPLETED, False)]


def _step(step: Step, needs: list[Verdict], retired: bool) -> Iterator[tuple[StepState, bool]]:
    """(state, benign) that the step may have ended with."""
    yield S.CANCELLED, False  # a person may cancel whatever is open
    if retired:
        yield S.SKIPPED, True
    if step.run_when is not RunWhen.SUCCESS:
        yield from ((state, False) for state in TRIED)
        if step.conditional or (step.run_when is RunWhen.FAILURE and V.VETO not in needs):
            yield S.SKIPPED, True
        return
    if V.VETO in needs:
        yield S.SKIPPED, False
    elif V.OMIT in needs:
        yield S.SKIPPED, True
    else:
        yield from ((state, False) for state in TRIED)
        if step.conditional:
            yield S.SKIPPED, True
