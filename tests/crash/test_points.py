"""Killed anywhere, a task goes on to the end that it would have had.

Each case kills processes at its points, one after another, then lets a fresh one finish; `Scene.check` says what must
hold then.  Cases are carried out side by side, since they mostly wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.crash.carry import Case, carry_out, case
from tests.postgres import drop, fresh_url

SIDE_BY_SIDE = 4

SOME = [
    # claimed and not begun; a folder and nobody in it; a process and nobody who hears it
    case("one", "after:StepClaimed", "workspace.checkout.after", "process.start.after"),
    # a turn begun; a tree saved and its row not written; a turn answered and neither on record nor paid
    case("one", "dispatch.journal_started.after#2", "places.save_tree.after", "before:UsageRecorded#2"),
    # a row whose checkpoint is missing; the checkpoint; a commit that no fact names (rule 59, 1)
    case("one", "dispatch.journal_done.after#4", "dispatch.checkpoint.after", "workspace.commit.after"),
    # all is kept and nothing reported; reported and not durable; what is sealed and not in its place
    case("one", "places.keep.after", "before:StepDelivered", "artifacts.rename.before#2"),
    # delivered, merged outside, recorded (rule 59, 2 to 4)
    case("clash", "after:StepDelivered#2", "workspace.merge.after", "after:StepMerged"),
    # the reference, the branch, the settle (rule 59, 5 and 6)
    case("clash", "workspace.advance.before", "workspace.publish.before", "before:GateOpened"),
    # in a conflict: found, its folder made, its agent in the middle
    case("clash", "after:MergeConflicted", "workspace.conflict_checkout.after", "dispatch.checkpoint.after"),
    # parked; the decision before and after its commit; the end
    case("ask", "after:StepParked", "answer before:StepWoken", "answer after:StepWoken", "before:TaskCompleted"),
    # a fix is put in front; blocks of a group are released and not committed
    case("fix", "after:FixRequested", "store.group.release#5"),
    # given out and not recorded; recorded; merged with its owner still blocked; upon the new head and not on record
    case("spawn", "before:StepExpanded", "after:StepExpanded", "after:StepMerged", "workspace.moved.after"),
    # inside a tool, inside a command; with what they have started in sessions of their own
    case("long", "file:tool", "file:command"),
]


def each(plan: str, calls: Mapping[str, tuple[int, ...]], sure: bool = True) -> Iterator[Case]:
    for call, hits in calls.items():
        sides = [call] if ":" in call or call.startswith("store.") else [f"{call}.before", f"{call}.after"]
        sides = [f"{side}{call}" for side in ("before", "after")] if call.startswith(":") else sides
        for side in sides:
            yield from (case(plan, f"{side}#{hit}", sure=sure) for hit in hits)


ALL = [
    *each("one", {
        "dispatch.claim": (1, 2), "dispatch.report": (1, 2),
        "dispatch.journal_started": (1, 2, 3, 5, 8), "dispatch.journal_done": (1, 2, 3, 4, 7),
        "dispatch.checkpoint": (1, 3), "dispatch.output": (1, 3),
        "places.prepare": (1, 2), "places.keep": (1, 2), "places.save_tree": (1, 3), "process.start": (1, 2),
        "workspace.checkout": (1, 2), "workspace.checkpoint": (1, 2), "workspace.commit": (1,),
        "workspace.remove": (1, 2), "workspace.advance": (1,), "workspace.publish": (1,), "merger.follow": (1,),
        "artifacts.put": (1, 2, 3), "artifacts.copy": (1, 2), "artifacts.rename": (1, 2),
        ":StepClaimed": (1, 2), ":StepDelivered": (1,), ":StepMerged": (1,), ":StepCompleted": (1,),
        ":StepUnblocked": (1,), ":GateOpened": (1, 2), ":UsageRecorded": (1, 2, 3), ":TaskCompleted": (1,),
    }),
    *each("one", {"store.single": (3, 9), "store.single.committed": (2, 12), "attempt.flush": (4, 20),
                  "store.begin": (2, 5), "store.locked": (1, 4), "store.written": (3, 6),
                  "store.group.release": (1, 6), "store.commit": (1, 3, 7), "store.committed": (2, 4, 8)},
          sure=False),
    *each("clash", {
        ":StepClaimed": (2, 3, 4), ":StepDelivered": (1, 2, 3), ":StepMerged": (1, 2, 3), ":StepsAdded": (1,),
        ":MergeConflicted": (1,), ":MergeResumed": (1,), ":StepUnblocked": (1,),
        "workspace.merge": (1, 2, 3), "workspace.advance": (1, 2, 3), "workspace.publish": (1, 2),
        "workspace.conflict_checkout": (1,), "workspace.commit": (2, 3), "places.keep": (2, 4),
        "dispatch.journal_done": (5, 9), "dispatch.checkpoint": (2, 3), "places.save_tree": (3,),
    }),
    *each("clash", {"store.commit": (2, 5, 9, 12), "store.committed": (3, 6, 10, 13)}, sure=False),
    *each("fix", {
        ":FixRequested": (1,), ":StepsAdded": (1,), ":StepUnblocked": (1,), ":StepClaimed": (1, 2, 3),
        ":UsageRecorded": (1,), "dispatch.report": (1, 2, 3), "places.keep": (1, 2, 3), "places.prepare": (1, 2, 3),
    }),
    *each("ask", {":StepParked": (1,), "dispatch.report": (1, 2), "workspace.commit": (1,)}),
    *(case("ask", f"answer {point}") for point in (
        "desk.answer.before", "desk.answer.after", "before:StepWoken", "after:StepWoken", "store.begin",
        "store.locked", "store.written", "store.commit", "store.committed")),
    *(case("ask", "answer after:StepWoken", point) for point in (
        "after:StepClaimed", "before:StepCompleted", "after:StepCompleted", "artifacts.rename.before",
        "artifacts.rename.after", "artifacts.put.after#2", "before:TaskCompleted", "after:TaskCompleted")),
    case("long", "file:tool", "file:command", "before:StepCompleted"),
    *each("spawn", {
        ":StepExpanded": (1, 2), ":StepsAdded": (1, 2), ":StepClaimed": (2, 3, 4), ":StepDelivered": (1, 2, 3),
        ":StepMerged": (1, 2, 3), ":StepUnblocked": (1, 2), "workspace.moved": (1, 2), "dispatch.report": (1, 2, 3, 4),
        "dispatch.journal_started": (4, 7, 10, 12), "dispatch.journal_done": (3, 6, 9, 11),
        "dispatch.checkpoint": (2, 4, 5), "places.prepare": (2, 3, 4), "places.keep": (1, 2, 3, 4),
        "places.save_tree": (2, 3, 5), "workspace.commit": (1, 2, 3),
    }),
]  # fmt: skip

QUICK = [*SOME, *(replace(case, served=True) for case in SOME)]
SLOW = [*ALL, *(replace(case, served=True) for case in ALL)]
CASES = [pytest.param(case, id=str(case)) for case in QUICK]
CASES += [pytest.param(case, id=str(case), marks=[pytest.mark.slow, pytest.mark.crash]) for case in SLOW]


@pytest.fixture(scope="module")
def carried(request, tmp_path_factory) -> Iterator[Mapping[Case, Future[None]]]:
    chosen = [item.callspec.params["case"] for item in request.session.items if item.module is request.module]
    urls = {case: fresh_url() for case in chosen if case.served}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        futures = {
            case: pool.submit(carry_out, tmp_path_factory.mktemp("scene"), case, urls.get(case)) for case in chosen
        }
        yield futures
        for future in futures.values():
            future.cancel()
    for url in urls.values():
        drop(url)


@pytest.mark.parametrize("case", CASES)
def test_killed_there_it_comes_to_the_same_end(carried, case: Case):
    carried[case].result()
