"""A worker for one attempt of an agent step, as a process of its own, so that it can be killed; and its desk.

`python -m tests.agents.worker` reads paths of stories, one a line, and forks a worker for each: starting Python is what
takes the time.  It answers with the outcome as JSON, or `null` for a worker that was killed.
The desk keeps its rows in an SQLite file, the trees are git's: both outlive any process.
"""

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from longtask.agents.journal import resume_tree
from longtask.agents.witness import VARIABLE
from longtask.core.model import Kind, StepSpec
from longtask.steps.agent import AgentExecutor
from longtask.steps.contract import Assignment, Handle

PATIENCE_S = 240.0  # a child that imports an agent's library on a machine that is much too busy takes its time


@dataclass
class Story:
    """One attempt.  `die`: a point of the desk and the call's number, such as `saved:4`."""

    folder: str  # of the whole story: hub, database, recording, witness
    place: str
    attempt: int
    die: str | None = None
    body: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    repeatable: bool = True
    cause: dict[str, Any] | None = None  # what woke it


class FileDesk:
    """Refuses what the store would refuse.  `at` is told each point that is reached."""

    def __init__(self, path: Path, at: Callable[[str, int], None] = lambda point, n: None) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("pragma synchronous = off")  # processes are killed here, not machines
        self._db.execute("create table if not exists row (n integer primary key, row text not null)")
        self._db.execute("create table if not exists checkpoint (id integer primary key, position, tree)")
        self.at = at
        self.said: list[tuple[str, bytes]] = []
        self.artifacts: dict[str, bytes] = {}
        self.told: list[tuple[int, int, str]] = []
        self.lost = False
        self.refused_from: int | None = None  # number of the first call that is not to begin
        self.begun = 0

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(text) for (text,) in self._db.execute("select row from row order by n")]

    def newest(self) -> tuple[int, str | None] | None:
        found = self._db.execute("select position, tree from checkpoint order by id desc limit 1").fetchone()
        return None if found is None else (found[0], found[1])

    def journal_started(self, n: int, kind: str, name: str, fingerprint: str) -> bool:
        if self.refused_from is not None and n >= self.refused_from:
            return False
        before = next((row for row in self.rows() if row["n"] == n), None)
        if self.lost or (before is not None and (before["body"] is not None or before["fingerprint"] != fingerprint)):
            return False
        self._write({"n": n, "kind": kind, "name": name, "fingerprint": fingerprint, "body": None})
        self.begun = n
        self.at("started", n)
        return True

    def asked_now(self) -> str | None:
        return None

    def journal_done(self, n: int, kind: str, name: str, fingerprint: str, body: Any, usage: Any) -> bool:
        before = next(row for row in self.rows() if row["n"] == n)
        assert (before["body"], before["fingerprint"]) == (None, fingerprint)
        if self.lost:
            return False
        self.at("saved", n)
        self._write({**before, "body": body, **usage})
        self.at("done", n)
        return True

    def checkpoint(self, position: int, tree: str | None) -> bool:
        self._db.execute("insert into checkpoint (position, tree) values (?, ?)", (position, tree))
        self.at("checkpoint", position)
        return not self.lost

    def stopping(self) -> bool:
        return self.lost

    def output(self, stream: str, body: bytes) -> None:
        self.said.append((stream, body))

    def progress(self, done: int, total: int, text: str) -> None:
        self.told.append((done, total, text))

    def put_artifact(self, name: str, body: bytes, media_type: str) -> dict[str, Any]:
        self.artifacts[name] = body
        return {"name": name, "digest": name, "size_bytes": len(body), "media_type": media_type}

    def read_artifact(self, digest: str) -> bytes:
        return self.artifacts[digest]

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def _write(self, row: dict[str, Any]) -> None:
        self._db.execute("insert or replace into row values (?, ?)", (row["n"], json.dumps(row)))


def git(*words: str, index: Path | None = None) -> str:
    env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull} | ({} if index is None else {"GIT_INDEX_FILE": str(index)})
    return subprocess.run(["git", *words], check=True, env=env, stdout=subprocess.PIPE, text=True).stdout.strip()


def save_tree(hub: Path, place: Path) -> str:
    index = place.with_name(place.name + ".index")
    git(f"--git-dir={hub}", f"--work-tree={place}", "add", "--all", index=index)
    return git(f"--git-dir={hub}", "write-tree", index=index)


def restore_tree(hub: Path, place: Path, tree: str) -> None:
    index = place.with_name(place.name + ".index")
    git(f"--git-dir={hub}", "read-tree", tree, index=index)
    git(f"--git-dir={hub}", f"--work-tree={place}", "checkout-index", "--all", "--force", index=index)


def task_of(folder: str) -> str:
    """An attempt ends what older ones of its step have left on this machine: no two stories may be one step."""
    return f"task-{zlib.crc32(folder.encode()):08x}"


def assignment(story: Story, desk: FileDesk) -> Assignment:
    return Assignment(
        task_id=task_of(story.folder),
        task_name="t",
        step="core",
        attempt=story.attempt,
        run=1,
        spec=StepSpec(Kind.AGENT, story.body, outputs=story.outputs, repeatable=story.repeatable),
        base=None,
        workspace_id="",
        timeout_at=None,
        journal=tuple(desk.rows()),
        checkpoint=desk.newest(),
        environment=story.environment,
        secrets=tuple(story.secrets),
        cause=story.cause,
    )


def until_ended(handle: Handle, seconds: float = PATIENCE_S) -> Any:
    """Polls as a worker does, but sleeps until something comes."""
    end = time.monotonic() + seconds
    process = getattr(handle, "process", None)
    while (outcome := handle.poll()) is None:
        assert time.monotonic() < end, "the attempt does not end"
        if process is not None:
            select.select(process.filenos(), process.filenos_to_write(), [], 0.005)
    return outcome


def work(path: Path) -> None:
    """One attempt, in this process; leaves its outcome beside the story."""
    story = Story(**json.loads(path.read_text()))
    folder, place = Path(story.folder), Path(story.place)
    (folder / "pid").write_text(str(os.getpid()))
    os.environ[VARIABLE] = str(folder / "witness")

    def at(point: str, n: int) -> None:
        if story.die == f"{point}:{n}":
            os.kill(os.getpid(), signal.SIGKILL)

    def save(place: Path) -> str:
        at("saving", desk.begun)
        return save_tree(folder / "hub", place)

    desk = FileDesk(folder / "journal.db", at)
    given = assignment(story, desk)
    restore_tree(folder / "hub", place, resume_tree(given.journal, given.checkpoint) or (folder / "base").read_text())
    executor = AgentExecutor(save_tree=save)
    outcome = until_ended(executor.start(given, desk, place))
    executor.close()
    path.with_suffix(".outcome").write_text(json.dumps({"kind": type(outcome).__name__, **asdict(outcome)}))


def main() -> None:
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        pid = os.fork()
        if not pid:
            try:
                work(path)
            finally:
                sys.stderr.flush()
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answer = "null" if status == -signal.SIGKILL else path.with_suffix(".outcome").read_text()
        print(answer, flush=True)


if __name__ == "__main__":
    main()
