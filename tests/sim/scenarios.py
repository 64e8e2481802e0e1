"""What the simulator's model leaves out, with the real parts.  A scenario answers what is wrong, None if nothing is."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from longtask.core.errors import Refused
from longtask.core.events import StepClaimed, StepReleased
from longtask.core.model import Kind, StepSpec
from longtask.core.policy import LEASE_MS
from longtask.engine import family
from longtask.engine.loop import Loop
from longtask.steps.contract import Assignment
from longtask.steps.places import Places
from longtask.store.contract import Checkpoint, ErrandRow, WorkerRow
from longtask.store.postgres.store import PostgresStore
from longtask.store.sqlite import SqliteStore
from longtask.workspace import Workspace
from tests import postgres
from tests.conformance.play import act, claim, ready, submit, task_id
from tests.engine.world import HANG, World, graph_of, step, subtask
from tests.raw import rows

TASK = "01890a5d-ac96-774b-bcce-b302099a8057"
GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")


class Silent:
    """A desk that agrees with everything."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: True


def a_mutex_is_held_once() -> str | None:
    """Of two claims that both saw it free, the one that comes too late is refused by the store."""
    store = SqliteStore(":memory:", lambda: 1)
    for number in (1, 2):
        submit(store, number, ready("a"))
    for number, refused in ((1, False), (2, True)):
        try:
            act(store, task_id(number), StepClaimed("a", 1, "w", mutex="m"))
        except Refused:
            continue
        if refused:
            return f"[mutex] {store.mutex('m')}: a second claim has taken what the first one holds"
    return None


class Behind(family.Family):
    """Comes to the children of `late` before they are there."""

    late = ""

    def _follow(self, child: str, wish: int, hold: bool, at_once: bool = False) -> None:
        if child != self.late:
            super()._follow(child, wish, hold, at_once)


def parent_of_one() -> tuple[World, ErrandRow]:
    """A task whose step waits for a child, and the errand that is to make it."""
    world = World()
    world.submit(step("x", **subtask(graph_of(step("c"), name="child"))), acts={"c": [HANG]})
    assert world.worker is not None
    while not (made := [row for row in world.store.errands(10) if row.kind == "create"]):
        assert world.worker.tick()
    return world, made[0]


def a_child_made_behind_a_relay_is_told_by_another() -> str | None:
    """The relay has passed its step, and is still under way, when the child is there: made from what its parent was."""
    world = World()
    graph = graph_of(step("c"), name="child")
    world.submit(step("x", **subtask(graph)), step("y", **subtask(graph)), acts={"c": [HANG]})
    assert world.worker is not None
    while len(made := {row.step: row for row in world.store.errands(10) if row.kind == "create"}) < 2:
        assert world.worker.tick()
    (top,) = world.tasks
    slow = family.Family(world.store, world.scopes, world.language)
    behind = Behind(world.store, world.scopes, world.language)
    done = {key: slow.act(row) for key, row in made.items()}
    slow.over(top, [done["y"]])
    world.desk.pause(top, "ann")
    (relay,) = (row for row in world.store.errands(10) if row.kind == "relay")
    behind.late = made["x"].target
    most, family.CHILDREN_MAX = family.CHILDREN_MAX, 1
    try:
        behind.over(top, [behind.act(relay)])
        slow.over(top, [done["x"]])
        world.settle()
    finally:
        family.CHILDREN_MAX = most
    pauses = world.store.get_task(made["x"].target).pauses
    return None if pauses == 2 else f"[relay] the child was made from a task that ran, and has pauses {pauses}"


def a_child_made_while_a_relay_looks_is_told_by_another() -> str | None:
    """The relay has looked before the child is there, and says that all is told after the child's creation is over."""
    world, made = parent_of_one()
    (top,) = world.tasks
    slow = family.Family(world.store, world.scopes, world.language)
    behind = Behind(world.store, world.scopes, world.language)
    done = slow.act(made)
    world.desk.pause(top, "ann")
    (relay,) = (row for row in world.store.errands(10) if row.kind == "relay")
    behind.late = made.target
    looked = behind.act(relay)
    slow.over(top, [done])
    behind.over(top, [looked])
    world.settle()
    pauses = world.store.get_task(made.target).pauses
    return None if pauses == 2 else f"[relay] the child was made from a task that ran, and has pauses {pauses}"


def a_relay_that_begins_anew_where_it_ends_goes_on() -> str | None:
    """One transaction says that all is told, and that the child was made from what the task was before."""
    world, made = parent_of_one()
    (top,) = world.tasks
    errands = family.Family(world.store, world.scopes, world.language)
    done = errands.act(made)
    world.desk.pause(top, "ann")
    (relay,) = (row for row in world.store.errands(10) if row.kind == "relay")
    errands.over(top, [errands.act(relay), done])
    world.settle()
    relaying = world.store.get_task(top).relay
    return None if relaying is None else f"[relay] it stands at {relaying!r}, and no errand takes it further"


@contextmanager
def fleet(*more: type[PostgresStore]) -> Iterator[list[PostgresStore]]:
    """Stores of several processes on one PostgreSQL schema."""
    url = postgres.empty_url()
    kinds: tuple[type[PostgresStore], ...] = (PostgresStore, *more)
    stores = [kind(url) for kind in kinds]
    try:
        yield stores
    finally:
        for store in stores:
            store.close()
        postgres.give_back(url)


def a_late_write_waits_for_who_closes_its_lease() -> str | None:
    """A checkpoint of an attempt that ends just now is refused: the next one may have begun without it."""
    with fleet(PostgresStore) as (store, other):
        ref = claim(store, submit(store, 1, ready("a")), "a")
        answers: list[bool] = []
        late = threading.Thread(target=lambda: answers.append(other.put_checkpoint(ref, Checkpoint(1, 1, "tree", 1))))
        with store.group():
            act(store, ref.task_id, StepReleased("a", 1, "drain", store.now()))
            store.select("clock", {})  # what was queued is sent
            late.start()
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and state = 'active'"
            until = time.monotonic() + 10
            while not answers and not rows(other, waiting)[0][0] and time.monotonic() < until:
                threading.Event().wait(0.01)
        late.join(10)
        return None if answers == [False] else f"[fence] a checkpoint was taken while its lease was closed: {answers}"


def a_machine_with_a_wrong_clock_claims_as_every_other() -> str | None:
    real = time.time_ns
    time.time_ns = lambda: real() + 3_600_000_000_000
    try:
        with fleet() as (store,):
            ref = claim(store, submit(store, 1, ready("a")), "a", lease_ms=LEASE_MS)
            [[server]] = rows(store, "select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)")
            ahead = store.leases(ref.task_id, 1)[0].due_at - server
            return None if ahead <= LEASE_MS else f"[lease] it ends in {ahead} ms by the server's clock"
    finally:
        time.time_ns = real


class Mute(PostgresStore):
    """Its notifications are lost on the way."""

    def tell(self) -> None:
        return


class Counted:
    """A worker and a scheduler that only look."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.seen = threading.Event()
        self.running: list[Any] = []
        self.draining = False

    def tick(self) -> int:
        if self.store.claimable("default", 1):
            self.seen.set()
        return 0

    def beat(self) -> None:
        return

    def drain(self, **_how: Any) -> None:
        self.draining = True

    kill = beat


def work_is_found_though_nobody_tells_of_it() -> str | None:
    """A hint is a hint: whoever waits looks by itself too."""
    with fleet(Mute) as (store, mute):
        looking: Any = Counted(store)
        loop = Loop(store, looking, looking, WorkerRow("w", "host", 1, ("default",), 1, store.now()))
        thread = threading.Thread(target=loop.run)
        thread.start()
        until = time.monotonic() + 10
        while not store.hinted and time.monotonic() < until:
            threading.Event().wait(0.01)
        threading.Event().wait(1.5)  # its pauses have become as long as they get
        submit(mute, 1, ready("a"))
        found = looking.seen.wait(5)
        loop.stop()
        submit(store, 2, ready("a"))
        store._hints._news.set() if store._hints is not None else None
        thread.join(15)
        return None if found else "[poll] five seconds after its submission nobody has looked for the step"


def an_edit_survives_its_worker() -> str | None:
    """An attempt that continues a run works on the files as its predecessor's last checkpoint left them."""
    with tempfile.TemporaryDirectory(prefix="longtask-sim-") as folder:
        home, repository = Path(folder) / "home", Path(folder) / "repository"
        repository.mkdir()
        (repository / "a.txt").write_text("before\n")
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "first")):
            subprocess.run([*GIT, *words], cwd=repository, env=env, check=True)
        workspace = Workspace.open(home, repository)
        base = workspace.base().commit
        spec = StepSpec(Kind.AGENT, commits=True)
        desk: Any = Silent()
        first = Assignment(TASK, "task", "edit", 1, 1, spec, base, workspace.id, None)
        dying = Places(home)
        place = dying.prepare(first, desk)
        (place / "a.txt").write_text("after\n")
        calls: list[dict[str, Any]] = [
            {"n": n, "kind": "tool", "name": "write", "fingerprint": "", "body": {}, "done": True} for n in (1, 2)
        ]
        second = replace(first, attempt=2, journal=tuple(calls), checkpoint=(2, dying.save_tree(place)))
        found = (Places(home).prepare(second, desk) / "a.txt").read_text()
        return None if found == "after\n" else f"[checkpoint] the next attempt of the run finds {found!r}"
