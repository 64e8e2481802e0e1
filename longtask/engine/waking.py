"""A signal wakes its waiters in batches; how far it has come stands in its row, so that no crash loses one."""

from __future__ import annotations

from longtask.core import decide
from longtask.core.model import Signal
from longtask.core.policy import BATCH_MAX

from .writing import Writing


def wake_waiters(w: Writing, signal: Signal, heard: str) -> None:
    """Wakes the next waiters by key, above `heard`, that the signal fits."""
    rows = w.see(w.tx.waiters(signal.name, heard, BATCH_MAX))
    w.add([fact for row in rows for fact in decide.woken_by(row, signal, w.now)])
    w.tx.hear(signal.number, rows[-1].key if len(rows) == BATCH_MAX else None)


def wake_on(w: Writing) -> int:
    """Goes on with the earliest signal of the task that not every waiter has heard; 1 if there was one."""
    found = w.tx.unheard()
    if found is None:
        return 0
    wake_waiters(w, *found)
    return 1
