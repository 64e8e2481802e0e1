"""What goes wrong, and when: a seed chooses.  Every trouble ends by itself after a while, and is counted."""

from __future__ import annotations

import heapq
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import psycopg

from tests.chaos.fleet import Fleet, Life, Machine, now_ms

EVERY_S = (0.6, 2.2)  # between two troubles
CONNECT_S = 3

# How often, one against the other.
SHARES = {
    "kill": 16,
    "drain": 5,
    "freeze": 12,
    "restart": 4,
    "crash": 4,
    "cut": 8,
    "cut_commits": 16,
    "terminate": 8,
    "silence": 7,
    "deafen": 6,
    "skew": 10,
    "disk": 8,
}


class Trouble:
    """`step` is called again and again; `end` puts everything right."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._dice = random.Random(seed)
        self._undo: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._next_at = time.monotonic() + 2
        self._full: set[str] = set()
        self._silent: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.surprises: list[Life] = []
        self.told: list[str] = []  # a line for each

    def step(self) -> None:
        now = time.monotonic()
        while self._undo and self._undo[0][0] <= now:
            heapq.heappop(self._undo)[2]()
        self.surprises += self._fleet.keep()
        if now < self._next_at:
            return
        self._next_at = now + self._dice.uniform(*EVERY_S)
        known = [name for name in SHARES if name not in self._fleet.missing]
        name = self._dice.choices(known, [SHARES[name] for name in known])[0]
        machine = self._dice.choice(self._fleet.machines)
        if getattr(self, f"_{name}")(machine) is not False:
            self.counts[name] += 1
            self.told.append(f"{now_ms()} {name} {machine.name}")

    def end(self) -> None:
        while self._undo:
            heapq.heappop(self._undo)[2]()
        for machine in self._fleet.machines:
            machine.link.cut_commits(0)
            machine.set_clock(0)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._undo, (time.monotonic() + seconds, self._number, act))

    # --- workers --------------------------------------------------------------------------------------------------

    def _kill(self, machine: Machine) -> bool:
        if machine.life is None:
            return False
        machine.end(signal.SIGKILL, "kill")
        machine.absent_until = time.monotonic() + self._dice.choice((0.0, 1.0, 6.0))
        return True

    def _drain(self, machine: Machine) -> bool:
        if machine.life is None or machine.frozen:
            return False
        machine.end(signal.SIGTERM, "drain")
        return True

    def _freeze(self, machine: Machine) -> bool:
        """Past its lease, most times: then it wakes as one that has lost everything and does not know."""
        others = sum(other.frozen for other in self._fleet.machines)
        if machine.life is None or machine.frozen or others > 1:
            return False
        machine.freeze()
        self._later(self._fleet.lease_s * self._dice.choice((0.3, 1.1, 1.4, 2.0)), machine.thaw)
        return True

    # --- the database and the way to it ---------------------------------------------------------------------------

    def _restart(self, machine: Machine) -> None:
        self._again(signal.SIGINT)

    def _crash(self, machine: Machine) -> None:
        self._again(signal.SIGQUIT)

    def _again(self, how: signal.Signals) -> None:
        self._fleet.server.stop(how)
        time.sleep(self._dice.choice((0.0, 0.5, 3.0)))
        self._fleet.server.start()

    def _cut(self, machine: Machine) -> None:
        machine.link.cut()

    def _cut_commits(self, machine: Machine) -> None:
        machine.link.cut_commits(self._dice.randint(1, 4))

    def _terminate(self, machine: Machine) -> None:
        """Backends that are in a transaction, and those that hear and tell hints."""
        with suppress(psycopg.Error), psycopg.connect(self._fleet.server.url, connect_timeout=CONNECT_S) as line:
            ended = line.execute(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> pg_backend_pid() "
                "and datname = current_database() and (xact_start is not null or application_name ilike '%hints%')"
            ).fetchone()
            self.counts["backends terminated"] += ended[0] if ended else 0

    def _silence(self, machine: Machine) -> bool:
        if machine.name in self._silent or machine.life is None:
            return False
        self._silent.add(machine.name)
        life = machine.life
        seconds = self._fleet.lease_s * self._dice.choice((0.5, 1.5, 2.5))
        if seconds > self._fleet.lease_s:
            life.gone.append(now_ms())

        def speak() -> None:
            machine.link.silence(False)
            self._silent.discard(machine.name)

        machine.link.silence(True)
        self._later(seconds, speak)
        return True

    def _deafen(self, machine: Machine) -> None:
        machine.link.deafen(True)
        self._later(self._dice.uniform(5, 20), lambda: machine.link.deafen(False))

    # --- clocks and disks -----------------------------------------------------------------------------------------

    def _skew(self, machine: Machine) -> None:
        """From a second to days, ahead or behind; at times it is put right again."""
        minutes = self._dice.choice((0, 0.02, -0.02, 0.2, -0.2, 5, -5, 600, -600, 50_000, -50_000))
        machine.set_clock(round(minutes * 60_000))

    def _disk(self, machine: Machine) -> bool:
        if machine.anchor is None or machine.name in self._full:
            return False
        self._full.add(machine.name)
        machine.fill()

        def free() -> None:
            machine.free()
            self._full.discard(machine.name)

        self._later(self._dice.uniform(3, 10), free)
        return True
