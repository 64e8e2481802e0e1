"""Attempts of one run in this process, of a runtime whose agent is the user's own code; its journal and its files
outlive each."""

import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtask.agents.contract import AgentOutcome, Brief, runtime
from longtask.agents.journal import Seams
from longtask.agents.witness import Witness
from longtask.core.errors import Refused
from longtask.modelserver.server import ModelServer
from tests.agents.line import Book


@dataclass
class Story:
    runtime: str
    models: ModelServer
    folder: Path
    code: str  # of `mine.py` in the worktree
    options: dict[str, Any]
    book: Book = field(default_factory=Book)
    attempts: int = 0

    def __post_init__(self) -> None:
        self.place.mkdir()
        self.write(self.code)

    @property
    def place(self) -> Path:
        return self.folder / "place"

    def write(self, code: str) -> None:
        (self.place / "mine.py").write_text(code)

    def attempt(self, **more: Any) -> AgentOutcome:
        """As in a process of its own: the code is imported anew.  Raises what ends an attempt without an outcome."""
        self.attempts += 1
        brief = Brief(
            **{
                "step": "core",
                "run": 1,
                "attempt": self.attempts,
                "prompt": "Do it.",
                "cwd": self.place,
                "options": self.options,
                **more,
            }
        )
        witness = Witness("core", 1, str(self.folder / "witness"))
        path = list(sys.path)
        try:
            seams = Seams(self.book.journal(), self.book, witness, cause=brief.cause)
            return runtime(self.runtime).run(brief, seams, self.book)
        finally:
            sys.path[:] = path
            sys.modules.pop("mine", None)

    def script(self, *turns: dict[str, Any]) -> None:
        self.models.load("default", {"turns": list(turns)})

    @property
    def calls(self) -> list[str]:
        return [f"{row['kind']} {row['name'] if row['kind'] == 'tool' else ''}".strip() for row in self.book.journal()]

    @property
    def requests(self) -> int:
        return len(self.models.requests())

    def asked(self, n: int = -1) -> str:
        """The body of a request, as text."""
        return json.dumps(self.models.requests()[n].body, ensure_ascii=False)

    def witnessed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "witness").read_text().splitlines()]

    def written(self, name: str = "log.txt") -> list[str]:
        path = self.place / name
        return path.read_text().split() if path.exists() else []


class KeptBook(Book):
    """Of an agent that keeps a session: its files are those of the newest row.  `refuse_after`: the row whose answer is
    that the worker wants no more."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.kept: dict[str, bytes] = {}
        self.refuse_after: int | None = None

    def call(self, name: str, /, **fields: Any) -> dict[str, Any]:
        if name == "session.restore":
            shutil.rmtree(self.folder, ignore_errors=True)
            for path, content in self.kept.items():
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / path).write_bytes(content)
            return {"folder": str(self.folder), "restored": bool(self.kept), "cwd": None}
        answer = super().call(name, **fields)
        if fields.get("session"):
            found = (path for path in self.folder.rglob("*") if path.is_file())
            self.kept = {str(path.relative_to(self.folder)): path.read_bytes() for path in found}
        if fields["n"] == self.refuse_after:
            raise Refused("pause")
        return answer
