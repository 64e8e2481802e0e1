"""Load: two hundred submits a second for a minute, while a hundred streams are open (`make load`).

Three processes: `longtask server` or `longtask up` as anybody starts it; the clients (`bench.load_clients`); and this
one, which looks afterwards whether anything was lost.  *Nothing is lost* means: every submit that was answered with 201
is in the database once, under its key and with the id of the answer; and every stream was told every event of its scope
once.  One line of JSON for each run; the exit code tells whether anything was lost, and nothing about speed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench import beds
from bench.beds import Bed
from bench.load_clients import ALL, Asked, place
from bench.postgres import NoServer
from bench.streams import memory_of, processor_s, quantile, say
from longtask import boot
from longtask.api.access.roles import Caller
from longtask.api.submitting import of_request
from longtask.config import DATABASE, HOME, Config
from longtask.views.events import Agents, cloud_events

RATE, SECONDS, STREAMS = 200, 60, 100
SERVER, UP = ("server",), ("up", "--no-browser")
TWO = ("--processes", "2")
RUNS = {
    "server": (beds.sqlite, SERVER),
    "server_two": (beds.sqlite, (*SERVER, *TWO)),
    "up": (beds.sqlite, UP),
    "up_two": (beds.sqlite, (*UP, *TWO)),
    "pg_server": (beds.postgres, SERVER),
    "pg_server_two": (beds.postgres, (*SERVER, *TWO)),
    "pg_up": (beds.postgres, UP),
    "pg_up_two": (beds.postgres, (*UP, *TWO)),
}
USER = "bench"
PAGE = 1_000
END_MAX_S = 30
QUIET_S, QUIET_MAX_S = 1.0, 120.0  # until a worker has caught up with what was submitted
LONGTASK = str(Path(sys.executable).with_name("longtask"))


@dataclass(frozen=True, slots=True)
class Run:
    """Ages in milliseconds: of the answer to a submit, from the instant at which it was due; of an event, from its own
    time to when a stream has told it.  `answers`: of each status how many.  `again`: submits that were sent again.
    `cores`: of the server.  `connections`: of the streams.  `lost`: in words."""

    run: str
    submits_per_s: float
    p50_ms: float
    p99_ms: float
    answers: dict[str, int]
    again: int
    cores: float
    memory_before_mb: float
    memory_after_mb: float
    streams: int
    connections: int
    delivered_percent: float
    streams_p50_ms: float
    streams_p99_ms: float
    lost: list[str]


# --- the server ---------------------------------------------------------------------------------------------------


class Program:
    """A server, which may be killed and started again at the same port."""

    def __init__(self, config: Config, words: Sequence[str]) -> None:
        self._config, self._words, self._log = config, words, config.home / "server.log"
        self.port = 0
        self.process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [*self._words, "--port", str(self.port), "--json"],
                env=os.environ | {HOME: str(self._config.home), DATABASE: self._config.database, "LONGTASK_USER": USER},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told, f"the server does not start: {self._log.read_text()[-2_000:]}"
        self.port = int(json.loads(told)["url"].rpartition(":")[2])
        return process

    @property
    def pids(self) -> list[int]:
        """Of the process, and of those that answer for it."""
        pid = self.process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    @property
    def memory(self) -> int:
        return sum(map(memory_of, self.pids))

    @property
    def processor_s(self) -> float:
        return sum(map(processor_s, self.pids))

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.process = self._started()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=END_MAX_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


@contextmanager
def serving(config: Config, words: Sequence[str]) -> Iterator[Program]:
    program = Program(config, words)
    try:
        yield program
    finally:
        program.end()


# --- the clients --------------------------------------------------------------------------------------------------


class Clients:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        """When all streams are open."""
        self._process = process
        assert self._hear() == "ready"

    def submit(self) -> None:
        self._say("go on")

    def submitted(self) -> dict[str, Any]:
        """As `Told`, when the last submit is answered."""
        told: dict[str, Any] = self._hear()
        return told

    def heard(self, ends: dict[str, str]) -> dict[str, Any]:
        """What the streams were told up to these marks, of each task and of all; the clients leave."""
        self._say(json.dumps(ends))
        told: dict[str, Any] = self._hear()
        return told

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the clients have failed"
        return json.loads(line)


@contextmanager
def clients(asked: Asked) -> Iterator[Clients]:
    command = [sys.executable, "-m", "bench.load_clients", json.dumps(asdict(asked))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Clients(process)
        finally:
            process.kill()


# --- what is kept, and what was told ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Journal:
    """Names of events as streams tell them: of all tasks with the cursor behind each, and of each task."""

    all: list[tuple[str, str]]
    tasks: dict[str, list[str]]

    @property
    def ends(self) -> dict[str, str]:
        """The last mark of each task and of all."""
        ends = {task_id: names[-1].partition(" ")[0].rpartition("/")[2] for task_id, names in self.tasks.items()}
        return ends | {ALL: self.all[-1][0]}

    def of(self, task_id: str | None, begun: str | None) -> list[str]:
        """What a stream is to tell that began behind that mark."""
        if task_id is not None:
            return self.tasks[task_id]
        return [name for cursor, name in self.all if begun is None or place(cursor) > place(begun)]


def journal_of(parts: boot.Parts) -> Journal:
    """When nobody writes any more."""
    store, cursor = parts.store, ""
    wait_for_quiet(parts)
    found = Journal([], defaultdict(list))
    while page := store.tail(cursor, PAGE):
        for event, cursor in page:
            task = store.get_task(event.task_id)
            names = [f"{told['id']} {told['type']}" for told in cloud_events(task, event, Agents(store, task.id))]
            found.all.extend((cursor, name) for name in names)
            found.tasks[task.id].extend(names)
    return found


def wait_for_quiet(parts: boot.Parts) -> None:
    until, end = time.monotonic() + QUIET_MAX_S, parts.store.feed_end()
    while time.monotonic() < until:
        time.sleep(QUIET_S)
        before, end = end, parts.store.feed_end()
        if before == end:
            return


def lost_tasks(parts: boot.Parts, told: dict[str, list[str]]) -> Iterator[str]:
    """`told`: the ids that were answered to each key."""
    kept: dict[str | None, list[str]] = defaultdict(list)
    before = 0
    while page := parts.store.tasks(open_only=False, workspace_id=None, before=before, limit=PAGE):
        before = page[-1].number
        for task in page:
            kept[task.idempotency_key].append(task.id)
    caller = Caller(USER, frozenset())
    for key, ids in told.items():
        found = kept.pop(of_request(caller, key), [])
        if len(found) != 1 or set(ids) != set(found):
            yield f"{key} was answered with {ids}; the database has {found}"
    if kept:
        yield f"the database has {len(kept)} tasks that nobody was told of"


def lost_events(journal: Journal, heard: dict[str, Any]) -> Iterator[str]:
    for n, stream in enumerate(heard["streams"]):
        told = [heard["names"][number] for number in stream["events"]]
        wanted = journal.of(stream["task"], stream["begun"])
        if told != wanted:
            missing, more = Counter(wanted) - Counter(told), Counter(told) - Counter(wanted)
            yield (
                f"stream {n} of {stream['task'] or 'all tasks'} was told {len(told):,} events of {len(wanted):,}: "
                f"{missing.total()} missing {list(missing)[:3]}, {more.total()} too many {list(more)[:3]}; or in "
                "another order"
            )


# --- a run --------------------------------------------------------------------------------------------------------


def measured(name: str, config: Config, words: Sequence[str], asked: Asked, kill_after_s: Sequence[float] = ()) -> Run:
    """`words`: the command that serves.  `asked.port` is not looked at.  `kill_after_s`: so long after it serves, and
    again after it serves again, the server is killed, and started at its port."""
    with serving(config, words) as program, clients(replace(asked, port=program.port)) as callers:
        before, busy = program.memory, program.processor_s
        callers.submit()
        for after_s in kill_after_s:
            time.sleep(after_s)
            program.kill()
        told = callers.submitted()
        cores = (program.processor_s - (0 if kill_after_s else busy)) / told["took_s"]
        parts = boot.open_parts(config)
        try:
            journal = journal_of(parts)
            heard = callers.heard(journal.ends)
            after = program.memory
            lost = [*lost_tasks(parts, told["tasks"]), *lost_events(journal, heard)]
        finally:
            parts.merger.close()
            parts.store.close()
    wanted = sum(len(journal.of(stream["task"], stream["begun"])) for stream in heard["streams"])
    ages = sorted((age, 1) for age in told["ages_ms"])
    delays = sorted((float(age), count) for age, count in heard["ages"].items())
    return Run(
        name,
        round(len(ages) / told["took_s"], 1),
        round(quantile(ages, 0.5), 1),
        round(quantile(ages, 0.99), 1),
        told["answers"],
        told["again"],
        round(cores, 2),
        round(before / 1e6, 1),
        round(after / 1e6, 1),
        len(heard["streams"]),
        sum(stream["came"] for stream in heard["streams"]),
        round(100 * sum(len(stream["events"]) for stream in heard["streams"]) / wanted, 2),
        quantile(delays, 0.5),
        quantile(delays, 0.99),
        lost,
    )


def database_of(bed: Bed) -> str:
    target = bed.target("load")
    return target if "://" in target else str(Path(target) / "longtask.db")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description="submits under load, and what was lost")
    parser.add_argument("run", nargs="*", choices=[[], *RUNS], help=f"of: {', '.join(RUNS)}")
    parser.add_argument("--rate", type=float, default=RATE, help=f"submits a second; default: {RATE}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"default: {SECONDS}")
    parser.add_argument("--streams", type=int, default=STREAMS, help=f"open meanwhile; default: {STREAMS}")
    asked = parser.parse_args()
    lost = False
    for name in asked.run or RUNS:
        opened, words = RUNS[name]
        try:
            with opened() as bed:
                bed.fresh("load")
                config = Config(bed.at, database_of(bed))
                found = measured(name, config, (LONGTASK, *words), Asked(0, asked.rate, asked.seconds, asked.streams))
        except NoServer as reason:
            say(f"{name}: skipped: {reason}")
            continue
        lost = lost or bool(found.lost)
        print(json.dumps(asdict(found)), flush=True)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
