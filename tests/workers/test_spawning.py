"""Work that an agent gives out, by workers at the store and elsewhere."""

from __future__ import annotations

import pytest

from longtask.core.model import Done, Expanded, Outcome
from longtask.engine.dispatcher import BrokenReport, Claimed, Dispatcher, Report
from longtask.store.contract import JournalRow
from tests.workers.conftest import ROOM, Bench, claimed

LEAD = {"id": "lead", "agent": {"runtime": "builtin", "model": "m", "prompt": "Lead it.", "subagents": {"max": 2}}}
CALL = JournalRow(1, "spawned", "", "f", 1)
TASKS = [{"name": "", "prompt": "one"}, {"name": "the other", "prompt": "p" * 9_000}]


def report(claim: Claimed, outcome: Outcome) -> Report:
    return Report(claim.ref, claim.step.attempt, outcome, claim.step.pool)


def spawned(*tasks: dict[str, str]) -> Expanded:
    return Expanded(len(tasks), {"run": 1, "bound": "1.f", "tasks": list(tasks)})


def test_each_gets_its_task_and_the_run_hears_how_they_have_ended(bench: Bench, asks: Dispatcher):
    bench.submit(LEAD)
    [lead] = claimed(asks)
    assert asks.brief(lead).ended is None
    assert asks.journal_started(lead.ref, 1, 1, CALL)
    items = [*asks.round("w1", [report(lead, spawned(*TASKS))], ROOM).found, *claimed(asks)]  # of a task, one a round
    assert [item.step.key for item in items] == ["lead[0]", "lead[1]"]
    assert [asks.brief(item).scope["spawned"] for item in items] == TASKS
    [lead] = asks.round("w1", [report(item, Done({"answer": item.step.key})) for item in items], ROOM).found
    assignment = asks.brief(lead)
    assert (assignment.attempt, assignment.run, assignment.ended) == (2, 1, {
        "bound": "1.f",
        "ends": [{"step": key, "state": "completed", "result": {"answer": key}, "reason": None}
                 for key in ("lead[0]", "lead[1]")],
    })  # fmt: skip
    assert asks.journal_done(lead.ref, 2, 1, JournalRow(1, "spawned", "", "f", 2, {"text": "both"}))
    asks.round("w1", [report(lead, Done())], None)
    assert bench.state("lead") == "completed"


def test_no_more_of_them_than_the_plan_says(bench: Bench, asks: Dispatcher):
    bench.submit(LEAD)
    [lead] = claimed(asks)
    asks.round("w1", [report(lead, spawned(*TASKS, *TASKS))], None)
    assert bench.state("lead") == "failed"


def test_a_worker_elsewhere_that_says_it_wrongly_is_refused(bench: Bench):
    asks = bench.elsewhere()
    bench.submit(LEAD)
    [lead] = claimed(asks)
    for listing in ({"run": 1, "bound": "1.f", "tasks": []}, {"run": 1, "tasks": TASKS[:1]}, ["one"]):
        with pytest.raises(BrokenReport):
            asks.round("w1", [report(lead, Expanded(1, listing))], None)
    assert bench.state("lead") == "running"
