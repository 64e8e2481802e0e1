"""Numbers with a reason: limits, retry delays, lease times.  A limit names itself in the error that it causes."""

from __future__ import annotations

LEASE_MS = 15_000  # a dead worker's step is taken over after this; three beats may go missing
BEAT_MS = 5_000
CALL_MS = 10_000  # a step that was called to its mutex and is not claimed within this lets the next one be called
TICK_HOLE_MS = 5_000  # a scheduler that did not tick for so long was asleep with its machine: leases may be alive

BACKOFF_MAX_MS = 300_000  # five minutes: long enough for a rate limit, short enough to notice
LOSSES_MAX = 3  # in a row; a step that kills its worker so often is poison
FAILURES_MAX = 0  # a plan asks for retries; silence means that a failure is a failure
ROUNDS_MAX = 3
DEPTH_MAX = 4  # fix of a fix of a fix of a fix
TASK_DEPTH_MAX = 4  # task in a task in a task in a task in a task
WINDOW_MAX = 256  # items of a for_each begun and not ended
SPAWNED_MAX = 16  # items that an agent makes at once: more is a for_each, whose list a person has seen
EXPANSIONS_MAX = 200  # of one agent's step: one that spawns and spawns goes round in circles, at a price

BATCH_MAX = 500  # rows under one lock
STOPS_MAX = BATCH_MAX  # attempts that are asked under one lock to give back
EDGES_BATCH_MAX = 2_000  # edges under one lock, beside their rows: they are small
STEPS_MAX = 250_000  # rows of one task, growth included
PLAN_STEPS_MAX = 200_000
GROWTH_MAX = 200  # steps added at once, with the rows beside them: one transaction
GROWTH_EDGES_MAX = EDGES_BATCH_MAX
ITEMS_MAX = 100_000
EDGES_PER_STEP_MAX = 1_000  # explicit needs of one step; gates carry the rest
KEY_LENGTH_MAX = 64
PLAN_BYTES_MAX = 4_000_000  # text of a plan; larger inputs belong into files of the repository
NAME_LENGTH_MAX = 80
EXPRESSION_LENGTH_MAX = 1_024  # CEL libraries have no cost limit: 187 characters took 107 s
SIGNAL_BYTES_MAX = 64_000
INLINE_BYTES_MAX = 4_096  # a larger result, reason or listing goes to the artifact store
REASON_LENGTH_MAX = 2_000
WEIGHT = 100
OUTPUT_BYTES_MAX = 10_000_000  # of one attempt: the first and the last part are kept
PARALLEL = 4
NEAR_PERCENT = 80  # of a limit: people are told before anything stops
TAKEN_MS = 86_400_000  # a step that a person has taken is given back after a day, if they do not say otherwise
STOP_GRACE_MS = 10_000
TIMEOUT_SLACK_MS = 5_000  # the worker stops an attempt at its timeout; whoever finds it this much later, fails it


def backoff_ms(tries: int, first_ms: int = 1_000) -> int:
    """Delay after the `tries`-th failure or loss: first, twice that, ... up to five minutes.

    No jitter: claims are spread by the workers.
    """
    return min(first_ms << min(max(tries, 1) - 1, 30), BACKOFF_MAX_MS)
