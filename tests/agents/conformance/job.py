"""One step of one runtime, against a script of its model: started and killed as often as a test likes, and what came of
it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtask.modelserver.playback import Request
from longtask.modelserver.server import ModelServer
from tests.agents.conformance.runtimes import End, Runtime
from tests.agents.programs import program
from tests.agents.site import Site, make_hub

NOBODY = Path("/")  # of a runtime that is no program


@dataclass
class Job(Site):
    of: Runtime = field(kw_only=True)
    models: ModelServer = field(kw_only=True)

    def script(self, *turns: dict[str, Any]) -> None:
        """In place of the one before; what was asked is forgotten."""
        self.models.load(self.folder.name, {"turns": list(turns)})

    @property
    def asked(self) -> list[Request]:
        """Requests for turns, oldest first."""
        found = self.models.requests(self.folder.name)
        return [request for request in found if request.cue is not None and request.cue.number is not None]

    @property
    def numbers(self) -> list[int]:
        """Which turn each of them has got, from 1."""
        return [request.cue.number for request in self.asked if request.cue and request.cue.number]

    def talk(self, n: int = -1) -> str:
        """What the model was told in one request, as text."""
        return json.dumps(self.asked[n].body, ensure_ascii=False)

    @property
    def turns(self) -> list[dict[str, Any]]:
        """Rows of those that are over."""
        return [row for row in self.rows if row["kind"] == "turn" and row["body"] is not None]

    @property
    def tools(self) -> list[str]:
        """Names of the tools' rows that are over, without the runtime's own."""
        names = {self.of.tools.get(name, name) for name in ("read", "shell", "edit", "write")}
        return [name for kind, name in self.seen if kind == "tool" and name in names]

    def lines(self, name: str) -> list[str]:
        """Of a file of the newest worktree; of one that is not there: none."""
        return _lines(self.place / name)


@dataclass(frozen=True)
class Outside:
    """A folder that belongs to no attempt: what is done there is never undone."""

    folder: Path

    @property
    def log(self) -> list[str]:
        return _lines(self.folder / "log")

    def logging(self, word: str) -> str:
        """A command that says here that it was carried out."""
        return f"echo {word} >> {self.folder}/log"

    def lingering(self, word: str) -> str:
        """One that says here that it was begun, writes half of what it writes into the worktree, leaves something
        behind that hides, and ends when it is told to."""
        go = self.folder / "go"
        hides = f"{{ test -e {go} || env -i setsid sleep {self._seconds}; }} </dev/null >/dev/null 2>&1 &"
        waits = f"until test -e {go}; do sleep 0.05; done"
        return f"{self.logging(word)}; echo {word} >> {word}.txt; {hides} {waits}"

    def let_end(self) -> None:
        (self.folder / "go").touch()

    @property
    def left(self) -> list[int]:
        """What lingering commands have left behind, by pid."""
        return [pid for pid, words in _processes() if words[:2] == ["sleep", self._seconds]]

    @property
    def _seconds(self) -> str:
        """Nobody else sleeps so long."""
        return f"300.{zlib.crc32(str(self.folder).encode())}"


def make_job(
    folder: Path,
    of: Runtime,
    model: str,
    models: ModelServer,
    turns: Sequence[dict[str, Any]],
    *,
    ask: Sequence[str] = (),
    options: dict[str, Any] | None = None,
    body: dict[str, Any] | None = None,
    **more: Any,
) -> Job:
    """`ask`: rules, in the form that a plan has."""
    make_hub(folder, **({} if of.code is None else {"mine": of.code.read_text()}))
    told: dict[str, Any] = {"model": model, "options": {**of.options, **(options or {})}, **(body or {})}
    if ask and of.rules:
        told["ask"] = list(ask)
    elif ask:
        told["options"]["input"] = {"ask": list(ask)}
    found = NOBODY if of.program is None else program(of.program).path
    env = models.environment(folder.name)
    job = Job(folder, found, of.name, env, body=told, of=of, models=models, **more)
    job.script(*turns)
    return job


def check_end(outcome: dict[str, Any], end: End) -> None:
    assert (outcome["kind"], outcome.get("retryable")) == (end.kind, end.retryable), outcome
    reason = outcome.get("reason") or (outcome.get("question") or {}).get("text") or ""
    assert end.says in reason, reason


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _processes() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield int(entry.parent.name), entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
