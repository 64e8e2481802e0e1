"""Streams: a thousand clients of one server, a hundred events a second, each to be told to all of them.

Three processes: the server as `longtask server` runs it, on an SQLite file; the clients, on one loop; and this one,
which writes.  Half of the clients watch the task, half of them all tasks.  One run is measured and gives three lines.

A client takes the oldest event of what comes at once as the age of all of it, so that what is told here is an upper
bound, and looks at nothing else: the clients must not be what is measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from bench import beds
from bench.result import Result, judged
from bench.tasks import approvals, parts_at
from longtask import boot

CLIENTS = 1_000
EVENTS_PER_S = 100
RUN_S = 20
WARM = 100  # clients that come and go first
DELIVERED_MIN, P99_MS_MAX, KB_MAX = 99, 500, 60
SETTLE_S = 3.0  # for what is on its way at the end
CONNECT_AT_ONCE = 50
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
EVENT, TIME = b"\nevent: event\n", b'"time":"'
TIME_LENGTH = len("2026-01-01T00:00:00.000+00:00")


@dataclass(frozen=True, slots=True)
class Measured:
    delivered_percent: float
    p50_ms: float
    p99_ms: float
    kb_per_client: float
    cores: float  # of the server while it told


def delivered() -> Result:
    return judged("streams_delivered", measured().delivered_percent, "%", DELIVERED_MIN, f"value >= {DELIVERED_MIN}")


def p99() -> Result:
    return judged("streams_p99", measured().p99_ms, "ms", P99_MS_MAX, f"value <= {P99_MS_MAX}")


def memory() -> Result:
    return judged("streams_memory", measured().kb_per_client, "KB/client", KB_MAX, f"value <= {KB_MAX}")


@cache
def measured(clients: int = CLIENTS, run_s: float = RUN_S, warm: int = WARM) -> Measured:
    with beds.folder() as at:
        parts = parts_at(at)
        task = parts.desk.submit(approvals(1))
        try:
            with server(at) as (pid, port):
                with listeners(port, task.id, warm) as child:
                    told(child)
                before = memory_of(pid)
                with listeners(port, task.id, clients) as child:
                    watch = Watch(pid)
                    watch.start()
                    busy = processor_s(pid)
                    written, took_s = write(parts, task.id, run_s)
                    cores = (processor_s(pid) - busy) / took_s
                    time.sleep(SETTLE_S)
                    found = told(child)
                    peak = watch.end()
        finally:
            parts.store.close()
    ages = sorted((float(age), count) for age, count in found["ages"].items())
    result = Measured(
        100 * found["events"] / (written * clients),
        quantile(ages, 0.5),
        quantile(ages, 0.99),
        (peak - before) / clients / 1_000,
        cores,
    )
    say(
        f"streams: {clients:,} clients, {written / took_s:.0f} events/s for {took_s:.0f} s: "
        f"{result.delivered_percent:.2f} % delivered, p50 {result.p50_ms:.0f} ms, p99 {result.p99_ms:.0f} ms, "
        f"{result.kb_per_client:.1f} KB a client, {result.cores:.2f} cores"
    )
    return result


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def quantile(ages: list[tuple[float, int]], share: float) -> float:
    left = share * sum(count for _, count in ages)
    for age, count in ages:
        left -= count
        if left <= 0:
            return age
    return float("inf")


def write(parts: boot.Parts, task_id: str, run_s: float) -> tuple[int, float]:
    """One transaction for each event; how many, and the seconds that it took."""
    begun = time.perf_counter()
    count = int(EVENTS_PER_S * run_s)
    for n in paced(count):
        (parts.desk.resume if n % 2 else parts.desk.pause)(task_id, "bench")
    return count, time.perf_counter() - begun


def paced(count: int) -> Iterator[int]:
    """The number of each event at the instant when it is due, EVENTS_PER_S of them a second; late ones come at once."""
    begun = time.perf_counter()
    for n in range(count):
        ahead = begun + n / EVENTS_PER_S - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        yield n


# --- the server's process -----------------------------------------------------------------------------------------


@contextmanager
def server(at: Path) -> Iterator[tuple[int, int]]:
    """Its process and port."""
    command = [sys.executable, "-m", "bench.streams", "serve", str(at)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(30)


def serve(at: Path) -> None:
    """Until the standard input ends."""
    from longtask.api.server import make_server
    from longtask.api.serving import Listener, listen
    from longtask.api.settings import Settings

    parts = parts_at(at)
    made = make_server(parts, Settings(port=0))
    bound = listen(made)
    listener = Listener(made, lambda: print(bound.getsockname()[1], flush=True))

    def end() -> None:
        sys.stdin.read()
        listener.should_exit = True

    threading.Thread(target=end, daemon=True).start()
    listener.run([bound])
    parts.store.close()


def memory_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watch(threading.Thread):
    """The most memory that a process has had."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._over, self._peak = pid, threading.Event(), memory_of(pid)

    def run(self) -> None:
        while not self._over.wait(0.25):
            self._peak = max(self._peak, memory_of(self._pid))

    def end(self) -> int:
        self._over.set()
        self.join()
        return self._peak


# --- the clients' process -----------------------------------------------------------------------------------------


@contextmanager
def listeners(port: int, task_id: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """When it is entered, all of them are connected and have been told how things stand."""
    command = [sys.executable, "-m", "bench.streams", "listen", str(port), task_id, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready == "ready\n", f"the clients could not connect: {ready!r}"
        yield process


def told(child: subprocess.Popen[str]) -> dict:
    """What the clients have heard; they leave."""
    out, _ = child.communicate("end\n", timeout=60)
    return json.loads(out)


class Heard:
    """By all clients of this process."""

    def __init__(self) -> None:
        self.events = 0
        self.ages: dict[int, int] = {}  # in ms, and of how many events
        self._instants: dict[bytes, float] = {}

    def take(self, content: bytes) -> None:
        count = content.count(EVENT)
        if not count:
            return
        self.events += count
        at = content.find(TIME) + len(TIME)
        text = content[at : at + TIME_LENGTH]
        instant = self._instants.get(text)
        if instant is None:
            if len(text) < TIME_LENGTH:  # cut in the middle: the rest comes at once
                return
            instant = self._instants[text] = datetime.fromisoformat(text.decode()).timestamp()
        age = max(round((time.time() - instant) * 1_000), 0)
        self.ages[age] = self.ages.get(age, 0) + count


class Client(asyncio.Protocol):
    def __init__(self, request: bytes, heard: Heard, ready: asyncio.Future[None]) -> None:
        self._request, self._heard, self._ready = request, heard, ready
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._ready.done():
            if b"event: snapshot\n" in data:
                self._ready.set_result(None)
            return
        content = self._rest + data
        cut = content.rfind(b"\n\n") + 2  # whole messages; the server sends no others but those the network cuts
        self._rest = content[cut:] if cut > 1 else content
        self._heard.take(content[:cut] if cut > 1 else b"")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._ready.done():
            self._ready.set_exception(ConnectionError("the server has closed the connection"))


async def listen_all(port: int, task_id: str, count: int) -> None:
    loop, heard = asyncio.get_running_loop(), Heard()
    transports: list[asyncio.Transport] = []

    async def connect(path: str) -> None:
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        ready: asyncio.Future[None] = loop.create_future()
        transport, _ = await loop.create_connection(lambda: Client(request, heard, ready), "127.0.0.1", port)
        transports.append(transport)
        async with asyncio.timeout(60):
            await ready

    paths = [f"/v1/tasks/{task_id}/stream" if n % 2 else "/v1/stream" for n in range(count)]
    for n in range(0, count, CONNECT_AT_ONCE):
        await asyncio.gather(*(connect(path) for path in paths[n : n + CONNECT_AT_ONCE]))
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    print(json.dumps({"events": heard.events, "ages": heard.ages}), flush=True)
    for transport in transports:
        transport.abort()


def main() -> None:
    what, *given = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536) if most > 0 else 65_536, most))
    if what == "serve":
        serve(Path(given[0]))
    else:
        port, task_id, count = given
        asyncio.run(listen_all(int(port), task_id, int(count)))


if __name__ == "__main__":
    main()
