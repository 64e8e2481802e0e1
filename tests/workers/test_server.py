"""What the server tells a worker elsewhere, and what it does not."""

from __future__ import annotations

import json
import threading
import time

import httpx
import pytest

from longtask.api.workers.routes import without_credentials
from longtask.client.problems import NotAllowed
from longtask.core.errors import BadPlan, LongTaskError, NotFound
from longtask.core.model import Done
from longtask.engine.dispatcher import Wanted
from longtask.store.contract import JournalRow, WorkerRow
from tests.cli.shell import until
from tests.workers.conftest import ROOM, Bench, claimed, keys
from tests.workers.test_dispatcher import refused_by, report


def test_an_attempt_belongs_to_the_token_that_claimed_it_though_names_be_equal(bench: Bench):
    mine, other = bench.elsewhere("w1", bench.token()), bench.elsewhere("w1", bench.token())
    bench.submit({"id": "a", "run": "true"})
    [a] = claimed(mine)
    refused_by(other, a)
    assert mine.round("w1", [report(a, Done())], None).reported[0].refused is None


def test_a_worker_needs_the_role_and_gets_no_other_by_it(bench: Bench):
    with pytest.raises(NotAllowed, match="role 'worker'"):
        bench.elsewhere("w1", bench.token("operator"))
    token = bench.token("worker")
    bench.elsewhere("w1", token)
    seen = httpx.get(f"{bench.serve()}/v1/tasks", headers={"Authorization": f"Bearer {token}"})
    assert seen.status_code == 403


def test_a_token_of_some_workspaces_gets_their_steps_alone_however_many_others_wait_longer(bench: Bench):
    for n in range(60):
        bench.submit({"id": "a", "run": "true"}, name=f"other{n}", workspace="other")
    asks = bench.elsewhere("w1", bench.token(workspaces=["mine", "ours"]))
    assert claimed(asks) == [] and not works(asks)
    bench.submit({"id": "b", "run": "true"}, name="mine", workspace="mine")
    bench.submit({"id": "c", "run": "true"}, name="ours", workspace="ours")
    assert works(asks)
    assert sorted(keys(claimed(asks))) == ["b", "c"]
    assert claimed(asks) == []


def works(asks) -> bool:
    """There is work, as the server tells at once."""
    return bool(asks._ask("GET", "/work?pool=default")["work"])


def test_system_steps_are_for_those_beside_the_store(bench: Bench):
    bench.submit({"id": "w", "wait": {"signal": "go"}}, {"id": "a", "run": "true"})
    asks = bench.elsewhere()
    assert keys(claimed(asks)) == ["a"]
    with pytest.raises(BadPlan, match="beside the store"):
        claimed(asks, Wanted(("system",), 4, 4))


def test_who_waits_for_work_hears_of_it_at_once_and_holds_no_thread(bench: Bench):
    many = [bench.elsewhere(f"w{n}") for n in range(30)]  # more than the server has threads
    for asks in many:
        assert not asks.has_work(ROOM)
    assert bench.server is not None
    waiting = bench.server.waiting._waiting
    until(lambda: len(waiting) == len(many))
    assert httpx.get(f"{bench.serve()}/v1/tasks").status_code == 200
    bench.submit({"id": "a", "run": "true"})
    until(lambda: any(asks.has_work(ROOM) for asks in many))
    [heard] = [asks for asks in many if asks._awaiting._news.is_set()][:1]
    begun = time.monotonic()
    heard.wait(30.0)
    assert time.monotonic() - begun < 5
    assert keys(claimed(heard)) == ["a"]


def test_who_has_no_room_waits_though_there_is_work(bench: Bench):
    asks = bench.elsewhere()
    bench.submit({"id": "a", "run": "true"})
    until(lambda: asks.has_work(ROOM))
    assert not asks.has_work(Wanted(("default",), 0, 0))
    begun = time.monotonic()
    asks.wait(0.05)
    assert time.monotonic() - begun >= 0.05


def test_those_who_wait_are_sent_away_when_the_server_ends(bench: Bench):
    asks = bench.elsewhere()
    answers: list[bool] = []

    def wait() -> None:
        answers.append(asks._work_comes(["default"]))

    thread = threading.Thread(target=wait)
    thread.start()
    assert bench.server is not None
    waiting = bench.server.waiting
    until(lambda: waiting._waiting)
    loop = next(iter(waiting._waiting)).get_loop()
    loop.call_soon_threadsafe(waiting.end)
    thread.join(10)
    assert answers == [False]


def test_it_is_shown_among_the_fleet_by_its_whole_name(bench: Bench):
    asks = bench.elsewhere("w1")
    asks.worker_seen(WorkerRow("", "box", 7, ("default",), 2, asks.now()))
    [row] = bench.parts.store.workers(9)
    assert (row.id, row.host, row.pid, row.slots) == ("w1@here", "box", 7, 2) and asks.id == row.id
    asks.worker_gone(asks.id)
    assert bench.parts.store.workers(9) == []


def test_its_clock_is_that_of_the_store(bench: Bench):
    asks = bench.elsewhere()
    assert abs(asks.now() - bench.parts.store.now()) < 5_000


def test_only_artifacts_of_its_own_task_are_told_and_only_bytes_that_fit_their_hash_are_kept(bench: Bench, tmp_path):
    asks = bench.elsewhere()
    bench.submit({"id": "a", "run": "true"})
    [a] = claimed(asks)
    secret = bench.parts.artifacts.put("", b"of another task").digest
    with pytest.raises(NotFound, match="the task has no artifact"):
        asks.read_artifact(a, secret)
    block = asks.put_artifact(a, b"of its session", "text/plain")["digest"]
    assert asks.journal_started(a.ref, 1, 1, JournalRow(1, "turn", "m", "f", 1))
    assert asks.journal_done(a.ref, 1, 1, JournalRow(1, "turn", "m", "f", 1, {"$session": [block]}))
    assert asks.read_artifact(a, block) == b"of its session"
    path = f"/attempts/{a.task.id}/a/1/artifacts/{secret}"
    with pytest.raises(BadPlan, match="have the hash"):
        asks._ask("PUT", path, content=b"something else")
    with pytest.raises(LongTaskError, match="at most"):
        asks.put_artifact(a, bytes(17_000_000), "text/plain")


def test_a_copy_that_is_damaged_on_its_way_is_none(bench: Bench, tmp_path):
    asks = bench.elsewhere()
    digest = bench.parts.artifacts.put("", b"right").digest
    with pytest.raises(LongTaskError, match="not what its hash says"):
        asks._copies.keep("", digest, [b"wro", b"ng"], 5)
    with pytest.raises(LongTaskError, match="more came"):
        asks._copies.keep("", digest, [b"right", b"!"], 5)
    assert not asks._copies.has("", digest)


def test_nothing_of_the_database_is_told(bench: Bench):
    asks = bench.elsewhere()
    bench.submit({"id": "a", "run": "true"})
    [a] = claimed(asks)
    told = [asks._ask("GET", ""), asks._ask("GET", f"/attempts/{a.task.id}/a/1/assignment")]
    assert "longtask.db" not in json.dumps(told) and str(bench.folder) not in json.dumps(told)


@pytest.mark.parametrize(
    ("hub", "shown"),
    [
        (None, None),
        ("/mnt/hub", "/mnt/hub"),
        ("https://ann:sesame@git.example.com/x?key=sesame", "https://git.example.com/x"),
        ("ssh://git:sesame@git.example.com:22/x", "ssh://git@git.example.com:22/x"),
    ],
)
def test_the_hub_is_told_without_credentials(hub, shown):
    assert without_credentials(hub) == shown


def test_its_work_stands_in_the_journal_and_not_in_the_audit(bench: Bench):
    token = bench.token()
    asks = bench.elsewhere("w1", token)
    bench.submit({"id": "a", "run": "true"})
    [a] = claimed(asks)
    asks.round("w1", [report(a, Done())], None)
    store = bench.parts.store
    assert store.audit(task_id=None, who=None, before="", limit=9) == []
    assert {e.actor for e in store.events(a.task.id, 0, 99)} >= {asks.id}
