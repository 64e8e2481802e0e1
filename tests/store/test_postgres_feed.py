"""Events of all tasks, one after another: none passed over, none twice, those of a task in their order."""

import pytest

from longtask.core.errors import Refused
from longtask.core.events import TaskPaused, TaskResumed
from longtask.store.contract import Store
from tests.conformance.play import act, ready, submit
from tests.store.aside import Aside


def read(store: Store, cursor: str, limit: int = 100) -> tuple[list[tuple[str, int]], str]:
    """(task, seq) of all that is there, page by page; where to go on."""
    found: list[tuple[str, int]] = []
    while True:
        events, after = store.feed(cursor, limit)
        assert len(events) <= limit
        if not events:
            assert after == cursor
            return found, cursor
        found += [(event.task_id, event.seq) for event in events]
        cursor = after


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_an_event_that_commits_late_comes_late_and_is_not_passed_over(store, limit):
    slow, quick = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    found, cursor = read(store, "", limit)
    assert found == [(slow, 1), (quick, 1)]
    with store.group():
        act(store, slow, TaskPaused())
        with store.task(slow):  # the event is written, with a lower number than what comes now
            Aside(lambda: act(store, quick, TaskPaused())).result()
            found, cursor = Aside(lambda: read(store, cursor, limit)).result()
            assert found == [], "what has a higher number waits for what may still come"
    found, cursor = read(store, cursor, limit)
    assert sorted(found) == sorted([(slow, 2), (quick, 2)])
    assert read(store, cursor, limit) == ([], cursor)


@pytest.mark.parametrize("limit", [1, 100])
def test_events_of_a_task_come_in_their_order_though_an_older_transaction_wrote_the_newer_one(store, limit):
    """A group has its number from its first block; its later block may follow another transaction on that task."""
    first, second = submit(store, 1, ready("a")), submit(store, 2, ready("a"))
    _, cursor = read(store, "")
    with store.group():
        act(store, first, TaskPaused())
        Aside(lambda: act(store, second, TaskPaused())).result()
        act(store, second, TaskResumed())
        Aside(lambda: act(store, submit(store, 3, ready("a")), TaskPaused())).result()
        act(store, second, TaskPaused())
    act(store, second, TaskResumed())
    found, _ = read(store, cursor, limit)
    assert [seq for id_, seq in found if id_ == second] == [2, 3, 4, 5]
    assert len(found) == len(set(found)) == 7


def test_a_reader_beside_writers_misses_nothing_and_sees_nothing_twice(store):
    ids = [submit(store, n, ready("a")) for n in range(1, 5)]

    def write(order: list[str]) -> None:
        for _ in range(12):
            for id_ in order:  # single blocks, so that none of them is refused
                act(store, id_, TaskPaused(), TaskResumed())

    def write_groups(order: list[str]) -> None:
        for _ in range(12):
            with store.group():
                act(store, order[0], TaskPaused(), TaskResumed())

    writers = [Aside(lambda: write(ids[:2])), Aside(lambda: write(ids[1::-1])), Aside(lambda: write_groups(ids[2:]))]
    cursor, found = "", list[tuple[str, int]]()
    while not all(writer.over for writer in writers):
        more, cursor = read(store, cursor, 3)
        found += more
    for writer in writers:
        writer.result()
    found += read(store, cursor, 3)[0]
    assert len(found) == len(set(found))
    for id_ in ids:
        assert [seq for task, seq in found if task == id_] == list(range(1, store.get_task(id_).seq + 1))


@pytest.mark.parametrize("cursor", ["17", "x.y", "1.2.3", "-1.0", "1.", "1.1; select 1", "9" * 30 + ".1"])
def test_a_cursor_of_somewhere_else_is_refused(store, cursor):
    with pytest.raises(Refused, match="is none of this database; begin without one"):
        store.feed(cursor, 1)
