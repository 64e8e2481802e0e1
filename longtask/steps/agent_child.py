"""The program in which one run of an agent lives: `agent.py` starts it, and is the only one it talks to.

It starts fast, because every attempt of every agent step waits for it: the runtime that was asked for is imported and
no other.  It knows no store; what it must not lose goes through the seams of `agents/journal.py`.
"""

from __future__ import annotations

from pathlib import Path

from longtask.agents.contract import AgentOutcome, Brief, runtime
from longtask.agents.journal import BOUND, Asks, Diverged, Halted, OutcomeUnknown, Seams, Spawns
from longtask.agents.policy import Policy
from longtask.agents.witness import Witness
from longtask.core.errors import BadPlan
from longtask.core.model import Expanded, Failed, JsonMap, Parked, WaitingFor
from longtask.redaction import mask_of
from longtask.steps import child
from longtask.steps.frames import Channel


def main() -> int:
    channel, start = child.begin()
    rows = list[JsonMap]()
    while len(rows) < start["rows"]:
        rows += channel.receive()["rows"]
    child.end_with_worker(channel)
    try:
        outcome = run(start, rows, channel)
    except Halted:
        return 0  # the worker has asked for it and expects nothing
    child.send_outcome(channel, outcome)
    return 0


def run(start: JsonMap, rows: list[JsonMap], channel: Channel) -> AgentOutcome:
    brief = Brief(
        **start["brief"]
        | {
            "cwd": Path(start["cwd"]),
            "policy": _policy(start["brief"]["policy"]),
            "inside": tuple(start["brief"]["inside"]),
            "notes": None if start["brief"]["notes"] is None else tuple(start["brief"]["notes"]),
            "program": None if start["brief"]["program"] is None else Path(start["brief"]["program"]),
        }
    )
    hidden = mask_of(start["secrets"], shapes=False)
    witness = Witness(brief.step, brief.run, start["witness"])
    seams = Seams(rows, channel, witness, hidden.value, brief.cause, start.get("ended"))
    if seams.replaying:
        channel.send("note", text=f"goes on: {len(rows)} calls of this run are in its journal and are not made again\n")
    try:
        outcome = runtime(start["runtime"]).run(brief, seams, channel)
    except Asks as asks:
        return Parked(WaitingFor.USER, asks.question, 0)
    except Spawns as spawns:
        return Expanded(len(spawns.tasks), {BOUND: spawns.bound, "tasks": list(spawns.tasks)})
    except (Diverged, OutcomeUnknown) as error:
        return Failed(str(error), retryable=isinstance(error, Diverged))
    except BadPlan as error:
        return Failed(str(error), retryable=False)
    except Exception as error:  # noqa: BLE001  a runtime may raise anything, and that is the attempt's failure
        return Failed(f"agent runtime '{start['runtime']}': {child.told(error)}")
    seams.end()
    return outcome


def _policy(rules: JsonMap) -> Policy:
    tools = rules["tools"]
    return Policy(None if tools is None else tuple(tools), tuple(rules["ask"]), tuple(rules["deny"]))
