"""A server in a process of its own, made and ended as `longtask server` does it, but with little patience and small
limits, so that what it does in the end is seen soon: `python -m tests.api.hasty FOLDER`.

It says its port on a line, and ends with its standard input.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from longtask import boot
from longtask.api.access import listening
from longtask.api.access.policy import Policy
from longtask.api.server import make_server
from longtask.api.serving import Listener, listen
from longtask.api.settings import Settings
from longtask.config import Config
from tests.api.live import Live

PATIENCE_S = 1.0
BODY_MAX = 200_000
STREAMS_MAX, CONNECTIONS_MAX = 10, 60
POLICY = Policy(
    body_s=PATIENCE_S,
    body_bytes_max=BODY_MAX,
    streams_max=STREAMS_MAX,
    caller_per_s=100_000,
    caller_burst=100_000,
)  # fmt: skip


@dataclass
class Apart(Live):
    """`log`: what it has told so far."""

    pid: int
    log: Path

    @property
    def memory_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4_096

    @property
    def sockets(self) -> int:
        """Open ones."""
        count = 0
        for file in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                count += str(file.readlink()).startswith("socket:")
        return count


@contextmanager
def hasty(folder: Path) -> Iterator[Apart]:
    log = folder / "log"
    command = [sys.executable, "-m", "tests.api.hasty", str(folder)]
    with (
        log.open("wb") as told,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Apart(int(process.stdout.readline()), process.pid, log)
        finally:
            process.stdin.close()
            process.wait(30)


def main() -> None:
    listening.Hurried.headers_s = PATIENCE_S
    listening.SPARE = CONNECTIONS_MAX - STREAMS_MAX
    folder = Path(sys.argv[1])
    parts = boot.open_parts(Config(folder, str(folder / "longtask.db")))
    made = make_server(parts, Settings(port=0, policy=POLICY))
    bound = listen(made)
    listener = Listener(made, lambda: print(bound.getsockname()[1], flush=True))

    def end() -> None:
        sys.stdin.read()
        listener.should_exit = True

    threading.Thread(target=end, daemon=True).start()
    listener.run([bound])
    parts.merger.close()
    parts.store.close()


if __name__ == "__main__":
    main()
