"""`longtask fleet`: who works, and what waits for somebody to work on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from longtask.cli.background import ALIVE_MS
from longtask.cli.help import commands
from longtask.cli.paint import Line, cells, clean
from longtask.cli.session import Session
from longtask.cli.tree import duration
from longtask.core.model import POOL_SYSTEM
from longtask.store.contract import PoolLoad, WorkerRow

SHOWN_MAX = 1_000


def register(app: typer.Typer) -> None:
    command = commands(app, "Operate")

    @command()
    def fleet(ctx: typer.Context) -> int:
        """Show the workers, and the steps that wait for one, by pool.

        A worker tells every five seconds that it is there; who has not for half a minute is dead, or cannot reach the
        database, and its steps go on elsewhere. An hour later it is no longer shown.

        Examples:
            longtask fleet
            longtask fleet --json | jq '.pools[] | select(.workers == 0)'
        """
        session: Session = ctx.obj
        store = session.parts.store
        workers, running = store.workers(SHOWN_MAX), store.worker_loads(SHOWN_MAX)
        loads, now = store.pool_loads(SHOWN_MAX), store.now()
        found = {
            "workers": [worker_map(row, running.get(row.id, 0), now) for row in workers],
            "pools": pool_maps(workers, loads, now),
        }
        if session.json:
            session.give(found)
            return 0
        for line in lines(found, session.command("worker")):
            session.say(line)
        return 0


def alive(worker: WorkerRow, now: int) -> bool:
    return now - worker.seen_at <= ALIVE_MS


def worker_map(worker: WorkerRow, running: int, now: int) -> dict[str, Any]:
    return {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "version": worker.version or None,
        "pools": list(worker.pools),
        "slots": worker.slots,
        "running": running,
        "started_at": worker.started_at,
        "seen_at": worker.seen_at,
        "lag_ms": max(now - worker.seen_at, 0),
        "alive": alive(worker, now),
    }


def pool_maps(workers: list[WorkerRow], loads: list[PoolLoad], now: int) -> list[dict[str, Any]]:
    """Pools that somebody serves or that something waits for.  Every worker serves the steps of the system."""
    ready = {load.pool: load for load in loads}
    living = [worker for worker in workers if alive(worker, now)]
    names = sorted({pool for worker in living for pool in worker.pools} | ready.keys())
    found = []
    for name in names:
        load = ready.get(name)
        serving = [worker for worker in living if name in worker.pools or name == POOL_SYSTEM]
        found.append(
            {
                "pool": name,
                "workers": len(serving),
                "slots": None if name == POOL_SYSTEM else sum(worker.slots for worker in serving),
                "ready": load.ready if load else 0,
                "oldest_ready_ms": max(now - load.due_at, 0) if load else None,
            }
        )
    return found


def lines(found: dict[str, Any], start: str) -> list[Line]:
    out: list[Line] = []
    if found["workers"]:
        rows = [
            (
                clean(w["id"]),
                "alive" if w["alive"] else "dead",
                f"{clean(w['host'])}:{w['pid']}",
                f"{w['running']}/{w['slots']}",
                f"{duration(w['lag_ms'])} ago",
                w["version"] or "?",
                clean(", ".join(w["pools"])),
            )
            for w in found["workers"]
        ]
        out += table(("worker", "is", "host", "runs", "seen", "version", "pools"), rows)
    else:
        out.append([(f"no worker; start one: {start}", "yellow")])
    if found["pools"]:
        out.append([])
        out += table(("pool", "workers", "slots", "ready", "oldest"), [_pool_row(pool) for pool in found["pools"]])
    for pool in found["pools"]:
        if pool["ready"] and not pool["workers"]:
            more = "" if pool["pool"] == "default" else f" --pool {pool['pool']}"
            text = f"nobody serves pool {pool['pool']!r}, for which {pool['ready']} wait; start one: {start}{more}"
            out.append([(text, "yellow")])
    return out


def _pool_row(pool: dict[str, Any]) -> tuple[str, ...]:
    oldest = "–" if pool["oldest_ready_ms"] is None else duration(pool["oldest_ready_ms"])
    slots = "–" if pool["slots"] is None else str(pool["slots"])
    return clean(pool["pool"]), str(pool["workers"]), slots, str(pool["ready"]), oldest


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[Line]:
    wide = [max(cells(row[n]) for row in [head, *rows]) for n in range(len(head))]

    def padded(row: tuple[str, ...]) -> list[str]:
        return [text + " " * (wide[n] - cells(text) + 2) for n, text in enumerate(row)]

    def style(text: str, n: int) -> str:
        return "bold" if n == 0 else "red" if text.strip() == "dead" else ""

    return [
        [(text, "dim") for text in padded(head)],
        *([(text, style(text, n)) for n, text in enumerate(padded(row))] for row in rows),
    ]
