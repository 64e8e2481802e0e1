"""A submission with a key happens once, however often and by however many it is sent."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from longtask.boot import Language, new_id
from longtask.core.errors import Refused
from longtask.core.graph import Graph, Planned
from longtask.core.model import Kind, StepSpec, TaskOptions
from longtask.engine.desk import Desk
from longtask.engine.scope import Scopes
from tests import postgres
from tests.conformance.databases import DATABASES, Clock

CALLERS = 8


@pytest.fixture(params=sorted(DATABASES))
def desk(request, tmp_path):
    store = DATABASES[request.param](tmp_path, Clock())
    yield Desk(store, Scopes(store, lambda workspace_id, digest: None), Language(), new_id)
    store.close()
    if (kept := tmp_path / "postgresql.url").exists():
        postgres.give_back(kept.read_text())


def graph(steps: int) -> Graph:
    planned = tuple(Planned(f"s{n:04}", Kind.RUN, 1, 0) for n in range(steps))
    return Graph("same", TaskOptions(stages=("work",)), (StepSpec(Kind.RUN, {"run": "true"}),), planned)


@pytest.mark.parametrize("steps", [3, 1_201])
def test_callers_with_one_key_get_one_task(desk, steps):
    with ThreadPoolExecutor(CALLERS) as callers:
        calls = [callers.submit(desk.submit, graph(steps), idempotency_key="k") for _ in range(CALLERS)]
        tasks = [call.result() for call in calls]
    assert len({task.id for task in tasks}) == 1
    whole = desk.submit(graph(steps), idempotency_key="k")
    assert (whole.loading, whole.counts.steps, whole.id) == (False, steps + 1, tasks[0].id)


def test_another_plan_under_the_same_key_is_refused(desk):
    task = desk.submit(graph(2), idempotency_key="k")
    with pytest.raises(Refused, match=f"key 'k' belongs to task '{task.id}', which has another plan"):
        desk.submit(graph(3), idempotency_key="k")
    assert desk.submit(graph(3), idempotency_key="l").id != task.id
