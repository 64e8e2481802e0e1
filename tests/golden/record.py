"""Writes journals of simulated worlds for `tests/core/test_codec.py`: `python -m tests.golden.record NAME`.

Run it once for a version whose facts have changed, under a new name.  A file that was released is never written again:
it is the proof that what that version wrote can still be read and folded.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from longtask.core.codec import dump_fact
from longtask.core.events import Event
from longtask.store.contract import Store
from tests.golden import ended
from tests.sim.plans import Odds
from tests.sim.world import World

GOLDEN = Path(__file__).parent
SEEDS = range(1, 120)
ODDS = Odds(spawn=20, hands=40, task=20, forks=20)
EVENTS_MAX = 250  # a longer journal proves no more
JOURNALS_MAX = 4


def journal(store: Store, task_id: str) -> list[Event]:
    events: list[Event] = []
    while page := store.events(task_id, len(events), 500):
        events += page
    return events


def played() -> list[tuple[list[Event], dict[str, Any]]]:
    found = []
    for seed in SEEDS:
        world = World(seed, ODDS)
        world.play()
        for task in world.store.tasks(open_only=False, workspace_id=None, before=0, limit=50):
            steps = {step.key: step for step in world.store.steps(task.id, "", 5_000)}
            found.append((journal(world.store, task.id), ended(task, steps)))
        world.close()
    return [(events, end) for events, end in found if len(events) <= EVENTS_MAX]


def main() -> None:
    logging.disable(logging.CRITICAL)
    left, seen, ends = played(), set[type](), []
    with (GOLDEN / f"{sys.argv[1]}.jsonl").open("x", encoding="utf-8") as out:
        for number in range(JOURNALS_MAX):  # each time the one with the most kinds of facts that were not there yet
            events, end = max(left, key=lambda x: len({type(event.fact) for event in x[0]} - seen) * 500 - len(x[0]))
            seen |= {type(event.fact) for event in events}
            ends.append(end)
            for event in events:
                kind, v, body = dump_fact(event.fact)
                line = {"journal": number, "seq": event.seq, "at": event.at, "kind": kind, "v": v}
                out.write(json.dumps({**line, "body": json.loads(body)}, separators=(",", ":")) + "\n")
    text = json.dumps(ends, sort_keys=True, indent=1)
    (GOLDEN / f"{sys.argv[1]}.ends.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(seen)} kinds of facts")


if __name__ == "__main__":
    main()
