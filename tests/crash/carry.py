"""One case: a plan, and where its processes are killed, one after another; then to the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from longtask.core.errors import Refused
from longtask.store.contract import Ref
from tests.crash.plans import PLANS
from tests.crash.scene import Scene

ROUNDS_MAX = 4


@dataclass(frozen=True, slots=True)
class Case:
    """`kills`: `POINT` or `POINT#N` for a worker that is killed, `answer POINT` for a person who decides.

    `sure`: each point is reached.  `served`: on PostgreSQL."""

    plan: str
    kills: tuple[str, ...]
    sure: bool = True
    served: bool = False

    def __str__(self) -> str:
        return f"{self.plan}, {', '.join(self.kills)}{', postgresql' if self.served else ''}"


def case(plan: str, *kills: str, sure: bool = True) -> Case:
    return Case(plan, kills, sure)


def carry_out(folder: Path, case: Case, database: str | None) -> None:
    scene = PLANS[case.plan](folder, database)
    try:
        for kill in case.kills:
            person, _, point = kill.rpartition(" ")
            name, _, hit = point.partition("#")
            reached = answer_killed(scene, name) if person else scene.killed(name, int(hit or 1))
            assert reached or not case.sure, f"{kill!r} was never reached\n{scene.story()}"
        for _ in range(ROUNDS_MAX):
            scene.go_on("--until-asked")
            if scene.task.ended:
                break
            answer(scene)
        scene.check()
        scene.nothing_lives()
    finally:
        scene.close()


def answer(scene: Scene) -> None:
    [(task_id, step)] = scene.parts.store.asking(task_id=scene.id, limit=2)
    scene.parts.desk.answer(Ref(task_id, step.key), "approve", "ann", ask=step.ask)
    with pytest.raises(Refused):  # it counts once
        scene.parts.desk.answer(Ref(task_id, step.key), "approve", "ann", ask=step.ask)


def answer_killed(scene: Scene, point: str) -> bool:
    """A decision that was cut off has been made, or has not: never half."""
    if scene.status != "waiting_user":
        scene.go_on("--until-asked")
    [(_, step)] = scene.parts.store.asking(task_id=scene.id, limit=2)
    reached = scene.killed(point, 1, "answer", step.key, "approve")
    assert (scene.row(step.key).cause is not None) == (scene.status != "waiting_user"), scene.story()
    return reached
