"""The merge queue on the real engine.  Numbers: SEMANTICS §9."""

from dataclasses import replace
from typing import Any

import pytest

from longtask.core.errors import NotFound, Refused, WorkspaceError
from longtask.core.events import MergeConflicted, StepDelivered, StepMerged
from longtask.core.model import Done, Kind, Role
from longtask.engine.merging import MergeResult, merge_step
from longtask.engine.scheduler import RECONCILE_EVERY_MS, ROUND_MAX, Scheduler
from tests.engine.world import HANG, LEASE_MS, World, step, work

AGENT = work(Kind.AGENT, commits=True)


def siblings(world: World, *files: str, **words: Any) -> None:
    """Steps `a`, `b` ... on the same base that touch these files; `z` needs them all.  All run, none has ended."""
    keys = "abcdefgh"[: len(files)]
    steps = [step(key, kind=Kind.AGENT, commits=True, conflict=AGENT) for key in keys]
    world.submit(*steps, step("z", 2), acts={key: [HANG] for key in keys}, code=True, **words)
    world.settle()
    assert world.states(*keys) == ["running"] * len(keys)


def deliver(world: World, key: str, file: str) -> str:
    outcome = world.commit(file)(next(a for a in world.begun if a.step == key))
    world.end(key, outcome)
    assert isinstance(outcome, Done) and outcome.commit is not None
    return outcome.commit


def holds(world: World, commit: str) -> bool:
    return world.code.contains(commit, world.task.head or "")


def test_an_attempt_on_the_newest_head_is_merged_with_its_delivery(world: World):
    world.submit(step("a", commits=True), step("b", 2), acts={"a": [world.commit("f")]}, code=True)
    base = world.task.head
    assert world.run() == "completed"
    delivered, merged = (world.events(kind)[0] for kind in (StepDelivered, StepMerged))
    assert merged.seq == delivered.seq + 1 and merged.at == delivered.at
    assert world.begun[-1].base == world.task.head != base


def test_a_commit_made_on_an_older_base_is_merged_though_the_claim_is_on_the_newest_head(world: World):
    """A run that goes on stays on the base that its files come from."""
    world.submit(step("a", commits=True), step("b", commits=True), acts={"*": [HANG]}, code=True)
    world.settle()
    old = world.task.head or ""
    first = deliver(world, "a", "f")
    world.die()
    assert world.store.get_task(world.tasks[0]).head == old
    world.reborn()
    world.later(LEASE_MS * 3)
    world.acts |= {"a": [Done(commit=first)], "b": [Done(commit=world.code.commit((old,), ("g",)), base=old)]}
    assert world.run() == "completed"
    assert holds(world, first) and holds(world, world.row("b").commit or "")
    assert world.row("b").base == first


def test_a_conflict_is_a_step_that_delivers_both_sides_and_the_attempt_stays_one(world: World):  # (64)
    siblings(world, "f", "f")
    first, second = deliver(world, "a", "f"), deliver(world, "b", "f")
    assert world.run() == "completed"
    assert [row.key for row in world.owned("b", Role.CONFLICT)] == ["b.conflict.1"]
    assert (world.row("b").attempt, world.row("b").commit) == (1, second)
    conflict = next(a for a in world.begun if a.step == "b.conflict.1")
    assert conflict.conflict is not None and conflict.conflict["commit"] == second
    assert holds(world, first) and holds(world, second)
    assert world.begun[-1].step == "z" and world.begun[-1].base == world.task.head


def test_a_head_that_moves_between_merge_and_record_is_merged_with_again(world: World):  # (65)
    siblings(world, "f", "g", "h")
    commits = [deliver(world, "a", "f")]
    world.settle()
    commits += [deliver(world, "b", "g"), deliver(world, "c", "h")]
    assert world.worker is not None
    world.worker.tick()
    assert world.states("b", "c") == ["merging", "merging"]
    merge = world.code.merge
    seen = []

    def racing(workspace_id: str, head: str, commit: str, message: str) -> MergeResult:
        """While the first merge is made, another scheduler merges the other commit."""
        made = merge(workspace_id, head, commit, message)
        seen.append(head)
        other = "c" if commit == commits[1] else "b"
        assert merge_step(world.store, world.code, world.ref(other))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.code), "merge", lambda self, *args: racing(*args) if not seen else merge(*args))
        world.scheduler.tick()
    assert sorted(world.states("b", "c")) == ["completed", "merging"]
    assert world.run() == "completed"
    assert all(holds(world, commit) for commit in commits)


def test_a_step_that_is_cancelled_while_it_merges_is_not_on_the_branch(world: World):  # (66)
    siblings(world, "f", "g")
    deliver(world, "a", "f")
    world.settle()
    commit = deliver(world, "b", "g")
    assert world.worker is not None
    world.worker.tick()
    assert world.state("b") == "merging"
    world.desk.cancel_step(world.ref("b"), "ann")
    assert world.run() == "failed"
    assert not holds(world, commit)


def test_a_conflict_without_an_agent_is_not_accepted_but_resolved(world: World):  # (67)
    steps = [step(key, commits=True) for key in "ab"]
    world.submit(*steps, acts={"a": [HANG], "b": [HANG]}, code=True, attended=True)
    world.settle()
    first, second = deliver(world, "a", "f"), deliver(world, "b", "f")
    assert world.run() == "waiting_user"
    with pytest.raises(Refused, match=r"answer resolve \| again \| give_up"):
        world.answer("b", "accept")
    with pytest.raises(Refused, match="takes a commit"):
        world.answer("b", "resolve")
    world.answer("b", "resolve", commit=world.code.commit((first, second), ()))
    assert world.run() == "completed"
    assert holds(world, first) and holds(world, second)


def test_a_commit_of_a_person_that_does_not_join_either_is_asked_about_again(world: World):
    world.submit(*(step(key, commits=True) for key in "ab"), acts={"*": [HANG]}, code=True, attended=True)
    world.settle()
    deliver(world, "a", "f"), deliver(world, "b", "f")
    assert world.run() == "waiting_user"
    ask = world.row("b").ask
    world.answer("b", "resolve", commit=world.code.commit((world.task.base or "",), ("f",)))
    assert world.run() == "waiting_user"
    assert world.row("b").ask == ask + 1


def test_a_conflict_step_that_fails_asks_and_give_up_fails_the_owner(world: World):
    siblings(world, "f", "f", attended=True)
    world.acts["b.conflict.*"] = [world.commit("f")]  # not a commit that contains both: it conflicts in its turn
    deliver(world, "a", "f"), deliver(world, "b", "f")
    assert world.run() == "waiting_user"
    world.answer("b", "give_up")
    assert world.run() == "failed"


def test_everybody_gets_through_though_each_conflicts_with_the_one_before(new_world):
    world = new_world(slots=8)
    siblings(world, *"fffff", attended=True)
    for key in "abcde":
        deliver(world, key, "f")
    assert world.run() == "completed"
    assert len(world.told(MergeConflicted)) >= 4


def test_a_lost_attempt_after_its_push_leaves_an_orphan_and_the_next_one_delivers(world: World):  # (68, point 1)
    world.submit(step("a", commits=True), acts={"a": [HANG, world.commit("f")]}, code=True)
    world.settle()
    orphan = world.code.commit((world.task.base or "",), ("f",))
    world.die()
    world.later(LEASE_MS * 3)
    world.reborn()
    assert world.run() == "completed"
    assert not holds(world, orphan) and world.row("a").attempt == 2


def test_whoever_finds_a_merging_step_merges_it(world: World):  # (68, points 2 and 3)
    siblings(world, "f", "g")
    deliver(world, "a", "f")
    world.settle()
    commit = deliver(world, "b", "g")
    assert world.worker is not None
    world.worker.tick()
    world.code.merge("ws", world.task.head or "", commit, "made, and never recorded")
    world.die()
    world.scheduler = world.new_scheduler()
    world.scheduler.tick()
    assert world.state("b") == "completed" and holds(world, commit)


def test_references_follow_the_journal_after_whatever_was_missed(world: World):  # (68, points 4 and 5)
    world.submit(step("a", commits=True), acts={"a": [world.commit("f")]}, code=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.code), "follow", lambda self, task: None)
        assert world.run() == "completed"
    assert world.tasks[0] not in world.code.refs
    world.scheduler = world.new_scheduler()
    world.scheduler.tick()
    assert world.code.refs[world.tasks[0]] == world.task.head


@pytest.mark.parametrize("error", [WorkspaceError("the disk is gone"), NotFound("no hub"), OSError("no space")])
def test_a_broken_repository_stands_in_the_way_of_its_own_task_only(world: World, error: Exception, caplog: Any):
    siblings(world, "f", "g")
    deliver(world, "a", "f")
    world.settle()
    deliver(world, "b", "g")

    def broken(self: object, *args: object) -> MergeResult:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.code), "merge", broken)
        patch.setattr(type(world.code), "follow", broken)
        world.settle()
        world.settle()
        assert caplog.text.count("merge.failed") == 1
        assert world.state("b") == "merging"
        world.submit(step("x"), name="other")
        assert world.run() == "completed"
    world.later(6_000)
    world.settle()
    assert [world.store.get_task(task_id).state for task_id in world.tasks] == ["completed", "completed"]


def test_a_machine_that_was_away_follows_what_it_missed_without_a_pause(world: World):
    for _ in range(ROUND_MAX + 20):
        world.submit(step("a"), code=True, acts={"a": [world.commit("x")]})
        world.run()
    there = replace(world.code, refs={})
    scheduler = Scheduler(world.store, world.scopes, world.language, there)
    while scheduler.tick():  # the loop pauses only when nothing has moved
        pass
    assert set(there.refs) == set(world.tasks)


@pytest.mark.parametrize("started", ["before", "after"])
def test_another_machine_follows_what_has_ended_however_much_came_since(world: World, started: str):
    """It may have the user's repository, and never have worked on the task."""
    there = replace(world.code, refs={})
    scheduler = Scheduler(world.store, world.scopes, world.language, there)
    if started == "before":
        scheduler.tick()
    world.submit(step("a"), code=True, acts={"a": [world.commit("x")]})
    world.run()
    first = world.task
    for n in range(ROUND_MAX + 10):
        world.submit(step("b"), code=n % 2 == 0)
        world.run()
    world.later(RECONCILE_EVERY_MS)
    for _ in range(ROUND_MAX):
        scheduler.tick()
    assert there.refs[first.id] == first.head != first.base
