"""Why a task is not done, as it is told to people."""

from longtask.views.reasons import SHOWN_MAX, Face, why
from tests.engine.world import HANG, World, step


def test_what_is_told_of_steps_is_theirs_and_what_is_told_of_the_task_is_nobody_s(world: World):
    many = SHOWN_MAX + 3
    world.submit(*(step(f"s{n}") for n in range(many)), acts={"s*": [HANG]}, parallel=many)
    world.settle()
    world.worker = None
    face = Face(world.store, lambda *words: " ".join(words), lambda _, value: value)
    found = why(face, world.task, None)
    assert found[-1].what == "… and 3 more steps are under way"
    assert all(reason.step for reason in found if reason.what.startswith(("s", "…")))
