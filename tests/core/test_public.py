"""What people and streams see of a fact: the names of SEMANTICS 3, and plain fields."""

from __future__ import annotations

import json
import re

import pytest

from longtask.core import events as e
from longtask.core.model import Edge, Kind, StepSpec, TaskOptions, WaitingFor
from longtask.core.public import public

STAGES = ("look", "change")
ROWS = (e.NewStep("a", Kind.RUN), e.NewStep("gate.1", Kind.GATE), e.NewStep("gate.2", Kind.GATE, stage=2))
SUBMITTED = e.TaskSubmitted(
    "id", "t", TaskOptions(goal="g", stages=STAGES, secrets=("KEY",)), base="c0", specs=(StepSpec(Kind.RUN),),
    steps=ROWS, edges=(Edge("a", "gate.1"),),
)  # fmt: skip
ASKS = {"kind": "approval", "text": "well?"}
ONE_OF_EACH: list[tuple[e.Fact, list[str]]] = [
    (SUBMITTED, ["longtask.started", "stage.started"]),
    (e.StepsAdded((e.NewStep("b", Kind.RUN),), by="ann"), ["step.added"]),
    (e.StepsAdded((), by="ann"), []),  # the end of a submission
    (e.StepUnblocked("a"), ["step.ready"]),
    (e.StepHeld("a"), []),
    (e.StepClaimed("a", 1, "w"), ["step.started"]),
    (e.StepClaimed("a", 1, "w", runtime="recorded 1"), ["step.started", "agent.run.started"]),
    (e.StepRetried("a", 1, "no"), ["step.retried"]),
    (e.StepLost("a", 1, "gone"), ["step.retried"]),
    (e.StepReleased("a", 1, "drain"), []),
    (e.StepParked("a", 1, WaitingFor.USER, ASKS), ["approval.required"]),
    (e.StepParked("a", 1, WaitingFor.CI, {"name": "ci.completed"}), ["ci.waiting"]),
    (e.StepParked("a", 1, WaitingFor.EVENT, {"name": "deployed"}), ["wait.started"]),
    (e.StepParked("a", 1, WaitingFor.TIMER, {}, 5), ["wait.started"]),
    (e.HelpAsked("a", {"kind": "failed"}), ["approval.required"]),
    (e.StepWoken("a", {"decision": "approve", "by": "ann"}), ["approval.resolved"]),
    (e.StepWoken("a", {"answer": "again", "by": "ann"}), ["approval.resolved"]),
    (e.StepWoken("a", {"superseded": True}), ["approval.resolved"]),
    (e.StepWoken("a", {"signal": "ci.completed", "number": 1, "payload": {}}, seen=1), ["ci.completed"]),
    (e.StepWoken("a", {"signal": "deployed", "number": 1, "payload": {}}, seen=1), ["wait.resolved"]),
    (e.StepWoken("a", {"deadline": True}), ["wait.resolved"]),
    (e.MutexAwaited("a", "db"), []),
    (e.StepWoken("a", {"mutex": "db"}), []),
    (e.FixRequested("a", 1, 1, "no"), []),
    (e.StepExpanded("a", 1, 3, 1, [1, 2, 3]), []),
    (e.StepDelivered("a", 1, "c1"), []),
    (e.StepMerged("a", "c2"), ["step.completed"]),
    (e.MergeConflicted("a", 1, "c2", ("x",)), []),
    (e.MergeResumed("a"), []),
    (e.StepCompleted("a", 1, {"n": 1}), ["step.completed"]),
    (e.StepCompleted("a", 1, artifacts=({"name": "x"}, {"name": "y"})), [*["artifact.created"] * 2, "step.completed"]),
    (e.StepFailed("a", "no", 1), ["step.failed"]),
    (e.StepCancelled("a", "ann"), ["step.cancelled"]),
    (e.StepSkipped("a", "b"), ["step.skipped"]),
    (e.StepSkipped("gate.1", "a"), ["stage.completed"]),
    (e.StepRetired("a", "ann"), []),
    (e.StepWaived("a", "ann"), []),
    (e.StepRestored("a", by="ann"), []),
    (e.StepEdited("a", 2, "ann", (StepSpec(Kind.RUN),), 2), ["step.edited"]),
    (e.StepRestored("gate.1"), ["stage.started"]),
    (e.GateOpened("gate.1"), ["stage.completed", "stage.started"]),
    (e.GateOpened("gate.2"), ["stage.completed"]),
    (e.TaskPaused(1, "ann"), ["longtask.paused"]),
    (e.TaskResumed(1, "ann"), ["longtask.resumed"]),
    (e.CancelRequested("ann"), ["longtask.requested"]),
    (e.TaskReopened("a", "ann"), ["longtask.reopened"]),
    (e.UsageRecorded("a", 1, 5, 5, 10), ["longtask.recorded"]),
    (e.BudgetRaised("ann", 10), ["longtask.raised"]),
    (e.BudgetNear("tokens", 8, 10), ["budget.near"]),
    (e.LimitNear("a", "tokens", 8, 10), ["budget.near"]),
    (e.BudgetExceeded("cost"), ["budget.exceeded"]),
    (e.TaskDoomed("a"), ["longtask.doomed"]),
    (e.TaskCompleted(), ["longtask.completed"]),
    (e.TaskFailed(), ["longtask.failed"]),
    (e.TaskCancelled(), ["longtask.cancelled"]),
]  # fmt: skip


def shown(fact: e.Fact, **more: object) -> list[tuple[str, dict[str, object]]]:
    return [(event.name, dict(event.fields)) for event in public(fact, STAGES, **more)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fact", "names"), ONE_OF_EACH, ids=lambda v: type(v).__name__ if isinstance(v, e.Fact) else ""
)
def test_every_fact_has_its_names(fact: e.Fact, names: list[str]):
    assert [name for name, _ in shown(fact)] == names


def test_no_kind_of_fact_is_forgotten():
    assert {type(fact) for fact, _ in ONE_OF_EACH} == set(e.FACTS.values())


@pytest.mark.parametrize("fact", [fact for fact, _ in ONE_OF_EACH], ids=lambda fact: type(fact).__name__)
def test_fields_are_plain_and_say_something(fact: e.Fact):
    for name, fields in shown(fact):
        assert re.fullmatch(r"[a-z]+(\.[a-z]+)+", name)
        assert json.loads(json.dumps(fields)) == fields
        assert all(value is not None and value != "" for value in fields.values())


def test_a_submission_counts_its_steps_and_hides_how_they_are_stored():
    (_, started), (_, stage) = shown(SUBMITTED)
    assert started == {"name": "t", "goal": "g", "steps": 1, "base": "c0"}
    assert stage == {"stage": "look", "number": 1}


def test_a_limit_of_a_stage_is_told_by_its_name():
    amounts = {"which": "tokens", "used": 8, "limit": 10}
    assert shown(e.BudgetNear("tokens", 8, 10, 2)) == [("budget.near", {**amounts, "stage": STAGES[1], "number": 2})]
    assert shown(e.BudgetRaised("ann", stage=1)) == [
        ("longtask.raised", {"by": "ann", "stage": STAGES[0], "number": 1})
    ]


def test_a_gate_is_told_as_the_stages_that_it_parts():
    assert shown(e.GateOpened("gate.1")) == [
        ("stage.completed", {"stage": "look", "number": 1, "outcome": "completed"}),
        ("stage.started", {"stage": "change", "number": 2}),
    ]
    assert shown(e.StepSkipped("gate.2", "b"))[0][1]["outcome"] == "failed"
    assert shown(e.StepRestored("gate.2"))[0][1] == {"stage": "change", "number": 2, "again": True}


def test_a_loss_is_a_retry_with_its_cause():
    assert shown(e.StepLost("a", 2, "gone"))[0][1] == {
        "step": "a",
        "attempt": 2,
        "reason": "gone",
        "cause": "lost",
        "due_at": 0,
    }


@pytest.mark.parametrize(
    ("fact", "outcome"),
    [
        (e.StepCompleted("a", 1), "completed"),
        (e.StepDelivered("a", 1, "c1"), "completed"),
        (e.StepFailed("a", "no", 1), "failed"),
        (e.StepRetried("a", 1, "no"), "failed"),
        (e.FixRequested("a", 1, 1, "no"), "failed"),
    ],
)
def test_the_run_of_an_agent_ends_with_the_outcome_that_was_taken(fact: e.Fact, outcome: str):
    name, fields = shown(fact, agents={"a"})[0]
    assert (name, fields) == ("agent.run.completed", {"step": "a", "attempt": 1, "outcome": outcome})
    assert all(name != "agent.run.completed" for name, _ in shown(fact, agents={"b"}))


def test_a_failure_that_no_attempt_reported_ends_no_run():
    assert [name for name, _ in shown(e.StepFailed("a", "given up", by="ann"), agents={"a"})] == ["step.failed"]
