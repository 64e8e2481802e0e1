"""The oracle finds what is wrong: one healthy task, one thing broken at a time."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from longtask.core import events as e
from longtask.core.change import WaitRow
from longtask.core.model import (
    Edge,
    Expanded,
    Failed,
    Kind,
    Parked,
    Role,
    RunWhen,
    Signal,
    StepSpec,
    StepState,
    TaskState,
    Verdict,
    WaitingFor,
)
from longtask.core.oracle import audit
from tests.core.play import Play, planned

S = StepState
SPECS = (
    StepSpec(Kind.RUN),
    StepSpec(Kind.RUN, fix=0),
    StepSpec(Kind.FOR_EACH, item=0, parallel_max=2),
    StepSpec(Kind.RUN, commits=True),
    StepSpec(Kind.RUN, timeout_ms=30_000),
)


def busy() -> Play:
    """A task with something of everything: its second stage is under way."""
    play = Play(
        [
            planned("early"),
            planned("code", spec=3),
            planned("unwanted", conditional=True),
            planned("run", 2, spec=4),
            planned("fix", 2, spec=1),
            planned("each", 2, spec=2, kind=Kind.FOR_EACH),
            planned("wait", 2),
            planned("fail", 2),
            planned("skip", 2, needs=["fail"]),
            planned("next", 2, needs=["wait"]),
            planned("last", 3),
        ],
        stages=3,
        specs=SPECS,
        ifs={"unwanted": False},
        attended=True,
    )
    play.run("early")
    play.claim("code")
    play.finish("code", play.commit("code"))
    play.settle_all()
    play.run("fix", Failed("red", digest="d"))
    play.run("each", Expanded(5, [1, 2, 3, 4, 5]))
    play.run("each[0]")
    play.run("wait", Parked(WaitingFor.EVENT, {"name": "go", "match": {"n": 1}}))
    play.run("fail", Failed("boom"))
    play.settle_all()
    play.claim("run")
    play.checked = False
    return play


def ended(outcome: Failed | None = None) -> Play:
    play = Play([planned("a"), planned("b", needs=["a"]), planned("c", needs=["a"], run_when=RunWhen.ALWAYS)])
    play.drain({"a": outcome} if outcome else {})
    return play


def put(key: str, **changes) -> Callable[[Play], None]:
    """Changes columns of one row behind the machine's back."""

    def act(play: Play) -> None:
        play.rows[key] = play.rows[key]._replace(**changes)

    return act


def header(**changes) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.header = play.task._replace(**changes)

    return act


def count(name: str, by: int = 1) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        counts = play.task.counts
        play.header = play.task._replace(counts=counts._replace(**{name: getattr(counts, name) + by}))

    return act


def fact(*facts: e.Fact) -> Callable[[Play], None]:
    """Writes to the journal what nobody decided."""

    def act(play: Play) -> None:
        for each in facts:
            play.events.append(e.Event("t1", len(play.events) + 1, play.now, each))
        play.header = play.task._replace(seq=len(play.events))

    return act


def changed(kind: type[e.Fact], **changes) -> Callable[[Play], None]:
    """Changes the last fact of a kind."""

    def act(play: Play) -> None:
        n = max(i for i, event in enumerate(play.events) if isinstance(event.fact, kind))
        play.events[n] = play.events[n]._replace(fact=replace(play.events[n].fact, **changes))

    return act


def lose_an_event(play: Play) -> None:
    del play.events[3]


def lease(**changes) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.leases["run"] = replace(play.leases["run"], **changes)

    return act


def lose_the_lease(play: Play) -> None:
    del play.leases["run"]


def lease_for_a_ready_step(play: Play) -> None:
    play.leases["fix.fix.1"] = replace(play.leases["run"], step="fix.fix.1")


def missed_signal(play: Play) -> None:
    play.signals.append(Signal(1, "x", "go", {"n": 1}))


def lose_the_wait(play: Play) -> None:
    play.waits.clear()


def wait_for_another(play: Play) -> None:
    play.waits["wait"] = WaitRow("wait", 0, "gone")


def narrow_window(play: Play) -> None:
    play.specs[2] = replace(play.specs[2], parallel_max=1)


def lose_an_item(play: Play) -> None:
    del play.rows["each[1]"]
    play.edges = [edge for edge in play.edges if edge.need != "each[1]"]


def edge(need: str, step: str) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.edges.append(Edge(need, step))

    return act


def claimed_early(play: Play) -> None:
    n = max(i for i, event in enumerate(play.events) if isinstance(event.fact, e.StepClaimed))
    play.events[n] = play.events[n]._replace(at=0)


def lose_the_code(play: Play) -> None:
    play.ancestors["c0"] = frozenset({"c0"})
    play.ancestors[play.task.head or ""] = frozenset()


def end_the_owner(play: Play) -> None:
    put("fix", state=S.CANCELLED, told=Verdict.VETO)(play)


BROKEN: list[tuple[str, Callable[[Play], None]]] = [
    ("journal", lose_an_event),
    ("journal", fact(e.TaskSubmitted("t1", "n", Play([planned("a")]).task.options))),
    ("journal", fact(e.StepHeld("nobody"))),
    ("header", header(head="c99")),
    ("header", header(spent_micros=5)),
    ("header", header(seq=1)),
    ("refold", header(priority=9)),
    ("refold", put("run", reason="made up")),
    ("refold", put("early", result={"x": 1})),
    ("rows", put("run", failures=3)),
    ("rows", put("run", attempt=7)),
    ("rows", put("run", losses=1)),
    ("rows", put("fix", rounds=2)),
    ("rows", put("fix", run=5)),
    ("counters", count("ready")),
    ("counters", count("untold")),
    ("counters", count("weight_done", -1)),
    ("counters", put("last", state=S.READY)),
    ("recount", put("last", blockers=2)),
    ("recount", put("skip", vetoes=0)),
    ("recount", put("gate.2", omits=1)),
    ("recount", put("early", told=Verdict.NONE)),
    ("final", put("early", told=Verdict.OMIT)),
    ("final", put("run", telling=Verdict.OK)),
    ("state", put("last", blockers=0)),
    ("state", put("last", vetoes=1)),
    ("state", put("last", state=S.READY)),
    ("state", put("skip", state=S.BLOCKED)),
    ("state", put("gate.3", state=S.READY)),
    ("gates", count("gates")),
    ("cycle", edge("last", "early")),
    ("edge", edge("last", "nobody")),
    ("edge", edge("early", "gate.1")),
    ("edge", edge("fix.fix.1", "last")),
    ("ended", header(state=TaskState.COMPLETED)),
    ("ended", header(doomed=True)),
    ("pauses", header(pauses=1)),
    ("pauses", header(state=TaskState.PAUSED)),
    ("parallel", header(parallel=0)),
    ("lease", lose_the_lease),
    ("lease", lease_for_a_ready_step),
    ("lease", lease(attempt=9)),
    ("lease", lease(worker="w9")),
    ("lease", lease(due_at=10**15)),
    ("waiting", missed_signal),
    ("waiting", lose_the_wait),
    ("waiting", wait_for_another),
    ("waiting", put("wait", question={})),
    ("waiting", put("run", waiting_for=WaitingFor.CI)),
    ("window", narrow_window),
    ("items", lose_an_item),
    ("items", put("each", items_next=4)),
    ("items", put("each", items_ended=2)),
    ("items", put("each[1]", item=0)),
    ("weights", put("each", weight=100)),
    ("weights", put("each[0]", weight=7)),
    ("weights", put("gate.1", weight=1)),
    ("owned", end_the_owner),
    ("skip", put("run", benign=True)),
    ("law", fact(e.StepUnblocked("early"))),
    ("law", fact(e.StepCompleted("last", 0))),
    ("law", fact(e.GateOpened("last"))),
    ("law", fact(e.TaskResumed())),
    ("final", fact(e.StepRestored("unwanted", by="ann"))),
    ("after the end", fact(e.TaskCompleted(), e.StepSkipped("last"))),
    ("ended", fact(e.TaskCompleted())),
    ("closing", fact(e.CancelRequested("ann"), e.GateOpened("gate.2"))),
    ("closing", fact(e.CancelRequested("ann"), e.FixRequested("run", 1, 1, "no"))),
    ("closing", fact(e.CancelRequested("ann"), e.StepUnblocked("last"))),
    ("fence", fact(e.StepCompleted("run", 2))),
    ("fence", changed(e.StepClaimed, attempt=2)),
    ("claim", claimed_early),
    ("claim", changed(e.StepClaimed, base="c0")),
    ("claim", fact(e.TaskPaused(), e.StepClaimed("fix.fix.1", 1, "w1", "c1"))),
    ("claim", fact(e.BudgetExceeded("active"), e.StepClaimed("fix.fix.1", 1, "w1", "c1"))),
    ("merge", lose_the_code),
    ("merge", fact(e.StepDelivered("run", 1, "c0"), e.StepMerged("run", "c0"))),
    ("growth", fact(e.StepsAdded((e.NewStep("x", Kind.RUN),), (Edge("x", "run"),)))),
    ("growth", fact(e.StepsAdded((e.NewStep("x", Kind.RUN),), (Edge("x", "early"),)))),
    ("growth", fact(e.StepsAdded((e.NewStep("early", Kind.RUN),)))),
    ("signal", fact(e.StepWoken("wait", {"signal": "go"}, seen=4))),
]


def test_a_healthy_task_has_no_violations():
    assert busy().violations() == []
    assert {row.role for row in busy().rows.values()} == {Role.OWN, Role.FIX, Role.ITEM}


@pytest.mark.parametrize(("rule", "breaks"), BROKEN)
def test_the_oracle_finds_what_is_broken(rule, breaks):
    play = busy()
    breaks(play)
    assert rule in {violation.rule for violation in play.violations()}


@pytest.mark.parametrize(("outcome", "breaks"), [
    (None, put("b", state=S.SKIPPED, because="a")),
    (None, put("b", state=S.SKIPPED, benign=True)),
    (None, put("c", state=S.SKIPPED)),
    (None, put("gate.1", state=S.SKIPPED)),
    (Failed("boom"), put("b", state=S.COMPLETED)),
    (Failed("boom"), put("b", state=S.FAILED)),
    (Failed("boom"), put("b", benign=True)),
    (Failed("boom"), put("gate.1", state=S.COMPLETED)),
])  # fmt: skip
def test_each_end_follows_from_the_ends_before_it(outcome, breaks):
    play = ended(outcome)
    breaks(play)
    assert "fixpoint" in {violation.rule for violation in play.violations()}


def test_a_claim_whose_base_lacks_what_it_needs_is_found():
    play = Play([planned("a", spec=3), planned("x", needs=["a"], spec=3), planned("b", needs=["a", "x"])], specs=SPECS)
    play.drain()
    lose_the_code(play)
    assert "claim" in {violation.rule for violation in play.violations()}


def test_without_a_repository_nothing_is_said_about_code():
    play = busy()
    lose_the_code(play)
    leases, waits = list(play.leases.values()), list(play.waits.values())
    assert audit(play.task, play.rows, play.edges, play.events, leases, (), play.specs, waits=waits) == []


def test_an_empty_journal_is_a_violation_and_no_crash():
    play = busy()
    play.events.clear()
    assert "journal" in {violation.rule for violation in play.violations()}
