"""A real S3-compatible server on a loopback port: it checks signatures and keeps buckets as folders.

It is always one of our own: the tests make buckets, and damage what is in them, behind its back.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KEY, SECRET = "AKIDFAKEFAKEFAKE", "fake-secret-of-the-tests"  # this server takes no others
START_MAX_S = 30


@dataclass(frozen=True)
class Server:
    port: int
    folder: Path  # of its buckets
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        """AWS_* as a user would set them."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def bucket(self, name: str) -> Path:
        """Made if it is not there."""
        made = self.folder / name
        made.mkdir(exist_ok=True)
        return made

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@cache
def server() -> Server:
    """One for all tests of this process; it ends with it."""
    holder = tempfile.TemporaryDirectory(prefix="longtask-s3-")
    folder = Path(holder.name)
    for _ in range(5):  # another process may take the port first
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "nanio", "serve", "--no-access-log", "--log-level", "error"],
            env={
                **os.environ,
                "NANIO_DATA_DIR": str(folder),
                "NANIO_HOST": "127.0.0.1",
                "NANIO_PORT": str(port),
                "NANIO_ACCESS_KEY": KEY,
                "NANIO_SECRET_KEY": SECRET,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if _answers(port, process):
            break
    else:
        raise RuntimeError("the S3 server of the tests does not start; try: python -m nanio serve")

    def end() -> None:
        process.kill()
        process.wait()
        holder.cleanup()

    atexit.register(end)
    return Server(port, folder, process)


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + START_MAX_S
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.02)
    process.kill()
    process.wait()
    return False
