"""The service that Restate's server calls, run by hypercorn: marks of its steps go into the folder BENCH_FOLDER."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import restate
from restate import Context, RunOptions, Service

from bench.peers.driving import STEP_S, mark

FOLDER = Path(os.environ["BENCH_FOLDER"])
bench = Service("Bench")
# One short write a line; several processes append.
_lines = os.open(FOLDER / "lines", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def say(*words: object) -> None:
    os.write(_lines, (" ".join(map(str, words)) + "\n").encode())


def nothing() -> None:
    return


async def short(n: int) -> None:
    mark(FOLDER, n)
    await asyncio.sleep(STEP_S)


@bench.handler()
async def chain(ctx: Context, request: dict[str, Any]) -> None:
    for _ in range(request["steps"]):
        await ctx.run_typed("step", nothing, RunOptions())
    if request.get("tell"):
        say("ended", request["tell"])


@bench.handler()
async def short_chain(ctx: Context, request: dict[str, Any]) -> None:
    for n in range(request["steps"]):
        await ctx.run_typed("step", short, RunOptions(), n)


@bench.handler()
async def fan_out(ctx: Context, request: dict[str, Any]) -> None:
    await restate.gather(*[ctx.run_typed("step", nothing, RunOptions()) for _ in range(request["steps"])])


@bench.handler()
async def waiting(ctx: Context, request: dict[str, Any]) -> None:
    name, promise = ctx.awakeable()
    await ctx.run_typed("tell", lambda: say("waits", name), RunOptions())
    await promise
    say("woke", name)


@bench.handler()
async def send(ctx: Context, request: dict[str, Any]) -> None:
    """Starts many at once: one HTTP request for each would measure the HTTP client."""
    handler = {"chain": chain, "waiting": waiting}[request["handler"]]
    for one in request["requests"]:
        ctx.service_send(handler, one)


@bench.handler()
async def wake(ctx: Context, request: dict[str, Any]) -> None:
    for name in request["names"]:
        ctx.resolve_awakeable(name, 1)


app = restate.app([bench])
