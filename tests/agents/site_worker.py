"""One attempt of an agent step, in a process of its own: `site.py` starts and kills it."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from longtask.agents.journal import resume_tree
from longtask.steps.agent import AgentExecutor
from tests.agents.worker import FileDesk, Story, assignment, restore_tree, save_tree, until_ended

PATIENCE_S = 240.0  # opencode needs seconds of a processor before its first word, and machines are busy


@dataclass
class Work(Story):
    """`program`: of the agent.  `cause`: what woke the attempt."""

    program: str = ""
    cause: dict[str, Any] | None = None
    news: str | None = None


class BlockDesk(FileDesk):
    """Artifacts by their content, in files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "journal.db")
        self._blocks = folder / "blocks"
        self._blocks.mkdir(exist_ok=True)

    def journal_done(self, n: int, kind: str, name: str, fingerprint: str, body: Any, usage: Any) -> bool:
        if all(row["n"] != n for row in self.rows()):  # told when it was over
            self._write({"n": n, "kind": kind, "name": name, "fingerprint": fingerprint, "body": None})
        return super().journal_done(n, kind, name, fingerprint, body, usage)

    def put_artifact(self, name: str, body: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(body).hexdigest()
        (self._blocks / digest).write_bytes(body)
        return {"name": name, "digest": digest, "size_bytes": len(body), "media_type": media_type}

    def read_artifact(self, digest: str) -> bytes:
        return (self._blocks / digest).read_bytes()


def work(path: Path) -> None:
    told = Work(**json.loads(path.read_text()))
    folder, place = Path(told.folder), Path(told.place)
    desk = BlockDesk(folder)
    given = replace(assignment(told, desk), cause=told.cause)
    restore_tree(folder / "hub", place, resume_tree(given.journal, given.checkpoint) or (folder / "base").read_text())
    executor = AgentExecutor(
        save_tree=lambda place: save_tree(folder / "hub", place), program=lambda _: Path(told.program)
    )
    outcome = until_ended(executor.start(given, desk, place), PATIENCE_S)
    executor.close()
    sys.stdout.buffer.write(b"".join(body for _, body in desk.said))
    path.with_suffix(".outcome").write_text(json.dumps({"kind": type(outcome).__name__, **asdict(outcome)}))


if __name__ == "__main__":
    work(Path(sys.argv[1]))
