"""Several processes, and several threads, on one file."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from longtask.core.events import StepClaimed, StepReleased
from longtask.core.policy import LEASE_MS
from longtask.store.line import CHECKPOINT_PAGES_MAX, LOG_BYTES_MAX, Line, Turn
from longtask.store.sqlite import SqliteStore
from tests.conformance.play import act, ready, submit

WRITERS = 4
SECONDS = 4
ROOT = Path(__file__).parent.parent.parent


def start(path: Path, what: str, number: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.writer", str(path), what, str(SECONDS), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def test_four_writers_leave_a_fifth_process_its_heartbeat(tmp_path):
    """They open a database that is not there yet all at once, too."""
    path = tmp_path / "longtask.db"
    writers = [start(path, "write", number) for number in range(1, WRITERS + 1)]
    beater = start(path, "beat", 9)
    for process in (*writers, beater):
        assert process.stdout is not None and process.stdin is not None
        line = process.stdout.readline()
        assert line == "ready\n", process.communicate()[1]
    answers = []
    for process in (*writers, beater):
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in (*writers, beater):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        answers.append(out)
    beats = sorted(float(ms) for ms in answers.pop().split())
    assert len(beats) > 10
    assert beats[-1] < LEASE_MS / 3, beats[-5:]
    store = SqliteStore(path)
    for task in store.tasks(open_only=False, workspace_id=None, before=0, limit=9):
        events = store.events(task.id, 0, 1_000_000)
        assert [event.seq for event in events] == list(range(1, task.seq + 1)), "no gap, nothing lost"
    written = {task.id: task.seq - 1 for task in store.tasks(open_only=False, workspace_id=None, before=0, limit=9)}
    rounds = [int(answer) for answer in answers]
    assert min(rounds) > 0, "nobody starves"
    assert sum(written.values()) == 4 * sum(rounds) + 1
    assert store.verify() == []
    store.close()


def test_threads_of_one_process_have_a_connection_each(tmp_path):
    store = SqliteStore(tmp_path / "longtask.db")
    ids = [submit(store, number, ready("a")) for number in range(1, 5)]

    def work(id_: str) -> None:
        for attempt in range(1, 30):
            with store.group():
                act(store, id_, StepClaimed("a", attempt, "w"))
                act(store, id_, StepReleased("a", attempt, "drain"))

    threads = [threading.Thread(target=work, args=(id_,)) for id_ in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.get_task(id_).seq for id_ in ids] == [59] * 4
    store.close()


def test_threads_share_a_database_in_memory():
    store = SqliteStore(":memory:")
    id_ = submit(store, 1, ready("a"))
    seen: list[int] = []
    with store.group():
        act(store, id_, StepClaimed("a", 1, "w"))
        thread = threading.Thread(target=lambda: seen.append(store.get_task(id_).seq))
        thread.start()
        act(store, id_, StepReleased("a", 1, "drain"))
    thread.join()
    assert seen == [3], "nobody sees half a group"
    store.close()


def test_turns_are_taken_in_order():
    turn, order = Turn(), list[int]()
    assert turn.acquire(1)
    threads: list[threading.Thread] = []

    def take(number: int) -> None:
        assert turn.acquire(10)
        order.append(number)
        turn.release()

    for number in range(5):
        threads.append(threading.Thread(target=take, args=(number,)))
        threads[-1].start()
        while len(turn._waiting) <= number:
            pass
    turn.release()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]
    assert turn.acquire(0)
    assert not turn.acquire(0.001), "who waited too long leaves the queue"
    turn.release()
    assert turn.acquire(0)


def fill(line: Line, rows: int) -> None:
    for _ in range(rows):
        line.run("insert into t values (randomblob(3000))")
        line.copy_back()


def test_the_log_does_not_grow_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("longtask.store.line.CHECKPOINT_PAGES", 10)
    line = Line(str(tmp_path / "x.db"), lax=True)
    line.run("create table t (x)")
    fill(line, 100)
    assert (tmp_path / "x.db-wal").stat().st_size < 30 * 4096


def test_a_log_that_somebody_reads_grows_and_then_starts_anew(tmp_path, monkeypatch):
    assert CHECKPOINT_PAGES_MAX * 4096 <= LOG_BYTES_MAX
    monkeypatch.setattr("longtask.store.line.CHECKPOINT_PAGES_MAX", 50)
    monkeypatch.setattr("longtask.store.line.CHECKPOINT_PAGES", 10)
    monkeypatch.setattr("longtask.store.line.CHECKPOINT_WAIT_MS", 5)
    line, reader = (Line(str(tmp_path / "x.db"), lax=True) for _ in range(2))
    line.run("create table t (x)")
    reader.run("begin")
    reader.run("select * from t")
    fill(line, 60)
    grown = (tmp_path / "x.db-wal").stat().st_size
    assert grown > 60 * 4096, "the reader holds it"
    reader.run("commit")
    fill(line, 60)
    assert (tmp_path / "x.db-wal").stat().st_size < grown + 25 * 4096
    assert line.run("select count(*) from t") == [(120,)]
