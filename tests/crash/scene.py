"""A repository of a user, a plan on it, and the processes that carry it out and are killed.

A `Scene` starts drivers and, when the task has ended, looks at everything that is not the database too: the hub, the
user's branch, worktrees, processes, artifacts, and the witness file, in which each model call, tool and command has
left a line before it answered.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from textwrap import dedent
from typing import Any

from longtask import boot, config
from longtask.agents import witness
from longtask.boot import branch_of
from longtask.core.events import Event, StepLost, UsageRecorded
from longtask.core.machine import status
from longtask.core.model import Step, Task
from longtask.plan import compile_plan, load
from longtask.steps import warden
from longtask.store.contract import Ref
from longtask.workspace.workspace import Workspace
from tests.crash import driver
from tests.engine.audit import journal, pages, violations

ALIVE_S = 20.0  # what a killed worker had started dies at once; on a busy machine that takes its time, too
END_S = 60.0  # the machine may be busy; nothing takes so long when all is well
LEASES_MAX = 100
POLL_S = 0.01
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["tests.crash.driver"])


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Scene:
    """`files` are committed before the task starts; `plan` and `recording` are YAML.  `database`: a URL, None: a file
    in its own home."""

    def __init__(
        self,
        folder: Path,
        database: str | None,
        plan: str,
        recording: str = "",
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.database = database
        self.repository = folder / "repository"
        self.witness = folder / "witness"
        self.log = folder / "log"
        self.kills = 0
        self.numbers = itertools.count(1)
        self.repository.mkdir(parents=True)
        git(self.repository, "init", "-q", "-b", "main")
        for name, content in (files or {"a.txt": "one\n", "b.txt": "two\n"}).items():
            (self.repository / name).write_text(content)
        git(self.repository, "add", "--all")
        git(self.repository, "commit", "-qm", "first")
        script = folder / "recording.yaml"
        script.write_text(dedent(recording))
        text = dedent(plan).replace("RECORDING", str(script)).replace("HOME", str(self.home))
        script.write_text(script.read_text().replace("HOME", str(self.home)))
        self.parts = boot.open_parts(config.load(database, self.home))
        workspace = Workspace.open(self.home, self.repository)
        graph = compile_plan(load(text), attended=False)
        base = workspace.base("main").commit
        self.id = self.parts.desk.submit(graph, by="ann", workspace_id=workspace.id, base=base).id
        self.workspace = workspace

    def close(self) -> None:
        self.parts.store.close()

    # --- processes ------------------------------------------------------------------------------------------------

    def start(self, act: str, *words: str) -> ForkServerProcess:
        """A process of its own, forked from one that has only imported what it needs: half a second less for each."""
        env = {**os.environ, witness.VARIABLE: str(self.witness), "LONGTASK_HOME": str(self.home)}
        env |= {config.DATABASE: self.database} if self.database else {}
        name = words[words.index("--name") + 1] if "--name" in words else f"worker-{next(self.numbers)}"
        given = [act, str(self.home), *words, "--name", name]
        process = FORKING.Process(target=driver.forked, args=(given, env, self.log), name=name)
        process.start()
        return process

    def leases_end(self, process: ForkServerProcess) -> None:
        """Of what the dead process had in hand, now: nobody waits for it, so the leases of the living may be long."""
        store = self.parts.store
        for lease in store.leases_of_worker(process.name, LEASES_MAX):
            store.beat(Ref(lease.task_id, lease.step), lease.attempt, due_at=0)

    def finish(self, process: ForkServerProcess) -> int:
        process.join(END_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise AssertionError(f"it does not end\n{self.story()}")
        return process.exitcode

    def killed(self, point: str, hit: int = 1, act: str = "work", *words: str) -> bool:
        """A process is killed at the point, and what it had started dies with it.  False: it never came there."""
        process = self.start(act, *words, "--at", point, "--hit", str(hit))
        code = self.finish(process)
        if code == 0:
            return False
        assert code == -signal.SIGKILL, f"exit code {code}\n{self.story()}"
        self.kills += 1
        self.nothing_lives()
        self.leases_end(process)
        return True

    def go_on(self, *words: str) -> None:
        """A fresh process, to the end (or until a person is asked)."""
        code = self.finish(self.start("work", *words))
        assert code == 0, f"exit code {code}\n{self.story()}"

    def living(self) -> list[int]:
        """Processes of this task, by their mark."""
        mark = f"{warden.MARK}={self.id}/".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environment = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if mark in environment:
                    found.append(int(entry.name))
        return found

    def nothing_lives(self) -> None:
        end = time.monotonic() + ALIVE_S
        while left := self.living():
            assert time.monotonic() < end, f"{len(left)} processes live on: {[_command(pid) for pid in left]}"
            time.sleep(POLL_S)

    def until(self, fact: Callable[[], object]) -> None:
        end = time.monotonic() + END_S
        while not fact():
            assert time.monotonic() < end, f"it does not come about\n{self.story()}"
            time.sleep(POLL_S)

    # --- looking --------------------------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        return self.parts.store.get_task(self.id)

    @property
    def status(self) -> str:
        return status(self.task)

    def rows(self) -> list[Step]:
        return list(pages(lambda after: self.parts.store.steps(self.id, after, 500), lambda row: row.key, ""))

    def row(self, key: str) -> Step:
        return next(row for row in self.rows() if row.key == key)

    def events(self) -> list[Event]:
        return journal(self.parts.store, self.id)

    def seen(self) -> list[dict[str, Any]]:
        """Lines of the witness."""
        return [json.loads(line) for line in self.witness.read_text().splitlines()] if self.witness.exists() else []

    def file(self, name: str) -> str:
        """At the task's head."""
        return self.workspace.read_file(self.task.head or "", name).decode()

    def story(self) -> str:
        lines = [f"{event.seq:4} {event.at} {event.fact}"[:300] for event in self.events()]
        log = self.log.read_text().splitlines()[-40:] if self.log.exists() else []
        return "\n".join([f"status {self.status}", *lines, *log])

    # --- what must hold -------------------------------------------------------------------------------------------

    def check(self, state: str = "completed") -> None:
        wrong = list(self._wrong(state))
        assert not wrong, "\n".join([*wrong, "", self.story()])

    def _wrong(self, state: str) -> Iterator[str]:
        task = self.task
        if task.state != state:
            yield f"the task is {self.status}, not {state}"
        contains = self.workspace.contains
        yield from violations(self.parts.store, self.id, lambda ancestor, commit: contains(commit, ancestor))
        yield from self.parts.store.verify()
        yield from self._repeated()
        yield from self._references(task)
        yield from self._left_behind(task)
        yield from self._artifacts()
        yield from self._usage(task)

    def _repeated(self) -> Iterator[str]:
        lines = self.seen()
        counted = witness.count(lines)
        if counted.repeated:
            calls = [(line["step"], line["n"], line["name"]) for line in lines]
            yield f"{counted.repeated} finished calls were made again: {calls}"
        made = Counter((line["step"], line["run"], line["n"]) for line in lines if line["kind"] != witness.END)
        lost = Counter(event.fact.step for event in self.events() if isinstance(event.fact, StepLost))
        often = {call: times for call, times in made.items() if times > 1 + lost[call[0]]}
        if often:
            yield f"calls were made more often than their step was lost: {often}"

    def _references(self, task: Task) -> Iterator[str]:
        if task.head is None:
            return
        if self.workspace.head(task.id) != task.head:
            yield f"the hub's head is {self.workspace.head(task.id)}, the journal says {task.head}"
        branch = git(self.repository, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch_of(task)}")
        if branch != ("" if task.head == task.base else task.head):
            yield f"the user's branch is at {branch!r}, the head at {task.head}"
        for row in self.rows():
            if row.state == "completed" and row.commit and not self.workspace.has_commit(row.commit):
                yield f"commit {row.commit} of step {row.key!r} is lost"

    def _left_behind(self, task: Task) -> Iterator[str]:
        folder = self.home / "trees" / task.id
        left = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        if left:
            yield f"worktrees of attempts that have ended are left: {left}"
        if self.parts.store.leases(task.id, 10):
            yield "leases are left"

    def _artifacts(self) -> Iterator[str]:
        store = self.parts.artifacts
        for entry in self.parts.store.artifacts(self.id, 1_000):
            content = store.read(self.workspace.id, entry.digest)
            if len(content) != entry.size_bytes:
                yield f"artifact {entry.name!r} has {len(content)} bytes, not {entry.size_bytes}"
        for digest in store.digests(self.workspace.id):
            store.read(self.workspace.id, digest)  # raises when its bytes are not those of its name

    def _usage(self, task: Task) -> Iterator[str]:
        """Each finished call is paid for once, whatever was killed between its row and its price."""
        rows = [
            row
            for step in self.rows()
            for run in range(1, step.run + 1)
            for row in self.parts.store.journal(Ref(task.id, step.key), run)
        ]
        spent = sum(row.tokens_in + row.tokens_out for row in rows)
        told = [event.fact for event in self.events() if isinstance(event.fact, UsageRecorded)]
        if not spent == task.spent_tokens == sum(fact.tokens_in + fact.tokens_out for fact in told):
            yield f"the run journal has {spent} tokens, the task {task.spent_tokens}"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "gone"
