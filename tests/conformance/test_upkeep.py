"""Taking away what nobody needs: bytes that no fact names, tasks that ended long ago, and never anything else."""

import threading

import pytest

from longtask.core.change import ArtifactRow, Change
from longtask.core.errors import NotFound
from longtask.core.events import NewStep, StepCompleted
from longtask.core.model import Edge, Kind, StepState, Task, TaskState
from longtask.store.contract import BLOB_CONDEMNED_MS, BLOB_UNUSED_MS, Chunk, JournalRow, Pruned, Ref, Store
from tests.conformance.play import act, blocked, claim, ready, submit
from tests.conformance.test_blocks import Crash, FaultAt

DIGEST, OTHER = "ab" * 32, "cd" * 32
FOREVER = 2**62
LOCK_MS = 1_000


def name(store: Store, id_: str, digest: str) -> None:
    """An accepted outcome names an artifact."""
    kept = {"name": "a.txt", "digest": digest, "size_bytes": 3, "media_type": "text/plain"}
    with store.task(id_) as tx:
        tx.save(Change(tx.task, {}, artifacts=(ArtifactRow("a", 1, kept),)))


def end(store: Store, id_: str, **more) -> Task:
    """Header fields as they are after some story that is not told here."""
    with store.task(id_) as tx:
        ended = tx.task._replace(state=TaskState.COMPLETED, ended_at=tx.now, **more)
        tx.save(Change(ended, {}))
    return ended


def ended_task(store: Store, number: int, **more) -> str:
    """With something in each table that a task of today fills."""
    id_ = submit(store, number, (*ready("a", "b"), blocked("c")), [Edge("a", "c")], **more)
    ref = claim(store, id_, "a")
    store.journal_done(ref, 1, 1, JournalRow(1, "turn", "m", "f", 1, {"text": "hello"}))
    store.put_output(ref, 1, [Chunk(n, "out", b"x" * 10) for n in range(1, 4)])
    store.tell_progress(ref, 1, 1, 2, "half")
    store.put_plan(id_, "plan: text")
    with store.task(id_) as tx:
        tx.add_signal("s", "d-1", {"x": 1}, "ann")
    act(store, id_, StepCompleted("a", 1, result={"n": 1}))
    name(store, id_, DIGEST)
    end(store, id_)
    return id_


def prune(store: Store, id_: str, number: int, rows_max: int = 500) -> int:
    """The whole of it; answers in how many batches."""
    batches = 0
    assert store.prune_task(id_, FOREVER)
    while store.prune_rows(number, rows_max, LOCK_MS):
        batches += 1
    while store.prune_output(id_, 2):
        pass
    store.end_pruning(number)
    return batches


def whole(store: Store, id_: str) -> tuple:
    """All that can be seen of a task."""
    return (
        store.get_task(id_), store.steps(id_, "", 99), store.edges(id_, ("", ""), 99), store.events(id_, 0, 99),
        store.inbox(id_, 0, 9), store.artifacts(id_, 9), store.get_plan(id_), store.output(Ref(id_, "a"), 1, 0, 9),
        store.journal(Ref(id_, "a"), 1), store.spec(id_, 0),
    )  # fmt: skip


# --- bytes ------------------------------------------------------------------------------------------------------------


def test_a_database_has_one_name_for_ever(open_store):
    store = open_store()
    assert store.identity() == store.identity() and len(store.identity()) == 36


def test_a_use_is_noted_and_bytes_unused_for_long_are_found_oldest_first(store, clock):
    assert store.use_blob("w", DIGEST, 3)
    clock.forward(10)
    assert store.use_blob("v", OTHER, 4)
    assert [blob[:3] for blob in store.stale_blobs(clock.at, 9)] == [("w", DIGEST, 3), ("v", OTHER, 4)]
    assert [blob.digest for blob in store.stale_blobs(clock.at - 1, 9)] == [DIGEST]
    assert len(store.stale_blobs(clock.at, 1)) == 1
    assert store.use_blob("w", DIGEST, 3)
    assert store.stale_blobs(clock.at - 1, 9) == []


def test_bytes_are_named_by_artifacts_of_their_workspace_only(store):
    id_ = submit(store, 1, ready("a"), workspace_id="w")
    name(store, id_, DIGEST)
    assert store.blob_named("w", DIGEST)
    assert not store.blob_named("v", DIGEST)
    assert not store.blob_named("w", OTHER)


def test_values_too_large_for_a_row_are_found_in_pages(store):
    for number, digest in ((1, DIGEST), (2, OTHER)):
        id_ = submit(store, number, ready("a", "b"), workspace_id="w")
        claim(store, id_, "a")
        act(store, id_, StepCompleted("a", 1, result={"$artifact": digest}))
        claim(store, id_, "b")
        act(store, id_, StepCompleted("b", 1, result={"n": "$artifact"}))
    assert store.stored_values((0, ""), 9) == ([("w", DIGEST), ("w", OTHER)], None)
    first, after = store.stored_values((0, ""), 1)
    assert first == [("w", DIGEST)] and after is not None
    found = list(first)
    while after is not None:
        page, after = store.stored_values(after, 1)
        found += page
    assert found == [("w", DIGEST), ("w", OTHER)]


def test_blocks_of_the_newest_session_of_open_steps_are_found_in_pages(store):
    for number, digests in ((1, [DIGEST]), (2, [DIGEST, OTHER])):
        steps = [NewStep(key, Kind.AGENT, weight=100, ready=True) for key in ("a", "b")]
        id_ = submit(store, number, steps, workspace_id="w")
        for step in ("a", "b"):
            claim(store, id_, step)
            for n, digest in enumerate([*digests, None], 1):
                body = {"text": "$session"} if digest is None else {"$session": {"cwd": "/x", "files": {"s": [digest]}}}
                assert store.journal_done(Ref(id_, step), 1, 1, JournalRow(n, "turn", "m", "f", 1, body))
        act(store, id_, StepCompleted("b", 1))
    assert store.kept_sessions((0, ""), 9) == ([("w", DIGEST), ("w", OTHER)], None)
    first, after = store.kept_sessions((0, ""), 1)
    assert first == [("w", DIGEST)] and after is not None
    assert store.kept_sessions(after, 9) == ([("w", OTHER)], None)


def test_bytes_go_row_first_and_the_row_goes_last(store, clock):
    store.use_blob("w", DIGEST, 3)
    clock.forward(BLOB_UNUSED_MS + 1)
    [blob] = store.stale_blobs(clock.at - BLOB_UNUSED_MS, 9)
    assert store.condemn_blob(blob, clock.at)
    assert not store.condemn_blob(blob, clock.at), "it is another's now"
    assert not store.use_blob("w", DIGEST, 3), "whoever puts them again waits"
    assert store.forget_blob("w", DIGEST, clock.at)
    assert store.stale_blobs(clock.at, 9) == []
    assert store.use_blob("w", DIGEST, 3)


def test_bytes_that_were_used_or_named_since_they_were_looked_at_are_not_condemned(store, clock):
    store.use_blob("w", DIGEST, 3)
    store.use_blob("w", OTHER, 3)
    clock.forward(1)
    used, named = sorted(store.stale_blobs(clock.at, 9), key=lambda blob: blob.digest)
    store.use_blob("w", DIGEST, 3)
    name(store, submit(store, 1, ready("a"), workspace_id="w"), OTHER)
    assert not store.condemn_blob(used, clock.at)
    assert not store.condemn_blob(named, clock.at)


def test_what_a_dead_collector_has_condemned_is_taken_over_by_whoever_needs_it(store, clock):
    store.use_blob("w", DIGEST, 3)
    clock.forward(1)
    [blob] = store.stale_blobs(clock.at, 9)
    at = clock.at
    assert store.condemn_blob(blob, at)
    clock.forward(BLOB_CONDEMNED_MS)
    assert not store.use_blob("w", DIGEST, 3)
    clock.forward(1)
    assert store.use_blob("w", DIGEST, 3)
    assert not store.forget_blob("w", DIGEST, at), "the dead one's last act comes too late"
    assert store.stale_blobs(clock.at, 9) != []


def test_what_a_dead_collector_has_condemned_is_collected_by_the_next(store, clock):
    store.use_blob("w", DIGEST, 3)
    clock.forward(1)
    [blob] = store.stale_blobs(clock.at, 9)
    assert store.condemn_blob(blob, clock.at)
    clock.forward(BLOB_CONDEMNED_MS + 1)
    [blob] = store.stale_blobs(0, 9)
    assert blob.used_at < 0
    assert store.condemn_blob(blob, clock.at)
    assert store.forget_blob("w", DIGEST, clock.at)


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_tasks_that_ended_are_found_those_first_that_ended_longest_ago(store, clock):
    third, first, second = (submit(store, n, ready("a")) for n in (1, 2, 3))
    submit(store, 4, ready("a"))  # open
    ends = []
    for id_ in (first, second, third):
        clock.forward(10)
        ends.append(end(store, id_))
    assert [task.id for task in store.prunable(clock.at, (0, 0), 9)] == [first, second, third]
    assert [task.id for task in store.prunable(clock.at - 1, (0, 0), 9)] == [first, second]
    assert [task.id for task in store.prunable(clock.at, (ends[0].ended_at, ends[0].number), 1)] == [second]


def test_a_task_goes_with_all_its_rows_and_nothing_of_another_one_goes(store, clock):
    kept = ended_task(store, 1)
    gone = ended_task(store, 2, workspace_id="w", idempotency_key="k")
    ended_task(store, 3)  # the newest event of all is not of the second
    before = whole(store, kept)
    number = store.get_task(gone).number
    prune(store, gone, number)
    for look in (store.get_task, lambda id_: store.events(id_, 0, 9), lambda id_: store.get_step(Ref(id_, "a"))):
        with pytest.raises(NotFound):
            look(gone)
    assert store.get_plan(gone) is None
    assert store.output(Ref(gone, "a"), 1, 0, 9) == []
    assert whole(store, kept) == before
    assert store.half_pruned(0, 9) == []
    assert not store.blob_named("w", DIGEST)
    assert store.task_by_key("k") is None
    assert store.prune_rows(number, 500, LOCK_MS) == 0
    again = submit(store, 2, ready("a"))
    assert store.get_task(again).number > number, "a number is never used again"


def test_from_the_first_moment_nobody_sees_a_task_that_goes(store, clock):
    gone, newer = ended_task(store, 1, workspace_id="w"), ended_task(store, 2)
    number = store.get_task(gone).number
    assert store.prune_task(gone, clock.at)
    assert store.half_pruned(0, 9) == [Pruned(number, gone, "w")]
    assert [task.id for task in store.tasks(open_only=False, workspace_id=None, before=0, limit=9)] == [newer]
    with pytest.raises(NotFound):
        store.get_task(gone)
    with pytest.raises(NotFound), store.task(gone):
        pass
    assert {event.task_id for event in store.feed("", 99)[0]} == {newer}
    assert {ref.task_id for ref in store.unsettled(9)} <= {newer}
    assert store.artifacts(gone, 9) == [] and store.steps(gone, "", 9) == []


def test_a_task_goes_in_bounded_batches(store, clock):
    id_ = submit(store, 1, ready(*(f"s{n:03}" for n in range(200))))
    submit(store, 2, ready("a"))
    end(store, id_)
    assert store.prune_task(id_, clock.at)
    batches = []
    while gone := store.prune_rows(1, 60, LOCK_MS):
        batches.append(gone)
    assert max(batches) == 60 and len(batches) >= 4
    store.end_pruning(1)
    assert store.half_pruned(0, 9) == []


def test_a_batch_ends_when_its_time_is_over(store, clock):
    id_ = submit(store, 1, ready(*(f"s{n:03}" for n in range(200))))
    submit(store, 2, ready("a"))
    end(store, id_)
    store.prune_task(id_, clock.at)
    assert 0 < store.prune_rows(1, 500, 0) <= 50


def test_what_is_open_or_has_ended_too_lately_or_was_taken_up_again_stays(store, clock):
    id_ = submit(store, 1, ready("a"))
    submit(store, 2, ready("a"))
    assert not store.prune_task(id_, FOREVER), "open"
    end(store, id_)
    assert not store.prune_task(id_, clock.at - 1), "too lately"
    with store.task(id_) as tx:
        tx.save(Change(tx.task._replace(state=TaskState.ACTIVE, ended_at=0), {}))
    assert not store.prune_task(id_, FOREVER), "taken up again"
    assert not store.prune_task("nowhere", FOREVER)
    assert store.get_step(Ref(id_, "a")).state is StepState.READY
    assert store.half_pruned(0, 9) == []


def test_a_parent_waits_for_its_children_and_children_do_not_go_alone(store, clock):
    parent = submit(store, 1, ready("a"))
    child = submit(store, 2, ready("a"), parent=parent)
    submit(store, 3, ready("a"))
    end(store, parent)
    clock.forward(1)
    assert store.prunable(clock.at, (0, 0), 9) == [], "its child is open"
    end(store, child)
    assert [task.id for task in store.prunable(clock.at, (0, 0), 9)] == [parent]
    assert not store.prune_task(parent, FOREVER), "its child is there"
    assert [task.id for task in store.children(parent, 9)] == [child]
    assert store.prune_task(child, FOREVER)
    assert store.prune_task(parent, FOREVER)


def test_the_newest_event_stays_where_numbers_of_events_could_come_again(store, clock):
    """A reader of the feed must never be given a number a second time."""
    ended_task(store, 1)
    last = ended_task(store, 2)
    cursor = store.feed("", 99)[1]
    assert store.feed(cursor, 99)[0] == []
    if store.prune_task(last, FOREVER):
        while store.prune_rows(2, 500, LOCK_MS):
            pass
    newest = submit(store, 3, ready("a"))
    assert [event.task_id for event in store.feed(cursor, 99)[0]] == [newest]


POINTS = ["begin", "locked", "written", "commit", "committed", "single", "single.committed"]


@pytest.mark.parametrize("skip", range(4))
@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_and_gone_on_with_it_ends_the_same(open_store, clock, point, skip):
    fault = FaultAt()
    store = open_store(fault=fault)
    kept, gone = ended_task(store, 1), ended_task(store, 2)
    submit(store, 3, ready("a"))
    before = whole(store, kept)

    def go_on() -> None:
        if any(task.id == gone for task in store.prunable(FOREVER, (0, 0), 9)):
            store.prune_task(gone, FOREVER)
        for pruned in store.half_pruned(0, 9):
            while store.prune_rows(pruned.task_n, 5, LOCK_MS):
                pass
            while store.prune_output(pruned.task_id, 1):
                pass
            store.end_pruning(pruned.task_n)

    seen = 0

    def at(reached: str) -> None:
        nonlocal seen
        if reached == point:
            seen += 1
            if seen == skip + 1:
                raise Crash(point)

    store.fault = at
    died = False
    try:
        go_on()
    except Crash:
        died = True
    assert died or seen <= skip
    store.fault = lambda _point: None
    go_on()
    with pytest.raises(NotFound):
        store.get_task(gone)
    assert store.half_pruned(0, 9) == []
    assert store.prune_rows(2, 500, LOCK_MS) == 0 and store.output(Ref(gone, "a"), 1, 0, 9) == []
    assert whole(store, kept) == before
    assert store.verify() == []


def test_several_at_once_take_each_task_away_once(open_store, request):
    stores = [open_store()]
    if "memory" not in request.node.callspec.id:
        stores += [open_store(), open_store()]
    gone = [ended_task(stores[0], number) for number in range(1, 9)]
    kept = submit(stores[0], 99, ready("a"))
    for number in range(20):
        stores[0].use_blob("w", f"{number:064x}", 1)
    pruned: list[str] = []
    collected: list[str] = []
    wrong: list[BaseException] = []

    def work(store: Store) -> None:
        try:
            for id_ in gone:
                if store.prune_task(id_, FOREVER):
                    pruned.append(id_)
            for task in store.half_pruned(0, 99):
                while store.prune_rows(task.task_n, 20, LOCK_MS):
                    pass
                store.end_pruning(task.task_n)
            for blob in store.stale_blobs(FOREVER, 99):
                if blob.used_at > 0 and store.condemn_blob(blob, blob.used_at + 1):
                    collected.append(blob.digest)
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=work, args=(store,)) for store in stores * (3 // len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sorted(pruned) == gone
    assert len(collected) == len(set(collected)) == 20
    assert [task.id for task in stores[0].tasks(open_only=False, workspace_id=None, before=0, limit=99)] == [kept]
    assert stores[0].half_pruned(0, 99) == []
