"""The server, the machines and their workers, all of them real processes.

A machine has a LONGTASK_HOME of its own, a line to the database of its own, a clock that can be set, and, but for the
first one, a small disk: a file system in memory, in a mount namespace that outlives its workers.  Code and artifacts
travel through folders that all share.  The first machine is the one on which the user's repository lies.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.link import Link, Links
from tests.chaos.shapes import LEASE_S
from tests.postgres import DURABLE, Server

DISK_BYTES = 64_000_000
DRAIN_S = 20.0
SCHEMA = "chaos"
READY_S = 120.0


@dataclass(slots=True)
class Life:
    """One worker process.  `gone`: each time that it could do nothing any more, or for long; ms since 1970."""

    process: subprocess.Popen[bytes]
    machine: str
    log: Path
    gone: list[int] = field(default_factory=list)
    why: str = ""  # it has ended, or been told to

    @property
    def worker(self) -> str:
        """Its id; "" if it did not live to tell."""
        found = re.search(r"worker\.started worker=(\S+)", self.log.read_text(errors="replace"))
        return found[1] if found else ""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Machine:
    """`anchor` keeps the mount namespace with the small disk; None: there is none, and it cannot be filled."""

    name: str
    home: Path
    link: Link
    logs: Path
    clock: Path
    environment: dict[str, str]
    anchor: subprocess.Popen[bytes] | None = None
    lives: list[Life] = field(default_factory=list)
    frozen: bool = False
    absent_until: float = 0.0  # nobody starts a worker here before
    retired: bool = False

    # --- its worker -----------------------------------------------------------------------------------------------

    @property
    def life(self) -> Life | None:
        return self.lives[-1] if self.lives and self.lives[-1].process.poll() is None else None

    def start(self, slots: int, lease_s: float = LEASE_S) -> Life:
        command = [sys.executable, "-m", "longtask.cli.main", "--database", f"{self.link.url}&schema={SCHEMA}"]
        command += ["worker", "--slots", str(slots), "--lease", f"{lease_s:g}s"]
        place = self.logs / f"{self.name}.{len(self.lives)}.log"
        with place.open("ab") as log:
            process = subprocess.Popen(
                [*(enter(self.anchor.pid) if self.anchor else []), *bound(), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=self.home.parent,
                start_new_session=True,
            )
        life = Life(process, self.name, place)
        self.lives.append(life)
        self.frozen = False
        return life

    def end(self, number: signal.Signals, why: str) -> None:
        life = self.life
        if life is not None:
            life.gone.append(now_ms())
            life.why = why
            life.process.send_signal(number)

    def freeze(self) -> None:
        if self.life is not None:
            self.life.gone.append(now_ms())
            self.life.process.send_signal(signal.SIGSTOP)
            self.frozen = True

    def thaw(self) -> None:
        if self.life is not None and self.frozen:
            self.life.process.send_signal(signal.SIGCONT)
        self.frozen = False

    # --- its disk and its clock -----------------------------------------------------------------------------------

    @property
    def disk(self) -> Path | None:
        """The home, as it is seen from outside."""
        return None if self.anchor is None else Path(f"/proc/{self.anchor.pid}/root{self.home}")

    def fill(self) -> None:
        assert self.disk is not None
        for size in (1 << 20, 1 << 12, 1):
            try:
                with (self.disk / "filler").open("ab", buffering=0) as file:
                    while True:
                        file.write(b"\0" * size)
            except OSError:
                continue

    def free(self) -> None:
        assert self.disk is not None
        (self.disk / "filler").unlink(missing_ok=True)

    def set_clock(self, shift_ms: int) -> None:
        """So far from the right time."""
        with self.clock.open("r+b") as file:
            file.write((shift_ms * 1_000_000).to_bytes(8, sys.byteorder, signed=True))


def bound() -> list[str]:
    """A process that ends with ours, whatever becomes of us."""
    return ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []


def enter(pid: int) -> list[str]:
    rights = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    return ["nsenter", "--target", str(pid), "--mount", *rights, "--"]


def small_disk(home: Path) -> subprocess.Popen[bytes] | None:
    """The process that keeps it.  None: this system gives us no mount namespace."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = f"mount -t tmpfs -o size={DISK_BYTES},mode=700 none '{home}' && echo && exec sleep infinity"
    process = subprocess.Popen(
        ["unshare", "--mount", *rights, *bound(), "sh", "-c", mount],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    if process.stdout.readline():
        return process
    process.wait()
    return None


def clock_library(folder: Path) -> Path | None:
    """None: there is no C compiler here, and clocks stay right."""
    compiler = shutil.which("cc")
    source, made = Path(__file__).with_name("skew.c"), folder / "skew.so"
    if compiler is None:
        return None
    words = [compiler, "-shared", "-fPIC", "-O2", "-o", str(made), str(source), "-ldl"]
    return made if subprocess.run(words, capture_output=True).returncode == 0 else None


class Fleet:
    """Ends everything that it has started, in bounded time."""

    def __init__(self, folder: Path, seed: int, count: int = 4, slots: int = 4, lease_s: float = LEASE_S) -> None:
        self.folder = folder
        self.slots = slots
        self.lease_s = lease_s
        place = folder / "postgres"
        place.mkdir()
        (folder / "logs").mkdir()
        if os.geteuid() == 0:
            place.chmod(0o700)
        self.server = Server(place, settings=dict(DURABLE))
        self.server.before = [*self.server.before, *bound()]
        self.server.start()
        self.links = Links()
        self.missing: dict[str, str] = {}  # trouble that cannot be made here, and why
        library = clock_library(folder)
        if library is None:
            self.missing["skew"] = "no C compiler"
        self.machines = [self._machine(n, seed, library) for n in range(count)]
        if count > 1 and self.machines[-1].anchor is None:
            self.missing["disk"] = "no mount namespaces"
        self.home = self.machines[0].home

    @property
    def database(self) -> str:
        """Without any proxy."""
        url = self.server.url
        return f"{url}{'&' if '?' in url else '?'}schema={SCHEMA}"

    def _machine(self, n: int, seed: int, library: Path | None) -> Machine:
        name = f"m{n}"
        home, clock = self.folder / "homes" / name, self.folder / f"{name}.clock"
        home.mkdir(mode=0o700, parents=True)
        clock.write_bytes(bytes(8))
        environment = {**os.environ, "LONGTASK_HOME": str(home)}
        if library is not None:
            environment |= {"LD_PRELOAD": str(library), "CHAOS_SKEW": str(clock)}
        link = self.links.link(name, self.server.folder / ".s.PGSQL.5432", seed * 100 + n)
        anchor = small_disk(home) if n else None
        return Machine(name, home, link, self.folder / "logs", clock, environment, anchor)

    def start(self) -> None:
        for machine in self.machines:
            machine.start(self.slots, self.lease_s)

    def wait_until_ready(self) -> None:
        """Raises TimeoutError with what a worker said."""
        end = time.monotonic() + READY_S
        for machine in self.machines:
            life = machine.lives[-1]
            while not life.worker:
                if time.monotonic() > end or life.process.poll() is not None:
                    raise TimeoutError(f"worker {machine.name} is not ready:\n{life.log.read_text()[-2000:]}")
                time.sleep(0.05)

    def keep(self) -> list[Life]:
        """Starts what has ended, as a service manager does.  Those that have ended though nobody told them to."""
        surprises: list[Life] = []
        now = time.monotonic()
        for machine in self.machines:
            if machine.life is not None or machine.retired or now < machine.absent_until:
                continue
            last = machine.lives[-1] if machine.lives else None
            if last is not None and not last.why:
                last.why = "by itself"
                surprises.append(last)
            machine.start(self.slots, self.lease_s)
        return surprises

    def drain(self) -> list[str]:
        """Every worker is told to end.  Those that did not, in time."""
        stubborn: list[str] = []
        for machine in self.machines:
            machine.retired = True
            machine.thaw()
            machine.end(signal.SIGTERM, "end")
        end = time.monotonic() + DRAIN_S
        for machine in self.machines:
            for life in machine.lives:
                try:
                    life.process.wait(max(end - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:
                    stubborn.append(f"{life.machine} pid {life.process.pid}")
                    life.process.kill()
                    life.process.wait()
        return stubborn

    def close(self) -> None:
        for machine in self.machines:
            machine.link.silence(False)
        for machine in self.machines:
            for life in machine.lives:
                if life.process.poll() is None:
                    life.process.kill()
                life.process.wait()
            if machine.anchor is not None:
                machine.anchor.kill()
                machine.anchor.wait()
        self.links.close()
        self.server.stop()
