"""The clients of `bench.load`, all on one loop in a process of their own: `python -m bench.load_clients ASKED`.

ASKED is `Asked` as JSON.  They submit the tasks that some streams watch, connect all streams, and say `"ready"`.  After
a line of input they submit at the rate that was asked for, and tell what they were answered (`Told`).  Streams stay
open until a line of input names the ends of what is to be told; then they tell what was.  Whatever is told is a line of
JSON.

They behave as the documentation asks: who hears no answer, or 409, 429 or 503, sends the same again with the same
`Idempotency-Key`; a stream that is cut off comes again with its `Last-Event-ID`.  So a server may be killed under them.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import uvloop

PLAN = {
    "longtask": 1,
    "name": "load",
    "steps": [
        {"id": "ok", "approval": {"ask": "Apply the change?"}},
        {"id": "apply", "run": "make apply", "needs": ["ok"]},
    ],
}
KEY = "load-"
LINES_MAX = 100  # connections that submit
AGAIN_S, AGAIN_S_MAX = 0.1, 2.0
AGAIN = frozenset({409, 429, 503})
GIVEN_UP_S = 300.0
REPEAT_EVERY = 20  # of the submits that were answered, one is sent once more: it must name the same task
READ_MAX = 1_000
HEAR_MAX_S = 30.0  # so long may what is written take to every stream
ALL = "all"
EVENT = re.compile(rb'event: event\ndata: \{"specversion":"1.0","id":"([^"]+)",.*?"type":"([^"]+)","time":"([^"]+)"')
MARK = re.compile(rb"(?:^|\n)id: ([^\n]+)\n")
LENGTH, LOCATION = re.compile(rb"(?i)\r\ncontent-length: ([0-9]+)"), re.compile(rb"(?i)\r\nlocation: ([^\r]+)")
LOST = (OSError, asyncio.IncompleteReadError, ValueError)  # ValueError: half an answer

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Asked:
    """`streams`: half of them watch all tasks, the others a task each."""

    port: int
    rate: float
    seconds: float
    streams: int


@dataclass
class Told:
    """`tasks`: of each key the ids that answers named (one, unless something is wrong).  `ages_ms`: from the instant at
    which a submit was due to its answer, so that a server that is late cannot hide it by being asked less."""

    tasks: dict[str, list[str]] = field(default_factory=dict)
    watched: int = 0  # keys that were submitted beforehand
    answers: Counter[str] = field(default_factory=Counter)  # by status; "none": there was none
    ages_ms: list[float] = field(default_factory=list)
    took_s: float = 0.0
    again: int = 0  # requests that were sent again


class Submitter:
    """Connections that are kept, and what came of what was sent over them."""

    def __init__(self, port: int, told: Told) -> None:
        self._port, self._told = port, told
        self._free: deque[Line] = deque()
        self._lines = asyncio.Semaphore(LINES_MAX)
        self._body = json.dumps(PLAN).encode()
        self._head = (
            f"POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(self._body)}\r\n"
        ).encode()

    async def submit(self, n: int, due: float) -> None:
        key = f"{KEY}{n}"
        until, pause_s = time.perf_counter() + GIVEN_UP_S, AGAIN_S
        while True:
            async with self._lines:
                status, where = await self._asked(key)
            self._told.answers[str(status or "none")] += 1
            if (status and status not in AGAIN) or time.perf_counter() > until:
                break
            self._told.again += 1
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, AGAIN_S_MAX)
        if status == 201:
            self._told.ages_ms.append((time.perf_counter() - due) * 1_000)
            self._told.tasks.setdefault(key, []).append(where)

    async def _asked(self, key: str) -> tuple[int, str]:
        """Status and location; 0: there was no answer."""
        try:
            line = self._free.popleft() if self._free else await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = line
            writer.write(b"%bIdempotency-Key: %b\r\n\r\n%b" % (self._head, key.encode(), self._body))
            answer = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(header_of(answer, LENGTH)))
        except LOST:
            self._free.clear()
            return 0, ""
        self._free.append(line)
        return int(answer.split(None, 2)[1]), header_of(answer, LOCATION).rpartition("/")[2]

    async def at_rate(self, first: int, rate: float, seconds: float) -> None:
        """Each at its time, whether the one before has been answered or not."""
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for n in range(int(rate * seconds)):
                due = begun + n / rate
                if (ahead := due - time.perf_counter()) > 0:
                    await asyncio.sleep(ahead)
                group.create_task(self.submit(first + n, due))
        self._told.took_s = time.perf_counter() - begun


class Messages(NamedTuple):
    """`instants`: of their events, and how many each has.  `first`, `last`: marks; empty: there was none."""

    numbers: list[int]
    instants: dict[float, int]
    first: str
    last: str
    snapshot: bool


def header_of(answer: bytes, pattern: re.Pattern[bytes]) -> str:
    """Empty: it is not there."""
    found = pattern.search(answer)
    return "" if found is None else found[1].decode()


class Heard:
    """By all streams together; each event has a small number.

    Streams of the same scope are sent the same bytes: each compares all that it was sent with what another one was, and
    only what is new is read.  The clients must not take the processor from the server that they measure."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._read: dict[bytes, Messages] = {}
        self.ages: Counter[int] = Counter()  # in ms, and of how many events

    def messages(self, content: bytes) -> Messages:
        """Whole ones.  Their ages are counted, for whoever was sent them."""
        found = self._read.get(content)
        if found is None:
            if len(self._read) >= READ_MAX:
                self._read.clear()
            found = self._read[content] = self._messages(content)
        now = time.time()
        for instant, count in found.instants.items():
            self.ages[max(round((now - instant) * 1_000), 0)] += count
        return found

    def _messages(self, content: bytes) -> Messages:
        events, marks = EVENT.findall(content), MARK.findall(content)
        names = [id + b" " + kind for id, kind, _ in events]
        return Messages(
            [self._numbers.setdefault(name, len(self._numbers)) for name in names],
            Counter(datetime.fromisoformat(told_at.decode()).timestamp() for _, _, told_at in events),
            marks[0].decode() if marks else "",
            marks[-1].decode() if marks else "",
            b"event: snapshot\n" in content,
        )

    @property
    def names(self) -> list[str]:
        return [name.decode() for name in self._numbers]


class Stream:
    """`events`: by number, as they came.  `begun`: the mark of its snapshot; None: it began with the first event."""

    def __init__(self, port: int, path: str, task: str | None, heard: Heard) -> None:
        self._port, self._path, self._heard = port, path, heard
        self._rest = b""
        self.task = task
        self.begun: str | None = None
        self.mark = ""
        self.came = 0  # connections
        self.events: list[int] = []
        self.ready = asyncio.Event()

    async def keep(self) -> None:
        while True:
            try:
                await self._connected()
            except LOST:
                self._rest = b""
            await asyncio.sleep(AGAIN_S)

    async def _connected(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        mark = f"Last-Event-ID: {self.mark}\r\n" if self.mark else ""
        writer.write(f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{mark}\r\n".encode())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.partition(b"\r\n")[0]:
                raise ConnectionError(head.decode())
            self.came += 1
            self.ready.set()
            while size := int(await reader.readline(), 16):
                self._hear((await reader.readexactly(size + 2))[:-2])
        finally:
            writer.close()

    def _hear(self, content: bytes) -> None:
        content = self._rest + content if self._rest else content
        cut = content.rfind(b"\n\n") + 2
        if cut == 1:
            self._rest = content
            return
        content, self._rest = content[:cut], content[cut:]
        found = self._heard.messages(content)
        self.events += found.numbers
        if found.last:
            if self.begun is None and found.snapshot:
                self.begun = found.first
            self.mark = found.last

    def reached(self, end: str) -> bool:
        return place(self.mark or "0") >= place(end)

    def document(self) -> dict[str, Any]:
        return {"task": self.task, "begun": self.begun, "came": self.came, "events": self.events}


def place(mark: str) -> tuple[int, ...]:
    return tuple(map(int, mark.partition(":")[0].split(".")))


async def line_of_input() -> str:
    return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def say(document: Any) -> None:
    print(json.dumps(document), flush=True)


async def run(asked: Asked) -> None:
    told, heard = Told(watched=asked.streams // 2), Heard()
    submitter = Submitter(asked.port, told)
    for n in range(told.watched):
        await submitter.submit(n, time.perf_counter())
    watched = [ids[0] for ids in told.tasks.values()]
    streams = [Stream(asked.port, f"/v1/tasks/{id}/stream?after=0", id, heard) for id in watched]
    streams += [Stream(asked.port, "/v1/stream", None, heard) for _ in range(asked.streams - len(watched))]
    keeping = [asyncio.create_task(stream.keep()) for stream in streams]
    for stream in streams:
        await stream.ready.wait()
    told.ages_ms.clear()
    told.answers.clear()
    say("ready")
    await line_of_input()
    await submitter.at_rate(told.watched, asked.rate, asked.seconds)
    answers, ages_ms, again = told.answers.copy(), told.ages_ms.copy(), told.again
    for key in list(told.tasks)[::REPEAT_EVERY]:
        await submitter.submit(int(key.removeprefix(KEY)), time.perf_counter())
    say(vars(told) | {"answers": answers, "ages_ms": ages_ms, "again": again})
    ends: dict[str, str] = json.loads(await line_of_input())  # of tasks, and of all
    with suppress(TimeoutError):
        async with asyncio.timeout(HEAR_MAX_S):
            while not all(stream.reached(ends[stream.task or ALL]) for stream in streams):
                await asyncio.sleep(AGAIN_S)
    for task in keeping:
        task.cancel()
    say({"names": heard.names, "streams": [stream.document() for stream in streams], "ages": heard.ages})


def main() -> None:
    uvloop.run(run(Asked(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
