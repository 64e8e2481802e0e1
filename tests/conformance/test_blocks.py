"""Blocks and groups: all or nothing, and what a block reads."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtask.core.change import ArtifactRow, Change, WaitRow
from longtask.core.errors import NotFound, Refused, StoreError
from longtask.core.events import FixRequested, StepClaimed, StepCompleted, StepsAdded, TaskPaused, TaskSubmitted
from longtask.core.machine import fold, untold
from longtask.core.model import Edge, Kind, Lease, Role, Step, StepSpec, StepState, Tally, Task, TaskOptions, TaskState
from longtask.store.contract import Ref
from tests.conformance.databases import DATABASES, Clock
from tests.conformance.play import act, blocked, claim, complete, ready, settle, submit, task_id
from tests.core.values import NAMES, of_class


class Crash(BaseException):
    """A simulated death of the process."""


class FaultAt:
    def __init__(self) -> None:
        self.point = ""
        self.seen: list[str] = []

    def __call__(self, point: str) -> None:
        self.seen.append(point)
        if point == self.point:
            self.point = ""
            raise Crash(point)


def test_a_block_writes_header_step_and_event_together(store, clock):
    id_ = submit(store, 1, ready("a", "b"))
    clock.forward(5)
    act(store, id_, StepClaimed("a", 1, "w-1"), actor="ann", op="op-1")
    task = store.get_task(id_)
    assert (task.seq, task.counts.running, task.counts.ready, task.served_at) == (2, 1, 1, clock.at)
    step = store.get_step(Ref(id_, "a"))
    assert (step.state, step.attempt, step.worker) == (StepState.RUNNING, 1, "w-1")
    event = store.events(id_, 1, 10)[0]
    assert (event.seq, event.at, event.fact, event.actor) == (2, clock.at, StepClaimed("a", 1, "w-1"), "ann")
    assert store.leases(id_, 5) == [Lease(id_, "a", 1, "w-1", clock.at + 15_000)]


def test_a_block_left_by_an_exception_writes_nothing(store):
    id_ = submit(store, 1, ready("a"))
    with pytest.raises(Refused, match="not now"), store.task(id_) as tx:
        tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
        raise Refused("not now")
    assert store.get_task(id_).state is TaskState.ACTIVE
    act(store, id_, TaskPaused())
    assert store.get_task(id_).state is TaskState.PAUSED


def test_a_block_that_saves_nothing_writes_nothing(store):
    id_ = submit(store, 1, ready("a"))
    with store.task(id_) as tx:
        assert tx.step("a").state is StepState.READY
    assert store.get_task(id_).seq == 1


def test_a_task_or_step_that_is_not_there_is_told(store):
    with pytest.raises(NotFound, match="no task 'nowhere'"), store.task("nowhere"):
        pass
    id_ = submit(store, 1, ready("a"))
    with pytest.raises(NotFound, match="has no step 'b'"), store.task(id_, "b") as tx:
        tx.step("b")
    with store.task(id_) as tx:
        assert set(tx.steps(["a", "b"])) == {"a"}
        assert tx.steps([]) == {}
        with pytest.raises(NotFound, match="no spec 7"):
            tx.spec(7)


def test_nobody_locks_two_tasks(store):
    id_, other = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    with pytest.raises(AssertionError, match="two tasks"), store.task(id_), store.task(other):
        pass
    with store.task(id_) as tx:
        assert tx.task.id == id_


def test_a_block_saves_once(store):
    id_ = submit(store, 1, ready("a"))
    with pytest.raises(AssertionError, match="saves once"), store.task(id_) as tx:
        change = fold(tx.task, {}, [TaskPaused()], tx.now)
        tx.save(change)
        tx.save(change)
    assert store.get_task(id_).state is TaskState.ACTIVE


def test_the_store_numbers_tasks_and_the_fact_says_so(store):
    first, second = submit(store, 1, ready("a"), name="x"), submit(store, 2, ready("a"), name="x")
    assert [store.get_task(id_).number for id_ in (first, second)] == [1, 2]
    facts = [store.events(id_, 0, 1)[0].fact for id_ in (first, second)]
    assert [fact.number for fact in facts if isinstance(fact, TaskSubmitted)] == [1, 2]
    assert store.get_task("x-2").id == second


def test_a_task_is_created_once(store):
    submit(store, 1, ready("a"), idempotency_key="k")
    with pytest.raises(Refused, match=r"task '018bcfe5-0001.*' is there already"):
        submit(store, 1, ready("a"))
    with pytest.raises(Refused, match=r"idempotency key 'k' belongs to task '018bcfe5-0001"):
        submit(store, 2, ready("a"), idempotency_key="k")
    assert store.get_task("@last").id == task_id(1)


def test_events_have_no_gap_and_the_operation_stands_on_the_first(store):
    id_ = submit(store, 1, ready("a", "b"))
    act(store, id_, StepClaimed("a", 1, "w"), StepClaimed("b", 1, "w"), op="twice")
    act(store, id_, StepCompleted("a", 1))
    events = store.events(id_, 0, 10)
    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert [event.op for event in events] == [None, "twice", None, None]
    with store.task(id_) as tx:
        assert tx.done_op("twice")
        assert not tx.done_op("never")


def test_growth_brings_steps_edges_and_specs(store):
    id_ = submit(store, 1, (*ready("a"), blocked("gate.1", kind=Kind.GATE)), [Edge("a", "gate.1")])
    new = StepSpec(Kind.AGENT, body={"prompt": "p"}, reads=("a",))
    act(store, id_, StepsAdded(ready("b", spec=1), (Edge("b", "gate.1"),), (new,), first_spec=1))
    assert store.edges(id_, ("", ""), 10) == [("a", "gate.1"), ("b", "gate.1")]
    assert store.needs(Ref(id_, "gate.1"), 10) == ["a", "b"]
    assert store.get_step(Ref(id_, "gate.1")).blockers == 2
    assert store.spec(id_, 1) == new
    with store.task(id_) as tx:
        assert tx.spec(1) == new
        assert [step.key for step in tx.dependents("a", "", 10)] == ["gate.1"]
        assert tx.dependents("a", "gate.1", 10) == []


def test_dependents_come_by_key_in_passes(store):
    steps = [blocked(f"d{i}") for i in range(5)]
    id_ = submit(store, 1, (*ready("a"), *steps), [Edge("a", step.key) for step in steps])
    with store.task(id_, "a") as tx:
        assert [step.key for step in tx.dependents("a", "", 2)] == ["d0", "d1"]
        assert [step.key for step in tx.dependents("a", "d1", 9)] == ["d2", "d3", "d4"]
        with pytest.raises(AssertionError, match="above zero"):
            tx.dependents("a", "", 0)


def test_what_a_group_reads_ahead_is_what_its_blocks_would_read(store):
    one = submit(store, 1, (*ready("a"), blocked("b"), blocked("c")), [Edge("a", "b"), Edge("a", "c")])
    two = submit(store, 2, ready("a"), specs=(StepSpec(Kind.RUN, {"command": "two"}),))
    claim(store, one, "a")
    with store.group():
        store.ahead([Ref(one, "a"), Ref(two, "a"), Ref(one, "b"), Ref(task_id(9), "a"), Ref(two, "x")], 3)
        with store.task(one, "a", 3) as tx:
            assert (tx.task, tx.step("a")) == (store.get_task(one), store.get_step(Ref(one, "a")))
            assert tx.lease("a").worker == "w-1"
            assert [step.key for step in tx.dependents("a", "", 3)] == ["b", "c"]
            assert [step.key for step in tx.dependents("a", "", 1)] == ["b"]
            tx.save(fold(tx.task, {}, [TaskPaused()], tx.now))
        with store.task(one, "a", 3) as tx:
            assert tx.task.state is TaskState.PAUSED, "what an earlier block of the group wrote is seen"
        with store.task(two, "a") as tx:
            assert tx.spec(tx.step("a").spec).body == {"command": "two"}
        with pytest.raises(NotFound), store.task(task_id(9), "a"):
            pass
    assert [store.get_task(id_).state for id_ in (one, two)] == [TaskState.PAUSED, TaskState.ACTIVE]


def test_owned_steps_are_found_while_they_are_open(store):
    id_ = submit(store, 1, ready("a"))
    claim(store, id_, "a")
    fix = ready("a.fix.1", role=Role.FIX, owner="a")
    act(store, id_, FixRequested("a", 1, 1, "red"), StepsAdded(fix, (Edge("a.fix.1", "a"),)))
    with store.task(id_) as tx:
        assert [step.key for step in tx.owned_open("a", 5)] == ["a.fix.1"]
    complete(store, id_, "a.fix.1")
    with store.task(id_) as tx:
        assert tx.owned_open("a", 5) == []


def test_ready_steps_come_earliest_first(store, clock):
    id_ = submit(store, 1, (*ready("b", "a"), *ready("slow", pool="gpu")))
    with store.task(id_) as tx:
        later = {"a": tx.step("a")._replace(due_at=clock.at - 1), "b": tx.step("b")._replace(due_at=clock.at + 1)}
        tx.save(fold(tx.task, tx.steps(["a", "b"]), [], tx.now, later))
    with store.task(id_) as tx:
        assert [step.key for step in tx.ready("default", 5)] == ["a"]
        assert [step.key for step in tx.ready("gpu", 5)] == ["slow"]
    clock.forward(1)
    with store.task(id_) as tx:
        assert [step.key for step in tx.ready("default", 5)] == ["a", "b"]


def test_what_a_closing_task_must_sweep(store):
    id_ = submit(store, 1, (*ready("ended", "heard", "running", "stopping", "waits"), blocked("z")))
    for key in ("ended", "heard", "running", "stopping"):
        claim(store, id_, key)
    act(store, id_, StepCompleted("ended", 1))
    complete_now = [StepCompleted("heard", 1)]
    act(store, id_, *complete_now)
    settle(store, id_, "heard")
    with store.task(id_) as tx:
        assert tx.unasked(10) == ["running", "stopping"] and tx.unasked(1) == ["running"]
        tx.save(Change(tx.task, {}, stops=(("stopping", "cancel"), ("running", "pause"))))
    with store.task(id_) as tx:
        assert sorted(step.key for step in tx.sweepable(10)) == ["ended", "running", "waits", "z"]
        assert [step.key for step in tx.running(10)] == ["running", "stopping"]
        assert tx.unasked(10) == []
        lease = tx.lease("stopping")
        assert lease is not None and lease.stop == "cancel"
        assert tx.lease("waits") is None


def test_completed_items_of_all_expansions(store):
    new = [ready(f"f[{i}]", role=Role.ITEM, owner="f", item=i)[0] for i in range(3)]
    again = ready("f[1]~2", role=Role.ITEM, owner="f", item=1, expansion=1)
    id_ = submit(store, 1, (*ready("f"), *new, *again))
    complete(store, id_, "f[0]")
    complete(store, id_, "f[1]~2")
    with store.task(id_) as tx:
        assert tx.completed_items("f", -1, 10) == [0, 1]
        assert tx.completed_items("f", 0, 10) == [1]
    assert [step.key for step in store.items(Ref(id_, "f"), -1, 10)] == ["f[0]", "f[1]~2", "f[2]"]
    assert [step.key for step in store.items(Ref(id_, "f"), 1, 10)] == ["f[2]"]


def test_items_that_earlier_expansions_have_completed_are_counted(store):
    first = [ready(f"f[{i}]", role=Role.ITEM, owner="f", item=i, expansion=1)[0] for i in range(3)]
    again = ready("f[1]~2", role=Role.ITEM, owner="f", item=1, expansion=2)
    id_ = submit(store, 1, (*ready("f", expansion=2), *ready("g", expansion=2), *first, *again))
    for key in ("f[0]", "f[2]", "f[1]~2"):
        complete(store, id_, key)
    assert [store.items_passed(Ref(id_, key)) for key in ("f", "g", "no")] == [2, 0, 0]


def test_signals_are_numbered_and_found_by_name_and_delivery(store, clock):
    id_ = submit(store, 1, ready("a"))
    with store.task(id_) as tx:
        assert tx.add_signal("ci", "d-1", {"ok": True}, "ann").number == 1
        assert tx.add_signal("mail", "d-2", {}, "").number == 2
    with store.task(id_) as tx:
        assert tx.add_signal("ci", "d-3", {"ok": False}, "").number == 3
        assert [signal.delivery for signal in tx.signals("ci", 0, 5)] == ["d-1"], "reads show the block's beginning"
    with store.task(id_) as tx:
        assert [signal.delivery for signal in tx.signals("ci", 1, 5)] == ["d-3"]
        first = tx.delivered("d-1")
        assert first is not None
        assert (first.number, first.payload, first.sender, first.at) == (1, {"ok": True}, "ann", clock.at)
        assert tx.delivered("d-9") is None
    assert [signal.name for signal in store.inbox(id_, 1, 5)] == ["mail", "ci"]
    assert store.get_task(id_).seq == 1, "a signal that wakes nobody is no event"


def test_waiters_are_found_by_the_name_that_they_wait_for(store):
    id_ = submit(store, 1, ready("a", "b"))
    with store.task(id_) as tx:
        tx.save(Change(tx.task, {}, waits_opened=(WaitRow("a", 1, "ci"), WaitRow("b", 1, "ci"), WaitRow("b", 1, "x"))))
    with store.task(id_) as tx:
        assert [step.key for step in tx.waiters("ci", "", 5)] == ["a", "b"]
        assert [step.key for step in tx.waiters("ci", "a", 5)] == ["b"]
        tx.save(Change(tx.task, {}, waits_closed=("b",), waits_opened=(WaitRow("b", 2, "ci"),)))
    with store.task(id_) as tx:
        assert [step.key for step in tx.waiters("ci", "", 5)] == ["a", "b"]
        assert tx.waiters("x", "", 5) == []


def test_artifacts_of_accepted_outcomes(store, clock):
    id_ = submit(store, 1, ready("a"))
    content = {"name": "p.diff", "digest": "ab", "size_bytes": 3, "media_type": "text/x-diff"}
    odd = {"name": "\udcff", "digest": "cd", "size_bytes": 0}
    with store.task(id_) as tx:
        tx.save(Change(tx.task, {}, artifacts=(ArtifactRow("a", 1, content), ArtifactRow("a", 1, odd))))
    first, second = store.artifacts(id_, 5)
    assert (first.task_id, first.step, first.attempt, first.name, first.digest) == (id_, "a", 1, "p.diff", "ab")
    assert (first.size_bytes, first.media_type, first.at) == (3, "text/x-diff", clock.at)
    assert second.digest == "cd" and "�" in second.name


def test_named_artifacts_are_found_among_thousands_that_attempts_left_by_the_way(store):
    id_ = submit(store, 1, ready("a"))
    names = ["output/a.1.txt", "leftovers/a.1.patch", "transcript/a.1.jsonl", "outputs", "failures/x.json", "all.patch"]
    rows = tuple(ArtifactRow("a", 1, {"name": name, "digest": "ab", "size_bytes": 3}) for name in names)
    with store.task(id_) as tx:
        tx.save(Change(tx.task, {}, artifacts=rows))
    assert [entry.name for entry in store.artifacts(id_, 3, named=True)] == ["outputs", "failures/x.json", "all.patch"]


# --- groups -------------------------------------------------------------------------------------------------------


def test_blocks_of_a_group_see_each_others_writes(store):
    with store.group():
        id_ = submit(store, 1, ready("a"))
        act(store, id_, TaskPaused())
        with store.task(id_) as tx:
            assert tx.task.state is TaskState.PAUSED
        assert store.get_task(id_).state is TaskState.PAUSED
    assert store.get_task(id_).state is TaskState.PAUSED


def test_a_group_left_by_an_exception_writes_nothing(store):
    id_ = submit(store, 1, ready("a"))
    with pytest.raises(Refused), store.group():
        act(store, id_, TaskPaused())
        submit(store, 2, ready("a"))
        raise Refused("no")
    assert store.get_task(id_).state is TaskState.ACTIVE
    newest = store.get_task(submit(store, 3, ready("a")))
    assert newest.number > 1, "a number that a lost block took may stay unused, and is never given out twice"
    assert store.get_task(f"play-{newest.number}") == newest == store.get_task("@last")


def test_a_refused_block_does_not_hurt_its_group(store):
    id_ = submit(store, 1, ready("a", "b"))
    with store.group():
        act(store, id_, StepClaimed("a", 1, "w"))
        with pytest.raises(Refused), store.task(id_):
            raise Refused("no")
        act(store, id_, StepClaimed("b", 1, "w"))
    assert store.get_task(id_).counts.running == 2


def test_an_empty_group_is_fine(store):
    with store.group():
        pass
    with store.group():
        assert store.claimable("default", 1) == []


def test_what_is_handed_in_is_written_or_nothing_of_it(store):
    assert store.together(lambda: submit(store, 1, ready("a"))) == store.get_task("@last").id

    def half() -> None:
        submit(store, 2, ready("a"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.together(half)
    assert store.get_task("@last").number == 1
    assert store.together(lambda: store.claimable("default", 1)) != []


def test_groups_do_not_nest(store):
    with pytest.raises(AssertionError, match="group"), store.group(), store.group():
        pass
    submit(store, 1, ready("a"))


def test_a_failed_write_loses_its_whole_group(open_store):
    fault = FaultAt()
    store = open_store(fault=fault)
    id_ = submit(store, 1, ready("a", "b"))
    with pytest.raises(Crash), store.group():
        act(store, id_, StepClaimed("a", 1, "w"))
        fault.point = "written"
        with pytest.raises(Crash):
            act(store, id_, StepClaimed("b", 1, "w"))
        with pytest.raises(StoreError, match="this group was rolled back"):
            act(store, id_, TaskPaused())
    assert store.get_task(id_).counts.running == 0
    act(store, id_, StepClaimed("b", 1, "w"))


@pytest.mark.parametrize("point", ["begin", "locked", "written", "commit"])
@pytest.mark.parametrize("grouped", [False, True])
def test_dying_at_the_commit_or_before_leaves_nothing(open_store, point, grouped):
    fault = FaultAt()
    store = open_store(fault=fault)
    id_ = submit(store, 1, ready("a"))
    fault.point = point
    with pytest.raises(Crash):
        if grouped:
            with store.group():
                act(store, id_, StepClaimed("a", 1, "w"))
        else:
            act(store, id_, StepClaimed("a", 1, "w"))
    assert (store.get_task(id_).seq, store.leases(id_, 5)) == (1, [])
    act(store, id_, StepClaimed("a", 1, "w"))
    assert store.get_task(id_).seq == 2


@pytest.mark.parametrize("grouped", [False, True])
def test_dying_after_the_commit_leaves_everything(open_store, grouped):
    fault = FaultAt()
    store = open_store(fault=fault)
    id_ = submit(store, 1, ready("a"))
    fault.point = "committed"
    with pytest.raises(Crash):
        if grouped:
            with store.group():
                act(store, id_, StepClaimed("a", 1, "w"))
        else:
            act(store, id_, StepClaimed("a", 1, "w"))
    assert (store.get_task(id_).seq, len(store.leases(id_, 5))) == (2, 1)


def test_dying_between_a_groups_release_and_its_commit_leaves_nothing(open_store):
    fault = FaultAt()
    store = open_store(fault=fault)
    id_ = submit(store, 1, ready("a", "b"))
    fault.point, fault.seen = "group.release", []
    with pytest.raises(Crash), store.group():
        act(store, id_, StepClaimed("a", 1, "w"))
    assert fault.seen == ["begin", "locked", "written", "group.release"]
    assert store.get_task(id_).seq == 1


def test_what_a_lost_group_read_is_forgotten(open_store):
    """A spec that was never committed must not be remembered under its number."""
    fault = FaultAt()
    store = open_store(fault=fault)
    id_ = submit(store, 1, ready("a"))
    fault.point = "commit"
    with pytest.raises(Crash), store.group():
        act(store, id_, StepsAdded(ready("b", spec=1), specs=(StepSpec(Kind.WAIT),), first_spec=1))
        assert store.spec(id_, 1).kind is Kind.WAIT
    act(store, id_, StepsAdded(ready("b", spec=1), specs=(StepSpec(Kind.CALL),), first_spec=1))
    assert store.spec(id_, 1).kind is Kind.CALL


def test_a_row_of_a_newer_version_is_told(store):
    id_ = submit(store, 1, ready("a"))
    with store.task(id_, "a") as tx:
        tx.save(Change(tx.task, {"a": tx.step("a")._replace(waiting_for="moon")}))
    with pytest.raises(StoreError, match=r"stored WaitingFor 'moon' is not known: a newer version wrote it; upgrade"):
        store.get_step(Ref(id_, "a"))


# --- rows ---------------------------------------------------------------------------------------------------------

COUNT = st.integers(0, 2**31 - 1)
SOME_STEP = of_class(Step, key=NAMES, owner=NAMES | st.none(), worker=NAMES | st.none(), base=NAMES | st.none(),
                     pool=NAMES, item=st.none() | st.integers(0, 9), stage=COUNT, spec=COUNT, expansion=COUNT,
                     attempt=COUNT)  # fmt: skip
SOME_TASK = of_class(Task, text=NAMES, options=st.just(TaskOptions()), seq=st.integers(0, 2**31 - 2), priority=COUNT,
                     counts=st.builds(Tally, *[COUNT for _ in Tally._fields]))  # fmt: skip


@pytest.mark.parametrize("database", sorted(DATABASES))
@given(step=SOME_STEP, after=SOME_STEP, task=SOME_TASK)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_row_comes_back_as_it_was(database, step, after, task, tmp_path_factory):
    store = DATABASES[database](tmp_path_factory.mktemp("rows"), Clock())
    with store.create(task.id) as tx:
        tx.save(Change(task, {step.key: step}, created=True, added=frozenset({step.key})))
    assert store.get_task(task.id) == task._replace(number=1)
    with store.task(task.id, step.key) as tx:
        assert tx.task == task._replace(number=1)
        assert tx.step(step.key) == step
        kept = {name: getattr(step, name) for name in ("key", "kind", "stage", "owner", "item", "pool")}
        moved = after._replace(**kept)
        tx.save(Change(task._replace(seq=task.seq + 1), {step.key: moved}))
    assert store.get_step(Ref(task.id, step.key)) == moved
    refs = store.unsettled(1)
    assert refs == ([Ref(task.id, step.key)] if untold(moved) and task.state is not TaskState.CLOSING else [])
    store.close()
