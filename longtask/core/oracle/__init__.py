"""What must always hold of a task (SEMANTICS §6), restated as independently of the machine as it goes.

    history   the journal: gapless, every move allowed, every claim lawful; rows and header are its refold
    telling   the graph: counts are a recount of what needs have told; states fit them; gates in order; no cycle
    rows      counters, leases, waits, windows, weights, owned steps
    sharing   mutexes held, places in their queues, offers to workers
    ends      an ended task: each end follows from the final ends of its needs
    limits    of stages: reached when a person is asked, near when it is told
    family    between tasks: children and their parents

Pure.  `longtask doctor`, the simulator and the crash tests run it over whatever a store holds between two
transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from longtask.core.change import MutexRow, OfferRow, TicketRow, WaitRow
from longtask.core.events import Event
from longtask.core.model import Edge, Lease, Signal, Step, StepSpec, Task

from . import ends, history, limits, rows, sharing, telling
from .family import Kin, Member, Owed, audit_family
from .view import Contains, Violation, look

__all__ = ["Kin", "Member", "Owed", "Violation", "audit", "audit_family"]


def audit(
    task: Task,
    steps: Mapping[str, Step],
    edges: Sequence[Edge],
    events: Sequence[Event],
    leases: Sequence[Lease] = (),
    signals: Sequence[Signal] = (),
    specs: Mapping[int, StepSpec] | None = None,
    *,
    waits: Sequence[WaitRow] | None = None,
    mutexes: Sequence[MutexRow] | None = None,
    tickets: Sequence[TicketRow] | None = None,
    offers: Sequence[OfferRow] | None = None,
    now: int = 0,
    contains: Contains | None = None,
    unheard: Collection[int] = (),
) -> list[Violation]:
    """Everything that is wrong; empty if nothing is.

    `events`: the whole journal.  `waits`, and what of mutexes, tickets and offers is the task's own, None: not looked
    at.  `contains(ancestor, commit)` answers from the repository; None, or an answer of None: not known, and nothing is
    said about code.  `unheard`: numbers of signals that are still being told to their waiters.
    """
    view = look(task, steps, edges, events, leases, signals, specs or {}, waits, now, contains, unheard)
    past, found = history.walk(view)
    found += history.refolded(view)
    for check in (*rows.CHECKS, *telling.CHECKS):
        found += check(view)
    found += rows.items(view, past)
    found += sharing.check(view, mutexes, tickets, offers)
    found += limits.check(view)
    found += ends.check(view, past)
    return found
