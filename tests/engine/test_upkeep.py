"""Upkeep: what ended long ago goes, bytes that nobody names go, nothing else does; killed anywhere, or raced with."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from longtask.core.change import Change
from longtask.core.errors import NotFound, StoreUnavailable
from longtask.core.events import StepCompleted
from longtask.core.model import Task, TaskState
from longtask.engine import upkeep
from longtask.engine.upkeep import AGAIN_MS, DROP_WITHIN_MS, ROUND_EVERY_MS, Keeper, Upkeep
from longtask.store.access import first_id
from longtask.store.artifacts import ArtifactStore
from longtask.store.callers import Audit, RequestBegin, RequestKey
from longtask.store.contract import AUDIT_KEPT_MS, BLOB_CONDEMNED_MS, BLOB_UNUSED_MS, Blob
from longtask.store.sqlite import SqliteStore
from tests.conformance.databases import Clock
from tests.conformance.play import act, claim, ready, submit
from tests.conformance.test_blocks import Crash
from tests.conformance.test_upkeep import end, ended_task, name, whole

DAY_MS = 86_400_000
TABLES = (
    "step event edge spec plan artifact run_journal checkpoint progress inbox wait lease offer mutex mutex_ticket "
    "outbox task_options"
).split()


class Room:
    """`upkeep.Room` on real artifacts; git is played by a list."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self.artifacts = artifacts
        self.forgotten: list[tuple[str, str]] = []
        self.tidied = 0
        self.before_drop: Callable[[], None] = lambda: None

    def shared(self) -> bool:
        return self.artifacts.shared()

    def drop(self, workspace_id: str, digest: str) -> None:
        self.before_drop()
        self.artifacts.drop(workspace_id, digest)

    def forget(self, workspace_id: str, task_id: str) -> None:
        self.forgotten.append((workspace_id, task_id))

    def tidy(self) -> None:
        self.tidied += 1


class House:
    """A store, its artifacts and who looks after them, on virtual time."""

    def __init__(self, folder: Path, retention_ms: int | None = 90 * DAY_MS) -> None:
        self.clock = Clock()
        self.folder, self.retention_ms = folder, retention_ms
        self.store = SqliteStore(folder / "longtask.db", self.clock)
        self.artifacts = ArtifactStore(folder / "artifacts", self.store)
        self.room = Room(self.artifacts)
        self.upkeep = Upkeep(self.store, self.room, retention_ms=retention_ms)

    def another(self) -> Upkeep:
        return Upkeep(self.store, self.room, retention_ms=self.retention_ms)

    def round(self) -> int:
        """As many steps as it takes."""
        return sum(1 for _ in self.another().round())

    def rows_of(self, number: int) -> dict[str, int]:
        """How many rows bear the number of a task, in each table that has some."""
        with apsw.Connection(self.store.path) as db:
            found = {t: db.execute(f"select count(*) from {t} where task_n = ?", (number,)).get for t in TABLES}
        db.close()
        return {table: count for table, count in found.items() if count}

    def tasks(self) -> list[Task]:
        return self.store.tasks(open_only=False, workspace_id=None, before=0, limit=500)


@pytest.fixture
def house(tmp_path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    assert made.store.verify() == []
    made.store.close()


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_what_ended_before_the_retention_goes_and_nothing_else(house):
    old = ended_task(house.store, 1, workspace_id="w")
    house.clock.forward(DAY_MS)
    young = ended_task(house.store, 2, workspace_id="w")
    open_ = submit(house.store, 3, ready("a"))
    before = whole(house.store, young)
    assert house.rows_of(1).keys() >= {"step", "event", "edge", "spec", "plan", "artifact", "run_journal", "inbox"}
    house.clock.forward(89 * DAY_MS - 1)
    house.round()
    assert len(house.tasks()) == 3, "not yet"
    house.clock.forward(1)
    assert [task.id for task in house.another().due()] == [old]
    house.round()
    assert [task.id for task in house.tasks()] == [open_, young]
    assert house.rows_of(1) == {}
    assert whole(house.store, young) == before
    assert house.room.forgotten == [("w", old)]


def test_without_a_retention_every_task_stays(tmp_path):
    house = House(tmp_path, retention_ms=None)
    ended_task(house.store, 1)
    submit(house.store, 2, ready("a"))
    house.clock.forward(10_000 * DAY_MS)
    assert list(house.upkeep.due()) == []
    house.round()
    assert len(house.tasks()) == 2
    house.store.close()


def test_children_go_with_their_parent_however_many(house):
    parent = submit(house.store, 1, ready("a"))
    for number in range(2, 232):
        end(house.store, submit(house.store, number, ready("a"), parent=parent))
    grandchild = submit(house.store, 232, ready("a"), parent=house.tasks()[-2].id)
    end(house.store, grandchild)
    submit(house.store, 500, ready("a"))
    house.clock.forward(91 * DAY_MS)
    house.round()
    assert len(house.tasks()) == 233, "the parent is open"
    end(house.store, parent)
    house.clock.forward(91 * DAY_MS)
    house.round()
    assert len(house.tasks()) == 1


def test_a_family_of_which_one_is_open_stays_whole_as_far_as_it_is_needed(house):
    parent = submit(house.store, 1, ready("a"))
    child = submit(house.store, 2, ready("a"), parent=parent)
    grandchild = submit(house.store, 3, ready("a"), parent=child)
    end(house.store, parent)
    end(house.store, child)
    house.clock.forward(91 * DAY_MS)
    house.round()
    assert {task.id for task in house.tasks()} == {parent, child, grandchild}


def test_the_task_with_the_newest_event_waits_for_a_newer_one(house):
    last = ended_task(house.store, 1)
    house.clock.forward(91 * DAY_MS)
    house.round()
    assert [task.id for task in house.tasks()] == [last]
    submit(house.store, 2, ready("a"))
    house.round()
    assert last not in [task.id for task in house.tasks()]


def test_a_task_that_is_taken_up_again_while_its_turn_comes_stays(house):
    first, second = (submit(house.store, n, ready("a")) for n in (1, 2))
    submit(house.store, 3, ready("a"))
    for id_ in (first, second):
        end(house.store, id_)
    house.clock.forward(91 * DAY_MS)
    steps = house.another().round()
    next(steps)  # it has looked, and is at the first
    with house.store.task(second) as tx:
        tx.save(Change(tx.task._replace(state=TaskState.ACTIVE, ended_at=0), {}))
    for _ in steps:
        pass
    assert house.store.get_task(second).state is TaskState.ACTIVE
    with pytest.raises(NotFound):
        house.store.get_task(first)


@pytest.mark.parametrize("nth", range(1, 16))
def test_killed_at_any_commit_and_gone_on_with_it_ends_the_same(house, nth):
    gone = ended_task(house.store, 1, workspace_id="w")
    kept = submit(house.store, 2, ready("a"))
    put = house.artifacts.put("w", b"bytes that only the first task names")
    name(house.store, gone, put.digest)
    end(house.store, gone)
    name(house.store, kept, house.artifacts.put("", b"others").digest)
    house.clock.forward(91 * DAY_MS)
    left = nth

    def at(point: str) -> None:
        nonlocal left
        if point in ("commit", "committed", "single", "single.committed"):
            left -= 1
            if left == 0:
                raise Crash(point)

    house.store.fault = at
    with suppress(Crash):
        house.round()
    house.store.fault = lambda _point: None
    house.clock.forward(BLOB_CONDEMNED_MS + 1)
    house.round()
    assert [task.id for task in house.tasks()] == [kept]
    assert house.rows_of(1) == {}
    assert list(house.artifacts.digests("w")) == []
    assert len(list(house.artifacts.digests(""))) == 1
    assert [(b.workspace_id, b.used_at > 0) for b in house.store.stale_blobs(house.clock.at, 9)] == [("", True)]


def test_several_at_once_are_as_good_as_one(tmp_path):
    house = House(tmp_path)
    gone = [ended_task(house.store, number, workspace_id="w") for number in range(1, 13)]
    kept = submit(house.store, 99, ready("a"))
    for number in range(20):
        house.artifacts.put("w", b"garbage %d" % number)
    house.clock.forward(91 * DAY_MS)
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            mine = SqliteStore(house.store.path, house.clock)
            room = Room(ArtifactStore(tmp_path / "artifacts", mine))
            for _ in Upkeep(mine, room, retention_ms=house.retention_ms).round():
                pass
            mine.close()
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [task.id for task in house.tasks()] == [kept]
    assert all(house.rows_of(number) == {} for number in range(1, len(gone) + 1))
    assert list(house.artifacts.digests("w")) == []
    assert house.store.stale_blobs(house.clock.at, 9) == []
    house.store.close()


def test_no_lock_is_held_for_long_however_large_the_task(house):
    id_ = submit(house.store, 1, ready(*(f"s{n:05}" for n in range(4_000))))
    submit(house.store, 2, ready("a"))
    end(house.store, id_)
    house.clock.forward(91 * DAY_MS)
    locked_at, held = 0.0, list[float]()

    def at(point: str) -> None:
        nonlocal locked_at
        if point == "locked":
            locked_at = time.perf_counter()
        elif point == "committed":
            held.append(time.perf_counter() - locked_at)

    house.store.fault = at
    house.round()
    assert len(house.tasks()) == 1
    assert len(held) >= 8, "in many small batches"
    assert sorted(held)[len(held) // 2] < 0.1 and max(held) < 0.2


# --- bytes ------------------------------------------------------------------------------------------------------------


def test_bytes_that_no_fact_names_go_a_week_after_their_last_use(house):
    garbage = house.artifacts.put("w", b"of an attempt that was lost")
    id_ = submit(house.store, 1, ready("a", "b"), workspace_id="w")
    named = house.artifacts.put("w", b"of an accepted outcome")
    name(house.store, id_, named.digest)
    value = house.artifacts.put("w", b'"a value too large for its row"')
    claim(house.store, id_, "b")
    act(house.store, id_, StepCompleted("b", 1, result={"$artifact": value.digest}))
    house.clock.forward(BLOB_UNUSED_MS - 1)
    house.round()
    assert house.artifacts.has("w", garbage.digest), "a fact may be about to name it"
    house.clock.forward(1)
    house.round()
    assert set(house.artifacts.digests("w")) == {named.digest, value.digest}
    for _ in range(3):
        house.clock.forward(2 * BLOB_UNUSED_MS)
        house.round()
    assert set(house.artifacts.digests("w")) == {named.digest, value.digest}
    assert house.artifacts.read("w", value.digest) == b'"a value too large for its row"'


def test_what_only_a_pruned_task_names_goes_in_the_end(house):
    id_ = ended_task(house.store, 1, workspace_id="w")
    kept = house.artifacts.put("w", b"x")
    name(house.store, id_, kept.digest)
    end(house.store, id_)
    submit(house.store, 2, ready("a"))
    house.clock.forward(91 * DAY_MS)
    house.round()
    assert house.another().done.artifacts == 0 and list(house.artifacts.digests("w")) == []


def test_equal_bytes_of_another_workspace_stay(house):
    id_ = submit(house.store, 1, ready("a"), workspace_id="v")
    name(house.store, id_, house.artifacts.put("v", b"same").digest)
    house.artifacts.put("w", b"same")
    house.clock.forward(BLOB_UNUSED_MS + 1)
    house.round()
    assert list(house.artifacts.digests("w")) == [] and len(list(house.artifacts.digests("v"))) == 1


def test_what_another_database_may_need_is_not_collected(house, tmp_path):
    other = SqliteStore(tmp_path / "other.db", house.clock)
    ArtifactStore(tmp_path / "artifacts", other).put("w", b"same")
    house.artifacts.put("w", b"same")
    house.clock.forward(BLOB_UNUSED_MS + 1)
    house.round()
    assert len(list(house.artifacts.digests("w"))) == 1
    other.close()


def test_hundreds_of_bytes_are_looked_at_once_a_week(house):
    id_ = submit(house.store, 1, ready("a"), workspace_id="w")
    for number in range(250):
        stored = house.artifacts.put("w", b"%d" % number)
        if number % 2:
            name(house.store, id_, stored.digest)
    house.clock.forward(BLOB_UNUSED_MS + 1)
    assert house.round() > 250
    assert len(list(house.artifacts.digests("w"))) == 125
    house.clock.forward(DAY_MS)
    assert house.round() == 0


COLLECTING, PUTTING = 3, 2  # steps of each


@pytest.mark.parametrize("turns", list(itertools.combinations(range(COLLECTING + PUTTING), PUTTING)))
def test_a_put_that_races_with_the_collector_ends_with_its_bytes(house, turns):
    """Every order in which the steps of both can happen.  `turns`: at which of them it is the put's turn."""
    digest = house.artifacts.put("w", b"x").digest
    house.clock.forward(BLOB_UNUSED_MS + 1)
    [blob] = house.store.stale_blobs(house.clock.at, 9)
    condemned, used, kept = False, False, False
    at = house.clock.at

    def put() -> None:
        nonlocal used, kept
        if not used:
            used = house.store.use_blob("w", digest, 1)
        elif not kept:
            ArtifactStore(house.artifacts.place).put("w", b"x")
            kept = True

    def collect() -> Iterator[None]:
        nonlocal condemned
        condemned = house.store.condemn_blob(blob, at)
        yield
        if condemned:
            house.artifacts.drop("w", digest)
        yield
        if condemned:
            house.store.forget_blob("w", digest, at)
        yield

    collector = collect()
    for turn in range(COLLECTING + PUTTING):
        if turn in turns:
            put()
        else:
            next(collector)
    for _ in range(2):  # it goes on until it is done
        put()
    assert used and kept
    assert house.artifacts.read("w", digest) == b"x"
    assert [b.used_at > 0 for b in house.store.stale_blobs(house.clock.at, 9)] == [True]


def test_a_put_waits_for_the_collector_and_then_its_bytes_are_there(house):
    digest = house.artifacts.put("w", b"x").digest
    house.clock.forward(BLOB_UNUSED_MS + 1)
    answers: list[bool] = []
    waited = threading.Event()
    use_blob = house.store.use_blob

    class Ledger:
        identity = house.store.identity

        def use_blob(self, workspace_id: str, digest: str, size_bytes: int) -> bool:
            answers.append(use_blob(workspace_id, digest, size_bytes))
            waited.set()
            return answers[-1]

    putting = threading.Thread(target=lambda: ArtifactStore(house.artifacts.place, Ledger()).put("w", b"x"))

    def begin_and_let_it_wait() -> None:
        putting.start()
        assert waited.wait(10)

    house.room.before_drop = begin_and_let_it_wait
    house.round()
    putting.join(10)
    assert answers[0] is False and answers[-1] is True
    assert house.artifacts.read("w", digest) == b"x"
    assert [b.used_at > 0 for b in house.store.stale_blobs(house.clock.at, 9)] == [True]


def test_a_collector_that_slept_after_its_word_takes_nothing_away(tmp_path):
    class Sleeps(SqliteStore):
        def condemn_blob(self, blob: Blob, at: int) -> bool:
            condemned = super().condemn_blob(blob, at)
            clock.forward(DROP_WITHIN_MS + 1)
            return condemned

    clock = Clock()
    store = Sleeps(tmp_path / "longtask.db", clock)
    artifacts = ArtifactStore(tmp_path / "artifacts", store)
    digest = artifacts.put("w", b"x").digest
    clock.forward(BLOB_UNUSED_MS + 1)
    for _ in Upkeep(store, Room(artifacts), retention_ms=None).round():
        pass
    assert artifacts.has("w", digest)
    clock.forward(BLOB_CONDEMNED_MS)
    assert artifacts.put("w", b"x").digest == digest, "and whoever needs them takes them over"
    store.close()


# --- when -------------------------------------------------------------------------------------------------------------


def test_a_round_is_begun_every_hour_and_taken_in_steps(house):
    ended_task(house.store, 1)
    submit(house.store, 2, ready("a"))
    house.clock.forward(91 * DAY_MS)
    moved = 0
    while house.upkeep.tick():
        moved += 1
    assert moved > 1 and house.room.tidied == 1 and house.upkeep.done.tasks == 1
    house.clock.forward(ROUND_EVERY_MS - 1)
    assert house.upkeep.tick() == 0 and house.room.tidied == 1
    house.clock.forward(1)
    assert house.upkeep.tick() == 0 and house.room.tidied == 2


def test_a_round_that_fails_is_begun_again_a_minute_later(house):
    house.artifacts.put("w", b"x")
    house.clock.forward(BLOB_UNUSED_MS + 1)

    def out_of_reach() -> None:
        raise StoreUnavailable("artifacts at 's3://b': its endpoint cannot be reached")

    house.room.before_drop = out_of_reach
    with pytest.raises(StoreUnavailable):
        while house.upkeep.tick():
            pass
    house.room.before_drop = lambda: None
    assert house.upkeep.tick() == 0
    assert len(list(house.artifacts.digests("w"))) == 1
    house.clock.forward(max(AGAIN_MS, BLOB_CONDEMNED_MS) + 1)
    while house.upkeep.tick():
        pass
    assert list(house.artifacts.digests("w")) == []


def test_the_keeper_goes_on_after_an_error_and_ends_when_told(house, monkeypatch):
    """In real time, in its own thread."""
    for setting in ("FIRST_S", "PAUSE_S", "LOOK_EVERY_S"):
        monkeypatch.setattr(upkeep, setting, 0.001)
    ended_task(house.store, 1)
    submit(house.store, 2, ready("a"))
    house.clock.forward(91 * DAY_MS)
    failed, tidied = threading.Event(), threading.Event()

    class Trouble(Room):
        def tidy(self) -> None:
            if not failed.is_set():
                failed.set()
                house.clock.forward(AGAIN_MS)
                raise StoreUnavailable("not now")
            tidied.set()

    keeper = Keeper(lambda: Upkeep(house.store, Trouble(house.artifacts), retention_ms=house.retention_ms))
    assert tidied.wait(10), "the round was begun again"
    keeper.stop()
    assert failed.is_set() and len(house.tasks()) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "upkeep" and thread.is_alive()]


def test_the_audit_is_kept_for_a_year_and_answers_for_a_day(house):
    store, now = house.store, house.store.now()
    rows = [Audit(first_id(now + n), now + n, "ann", None, "::1", "POST /v1/tasks") for n in (0, 1)]
    store.begin_audit(rows)
    store.begin_requests([RequestBegin(RequestKey("ann", "k", "r"), "d", "h")])
    house.clock.forward(AUDIT_KEPT_MS)
    assert list(house.upkeep.round())
    assert store.audit(task_id=None, who=None, before="", limit=9) == rows[::-1]
    house.clock.forward(1)
    assert list(house.upkeep.round()) == [1]
    assert store.audit(task_id=None, who=None, before="", limit=9) == rows[1:]
    assert house.upkeep.done.rows == 2
