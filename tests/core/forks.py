"""A fork of a played task: its rows come in batches, as an engine submits them, and it is played on like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from longtask.core import events, fork, graph, settle
from longtask.core.events import Event
from longtask.core.model import StepState

from .play import Play


class Fork(Play):
    """`batch`: so many rows a transaction; `only`: whoever forks dies after so many of them."""

    def __init__(self, source: Play, key: str | None, *, batch: int = 500, only: int | None = None) -> None:
        row = None if key is None else source.rows[key]
        if row is not None:
            fork.forkable(source.task, row)
        seq = fork.point(source.events, row)
        self.taken = fork.forked(source.events[:seq])
        self.now = source.now + 1_000
        self.checked = source.checked
        self.rows, self.edges, self.specs, self.events = {}, [], {}, []
        self.leases, self.waits, self.signals = {}, {}, []
        self.ifs, self.batch = dict(source.ifs), source.batch
        self.ancestors = dict(source.ancestors)
        self.header = None
        before, graph.BATCH_MAX = graph.BATCH_MAX, batch  # type: ignore[attr-defined]
        try:
            first, *others = fork.submission(self.taken)
        finally:
            graph.BATCH_MAX = before  # type: ignore[attr-defined]
        new_id = f"{source.task.id}f{len(source.events)}"
        self._save([fork.submitted(self.taken, first, id=new_id, step=key, by="ben")])
        self.check()
        for part in others[:only]:
            added = events.StepsAdded(part.steps, part.edges, part.specs, part.first_spec, "ben", more=True)
            self._save([added])
            self.check()
        if only is None:
            self._begin()

    def _begin(self) -> None:
        conditions = {key: self._condition(key) for key in self.ifs}
        late = [self.rows[row.key] for row in fork.begin_late(self.taken)]
        facts = [fact for row in late for fact in settle.react(self.task, row, None, self.now, conditions)]
        self._save([*facts, events.StepsAdded((), by="ben")])
        self.check()


def misfits(source: Sequence[Event], made: Sequence[Event], contains: Callable[[str, str], bool]) -> list[str]:
    """What a fork has wrongly taken over, told from both journals by other means than the machine's: whose work was
    merged when, and which claim began from what.  `contains(ancestor, commit)`."""
    born = made[0].fact
    assert isinstance(born, events.TaskSubmitted) and born.options.forked is not None
    _, seq, key = born.options.forked
    head, commits, completed = None, dict[str, str](), set[str]()
    merged: list[str] = []
    later: list[str] = []
    for event in source:
        fact, then = event.fact, event.seq <= seq
        if isinstance(fact, events.TaskSubmitted):
            head = fact.head or fact.base
        if isinstance(fact, events.TaskSubmitted | events.StepsAdded):
            completed |= {new.key for new in fact.steps if new.brought and new.brought.state == "completed"}
        elif isinstance(fact, events.StepDelivered | events.MergeResumed) and fact.commit:
            commits[fact.step] = fact.commit
        elif isinstance(fact, events.StepMerged):
            (merged if then else later).append(commits[fact.step])
            head = fact.head if then else head
        if then and isinstance(fact, events.StepMerged | events.StepCompleted | events.GateOpened):
            completed.add(fact.step)
    before = {row.key for row in _rows(source) if row.brought is not None}  # its source is a fork itself
    wrong = []
    begins = born.head or born.base
    following = source[seq].fact if seq < len(source) else None
    if isinstance(following, events.StepClaimed) and following.step == key and following.base != begins:
        wrong.append(f"it begins from {begins}, the claim of {key} from {following.base}")
    if begins != head:
        wrong.append(f"it begins from {begins}, the head was {head}")
    for commit in later:
        if begins is not None and contains(commit, begins) and not any(contains(commit, one) for one in merged):
            wrong.append(f"it holds {commit}, which was merged later")
    for row in _rows(made):
        state = None if row.brought is None else row.brought.state
        if state is StepState.COMPLETED and row.key not in completed:
            wrong.append(f"{row.key} is brought along as completed, and had not")
        if row.owner is None and row.key in completed and state is not StepState.COMPLETED:
            wrong.append(f"{row.key} had completed, and runs again")
        if key is not None and key in (row.key, row.owner) and state is not None and row.key not in before:
            wrong.append(f"{key} is to run again, and {row.key} is brought along as {state}")
    return wrong


def _rows(made: Sequence[Event]) -> Iterator[events.NewStep]:
    """As they were taken over."""
    for event in made:
        if isinstance(event.fact, events.TaskSubmitted):
            yield from event.fact.steps
        elif not isinstance(event.fact, events.StepsAdded):
            return
        else:
            yield from event.fact.steps
            if not event.fact.more:
                return
