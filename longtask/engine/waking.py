"""A signal wakes its waiters in batches; how far it has come stands in its row, so that no crash loses one."""

from __future__ import annotations

from longtask.core import decide
from longtask.core.model import JsonMap, Signal
from longtask.core.policy import BATCH_MAX
from longtask.redaction import redact_value

from .writing import Writing


def take_in(w: Writing, name: str, delivery: str, payload: JsonMap, sender: str) -> Signal:
    """Numbers a new signal and wakes every waiter that it fits, a batch here and the rest by the scheduler; all of them
    by the scheduler if some still have an earlier signal to hear."""
    in_turn = w.tx.unheard() is None
    signal = w.tx.add_signal(name, delivery, redact_value(payload), sender)
    if in_turn:
        wake_waiters(w, signal, "")
    return signal


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
