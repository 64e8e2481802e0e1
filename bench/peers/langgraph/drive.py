"""LangGraph with its savers: a task is a thread, a step one execution of a node, `durability="sync"`.

A chain is one node that loops, which keeps the checkpoint small: the fastest of its ways that makes a step durable
before the next begins (the functional API writes in the background).  A fan-out is a `Send` for each step.  There is no
worker and no queue: four processes get their parts beforehand, and nobody takes over.
"""

from __future__ import annotations

import asyncio
import operator
import sys
import time
import uuid
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from bench.peers.driving import (
    CHAIN_MANY,
    CHAIN_WARM,
    CONCURRENCY,
    Asked,
    Parking,
    drive,
    in_async,
    rate,
    sqlite_bytes,
    woken,
)

DURABLE: dict[str, Any] = {"durability": "sync"}
BATCH = 100


class Counted(TypedDict):
    n: int
    steps: int


class Collected(TypedDict):
    steps: int
    results: Annotated[list[int], operator.add]


async def saver(ask: Asked) -> Any:
    if ask.database == "sqlite":
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        made: Any = AsyncSqliteSaver(await aiosqlite.connect(ask.target))
    else:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool: Any = AsyncConnectionPool(ask.target, min_size=4, max_size=20, open=False, kwargs=settings)
        await pool.open(wait=True)
        made = AsyncPostgresSaver(pool)
    await made.setup()
    return made


def chain(checkpointer: Any) -> Any:
    async def step(state: Counted) -> dict[str, int]:
        return {"n": state["n"] + 1}

    graph: Any = StateGraph(Counted)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["n"] < state["steps"] else END, ["step", END])
    return graph.compile(checkpointer=checkpointer)


def fan_out(checkpointer: Any) -> Any:
    async def step(state: dict[str, int]) -> dict[str, list[int]]:
        return {"results": [state["n"]]}

    async def join(state: Collected) -> dict[str, int]:
        return {"steps": len(state["results"])}

    graph: Any = StateGraph(Collected)
    graph.add_node("step", step)
    graph.add_node("join", join)
    graph.add_conditional_edges(START, lambda state: [Send("step", {"n": n}) for n in range(state["steps"])], ["step"])
    graph.add_edge("step", "join")
    graph.add_edge("join", END)
    return graph.compile(checkpointer=checkpointer)


def waiting(checkpointer: Any) -> Any:
    async def question(state: Counted) -> dict[str, int]:
        return {"n": interrupt({"ask": "go on?"})}

    graph: Any = StateGraph(Counted)
    graph.add_node("question", question)
    graph.add_edge(START, "question")
    graph.add_edge("question", END)
    return graph.compile(checkpointer=checkpointer)


def at(steps: int, thread: str | None = None) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread or uuid.uuid4().hex}, "recursion_limit": steps + 10}


async def one(graph: Any, steps: int) -> float:
    begun = time.perf_counter()
    await graph.ainvoke({"n": 0, "steps": steps}, at(steps), **DURABLE)
    return time.perf_counter() - begun


async def chained(ask: Asked) -> dict[str, Any]:
    graph = chain(await saver(ask))
    await one(graph, CHAIN_WARM)
    return rate(ask.n, await one(graph, ask.n))


async def fanned_out(ask: Asked) -> dict[str, Any]:
    graph = fan_out(await saver(ask))
    await one(graph, CHAIN_WARM)
    took_s = await one(graph, ask.n)
    return {"value": took_s / ask.n * 1e6, "took_s": took_s}


async def chains(graph: Any, tasks: int) -> float:
    room = asyncio.Semaphore(CONCURRENCY)

    async def next_one() -> None:
        async with room:
            await one(graph, CHAIN_MANY)

    begun = time.perf_counter()
    await asyncio.gather(*[next_one() for _ in range(tasks)])
    return time.perf_counter() - begun


async def many(ask: Asked) -> dict[str, Any]:
    graph = chain(await saver(ask))
    if ask.processes > 1:
        return await many_processes(ask)
    await one(graph, CHAIN_WARM)
    return rate(ask.n * CHAIN_MANY, await chains(graph, ask.n))


async def many_processes(ask: Asked) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.peers.langgraph.drive", *sys.argv[1:], "--role", "worker"]
    pipe = asyncio.subprocess.PIPE
    parts = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(ask.processes)]
    for part in parts:
        assert part.stdout is not None
        if (await part.stdout.readline()).strip() != b"ready":
            raise RuntimeError("a part ended before it was ready")
    begun = time.perf_counter()
    for part in parts:
        assert part.stdin is not None
        part.stdin.close()
    codes = await asyncio.gather(*[part.wait() for part in parts])
    took_s = time.perf_counter() - begun
    if any(codes):
        raise RuntimeError(f"parts ended with {codes}")
    return rate(ask.n // ask.processes * ask.processes * CHAIN_MANY, took_s) | {"note": "divided beforehand"}


def worker(ask: Asked) -> None:
    async def part() -> None:
        graph = chain(await saver(ask))
        await one(graph, CHAIN_WARM)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await chains(graph, ask.n // ask.processes)

    asyncio.run(part())


def taken_over(ask: Asked) -> dict[str, Any]:
    return {"value": None, "repeated": 0, "ended": False, "note": "it has no worker: the caller must invoke it again"}


async def parked(ask: Asked) -> dict[str, Any]:
    graph = waiting(await saver(ask))
    await graph.ainvoke({"n": 0, "steps": 1}, at(1), **DURABLE)
    parking = Parking(ask.n)
    count, begun = 0, time.monotonic()
    while count < ask.n and time.monotonic() - begun < ask.limit_s:
        batch = range(count, min(count + BATCH, ask.n))
        await asyncio.gather(*[graph.ainvoke({"n": 0, "steps": 1}, at(1, f"t{n}"), **DURABLE) for n in batch])
        count = batch.stop
        parking.parking(count)
    figures = await parking.idle_async(count)
    begun, done = time.perf_counter(), 0
    while done < count and time.perf_counter() - begun < ask.limit_s:
        batch = range(done, min(done + BATCH, count))
        await asyncio.gather(*[graph.ainvoke(Command(resume=1), at(1, f"t{n}"), **DURABLE) for n in batch])
        done = batch.stop
    return figures | woken(done, time.perf_counter() - begun) | {"all_woken": done == count}


async def bytes_per_step(ask: Asked) -> dict[str, Any]:
    made = await saver(ask)
    graph = fan_out(made)
    await one(graph, CHAIN_WARM)
    before = await size(ask, made)
    await one(graph, ask.n)
    return {"value": (await size(ask, made) - before) / ask.n}


async def size(ask: Asked, made: Any) -> int:
    if ask.database == "sqlite":
        return sqlite_bytes(ask.target)
    async with made.conn.connection() as line:
        row = await (await line.execute("select pg_database_size(current_database()) as bytes")).fetchone()
        return int(row["bytes"])


async def hello(ask: Asked) -> dict[str, Any]:
    await one(chain(await saver(ask)), 1)
    return {}


async def durability(ask: Asked) -> dict[str, Any]:
    made, found = await saver(ask), {}
    if ask.database == "sqlite":
        for name in ("journal_mode", "synchronous"):
            found[name] = (await (await made.conn.execute(f"pragma {name}")).fetchone())[0]
    else:
        async with made.conn.connection() as line:
            for name in ("synchronous_commit", "fsync"):
                found[name] = (await (await line.execute(f"show {name}")).fetchone())[name]
    return {"value": None, "settings": found}


if __name__ == "__main__":
    drive(
        {
            "chain": in_async(chained),
            "fanout": in_async(fanned_out),
            "many": in_async(many),
            "takeover": taken_over,
            "parked": in_async(parked),
            "bytes": in_async(bytes_per_step),
            "hello": in_async(hello),
            "durability": in_async(durability),
        },
        worker,
    )
