"""A commit whose answer is lost: the caller learns what happened, and nothing is done twice.

The scenario is worked off once undisturbed; then again for each of its commits, which is broken in two ways: the server
never hears of it, or the server does it and nobody hears the answer.  Each time the rows and the journal must come out
as in the undisturbed run.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest

from longtask.boot import Language
from longtask.core.errors import StoreUnavailable
from longtask.core.events import TaskPaused
from longtask.core.model import Done, Failed
from longtask.engine.desk import Desk
from longtask.engine.records import TaskRecords
from longtask.engine.scope import Scopes
from longtask.store.contract import Checkpoint, Chunk, JournalRow, Ref
from longtask.store.postgres.store import PostgresStore
from tests.conformance.play import act, claim, ready, submit
from tests.engine.audit import journal, pages, violations
from tests.engine.world import HANG, START, World, approval, step, wait
from tests.sim.repo import Repo
from tests.store.aside import clear
from tests.store.wire import SWALLOWED, TORN, UNANSWERED, Wire, commits, executes

T = TypeVar("T")
STEPS = (
    step("make", mutex="m"),
    step("flaky", failures_max=0),
    step("gone", when_failed="continue"),
    approval("ask", needs=["make"]),
    wait("go", needs=["make"], signal="go"),
    step("last", needs=["ask", "go"], mutex="m"),
)


class Wired(World):
    """A world on PostgreSQL that repeats what it was told has not happened, as a worker's loop and a caller do."""

    def __init__(self, url: str) -> None:
        self.now = START
        self.code = Repo()
        self.artifacts, self.acts, self.begun, self.hanging, self.lines = {}, {}, [], {}, {}
        self.slots, self.tasks = 4, []
        self.refused = 0  # calls that were told that nothing of them was written
        self.store: Any = PostgresStore(url, lambda: self.now)
        self.scopes = Scopes(self.store, lambda workspace_id, digest: self.artifacts[digest])
        self.records = TaskRecords(self.store, self.scopes)
        self.language = Language()
        self.desk = Desk(self.store, self.scopes, self.language, lambda: f"0190{len(self.tasks) + 1:028d}")
        self.dispatch = self.new_dispatch()
        self.scheduler = self.new_scheduler()
        self.worker = self.new_worker("w1")

    def again(self, call: Callable[[], T]) -> T:
        for _ in range(3):
            try:
                return call()
            except StoreUnavailable:
                self.refused += 1
        return call()

    def round(self) -> int:
        return self.again(super().round)

    def play(self) -> None:
        """Each kind of a caller's and a worker's transaction, to the task's end."""
        self.again(lambda: self.submit(*STEPS, acts={"flaky": [Failed("no"), Done()], "gone": [HANG]}, key="k"))
        self.settle()
        self.again(lambda: self.desk.cancel_step(self.ref("gone"), "ann"))
        assert self.worker is not None
        self.again(self.worker.beat)
        self.settle()
        self.again(lambda: self.desk.retry(self.ref("flaky"), "ann"))
        asked = self.row("ask")
        self.again(lambda: self.answer("ask", "approve", ask=asked.ask))
        self.again(lambda: self.signal("go", {"x": 1}, delivery="d-1"))
        self.settle()

    def outcome(self) -> dict[str, Any]:
        """All that the store holds of the task; positions of the feed apart, which have gaps."""
        id_, store = self.tasks[0], self.store
        return {
            "task": store.get_task(id_)._replace(number=0),
            "steps": store.steps(id_, "", 1_000),
            "events": [(e.seq, e.at, type(e.fact), _numbered(e.fact), e.actor, e.op) for e in journal(store, id_)],
            "edges": list(pages(lambda after: store.edges(id_, after, 1_000), tuple, ("", ""))),
            "inbox": store.inbox(id_, 0, 100),
            "others": (store.leases(id_, 9), store.mutexes(id_, 9), store.tickets(id_, 9), store.offers(id_, 9)),
            "begun": [(a.step, a.attempt) for a in self.begun],
        }


def _numbered(fact: Any) -> Any:
    return {name: getattr(fact, name) for name in fact.__slots__ if name != "number"}


@pytest.fixture
def wire(url: str) -> Iterator[Wire]:
    if "host=%2F" not in url:
        pytest.skip("optional: the wire is laid over a local socket")
    with TemporaryDirectory(prefix="longtask-wire-") as folder:
        made = Wire(Path(folder), url)
        yield made
        made.close()


def played(wire: Wire) -> tuple[dict[str, Any], Wired]:
    world = Wired(wire.url)
    try:
        wire.requests.clear()  # what made the schema, the first time
        world.play()
        return world.outcome(), world
    finally:
        world.store.close()


def test_the_scenario_holds_every_kind_of_transaction(wire, url):
    outcome, world = played(wire)
    assert world.refused == 0
    with_rows = PostgresStore(url, lambda: world.now)
    found = violations(with_rows, world.tasks[0])
    with_rows.close()
    assert not found, "\n".join(found)
    told = {kind.__name__ for _, _, kind, *_ in outcome["events"]}
    assert told >= set(
        "TaskSubmitted StepClaimed StepCompleted StepFailed StepCancelled StepParked StepWoken StepRestored "
        "StepUnblocked GateOpened".split()
    ), told
    assert outcome["task"].ended
    assert sum(map(commits, wire.requests)) >= 15


@pytest.mark.parametrize("how", [SWALLOWED, UNANSWERED, pytest.param(TORN, marks=pytest.mark.slow)])
def test_a_broken_commit_changes_nothing_wherever_it_stands(wire, url, line, how):
    undisturbed, _ = played(wire)
    count = sum(map(commits, wire.requests))
    for nth in range(1, count + 1):
        clear(line)
        wire.cut_at(commits, nth, how)
        outcome, world = played(wire)
        assert wire.cuts == 1, f"commit {nth} of {count}"
        assert world.refused == (how == SWALLOWED), f"commit {nth}: told if it did not happen, else not"
        for what, expected in undisturbed.items():
            assert outcome[what] == expected, f"commit {nth} of {count}: {what}"


def test_whoever_cannot_be_told_is_told_so(wire, url, open_store, monkeypatch):
    """The server cannot be asked: neither success nor failure is claimed."""
    monkeypatch.setattr("longtask.store.postgres.blocks.FATE_PATIENCE_S", 0.2)
    store = open_store(url=wire.url)
    id_ = submit(store, 1, ready("a"))
    wire.cut_at(commits, 1, UNANSWERED)
    wire.deaf = True
    with pytest.raises(StoreUnavailable, match="nobody could be asked whether it happened; look at the state before"):
        act(store, id_, TaskPaused())
    wire.deaf = False
    assert store.get_task(id_).seq == 2


def test_a_group_whose_commit_is_lost_happened_as_a_whole_or_not_at_all(wire, open_store):
    store = open_store(url=wire.url)
    ids = [submit(store, n, ready("a")) for n in (1, 2, 3)]
    wire.cut_at(commits, 1, UNANSWERED)
    with store.group():
        for id_ in ids:
            act(store, id_, TaskPaused())
    assert [store.get_task(id_).seq for id_ in ids] == [2, 2, 2]
    wire.cut_at(commits, 1, SWALLOWED)
    with pytest.raises(StoreUnavailable, match="nothing of this was written, try again"), store.group():
        for id_ in ids:
            act(store, id_, TaskPaused(2))
    assert [store.get_task(id_).seq for id_ in ids] == [2, 2, 2]


SINGLES: dict[str, Callable[[PostgresStore, Ref], Any]] = {
    "beat": lambda s, ref: s.beat(ref, 1, 2_000_000_000_000) is not None,
    "tell_progress": lambda s, ref: s.tell_progress(ref, 1, 3, 9, "so far"),
    "journal_started": lambda s, ref: s.journal_started(ref, 1, 1, JournalRow(1, "tool", "x", "f1", 1)),
    "journal_done": lambda s, ref: s.journal_done(ref, 1, 1, JournalRow(1, "tool", "x", "f1", 1, {"ok": 1})),
    "put_checkpoint": lambda s, ref: s.put_checkpoint(ref, Checkpoint(1, 1, "tree", 1)),
    "put_chunks": lambda s, ref: s.put_output(ref, 1, [Chunk(1, "out", b"one"), Chunk(2, "err", b"two")]),
    "drop_chunks": lambda s, ref: s.drop_output(ref, 1, range(2, 3)),
}


@pytest.mark.parametrize("how", [SWALLOWED, UNANSWERED, TORN])
def test_a_write_of_an_attempt_whose_answer_is_lost_is_sent_again_and_does_no_harm(wire, open_store, how):
    store = open_store(url=wire.url)
    ref = claim(store, submit(store, 1, ready("a")), "a")
    for name, write in SINGLES.items():
        wire.cut_at(executes(name), 1, how)
        assert write(store, ref) is True, name
        assert wire.cuts == 1, name
    assert [(c.n, c.body) for c in store.output(ref, 1, 0, 9)] == [(1, b"one")]
    assert [(row.n, row.body) for row in store.journal(ref, 1)] == [(1, {"ok": 1})]
    found = store.checkpoint(ref, 1)
    assert found is not None and (found.position, found.tree) == (1, "tree")
    assert [(p.done, p.total) for p in store.progress(ref.task_id, 9)] == [(3, 9)]
    assert store.leases(ref.task_id, 9)[0].due_at == 2_000_000_000_000


@pytest.mark.parametrize("how", [SWALLOWED, UNANSWERED])
def test_what_a_call_of_a_model_cost_is_recorded_once(wire, open_store, how):
    world = Wired(wire.url)
    world.submit(step("a"), acts={"a": [HANG]})
    world.settle()
    row = JournalRow(1, "turn", "model", "f1", 1, {"ok": 1}, tokens_in=10, tokens_out=5, micros=7)
    wire.cut_at(commits, 1, how)
    assert world.again(lambda: world.dispatch.journal_done(world.ref("a"), 1, 1, row))
    assert world.dispatch.journal_done(world.ref("a"), 1, 1, row), "repeated"
    assert (wire.cuts, world.refused) == (1, how == SWALLOWED)
    spent = world.task
    assert (spent.spent_micros, spent.spent_tokens) == (7, 15)
    world.store.close()
