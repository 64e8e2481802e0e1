"""Callbacks of calls: each counts once, for the run that it answers, and a late one is told so.  On every database."""

from __future__ import annotations

import pytest

from longtask.boot import Language
from longtask.core.errors import BadPlan, Refused
from longtask.core.events import NewStep, StepFailed, StepParked, StepRestored, StepWoken
from longtask.core.graph import Graph, Planned
from longtask.core.model import Kind, StepSpec, StepState, TaskOptions, WaitingFor
from longtask.engine.desk import Desk
from longtask.engine.notices import Notices
from longtask.engine.scope import Scopes
from longtask.store.contract import Ref
from tests.conformance.play import act, claim, complete, ready, submit

SPECS = (StepSpec(Kind.CALL, {"url": "https://x"}), StepSpec(Kind.WAIT, {"signal": "ci.completed", "match": {}}))
KEY = {"key": "k"}


@pytest.fixture
def desk(store) -> Desk:
    ids = iter(f"0190{n:028d}" for n in range(1_000_000))
    return Desk(store, Scopes(store, lambda *_: None), Language(), lambda: next(ids))


def calling(store, number=1, name="a", **more) -> str:
    return submit(store, number, [NewStep(name, Kind.CALL, ready=True)], specs=SPECS, **more)


def park(store, id_, key="a", **more):
    attempt = store.get_step(Ref(id_, key)).attempt
    question = {"name": "callback", "match": KEY}
    act(store, id_, StepParked(key, attempt, WaitingFor.EVENT, question, **more))


def test_a_callback_wakes_the_step_that_waits_for_it(store, desk):
    id_ = calling(store)
    claim(store, id_, "a")
    park(store, id_)
    signal, new = desk.call_back(Ref(id_, "a"), 1, "callback", {**KEY, "body": 7})
    step = store.get_step(Ref(id_, "a"))
    assert new and step.state is StepState.READY
    assert step.cause == {"signal": "callback", "number": signal.number, "payload": {**KEY, "body": 7}}


def test_a_second_callback_is_answered_with_the_first(store, desk):
    id_ = calling(store)
    claim(store, id_, "a")
    park(store, id_)
    first, _ = desk.call_back(Ref(id_, "a"), 1, "callback", {**KEY, "body": 7})
    again, new = desk.call_back(Ref(id_, "a"), 1, "callback", {**KEY, "body": 8})
    assert again == first and not new and again.payload["body"] == 7
    claim(store, id_, "a")
    act(store, id_, StepFailed("a", "other things", 2))
    assert desk.call_back(Ref(id_, "a"), 1, "callback", KEY) == (first, False), "also when all is over"


def test_a_callback_before_the_step_has_parked_is_kept(store, desk):
    id_ = calling(store)
    claim(store, id_, "a")
    _, new = desk.call_back(Ref(id_, "a"), 1, "callback", {**KEY, "body": 7})
    assert new and store.get_step(Ref(id_, "a")).state is StepState.RUNNING
    with store.task(id_) as tx:
        assert [signal.payload["body"] for signal in tx.signals("callback", 0, 9)] == [7]


def test_a_callback_after_the_end_comes_too_late_and_leaves_nothing(store, desk):
    id_ = submit(store, 1, [NewStep(key, Kind.CALL, ready=True) for key in ("a", "b")], specs=SPECS)
    claim(store, id_, "a")
    park(store, id_, due_at=5)
    act(store, id_, StepFailed("a", "deadline"))
    with pytest.raises(Refused, match="step 'a' is failed: the answer to the call of run 1 comes too late"):
        desk.call_back(Ref(id_, "a"), 1, "callback", KEY)
    assert store.inbox(id_, 0, 9) == []
    act(store, id_, StepRestored("a", by="ann"))
    with pytest.raises(Refused, match="step 'a' is in run 2: the answer to the call of run 1 comes too late"):
        desk.call_back(Ref(id_, "a"), 1, "callback", KEY)
    assert desk.call_back(Ref(id_, "a"), 2, "callback", KEY)[1]


def test_a_callback_between_the_deadline_and_the_last_look_is_in_time(store, desk):
    id_ = calling(store)
    claim(store, id_, "a")
    park(store, id_, due_at=5)
    act(store, id_, StepWoken("a", {"deadline": True}))
    assert desk.call_back(Ref(id_, "a"), 1, "callback", KEY)[1]


def test_a_callback_that_no_inbox_holds_is_refused(store, desk):
    id_ = calling(store)
    for payload in ({"body": "x" * 70_000}, {"body": float("nan")}):
        with pytest.raises(BadPlan):
            desk.call_back(Ref(id_, "a"), 1, "callback", payload)


# --- signals to a workspace ---------------------------------------------------------------------------------------


def waiting(store, number, workspace_id="w") -> str:
    id_ = submit(store, number, [NewStep("ci", Kind.WAIT, spec=1, ready=True)], specs=SPECS, workspace_id=workspace_id)
    claim(store, id_, "ci")
    question = {"name": "ci.completed", "match": {"sha": f"sha-{number % 3}"}}
    act(store, id_, StepParked("ci", 1, WaitingFor.CI, question))
    return id_


def test_a_signal_to_a_workspace_reaches_every_open_task_of_it_once(store, desk):
    ids = [waiting(store, n, "w" if n < 6 else "v") for n in range(1, 9)]
    over = submit(store, 9, ready("a"), workspace_id="w")
    complete(store, over, "a")
    assert store.get_task(over).ended
    notices = Notices(store, desk)
    notice, new = notices.put("w", "ci.completed", {"sha": "sha-2"}, delivery="github:1", sender="github")
    assert new and [len(store.inbox(id_, 0, 9)) for id_ in ids] == [0] * 8
    assert notices.tick(2) == 2 and store.open_notices(9) != []
    assert notices.tick() == 3 and notices.tick() == 0 and store.open_notices(9) == []
    assert [len(store.inbox(id_, 0, 9)) for id_ in (*ids, over)] == [1, 1, 1, 1, 1, 0, 0, 0, 0]
    states = {id_: store.get_step(Ref(id_, "ci")).state for id_ in ids}
    assert [id_ for id_, state in states.items() if state is StepState.READY] == [ids[1], ids[4]]
    again, new = notices.put("w", "ci.completed", {"sha": "sha-1"}, delivery="github:1", sender="github")
    assert not new and again.n == notice.n and notices.tick() == 0


def test_a_copy_that_broke_off_goes_on_and_is_kept_once(store, desk):
    ids = [waiting(store, n) for n in range(1, 4)]
    notices = Notices(store, desk)
    notices.put("w", "ci.completed", {"sha": "x"}, delivery="d", sender="github")
    desk.signal(ids[0], "ci.completed", {"sha": "x"}, delivery="d", sender="github")  # and then it was killed
    assert notices.tick() == 3
    assert [len(store.inbox(id_, 0, 9)) for id_ in ids] == [1, 1, 1]


def test_without_open_tasks_a_notice_is_done_at_once(store, desk):
    notices = Notices(store, desk)
    notices.put("w", "ci.completed", {}, delivery="d")
    assert notices.tick() == 0 and store.open_notices(9) == []


def test_a_later_task_does_not_get_an_earlier_notice(store, desk):
    notices = Notices(store, desk)
    notices.put("", "ci.completed", {}, delivery="d")
    assert notices.tick() == 0
    id_ = waiting(store, 1)
    assert notices.tick() == 0 and store.inbox(id_, 0, 9) == []


def test_a_graph_with_a_call_is_claimed_from_its_pool_and_not_by_schedulers(desk, store):
    graph = Graph("x", TaskOptions(), SPECS[:1], (Planned("a", Kind.CALL, 1, 0, (), pool="inside"),))
    task = desk.submit(graph)
    assert store.get_step(Ref(task.id, "a")).pool == "inside"
