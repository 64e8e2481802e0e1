"""`longtask fleet`: who works, and what waits for somebody to work on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from longtask.cli.help import commands
from longtask.cli.paint import Line, cells
from longtask.cli.session import Session
from longtask.views.fleet import fleet_map
from longtask.views.text import clean
from longtask.views.words import duration


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
        found = fleet_map(session.parts.store)
        if session.json:
            session.give(found)
            return 0
        for line in lines(found, session.command("worker")):
            session.say(line)
        return 0


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
