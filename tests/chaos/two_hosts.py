"""Two hosts and a line between them that breaks: network namespaces, a router in the middle, real packets.

    python -m tests.chaos.two_hosts [--rounds N]        (root, Linux; by hand)

    [ left: a worker ] --- [ router ] --- [ right: PostgreSQL, another worker ]

Each round cuts the worker on the left off while it runs steps: `down` takes its interface away, so that it hears of it;
`silent` lets the router swallow every packet, so that nobody hears of anything.  Then:

- what it ran is claimed on the right, within 20 s by default settings;
- the process trees of what it ran are dead on the left before their leases have ended, though nobody could tell it;
- no line of an old attempt comes after a line of a newer one, and nothing that has finished runs again;
- when the line is healed, the same worker process works on.

One JSON line for each way of cutting; exit code 1 if anything does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from longtask import boot, config
from longtask.core import events as e
from longtask.core.policy import LEASE_MS
from longtask.plan import compile_plan, load
from longtask.steps import warden
from tests.chaos.__main__ import prepare
from tests.chaos.fleet import Life, bound, now_ms
from tests.chaos.shapes import MANY, Place
from tests.chaos.verdict import fenced, repeated, witnessed
from tests.engine.audit import journal
from tests.postgres import DURABLE, Server

LEFT, RIGHT = "10.93.1", "10.93.2"  # networks; .1 is the router
PORT = 5432
TASKS = 6
GOAL_S = 20.0
WAIT_MAX_S = 150.0
LATE_MAX_MS = 200  # a kill takes a moment on a busy machine; nobody can claim the step within a second of its loss
WAYS = ("down", "silent")
PLAN = f"""
longtask: 1
name: NAME
steps:
  - {{id: first, {MANY}, run: ". ACT; act 0"}}
  - id: slow
    needs: [first]
    {MANY}
    run: |
      . ACT
      say begin
      n=0
      while [ "$LONGTASK_ATTEMPT" = 1 ] && [ $n -lt 600 ]; do say work; sleep 0.1; n=$((n + 1)); done
      say end
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass(slots=True)
class Network:
    """Two namespaces and a router; gone again after `close`."""

    mark: str = field(default_factory=lambda: f"lt{os.getpid()}")

    @property
    def left(self) -> str:
        return f"{self.mark}l"

    @property
    def middle(self) -> str:
        return f"{self.mark}m"

    @property
    def right(self) -> str:
        return f"{self.mark}r"

    def open(self) -> None:
        for name in (self.left, self.middle, self.right):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for name, network in ((self.left, LEFT), (self.right, RIGHT)):
            ip("link", "add", name, "netns", name, "type", "veth", "peer", "name", f"to{name}", "netns", self.middle)
            ip("-n", name, "addr", "add", f"{network}.2/24", "dev", name)
            ip("-n", self.middle, "addr", "add", f"{network}.1/24", "dev", f"to{name}")
            ip("-n", self.middle, "link", "set", f"to{name}", "up")
            self._up(name, network)
        self._forward(True)

    def _up(self, name: str, network: str) -> None:
        ip("-n", name, "link", "set", name, "up")
        ip("-n", name, "route", "replace", "default", "via", f"{network}.1")

    def _forward(self, on: bool) -> None:
        words = ["ip", "netns", "exec", self.middle, "sh", "-c", f"echo {int(on)} > /proc/sys/net/ipv4/ip_forward"]
        subprocess.run(words, check=True)

    def cut(self, way: str) -> None:
        if way == "down":
            ip("-n", self.left, "link", "set", self.left, "down")
        else:
            self._forward(False)

    def heal(self, way: str) -> None:
        if way == "down":
            self._up(self.left, LEFT)
        else:
            self._forward(True)

    def close(self) -> None:
        for name in (self.left, self.middle, self.right):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Hosts:
    """Ends everything that it has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network = Network()
        self.lives: dict[str, Life] = {}
        self.server: Server | None = None

    def open(self) -> str:
        """The database as it is reached from here, by its socket: this line is never cut."""
        self.network.open()
        place = self.folder / "postgres"
        place.mkdir(mode=0o700)
        server = Server(place, settings=DURABLE | {"listen_addresses": f"{RIGHT}.2", "port": str(PORT)})
        with (place / "cluster" / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {LEFT}.0/24 trust\nhost all all {RIGHT}.0/24 trust\n")
        server.before = ["ip", "netns", "exec", self.network.right, *server.before, *bound()]
        self.server = server
        server.start()
        for side, namespace in (("left", self.network.left), ("right", self.network.right)):
            self._hire(side, namespace)
        end = time.monotonic() + WAIT_MAX_S
        while not all(life.worker for life in self.lives.values()):
            if time.monotonic() > end:
                raise TimeoutError("the workers are not ready:\n" + self.lives["left"].log.read_text()[-1000:])
            time.sleep(0.05)
        return server.url

    def _hire(self, side: str, namespace: str) -> None:
        home = self.folder / "homes" / side
        home.mkdir(mode=0o700, parents=True)
        url = f"postgresql://postgres@{RIGHT}.2:{PORT}/postgres"
        command = ["ip", "netns", "exec", namespace, *bound(), sys.executable, "-m", "longtask.cli.main"]
        command += ["--database", url, "worker", "--slots", str(2 * TASKS)]
        log = self.folder / f"{side}.log"
        with log.open("ab") as file:
            env = {**os.environ, "LONGTASK_HOME": str(home)}
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env, start_new_session=True
            )
        self.lives[side] = Life(process, side, log)

    def close(self) -> None:
        for life in self.lives.values():
            if life.process.poll() is None:
                life.process.send_signal(signal.SIGTERM)
        for life in self.lives.values():
            try:
                life.process.wait(20)
            except subprocess.TimeoutExpired:
                life.process.kill()
                life.process.wait()
        if self.server is not None:
            self.server.stop()
        self.network.close()


@dataclass(slots=True)
class Round:
    takeover_s: list[float] = field(default_factory=list)
    spare_s: list[float] = field(default_factory=list)  # from the death of a tree to the end of its lease
    wrong: list[str] = field(default_factory=list)
    back_s: float = 0.0
    finished: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.two_hosts")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if os.geteuid() != 0:
        print("network namespaces need root here")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="longtask-hosts-"))
    prepare(folder)
    place = Place(folder / "place")
    place.make()
    hosts = Hosts(folder)
    good = False
    try:
        parts = boot.open_parts(config.load(database=hosts.open()))
        dice = random.Random(1)
        told: list[bool] = []
        for way in WAYS:
            rounds = [one_round(hosts, parts, place, way, f"{way}-{n}", dice) for n in range(given.rounds)]
            told.append(tell(way, rounds))
        good = all(told)
        parts.store.close()
    finally:
        hosts.close()
        if good:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"evidence: {folder}")
    return 0 if good else 1


def tell(way: str, rounds: list[Round]) -> bool:
    takeovers = [s for r in rounds for s in r.takeover_s]
    spare = [s for r in rounds for s in r.spare_s]
    wrong = [text for r in rounds for text in r.wrong]
    wrong += [f"taken over after {s} s, {GOAL_S:g} at most" for s in takeovers if s > GOAL_S]
    told = {
        "cut": way,
        "rounds": len(rounds),
        "steps": len(takeovers),
        "takeover_min_s": min(takeovers),
        "takeover_median_s": statistics.median(takeovers),
        "takeover_max_s": max(takeovers),
        "dead_before_lease_end_min_s": min(spare),
        "healed_to_next_claim_max_s": max(r.back_s for r in rounds),
        "finished_before": sum(r.finished for r in rounds),
        "ok": not wrong,
    }
    print(json.dumps(told), flush=True)
    for text in wrong:
        print(f"WRONG  {text}")
    return not wrong


def one_round(hosts: Hosts, parts: boot.Parts, place: Place, way: str, name: str, dice: random.Random) -> Round:
    done = Round()
    left = hosts.lives["left"].worker
    ids: list[str] = []
    held: list[str] = []
    while not held:  # else the worker on the right was quicker each time
        for id in ids:
            parts.desk.cancel(id, "ann", "they run on the right")
        ids = [_submit(parts, place, f"{name}-{n}") for n in range(TASKS)]
        _until(lambda ids=ids: all(_worker(parts, id) for id in ids), f"{name}: the slow steps do not run")  # type: ignore[misc]
        held = [id for id in ids if _worker(parts, id) == left]
    time.sleep(dice.uniform(0.5, LEASE_MS / 2000))
    hosts.network.cut(way)
    cut_at = now_ms()
    _watch(parts, held, done, name)
    journals = {id: journal(parts.store, id) for id in held}
    for id, events in journals.items():
        claims = [x for x in events if isinstance(x.fact, e.StepClaimed) and x.fact.step == "slow"]
        done.takeover_s.append(round((claims[1].at - cut_at) / 1000, 2))
        if claims[1].fact.worker == left:  # type: ignore[union-attr]
            done.wrong.append(f"{name}: task {id} was claimed by the worker that is cut off")
        done.wrong += [f"{name}: {text}" for text in fenced(events)]
    done.finished = len(held)
    hosts.network.heal(way)
    healed_at = now_ms()
    for id in ids:
        if id not in held:
            parts.desk.cancel(id, "ann", "the round is over")
    done.back_s = _works_again(hosts, parts, place, name, left, healed_at)
    done.wrong += [f"{name}: {text}" for text in repeated(witnessed(place.witness), journals)]
    if hosts.lives["left"].process.poll() is not None:
        done.wrong.append(f"{name}: the worker on the left has ended")
    return done


def _watch(parts: boot.Parts, held: list[str], done: Round, name: str) -> None:
    """Until all are over on the right.  When each tree is dead on the left, and when its lease has ended."""
    leases = dict.fromkeys(held, 0)
    trees = _trees(held)
    dead: dict[str, int] = {}
    end = time.monotonic() + WAIT_MAX_S
    while len(dead) < len(held) or not all(parts.store.get_task(id).ended for id in held):
        if time.monotonic() > end:
            raise TimeoutError(f"{name}: what the worker had in hand does not end")
        now = now_ms()  # before the look: whoever is not there then has been dead at this instant, or died after it
        for id in held:
            if id not in dead and not any(map(_lives, trees[id])):
                dead[id] = now
            leases[id] = max(leases[id], _lease_end(parts, id))  # a beat may have been under way
        time.sleep(0.002)
    for id in held:
        done.spare_s.append(round((leases[id] - dead[id]) / 1000, 3))
        if dead[id] > leases[id] + LATE_MAX_MS:
            done.wrong.append(f"{name}: a tree has outlived its lease by {dead[id] - leases[id]} ms")


def _trees(ids: list[str]) -> dict[str, list[tuple[int, int]]]:
    """Processes of the first attempt of `slow`, each by its number and its birth; without the wardens."""
    found: dict[str, list[tuple[int, int]]] = {id: [] for id in ids}
    for pid, stat in warden.processes().items():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{warden.WARDEN}=1".encode() in environment:
            continue
        for id in ids:
            if f"{warden.MARK}={id}/slow/1".encode() in environment:
                found[id].append((pid, stat.born))
    assert all(found.values()), "a slow step has no process"
    return found


def _lives(process: tuple[int, int]) -> bool:
    seen = warden.stat(process[0])
    return seen is not None and not seen.zombie and seen.born == process[1]


def _works_again(hosts: Hosts, parts: boot.Parts, place: Place, name: str, left: str, healed_at: int) -> float:
    """Seconds from the healing to the next claim by the worker on the left; it is given work until it takes some."""
    end = time.monotonic() + WAIT_MAX_S
    n = 0
    while time.monotonic() < end:
        ids = [_submit(parts, place, f"{name}-again-{n}-{k}", quick=True) for k in range(TASKS)]
        _until(lambda ids=ids: all(parts.store.get_task(id).ended for id in ids), f"{name}: nothing works")  # type: ignore[misc]
        for id in ids:
            for event in journal(parts.store, id):
                if isinstance(event.fact, e.StepClaimed) and event.fact.worker == left:
                    return round((event.at - healed_at) / 1000, 2)
        n += 1
    raise TimeoutError(f"{name}: the worker on the left takes no work again")


def _submit(parts: boot.Parts, place: Place, name: str, quick: bool = False) -> str:
    text = PLAN.replace("NAME", name).replace("ACT", str(place.act))
    if quick:
        text = text[: text.index("  - id: slow")]
    return parts.desk.submit(compile_plan(load(text), attended=False), by="ann").id


def _worker(parts: boot.Parts, id: str) -> str:
    return next((lease.worker for lease in parts.store.leases(id, 10) if lease.step == "slow"), "")


def _lease_end(parts: boot.Parts, id: str) -> int:
    """Of the first attempt; 0: it has none any more."""
    found = [x.due_at for x in parts.store.leases(id, 10) if x.step == "slow" and x.attempt == 1]
    return found[0] if found else 0


def _until(fact: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_MAX_S
    while not fact():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
