"""The demo job, handed to a server as anybody hands work to one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longtask.cli.demo_input import FOLDER, PLAN, prepare, registry_settings
from tests.page.served import Served, serving, shell_in


@contextmanager
def demo_job(folder: Path) -> Iterator[tuple[Served, str]]:
    """The server, and the task.  Its steps find the registry that pip has found."""
    prepare(folder, print)
    with (folder / PLAN).open("a") as plan:
        plan.write(f"\nsecrets: [{', '.join(registry_settings())}]\n")
    with serving(shell_in(folder)) as served:
        served.shell("--server", served.url, "workspace", "add", FOLDER)
        told = served.shell("--server", served.url, "run", PLAN, "--detach", "--json").lines
        yield served, told[0]["task"]
