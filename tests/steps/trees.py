"""What the tests of process trees share: run one to its end, wait for a fact, see who lives.

A test's processes work in its own folder, so whoever lives there is found without any mark of ours.
"""

import os
import select
import time
from collections.abc import Callable
from pathlib import Path

from longtask.steps.process import Chunk, Exit, Process, allowed_environment

PATIENCE = 20.0  # seconds; the machine may be busy, and no test waits for it when all is well


def task(folder: Path) -> str:
    """For marks. Another run of these tests may be under way on this machine."""
    return str(folder).strip("/").replace("/", "-")


def start(command: list[str] | str, folder: Path, mark: str | None = None, **options) -> Process:
    return Process.start(
        command, cwd=folder, env=allowed_environment({}), mark=mark or f"{task(folder)}/step/1", **options
    )


def step(process: Process) -> list[Chunk]:
    """Sleeps until something happens, then reads."""
    select.select(process.filenos(), process.filenos_to_write(), [], 0.2)
    process.poll()
    return process.read()


def finish(process: Process) -> tuple[Exit, bytes]:
    """To the end; its output."""
    content = b""
    end = time.monotonic() + PATIENCE
    while process.poll() is None:
        assert time.monotonic() < end, "the process does not end"
        content += b"".join(chunk.content for chunk in step(process))
    while chunks := process.read():
        content += b"".join(chunk.content for chunk in chunks)
    exit = process.poll()
    assert exit is not None
    process.close()
    return exit, content


def read_until(process: Process, text: bytes) -> bytes:
    content = b""
    end = time.monotonic() + PATIENCE
    while text not in content:
        assert time.monotonic() < end and process.poll() is None, f"only {content!r}"
        content += b"".join(chunk.content for chunk in step(process))
    return content


def until(fact: Callable[[], object], seconds: float = PATIENCE) -> float:
    """Looks until it is so; returns how long that took."""
    begun = time.monotonic()
    while not fact():
        assert time.monotonic() < begun + seconds, f"not so after {seconds} s"
        select.select([], [], [], 0.002)
    return time.monotonic() - begun


def living(folder: Path) -> list[int]:
    """Processes, not zombies, that work in the folder."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(int(name))
        except OSError:
            continue
    return found
