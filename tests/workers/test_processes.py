"""`longtask up --slots 0` and `longtask worker --server`, as processes: a task is carried to its end by workers that
have no database, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from longtask.boot import open_parts
from longtask.client.client import Client
from longtask.config import Config
from longtask.core.events import StepClaimed, StepCompleted, StepLost, StepReleased
from tests.cli.shell import DEADLINE_S, LONGTASK, until
from tests.workspace.conftest import Repo

SHORT = ("--lease", "3s")  # for those who are killed or cut off; a busy machine may well lose it
NO_SERVER = {"LONGTASK_SERVER": "", "LONGTASK_TOKEN": ""}
WORDS = """
recording: 1
runs:
  - step: change
    turns:
      - text: First.
        tools:
          - {tool: edit, path: a.txt, old: one, new: changed}
        usage: {tokens_in: 10, price: 0.001}
      - {text: Done.}
"""


class House:
    """A machine with a server and the database, and any number without."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.home = folder / "server"
        self.hub = folder / "hub"
        self.hub.mkdir()
        self.repo = Repo(folder / "repo")
        (self.repo.path / "a.txt").write_text("one\n")
        self.repo.git("add", ".")
        self.repo.git("commit", "--quiet", "-m", "first")
        (folder / "words.yaml").write_text(WORDS)
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.parts = open_parts(Config(self.home, str(self.home / "longtask.db"), hub=str(self.hub)))
        stack.callback(self.parts.store.close)
        self.task = ""

    def up(self) -> subprocess.Popen[bytes]:
        env = {"LONGTASK_HOME": str(self.home), "LONGTASK_HUB": str(self.hub)}
        process = self._start(env, "up", "--slots", "0", "--no-browser", "--port", str(self.port), "--json")
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["url"] == self.url
        return process

    def worker(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Its database would be one that cannot be opened."""
        env = {"LONGTASK_HOME": str(self.folder / name), "LONGTASK_DATABASE": str(self.folder / "none" / "x.db")}
        known = {row.id for row in self.parts.store.workers(99)}
        process = self._start(env, "worker", "--server", self.url, *words)
        until(lambda: any("@" in row.id and row.id not in known for row in self.parts.store.workers(99)))
        return process

    def _start(self, env: dict[str, str], *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{words[0]}-{time.monotonic_ns()}.log").open("wb") as log:
            process = subprocess.Popen(
                [LONGTASK, *words],
                cwd=self.folder,
                env={**os.environ, **NO_SERVER, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._stack.callback(self._end, process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.communicate(timeout=DEADLINE_S)

    def submit(self, *steps: dict[str, Any]) -> None:
        workspace = {"repo": str(self.repo.path)} if any("agent" in step for step in steps) else None
        plan = {"longtask": 1, "name": "t", "steps": list(steps), **({"workspace": workspace} if workspace else {})}
        if workspace is None:
            with Client(self.url) as client:
                self.task = client.submit(plan)["task"]
            return
        (self.repo.path / "plan.json").write_text(json.dumps(plan))
        env = {"LONGTASK_HOME": str(self.home), "LONGTASK_HUB": str(self.hub), "LONGTASK_STEP": "x"}
        subprocess.run(
            [LONGTASK, "run", "plan.json", "--detach", "--json"],
            cwd=self.repo.path,
            env={**os.environ, **NO_SERVER, **env},
            check=True,
            capture_output=True,
        )
        self.task = self.parts.store.get_task("@last").id

    def status(self) -> str:
        with Client(self.url) as client:
            return client.task(self.task)["status"]

    def told(self, kind: type) -> list[Any]:
        return [e.fact for e in self.parts.store.events(self.task, 0, 1_000) if isinstance(e.fact, kind)]

    def completed_once(self) -> bool:
        return set(Counter(fact.step for fact in self.told(StepCompleted) if fact.step[:4] != "gate").values()) == {1}

    def workers_of(self, key: str) -> list[str]:
        return [fact.worker for fact in self.told(StepClaimed) if fact.step == key]

    def mark(self, name: str) -> Path:
        return self.folder / name

    def told_by(self, what: str) -> str:
        return "".join(file.read_text() for file in sorted(self.folder.glob(f"{what}-*.log")))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(tmp_path, stack)


@contextmanager
def telling(house: House) -> Iterator[None]:
    """What the processes have said, when something is wrong."""
    try:
        yield
    except BaseException:
        print(house.told_by("worker"), house.told_by("up"))
        print([(row.key, row.reason) for row in house.parts.store.steps(house.task, "", 99)] if house.task else "")
        raise


def waits(house: House, key: str, **more: Any) -> dict[str, Any]:
    """A step that says it has begun, and goes on when it may."""
    begun, go = house.mark(f"begun-{key}"), house.mark(f"go-{key}")
    return {"id": key, "run": f"echo x >> {begun}; while ! test -e {go}; do sleep 0.05; done", **more}


def begun(house: House, key: str) -> int:
    file = house.mark(f"begun-{key}")
    return len(file.read_text().split()) if file.exists() else 0


def test_a_plan_is_carried_to_its_end_by_workers_without_a_database(house: House):
    """An agent's change is merged, a timer runs down, artifacts are handed on, a report is written."""
    recording = {"runtime": "recorded", "recording": str(house.folder / "words.yaml")}
    with telling(house):
        house.up()
        workers = [house.worker("w1", "--slots", "2"), house.worker("w2", "--slots", "2")]
        house.submit(
            {"id": "change", "agent": {"prompt": "Change a.txt.", **recording}},
            {"id": "timer", "wait": {"timer": "1s"}},
            {"id": "make", "needs": ["change"], "run": "cat a.txt; cp a.txt made.txt; echo said"},
            {"id": "keep", "needs": ["make"], "artifact": {"files": {"paths": ["a.txt"]}}},
            {"id": "look", "needs": ["keep", "timer"], "run": 'grep -R changed "$LONGTASK_ARTIFACTS"'},
            {"id": "report", "needs": ["look"], "artifact": {"report": {"name": "report.md"}}},
        )
        until(lambda: house.status() in ("completed", "failed"))
        assert house.status() == "completed"
        assert house.completed_once()
        ids = {name for key in ("change", "make", "look") for name in house.workers_of(key)}
        assert all("@here" in name for name in ids)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(DEADLINE_S) for worker in workers] == [0, 0]
    branch = f"longtask/t-{house.parts.store.get_task(house.task).number}"
    house.parts.merger.follow_now(house.parts.store.get_task(house.task))
    assert house.repo.git("show", f"{branch}:a.txt") == "changed"
    assert not list(house.folder.glob("w[12]/**/*.db")) and not (house.folder / "none").exists()
    assert str(house.home / "longtask.db") not in house.told_by("worker")


def test_a_worker_that_is_killed_loses_its_step_to_another_one_and_nothing_is_repeated(house: House):
    with telling(house):
        house.up()
        first = house.worker("w1", "--slots", "1", *SHORT)
        house.submit({"id": "a", "run": "true"}, waits(house, "slow", needs=["a"]))
        until(lambda: begun(house, "slow"))
        first.kill()
        house.worker("w2", "--slots", "1")
        until(lambda: begun(house, "slow") == 2)
        house.mark("go-slow").touch()
        until(lambda: house.status() == "completed")
    assert [fact.step for fact in house.told(StepLost)] == ["slow"]
    assert len(set(house.workers_of("slow"))) == 2 and len(house.workers_of("a")) == 1
    assert house.completed_once()


def test_a_server_that_is_killed_and_comes_back_has_lost_nothing(house: House):
    """One step ends while it is away, and its report waits; the others go on."""
    with telling(house):
        server = house.up()
        house.worker("w1", "--slots", "3", "--lease", "60s")
        house.submit(waits(house, "a"), waits(house, "b"), {"id": "c", "run": "true", "needs": ["a", "b"]})
        until(lambda: begun(house, "a") and begun(house, "b"))
        server.kill()
        server.wait(DEADLINE_S)
        house.mark("go-a").touch()
        until(lambda: "store.unavailable" in house.told_by("worker"))
        house.up()
        until(lambda: any(fact.step == "a" for fact in house.told(StepCompleted)))
        house.mark("go-b").touch()
        until(lambda: house.status() == "completed")
        assert "store.back" in house.told_by("worker")
    assert (begun(house, "a"), begun(house, "b")) == (1, 1)
    assert [fact.attempt for fact in house.told(StepClaimed)] == [1, 1, 1]
    assert house.told(StepLost) == house.told(StepReleased) == []


def test_a_worker_cut_off_kills_what_runs_before_somebody_else_may_have_it(house: House):
    with telling(house):
        server = house.up()
        house.worker("w1", "--slots", "1", *SHORT)
        pid = house.mark("pid")
        house.submit({"id": "slow", "run": f"echo $$ > {pid}; exec sleep 600"})
        until(lambda: pid.exists() and pid.read_text().strip())
        server.kill()
        server.wait(DEADLINE_S)
        number = int(pid.read_text())
        until(lambda: not Path(f"/proc/{number}").exists())


def test_a_worker_that_drains_gives_its_step_back_within_two_seconds(house: House):
    with telling(house):
        house.up()
        first = house.worker("w1", "--slots", "1", "--lease", "60s")
        house.submit(waits(house, "slow"))
        until(lambda: begun(house, "slow"))
        asked = time.monotonic()
        first.send_signal(signal.SIGTERM)
        until(lambda: house.told(StepReleased))
        took_s = time.monotonic() - asked
        assert first.wait(DEADLINE_S) == 0
        house.worker("w2", "--slots", "1")
        until(lambda: begun(house, "slow") == 2)
        house.mark("go-slow").touch()
        until(lambda: house.status() == "completed")
    assert took_s < 10  # two on a machine that is not busy
    assert house.told(StepLost) == [] and house.parts.store.leases(house.task, 9) == []


def test_a_server_that_keeps_code_on_its_own_disk_has_no_workers_elsewhere(house: House):
    with telling(house):
        env = {"LONGTASK_HOME": str(house.home)}
        server = house._start(env, "up", "--slots", "0", "--no-browser", "--port", str(house.port), "--json")
        assert server.stdout is not None and server.stdout.readline()
        asked = house._start({"LONGTASK_HOME": str(house.folder / "w")}, "worker", "--server", house.url)
        assert asked.wait(DEADLINE_S) == 1
    assert "on its own disk alone" in house.told_by("worker") and "LONGTASK_HUB" in house.told_by("worker")
