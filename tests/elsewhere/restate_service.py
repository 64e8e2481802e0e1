"""Run by hypercorn in a Restate environment: a service whose invocation answers to the callback's address at its end.

What it has done stands in the file RAN, a line for each time that it was really done.
"""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

import restate
from restate import Context, RunOptions, Service

elsewhere = Service("Elsewhere")


def work(commit: str) -> str:
    with open(os.environ["RAN"], "a") as file:
        file.write(f"{commit}\n")
    return commit[:4]


def tell(address: str, short: str) -> None:
    body = json.dumps({"short": short, "by": "restate"}).encode()
    request = urllib.request.Request(address, body, {"content-type": "application/json"}, method="POST")
    urllib.request.urlopen(request, timeout=30).read()


@elsewhere.handler()
async def deploy(ctx: Context, request: dict[str, Any]) -> None:
    short = await ctx.run_typed("work", work, RunOptions(), request["commit"])
    await ctx.run_typed("tell", tell, RunOptions(), request["answer_to"], short)


app = restate.app([elsewhere])
