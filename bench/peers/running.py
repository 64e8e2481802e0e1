"""Runs drivers, one at a time: a fresh target for each run, a limit on each, and whatever it started is ended with it.

What goes wrong with a peer becomes its figure (`{"error": ...}`): the rest goes on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.peers import machine
from bench.peers.plan import LONGTASK, OWN, PEERS, POSTGRES, Pair, Side, Workload
from bench.peers.venvs import FOLDER, ROOT, NotInstalled, prepared, versions
from bench.postgres import NoServer, Server, server

Figures = dict[str, Any]


@dataclass(slots=True)
class Bench:
    """`until`: when all of it ends (monotonic).  `postgres` is a server, or why there is none."""

    until: float
    postgres: Server | str
    pythons: dict[str, Path | str]  # of each side: its Python, or why there is none
    versions: dict[str, dict[str, str]]

    def run(self, workload: Workload, side: Side) -> Figures:
        """`value` and what else the driver tells, with `other`; or `skipped`, or `error`, with the reason."""
        python = self.pythons[side.name]
        if isinstance(python, str):
            return {"error": python}
        if side.database == POSTGRES and isinstance(self.postgres, str):
            return {"skipped": self.postgres}
        left_s = self.until - time.monotonic()
        if left_s <= 0:
            return {"skipped": "no time was left"}
        with target(self.postgres, side) as (folder, where):
            command = [str(python), "-m", f"bench.peers.{side.name}.drive", workload.driver]
            command += ["--database", side.database, "--target", where, "--folder", str(folder), "--n", str(side.n)]
            command += ["--processes", str(workload.processes), "--limit-s", str(workload.wait_s_max)]
            return self._measured(workload, command, python, min(workload.run_s_max, left_s))

    def _measured(self, workload: Workload, command: list[str], python: Path, limit_s: float) -> Figures:
        pid = self.postgres.pid if isinstance(self.postgres, Server) else None
        before, load = machine.Reading.now(pid), os.getloadavg()[0]
        figures = driven(command, python, limit_s)
        if "error" in figures and limit_s < workload.run_s_max and time.monotonic() >= self.until:
            figures = {"skipped": "the time was over before it ended"}
        took_s = time.monotonic() - before.at
        machine.end_orphans({pid} if pid else set())
        figures |= {
            "other": before.other(machine.Reading.now(pid)),
            "load": round(load, 2),
            "whole_s": round(took_s, 2),
        }
        if workload.name == "hello" and "value" not in figures and not {"error", "skipped"} & figures.keys():
            figures["value"] = took_s
        return figures


def driven(command: list[str], python: Path, limit_s: float) -> Figures:
    """The driver's line.  It gets a group of processes of its own, which ends with it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    environment["PATH"] = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {limit_s:.0f} s"}
    finally:
        ended(process)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        words = [line for line in err.strip().splitlines() if line.strip()]
        return {"error": words[-1][:300] if words else f"ended with {process.returncode} and said nothing"}
    figures: Figures = json.loads(lines[-1])
    return figures


def ended(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the group of this one process and what it started, nobody else's
    process.communicate()


@contextmanager
def target(postgres: Server | str, side: Side) -> Iterator[tuple[Path, str]]:
    """A folder on the disk of the sources, and an empty place to keep tasks in."""
    FOLDER.mkdir(exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(dir=FOLDER, prefix="run-", ignore_cleanup_errors=True)))
        if side.database == POSTGRES:
            assert isinstance(postgres, Server)
            name = f"bench_{side.name}"
            where = postgres.fresh(name)
            with postgres.line() as line:
                line.execute("checkpoint")  # the one before pays for its own pages
            stack.callback(postgres.drop, name)
        else:
            where = str(folder if side.database == OWN else folder / "tasks.db")
        yield folder, where


@contextmanager
def opened(names: list[str], minutes: float, *, with_postgres: bool) -> Iterator[Bench]:
    """Environments and the server.  Installing does not count into the minutes."""
    machine.adopt_orphans()
    pythons: dict[str, Path | str] = {LONGTASK: Path(sys.executable)}
    found: dict[str, dict[str, str]] = {}
    for name in names:
        try:
            python = prepared(PEERS[name])
            pythons[name], found[name] = python, versions(PEERS[name], python)
        except (NotInstalled, OSError, subprocess.SubprocessError) as error:
            pythons[name] = f"not installed: {error}"
    with ExitStack() as stack:
        postgres: Server | str = "not needed"
        if with_postgres:
            try:
                postgres = stack.enter_context(server(FOLDER))
                found["PostgreSQL"] = {"PostgreSQL": postgres.version}
            except NoServer as error:
                postgres = str(error)
        yield Bench(time.monotonic() + minutes * 60, postgres, pythons, found)


def pairs(bench: Bench, plan: Iterator[Pair]) -> Iterator[Mapping[str, Any]]:
    """One line for each pair.  A peer that failed once is not asked again for that workload."""
    failed: set[tuple[str, str, str]] = set()
    kept: dict[tuple[str, str], Figures] = {}  # LongTask's side of workloads that run once
    for pair in plan:
        key = (pair.workload.name, pair.database, pair.theirs.name)
        if key in failed or time.monotonic() > bench.until:
            continue
        theirs = bench.run(pair.workload, pair.theirs)
        if not is_figure(theirs):
            failed.add(key)
        case = (pair.workload.name, pair.database)
        ours = kept.get(case) or bench.run(pair.workload, pair.ours)
        if pair.workload.rounds_max == 1:
            kept[case] = ours
        yield {
            "at": int(time.time()),
            "round": pair.round,
            "workload": pair.workload.name,
            "database": pair.database,
            "peer": pair.theirs.name,
            "peer_database": pair.theirs.database,
            "n": pair.theirs.n,
            "theirs": theirs,
            "ours": ours,
        }


def is_figure(figures: Mapping[str, Any]) -> bool:
    return "value" in figures
