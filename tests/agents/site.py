"""An attempt of an agent step: a worker as a process of its own, so that it can be killed.

Rows, checkpoints and the blocks of sessions lie in the site's folder, trees in its hub; all else is the attempt's own:
HOME, TMPDIR, the place where it works.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.agents.site_worker import PATIENCE_S, BlockDesk, Work
from tests.agents.worker import git, save_tree, task_of
from tests.cli.shell import until

ROOT = Path(__file__).parents[2]
KEPT = ("PATH", "LANG", "LD_LIBRARY_PATH")  # of this process's environment


@dataclass
class Site:
    """One step, attempted again and again, each time elsewhere."""

    folder: Path
    program: Path
    runtime: str
    env: dict[str, str]
    body: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True
    attempts: int = 0

    def start(self, cause: dict[str, Any] | None = None) -> Running:
        self.attempts += 1
        machine, place = self.machine, self.place
        for made in (place, machine / "home", machine / "tmp"):
            made.mkdir(parents=True)
        body = {"prompt": "Do it.", "runtime": self.runtime, **self.body}
        work = Work(
            str(self.folder), str(place), self.attempts, body=body, outputs=self.outputs,
            repeatable=self.repeatable, program=str(self.program), cause=cause,
        )  # fmt: skip
        path = self.folder / f"story-{self.attempts}.json"
        path.write_text(json.dumps(asdict(work)))
        env = {name: os.environ[name] for name in KEPT if name in os.environ}
        env |= {"HOME": str(machine / "home"), "TMPDIR": str(machine / "tmp"), **self.env}
        with (self.folder / f"worker-{self.attempts}.log").open("wb") as log:
            command = [sys.executable, "-m", "tests.agents.site_worker", str(path)]
            process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
        return Running(self, process, place, path)

    def attempt(self, cause: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.start(cause).end()

    @property
    def machine(self) -> Path:
        """Of the newest attempt."""
        return self.folder / f"machine {self.attempts}"

    @property
    def place(self) -> Path:
        return self.machine / "place"

    @property
    def rows(self) -> list[dict[str, Any]]:
        return BlockDesk(self.folder).rows()

    @property
    def seen(self) -> list[tuple[str, str]]:
        """What is over."""
        return [(row["kind"], row["name"]) for row in self.rows if row["body"] is not None]


@dataclass
class Running:
    site: Site
    process: subprocess.Popen[bytes]
    place: Path
    story: Path

    def end(self) -> dict[str, Any]:
        code = self.process.wait(PATIENCE_S)
        log = (self.site.folder / f"worker-{self.site.attempts}.log").read_text()
        assert code == 0, log
        outcome: dict[str, Any] = json.loads(self.story.with_suffix(".outcome").read_text())
        return outcome

    def until(self, true: Callable[[], Any]) -> None:
        """While it runs."""

        def look() -> Any:
            assert self.process.poll() is None, self.end()
            return true()

        until(look, PATIENCE_S)

    def kill(self) -> None:
        """The worker, as by the machine's end; waits until everything that it had started is gone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        until(lambda: not self.left(), PATIENCE_S)

    def left(self) -> list[str]:
        """Processes of this attempt."""
        mark = f"LONGTASK_MARK={task_of(str(self.site.folder))}/core/{self.site.attempts}".encode()
        return [command for command, environ in _processes() if any(mark in word for word in environ)]


def _processes() -> list[tuple[str, list[bytes]]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environ = (entry / "environ").read_bytes().split(b"\0")
                found.append(((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"), environ))
            except OSError:
                continue
    return found


def site(folder: Path, runtime: str, program: Path, env: dict[str, str], **more: Any) -> Site:
    make_hub(folder)
    return Site(folder, program, runtime, env, **more)


def make_hub(folder: Path, **files: str) -> None:
    """Its base has these files, by names without their last part, and `hello.txt`."""
    git("init", "--quiet", "--bare", str(folder / "hub"))
    start = folder / "start"
    start.mkdir()
    (start / "hello.txt").write_text("hello\n")
    for name, content in files.items():
        (start / f"{name}.py").write_text(content)
    (folder / "base").write_text(save_tree(folder / "hub", start))
    shutil.rmtree(start)


def decided(outcome: dict[str, Any], decision: str, **more: Any) -> dict[str, Any]:
    """What wakes an attempt after a person has decided about the call of a parked one."""
    return {"decision": decision, "by": "ann", "text": "", "bound": outcome["question"]["bound"], **more}
