"""A run that gives out work: the real seams of agents, on the desk of an attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from longtask.agents import spawning
from longtask.agents.journal import BOUND, Halted, Seams, Spawns
from longtask.agents.witness import Witness
from longtask.core.errors import LeaseLost
from longtask.core.model import Expanded, JsonMap
from longtask.steps.contract import Assignment, Desk

FREE = {"tokens_in": 0, "tokens_out": 0, "micros": 0}


class DeskLine:
    """What the worker's side of an agent does with its calls (`steps/agent.py`), at once."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def call(self, name: str, /, **f: Any) -> JsonMap:
        """Raises LeaseLost, and Refused when the attempt is asked to stop."""
        row = f["n"], f["kind"], f["name"], f["fingerprint"]
        if name == "journal.started":
            taken = self._desk.journal_started(*row)
        else:
            taken = self._desk.journal_done(*row, f["body"], FREE)
            taken = taken and (not f["changed"] or self._desk.checkpoint(f["n"], f"tree {f['n']}"))
        if not taken:
            raise LeaseLost(f"call {f['n']} is not taken")
        return {}

    def send(self, name: str, /, **fields: Any) -> None:
        return None


def seams_of(assignment: Assignment, desk: Desk, position: int = 0) -> Seams:
    """`position`: of the last call that is over."""
    rows = [{**row, "body": row["body"] if row["done"] else None} for row in assignment.journal]
    witness = Witness(assignment.step, assignment.run, None)
    seams = Seams(rows, DeskLine(desk), witness, ended=spawning.ended(assignment.ended))
    seams.position = position
    return seams


def tasks_of(assignment: Assignment, call: int, length: int) -> list[JsonMap]:
    """Each names its step, the call and its place; another run gives out the same."""
    return [{"name": "", "prompt": f"{assignment.step} call {call} task {index}"} for index in range(length)]


def spawned(assignment: Assignment, seams: Seams, tasks: Sequence[JsonMap]) -> Expanded | JsonMap:
    """The result of the call, or what the attempt answers as long as there is none.  Raises LeaseLost."""
    try:
        return seams.spawn(tasks, lambda ends, apart: spawning.told(tasks, ends, apart))
    except Spawns as spawns:
        listing = {"run": assignment.run, BOUND: spawns.bound, "tasks": list(spawns.tasks)}
        return Expanded(len(spawns.tasks), listing)
    except Halted as halted:
        raise LeaseLost(str(halted)) from halted
