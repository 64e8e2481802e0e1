"""Restate: its server (from npm; one node, its log's fsync on, as it comes) and a service in Python behind hypercorn.

A task is an invocation, a step a `ctx.run`.  The target is a folder.  Bytes are those of its data folder before any
compaction: indicative only.  Takeover: of two processes that serve one address the one at work is killed.
"""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from bench.peers.driving import (
    CHAIN_MANY,
    CHAIN_WARM,
    IDLE_S,
    MARKS_BEFORE_KILL,
    STEP_S,
    Asked,
    Parking,
    after_the_kill,
    drive,
    folder_bytes,
    marks,
    must,
    rate,
    wait_until,
    woken,
)

BATCH = 250
UP_S_MAX = 60.0
CONFIG = """
node-name = "bench"
base-dir = "{folder}/data"
listen-mode = "tcp"
bind-ip = "127.0.0.1"
bind-port = {node}
disable-telemetry = true
log-filter = "error"
[ingress]
bind-address = "127.0.0.1:{ingress}"
[admin]
bind-address = "127.0.0.1:{admin}"
disable-web-ui = true
"""


@dataclass(frozen=True, slots=True)
class Up:
    server: int  # process ids
    services: tuple[int, ...]
    ingress: str
    folder: Path

    def call(self, to: str, **request: Any) -> None:
        httpx.post(f"{self.ingress}/Bench/{to}", json=request, timeout=600).raise_for_status()

    def begin(self, to: str, **request: Any) -> None:
        """Does not wait for its end."""
        httpx.post(f"{self.ingress}/Bench/{to}/send", json=request, timeout=60).raise_for_status()

    def said(self, word: str) -> list[str]:
        path = self.folder / "lines"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[1] for line in lines if line.startswith(word + " ")]


def server_program() -> Path:
    """Beside the environment: `npm ci` has put it there."""
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
    package = f"restate-server-{sys.platform}-{machine}"
    return Path(sys.prefix) / "node_modules" / "@restatedev" / package / "bin" / "restate-server"


@contextmanager
def up(ask: Asked, processes: int = 1, apart: int = 1) -> Iterator[Up]:
    """`processes` of one service behind one address; `apart`: so many services, which know nothing of each other."""
    node, ingress, admin, service = free_ports(4)
    folder = Path(ask.target)
    (folder / "config.toml").write_text(CONFIG.format(folder=folder, node=node, ingress=ingress, admin=admin))
    hypercorn = Path(sys.executable).with_name("hypercorn")
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("ab") as log, socket.create_server(("127.0.0.1", service), backlog=100) as listening:

        def start(*command: str) -> int:
            environment = os.environ | {"BENCH_FOLDER": str(ask.folder)}
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[listening.fileno()],
            )
            started.append(process)
            return process.pid

        try:
            server_pid = start(str(server_program()), "-c", str(folder / "config.toml"), "--no-logo")
            served = ["bench.peers.restate.service:app", "-b", f"fd://{listening.fileno()}", "-w", str(processes)]
            services = tuple(start(str(hypercorn), "--log-level", "ERROR", *served) for _ in range(apart))
            answers(f"http://127.0.0.1:{admin}/health")
            answers(f"http://127.0.0.1:{ingress}/restate/health")
            answers(f"http://127.0.0.1:{service}/health")
            deployment = {"uri": f"http://127.0.0.1:{service}"}
            httpx.post(f"http://127.0.0.1:{admin}/deployments", json=deployment, timeout=30).raise_for_status()
            yield Up(server_pid, services, f"http://127.0.0.1:{ingress}", ask.folder)
        finally:
            for process in reversed(started):
                for pid in [*children(process.pid), process.pid]:
                    kill(pid)
                process.wait()


def free_ports(count: int) -> list[int]:
    made = [socket.socket() for _ in range(count)]
    for one in made:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in made]
    for one in made:
        one.close()
    return ports


def answers(url: str) -> None:
    def ok() -> bool:
        try:
            return httpx.get(url, timeout=1).status_code < 500
        except httpx.HTTPError:
            return False

    must(wait_until(ok, UP_S_MAX), f"the start of {url}", UP_S_MAX)


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            found += [int(path.name), *children(int(path.name))]
    return found


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def chained(ask: Asked) -> dict[str, Any]:
    with up(ask) as it:
        it.call("chain", steps=CHAIN_WARM)
        begun = time.perf_counter()
        it.call("chain", steps=ask.n)
        return rate(ask.n, time.perf_counter() - begun)


def fanned_out(ask: Asked) -> dict[str, Any]:
    with up(ask) as it:
        it.call("fan_out", steps=CHAIN_WARM)
        begun = time.perf_counter()
        it.call("fan_out", steps=ask.n)
        took_s = time.perf_counter() - begun
        return {"value": took_s / ask.n * 1e6, "took_s": took_s}


def many(ask: Asked) -> dict[str, Any]:
    with up(ask, ask.processes) as it:
        for _ in range(ask.processes):
            it.call("chain", steps=CHAIN_WARM)
        begun = time.perf_counter()
        for start in range(0, ask.n, BATCH):
            names = [f"task_{n}" for n in range(start, min(start + BATCH, ask.n))]
            it.call("send", handler="chain", requests=[{"steps": CHAIN_MANY, "tell": name} for name in names])
        done = wait_until(lambda: len(set(it.said("ended"))) >= ask.n, ask.limit_s)
        took_s = time.perf_counter() - begun
    must(done, "the invocations", ask.limit_s)
    return rate(ask.n * CHAIN_MANY, took_s)


def takeover(ask: Asked) -> dict[str, Any]:
    with up(ask, apart=2) as it:
        it.begin("short_chain", steps=ask.n)

        def at_work() -> bool:
            found = marks(ask.folder)
            return len(found) >= MARKS_BEFORE_KILL and time.time() - found[-1].at < STEP_S / 3

        must(wait_until(at_work, ask.limit_s, 0.002), "the first steps", ask.limit_s)
        dead = marks(ask.folder)[-1].pid
        whole = next(pid for pid in it.services if dead in (pid, *children(pid)))
        for pid in (dead, whole, *children(whole)):
            kill(pid)
        killed_at = time.time()
        return after_the_kill(ask.folder, dead, killed_at, ask.n, ask.limit_s)


def parked(ask: Asked) -> dict[str, Any]:
    with up(ask) as it:
        it.call("chain", steps=CHAIN_WARM)
        parking = Parking(ask.n, (it.server, *it.services, *children(it.services[0])))
        begun, sent = time.monotonic(), 0
        while sent < ask.n and time.monotonic() - begun < ask.limit_s:
            size = min(BATCH, ask.n - sent)
            it.call("send", handler="waiting", requests=[{}] * size)
            sent += size
            left_s = max(ask.limit_s - (time.monotonic() - begun), 1)
            wait_until(partial(waiting, it, sent), left_s, 0.1)
            parking.parking(sent)
        names = list(dict.fromkeys(it.said("waits")))
        time.sleep(IDLE_S)
        figures = parking.idle(len(names))
        start_of_wake = time.perf_counter()
        for start in range(0, len(names), BATCH):
            it.call("wake", names=names[start : start + BATCH])
        done = wait_until(lambda: len(set(it.said("woke"))) >= len(names), ask.limit_s, 0.05)
        took_s = time.perf_counter() - start_of_wake
        return figures | woken(len(set(it.said("woke"))), took_s) | {"all_woken": done}


def waiting(it: Up, count: int) -> bool:
    return len(it.said("waits")) >= count


def bytes_per_step(ask: Asked) -> dict[str, Any]:
    with up(ask) as it:
        it.call("fan_out", steps=CHAIN_WARM)
        before = folder_bytes(Path(ask.target) / "data")
        it.call("fan_out", steps=ask.n)
        return {"value": (folder_bytes(Path(ask.target) / "data") - before) / ask.n, "note": "before compaction"}


def hello(ask: Asked) -> dict[str, Any]:
    with up(ask) as it:
        it.call("chain", steps=1)
    return {}


def durability(ask: Asked) -> dict[str, Any]:
    """What the server itself says of its configuration about the log's fsync."""
    with up(ask) as it:
        command = [str(server_program()), "-c", str(Path(ask.target) / "config.toml"), "--dump-config"]
        dumped = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
        lines = [line.strip() for line in dumped.splitlines() if "wal" in line and "fsync" in line]
        assert it.server
    return {"value": None, "settings": {"configuration": lines}}


def no_worker(ask: Asked) -> None:
    raise SystemExit("its workers are the service's processes")


if __name__ == "__main__":
    drive(
        {
            "chain": chained,
            "fanout": fanned_out,
            "many": many,
            "takeover": takeover,
            "parked": parked,
            "bytes": bytes_per_step,
            "hello": hello,
            "durability": durability,
        },
        no_worker,
    )
