"""Fork: a new task that takes over what another had done up to a point of its journal (SEMANTICS rule 41).

    point       up to which event it is taken over: that before the newest claim of the step to be done again
    forked      what of the task's rows and code is taken over, as it was then
    submission  the same in batches, as what is submitted

What had ended for good by then stays: whatever means `ok` or `omit`, for only a veto is ever taken back.  All else
starts over.  Completed means merged, and a claim's base is the head; so the head as of then holds the work of all that
stays, and of nothing that was merged later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from . import events as e
from .errors import Refused
from .graph import Batch, batches
from .machine import Draft, verdict
from .model import Edge, JsonMap, Kind, Origin, Role, Step, StepSpec, StepState, Task, Verdict

S, V = StepState, Verdict

FINAL = (V.OK, V.OMIT)
ENDS = (e.StepFailed, e.StepCancelled, e.StepSkipped, e.StepRetired, e.StepWaived)  # of a step that was never claimed
RUN_BEGINS = (e.StepRetried, e.FixRequested, e.StepRestored)


# --- where ----------------------------------------------------------------------------------------------------------


def forkable(task: Task, step: Step) -> None:
    """Raises Refused."""
    if task.loading:
        raise Refused(f"task {task.id!r} is still being submitted; wait until it is, then fork it")
    if step.gate:
        raise Refused(f"step {step.key!r} is the end of a stage; fork from one of its steps")
    if step.role is not Role.OWN:
        raise Refused(f"step {step.key!r} belongs to {step.owner!r}: fork from {step.owner!r} instead")


def point(events: Iterable[e.Event], step: Step | None) -> int:
    """The number of the last event that a fork from the step takes over; `step` as its row is now, None: all.

    Before its newest claim, so that it starts as it did then.  What it has given out (items, subagents) is its own
    work: a claim by which it only goes on with that does not count, nor does one of an earlier list of a `for_each`.
    Never claimed: now, or before it ended, if that is for good.  What a cancel has ended does not count either.

    Raises Refused: it had ended before this task was, which is a fork itself.
    """
    last = closed = claim = end = 0
    goes_on = False
    origin: Origin | None = None
    for event in events:
        last, fact = event.seq, event.fact
        if isinstance(fact, e.TaskSubmitted):
            origin = fact.options.forked
        if isinstance(fact, e.CancelRequested | e.TaskDoomed):
            closed = closed or event.seq - 1
        if step is None or getattr(fact, "step", None) != step.key:
            continue
        if isinstance(fact, e.StepClaimed):
            claim = claim if goes_on else event.seq - 1
        elif isinstance(fact, e.StepExpanded):
            goes_on = True
        elif isinstance(fact, RUN_BEGINS) or (isinstance(fact, e.StepWoken) and fact.cause.get("answer") == "again"):
            goes_on = goes_on and step.kind is Kind.FOR_EACH
        elif isinstance(fact, ENDS):
            end = event.seq - 1
    if claim:
        return claim
    now = closed or last
    if step is None or verdict(step) not in FINAL:
        return now
    if not end and origin is not None:
        raise Refused(f"step {step.key!r} was taken over from task {origin.task!r} as {step.state}: fork that one")
    return min(end, now) if end else now


# --- what -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forked:
    """`task` is the source's header as of event `seq`.  `rows` have all their counts; `specs` are numbered by place."""

    task: Task
    seq: int
    rows: tuple[e.NewStep, ...]
    edges: tuple[Edge, ...]
    specs: tuple[StepSpec, ...]


def forked(events: Iterable[e.Event]) -> Forked:
    """`events`: the source's journal from its beginning up to the point."""
    draft = Draft(None, {}, 0)
    for event in events:
        draft.now = event.at
        draft.apply(event.fact)
        draft.facts.clear()
    rows, owned = draft.rows, _owned(draft.rows)
    made: dict[tuple[str, int], list[JsonMap]] = {}
    for artifact in draft.artifacts:
        made.setdefault((artifact.step, artifact.attempt), []).append(artifact.content)
    taken: list[e.NewStep] = []
    pending = [row for row in rows.values() if row.owner is None]
    for row in pending:  # grows by what is owned
        over = row.role is not Role.OWN or verdict(row) in FINAL
        mine = _kept(row, over, owned.get(row.key, ()))
        pending += mine
        taken.append(_row(row, over, mine, tuple(made.get((row.key, row.attempt), ()))))
    there = {row.key for row in taken}
    edges = tuple(edge for edge in draft.edges if edge.need in there and edge.step in there)
    numbered = dict(draft.specs)
    specs = tuple(numbered[number] for number in range(len(numbered)))
    told = {row.key: _told(row) for row in taken}
    return Forked(draft.task, draft.seq, tuple(_counted(taken, edges, told)), edges, specs)


def _owned(rows: Mapping[str, Step]) -> dict[str, list[Step]]:
    owned: dict[str, list[Step]] = {}
    for row in rows.values():
        if row.owner is not None:
            owned.setdefault(row.owner, []).append(row)
    return owned


def _kept(owner: Step, over: bool, owned: Sequence[Step]) -> list[Step]:
    """What stays of the fixes, items and the like of a step.  `over`: the owner stays as it has ended."""
    if over:
        return [] if any(row.open for row in owned) else list(owned)
    if owner.kind is not Kind.FOR_EACH:
        return []
    return [row for row in owned if row.role is Role.ITEM and row.state is S.COMPLETED]


def _row(row: Step, over: bool, mine: Sequence[Step], artifacts: tuple[JsonMap, ...]) -> e.NewStep:
    new = e.NewStep(
        key=row.key,
        kind=row.kind,
        spec=row.spec,
        stage=row.stage,
        role=row.role,
        owner=row.owner,
        depth=row.depth,
        item=row.item,
        expansion=row.expansion if row.role is Role.ITEM else 0,
        weight=row.weight,
        run_when=row.run_when,
        when_failed=row.when_failed,
        conditional=row.conditional,
        pool=row.pool,
    )
    lists = e.Brought()
    if row.expansion and row.role is not Role.ITEM:
        items = [item for item in mine if item.role is Role.ITEM]
        new = replace(new, weight=row.whole - sum(item.weight for item in items))
        if items:
            new = replace(new, expansion=row.expansion)
            lists = _list(row, over, items)
    if not over:
        return replace(new, brought=lists) if new.expansion and new.role is not Role.ITEM else new
    ended = replace(
        lists,
        state=row.state,
        attempt=row.attempt,
        commit=row.commit,
        result=row.result,
        artifacts=artifacts,
        reason=row.reason,
        because=row.because,
        benign=row.benign,
        waived=row.waived,
        base=row.base,
        began_at=row.began_at,
        ended_at=row.ended_at,
    )
    return replace(new, brought=ended)


def _list(row: Step, over: bool, items: Sequence[Step]) -> e.Brought:
    """What a step that has expanded brings along; one that is to run expands its list once more, as after a retry."""
    if not over:
        return e.Brought(listing=row.listing, whole=row.whole)
    newest = [item for item in items if item.expansion == row.expansion]
    failed = sum(item.state is not S.COMPLETED for item in newest)
    return e.Brought(
        listing=row.listing,
        whole=row.whole,
        items=row.items,
        items_next=row.items_next,
        items_ended=len(newest) if row.items else 0,
        items_failed=failed if row.items else 0,
    )


def _told(row: e.NewStep) -> Verdict:
    """Of an owned step, which is a blocker of its owner and no more: `ok`."""
    if row.brought is None or row.brought.state is None:
        return V.NONE
    return V.OMIT if row.brought.benign and row.owner is None else V.OK


def _counted(rows: Sequence[e.NewStep], edges: Iterable[Edge], told: Mapping[str, Verdict]) -> Iterator[e.NewStep]:
    """Rows with what the needs of these edges have told them."""
    blockers, omits = Counter[str](), Counter[str]()
    for need, step in edges:
        blockers[step] += told[need] is V.NONE
        omits[step] += told[need] is V.OMIT
    for row in rows:
        free = not blockers[row.key] and not omits[row.key] and not row.conditional and row.kind is not Kind.GATE
        ready = free and told[row.key] is V.NONE
        yield replace(row, blockers=blockers[row.key], omits=omits[row.key], ready=ready)


# --- as a task ------------------------------------------------------------------------------------------------------


def submission(fork: Forked) -> list[Batch]:
    """What each transaction adds.  A row counts the edges of its own batch."""
    told = {row.key: _told(row) for row in fork.rows}
    whole = {row.key: row for row in fork.rows}
    found = []
    for batch in batches(fork.rows, fork.edges, fork.specs):
        rows = _counted(batch.steps, batch.edges, told)
        found.append(replace(batch, steps=tuple(replace(row, ready=whole[row.key].ready) for row in rows)))
    return found


def begin_late(fork: Forked) -> list[e.NewStep]:
    """Rows that nothing stands before, and that are not ready all the same: an `if`, an unwanted need, or the end of a
    stage decides about them when all rows are there."""
    return [row for row in fork.rows if not row.blockers and not row.ready and _told(row) is V.NONE]


def submitted(
    fork: Forked,
    first: Batch,
    *,
    id: str,
    step: str | None,
    by: str,
    idempotency_key: str | None = None,
    plan_digest: str | None = None,
    more: bool = True,
) -> e.TaskSubmitted:
    """The header of the fork.  Its budget is what the source's was then, and nothing of it is spent; it has no parent
    and is not paused."""
    source = fork.task
    options = replace(
        source.options,
        budget_micros=source.budget_micros,
        budget_tokens=source.budget_tokens,
        plan_digest=plan_digest,
        forked=Origin(source.id, fork.seq, step),
    )
    return e.TaskSubmitted(
        id=id,
        name=source.name,
        options=options,
        workspace_id=source.workspace_id,
        created_by=by,
        idempotency_key=idempotency_key,
        base=source.base,
        head=source.head,
        priority=source.priority,
        parallel=source.parallel,
        specs=first.specs,
        steps=first.steps,
        edges=first.edges,
        more=more,
    )
