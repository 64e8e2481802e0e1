"""What the runtime `langgraph` leans on in LangGraph: one that fails after an upgrade says what to look at."""

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained, UnknownInterruptError
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.types import Command, interrupt

from longtask.agents.langgraph.runtime import STRICT
from longtask.agents.langgraph.saver import ERROR, INTERRUPT, NO_TASK, THREAD, KeptSaver


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def graph(*nodes: Any, saver: BaseCheckpointSaver[Any]) -> Any:
    made = StateGraph(State).add_sequence(list(nodes)).add_edge(START, nodes[0].__name__).compile()
    assert isinstance(made, Pregel)
    made.checkpointer = saver
    return made


def config() -> Any:
    return {"configurable": {"thread_id": THREAD, STRICT: True}}


def one(state: State) -> State:
    return {"log": ["one"]}


def two(state: State) -> State:
    return {"log": [str(interrupt("Well?"))]}


async def streamed(made: Any, given: Any, **more: Any) -> list[Any]:
    told = made.astream(given, config(), stream_mode=["updates", "custom"], durability="sync", **more)
    return [part async for part in told]


def saver_in(folder: Path, names: list[str]) -> KeptSaver:
    return KeptSaver(folder, lambda name, body: names.append(name), lambda task: None)


def test_a_saver_in_memory_has_three_maps_of_plain_values():
    saver = InMemorySaver()
    asyncio.run(streamed(graph(one, two, saver=saver), {"log": []}))
    storage: Any = saver.storage
    ((namespace, kept),) = storage[THREAD].items()
    checkpoint, metadata, parent = max(kept.items())[1]
    assert (namespace, type(checkpoint[1]), type(metadata[1]), type(parent)) == ("", bytes, bytes, str)
    writes: Any = saver.writes
    for (thread, _, _), made in writes.items():
        assert thread == THREAD
        for (task, index), (same, channel, value, path) in made.items():
            assert task == same
            assert [type(part) for part in (index, channel, value[1], path)] == [int, str, bytes, str]
    blobs: Any = saver.blobs
    assert all((len(key), type(value[1])) == (4, bytes) for key, value in blobs.items())
    assert {ERROR, INTERRUPT} <= set(WRITES_IDX_MAP)


def test_what_is_kept_in_files_goes_on_elsewhere(tmp_path):
    names: list[str] = []
    asyncio.run(streamed(graph(one, two, saver=saver_in(tmp_path, names)), {"log": []}))
    made = graph(one, two, saver=saver_in(tmp_path, names))
    snapshot = made.get_state(config())
    (waits,) = snapshot.interrupts
    assert (snapshot.next, waits.value, snapshot.values) == (("two",), "Well?", {"log": ["one"]})
    asyncio.run(streamed(made, Command(resume={waits.id: "yes"})))
    after = graph(one, two, saver=saver_in(tmp_path, names)).get_state(config())
    assert after.values == {"log": ["one", "yes"]} and not after.next and after.created_at
    with pytest.raises(UnknownInterruptError):
        asyncio.run(streamed(graph(one, two, saver=saver_in(tmp_path, names)), Command(resume={waits.id: "yes"})))


def test_writes_of_a_node_are_put_before_the_checkpoint_of_its_step(tmp_path):
    names: list[str] = []
    asyncio.run(streamed(graph(one, saver=saver_in(tmp_path, names)), {"log": []}))
    assert [name.partition(".")[0] for name in names] == [
        "checkpoint",
        "node",
        "checkpoint",
    ]  # of step 0, before which is but the input


def test_a_drain_ends_at_the_end_of_the_node(tmp_path):
    control = RunControl()

    def first(state: State) -> State:
        control.request_drain("pause")
        return {"log": ["first"]}

    made = graph(first, one, saver=saver_in(tmp_path, []))
    with pytest.raises(GraphDrained):
        asyncio.run(streamed(made, {"log": []}, control=control))
    assert made.get_state(config()).next == ("one",) and made.get_state(config()).values == {"log": ["first"]}


def test_a_command_for_no_task_has_an_id_of_its_own():
    from langgraph._internal._constants import NULL_TASK_ID

    assert NULL_TASK_ID == NO_TASK
