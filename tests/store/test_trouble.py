"""Disk full, damage, strangers, newer versions, a lock that nobody gives back: told clearly, and nothing lost."""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from longtask.core.errors import StoreBusy, StoreError
from longtask.core.events import StepClaimed, TaskPaused
from longtask.store.contract import Chunk, Ref
from longtask.store.sqlite import SqliteStore
from tests.conformance.play import act, ready, submit


@contextmanager
def files_no_larger_than(size_bytes: int):
    """As a full disk does: from here on no file can grow past this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "longtask.db"


def fill(store: SqliteStore) -> int:
    """Submits tasks until the store refuses; answers how many it took."""
    for number in range(1, 500):
        try:
            submit(store, number, ready(*[f"s{i}" for i in range(50)]))
        except StoreError as error:
            assert "the disk is full" in str(error)
            assert "nothing of this was written; free space in" in str(error)
            return number - 1
    raise AssertionError("the disk was never full")


def check_and_go_on(store: SqliteStore, there: int) -> None:
    """All that was acknowledged is there, and with some space everything works again."""
    assert store.get_task("@last").number == there
    id_ = submit(store, 1_000, ready("a"))
    act(store, id_, TaskPaused())
    assert [task.number for task in store.tasks(open_only=False, workspace_id=None, before=0, limit=999)] == [
        *range(there + 1, 0, -1)
    ]
    assert store.verify() == []


def test_a_full_disk_is_told_and_loses_nothing(path):
    store = SqliteStore(path)
    with files_no_larger_than(1 << 20):
        there = fill(store)
        with pytest.raises(StoreError, match="the disk is full"), store.group():
            for number in range(600, 700):
                submit(store, number, ready(*[f"s{i}" for i in range(50)]))
        assert store.get_task("@last").number == there, "reading goes on"
    check_and_go_on(store, there)
    store.close()


def test_a_full_file_system_is_told_and_loses_nothing(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], capture_output=True)
    if mounted.returncode:
        pytest.skip("optional: only root can mount a small disk")
    try:
        store = SqliteStore(small / "longtask.db")
        there = fill(store)
        assert there > 3
        store.close()
        subprocess.run(["mount", "-o", "remount,size=20m", small], check=True)
        store = SqliteStore(small / "longtask.db")
        check_and_go_on(store, there)
        store.close()
    finally:
        subprocess.run(["umount", small], check=True)


def test_output_that_finds_no_space_is_told(path):
    store = SqliteStore(path)
    id_ = submit(store, 1, ready("a"))
    act(store, id_, StepClaimed("a", 1, "w"))
    with files_no_larger_than(1 << 20), pytest.raises(StoreError, match=r"output.db'.*the disk is full"):
        store.put_output(Ref(id_, "a"), 1, [Chunk(n, "out", b"x" * 500_000) for n in range(1, 9)])
    assert store.output(Ref(id_, "a"), 1, 0, 9) == []
    assert store.put_output(Ref(id_, "a"), 1, [Chunk(1, "out", b"x")])
    store.close()


def test_what_is_no_database_is_told_and_left_alone(path):
    path.write_bytes(b"this is my diary, not a database\n" * 500)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"not a database \(file is not a database\); name another file"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_told_and_left_alone(path):
    other = apsw.Connection(str(path))
    other.execute("create table diary (day text); create table photo (x blob)")
    with pytest.raises(StoreError, match=r"belongs to another program \(it has tables \['diary', 'photo'\]\)"):
        SqliteStore(path)
    assert list(other.execute("select count(*) from sqlite_schema")) == [(2,)]
    other.close()


def test_a_newer_database_is_told_and_left_alone(path):
    store = SqliteStore(path)
    submit(store, 1, ready("a"))
    store.close()
    newer = apsw.Connection(str(path))
    newer.execute("insert into migration values (99, 1, 0); create table wing (x)")
    newer.close()
    with pytest.raises(StoreError, match=r"has schema 99, this program knows \d+: a newer version wrote it; upgrade"):
        SqliteStore(path)


def test_damage_is_told(path):
    store = SqliteStore(path)
    for number in range(1, 20):
        submit(store, number, ready(*[f"s{i}" for i in range(50)]))
    store.close()
    reader = apsw.Connection(str(path))
    pages = [page for (page,) in reader.execute("select pageno from dbstat where name = 'step' and pagetype = 'leaf'")]
    reader.close()
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * 4096)
            file.write(os.urandom(4096))
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"damaged \(.*\); stop all workers, keep a copy, then run 'longtask doctor'"):
        for number in range(1, 20):
            store.steps(store.get_task(f"play-{number}").id, "", 99)
    assert any("longtask.db" in line for line in store.verify())
    store.close()


def test_a_truncated_database_is_told(path):
    store = SqliteStore(path)
    submit(store, 1, ready(*[f"s{i}" for i in range(500)]))
    store.close()
    os.truncate(path, 100_000)
    with pytest.raises(StoreError, match="damaged"):
        store = SqliteStore(path)
        store.steps(store.get_task("play-1").id, "", 999)


def test_a_lock_that_is_not_given_back_is_told(path):
    store = SqliteStore(path, busy_max_ms=30)
    id_ = submit(store, 1, ready("a"))
    holder = apsw.Connection(str(path))
    holder.execute("begin immediate")
    with pytest.raises(StoreBusy, match=r"busy: (process \d+|another process) holds its lock; try again"):
        act(store, id_, TaskPaused())
    with pytest.raises(StoreBusy), store.group():
        act(store, id_, TaskPaused())
    assert store.get_task(id_).seq == 1, "reading goes on"
    holder.execute("rollback")
    act(store, id_, TaskPaused())
    holder.close()
    store.close()


def test_the_holder_of_a_lock_is_named(path):
    store = SqliteStore(path, busy_max_ms=10)
    code = (
        "import apsw, sys; db = apsw.Connection(sys.argv[1]); db.execute('begin immediate'); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"locked\n"
        with pytest.raises(StoreBusy) as busy:
            submit(store, 1, ready("a"))
        if not Path("/proc/locks").exists():
            pytest.skip("optional: this system does not tell who holds a lock")
        assert f"process {holder.pid} holds its lock" in str(busy.value)
    finally:
        holder.communicate(b"")
    submit(store, 1, ready("a"))
    store.close()


def test_a_database_in_memory_has_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(":memory:")
    id_ = submit(store, 1, ready("a"))
    act(store, id_, StepClaimed("a", 1, "w"))
    assert store.put_output(Ref(id_, "a"), 1, [Chunk(1, "out", b"x")])
    assert store.verify() == []
    assert list(tmp_path.iterdir()) == []
    store.close()
