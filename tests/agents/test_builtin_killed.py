"""A run of `builtin` whose worker is killed again and again: real children under real wardens, a model on loopback."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from longtask.agents.witness import count
from longtask.modelserver.server import ModelServer
from tests.agents.worker import FileDesk, Story, git, save_tree
from tests.cli.shell import until

ROOT = Path(__file__).parents[2]
DYING = '[ -z "$DIE" ] || { kill -9 $(cat "$DIE"); sleep 60; }; echo one >> log.txt'
SCRIPT: dict[str, Any] = {
    "turns": [
        {"text": "First I look around.", "calls": [{"read": "a.py"}], "faults": [{"stall": "always", "after": 4}]},
        {"calls": [{"edit": {"path": "a.py", "old": "six", "new": "io"}}, {"shell": DYING}]},
        {"calls": [{"shell": "echo pushed >> log.txt"}]},
        {"text": "All done.", "output": {"files": ["a.py"]}},
    ]
}
# 1 told, 2 told, 3 turn, 4 read, 5 turn, 6 edit, 7 shell, 8 turn, 9 asked, 10 shell, 11 turn


class Workers:
    """Carries out attempts, each in a process of its own."""

    def __init__(self, folder: Path, models: ModelServer) -> None:
        self.folder = folder
        self._models = models
        command = [sys.executable, "-m", "tests.agents.worker"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._attempts = 0

    def begin(self, **more: Any) -> None:
        """The next attempt, in a folder and with a home of its own."""
        self._attempts += 1
        place, home = self.folder / f"attempt {self._attempts}", self.folder / f"home {self._attempts}"
        place.mkdir()
        home.mkdir()
        body = {
            "prompt": "Do it.",
            "runtime": "builtin",
            "model": "anthropic:claude-sonnet-4-6",
            "ask": ["shell(*pushed*)"],
        }
        environment = {**self._models.environment(), "HOME": str(home), **more.pop("environment", {})}
        told = Story(
            str(self.folder),
            str(place),
            self._attempts,
            body=body,
            outputs={"files": "list"},
            environment=environment,
            **more,
        )
        path = self.folder / f"story-{self._attempts}.json"
        path.write_text(json.dumps(asdict(told)))
        (self.folder / "pid").unlink(missing_ok=True)
        assert self._process.stdin is not None
        print(path, file=self._process.stdin, flush=True)

    def end(self) -> dict[str, Any] | None:
        """The outcome; None: the worker was killed."""
        assert self._process.stdout is not None
        answer: dict[str, Any] | None = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with ModelServer(SCRIPT) as server:
        yield server


@pytest.fixture
def workers(tmp_path: Path, models: ModelServer) -> Iterator[Workers]:
    git("init", "--quiet", "--bare", str(tmp_path / "hub"))
    start = tmp_path / "start"
    start.mkdir()
    (start / "a.py").write_text("import six\n")
    (tmp_path / "base").write_text(save_tree(tmp_path / "hub", start))
    made = Workers(tmp_path, models)
    yield made
    made.close()


def test_killed_in_a_stream_in_a_tool_and_while_a_person_is_asked_it_repeats_nothing(workers, models):
    folder = workers.folder
    desk = FileDesk(folder / "journal.db")

    workers.begin()  # in the middle of a stream
    until(lambda: any(request.cue for request in models.requests()), deadline_s=240)
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    assert workers.end() is None
    assert [row["kind"] for row in desk.rows() if row["body"]] == ["told", "told"]

    workers.begin(environment={"DIE": str(folder / "pid")})  # in the middle of a tool
    assert workers.end() is None
    assert (desk.rows()[-1]["n"], desk.rows()[-1]["name"]) == (7, "shell")

    workers.begin(die="started:9")  # when the question is about to be put
    assert workers.end() is None

    workers.begin()
    asked = workers.end()
    assert asked is not None and (asked["kind"], asked["waiting_for"]) == ("Parked", "user"), asked
    question = asked["question"]
    assert question["show"]["call"] == {"name": "shell", "args": {"command": "echo pushed >> log.txt"}}

    workers.begin(cause={"decision": "approve", "by": "anna", "text": "", "bound": question["bound"]})
    outcome = workers.end()
    assert outcome is not None and (outcome["kind"], outcome["result"]) == ("Done", {"files": ["a.py"]}), outcome

    place = folder / "attempt 5"
    assert (place / "a.py").read_text() == "import io\n"
    assert (place / "log.txt").read_text() == "one\npushed\n"
    witnessed = [json.loads(line) for line in (folder / "witness").read_text().splitlines()]
    assert count(witnessed) == (8, 8, 0)  # four turns and four tools, each of them ended once
    # What the server tells: every turn was answered once, beside the one that was cut.
    assert models.state()["routes"][0]["told"] == {"1": 1, "2": 1, "3": 1, "4": 1}
    assert models.state()["requests"] == 5
    assert [row["kind"] for row in desk.rows()] == [
        "told", "told", "turn", "tool", "turn", "tool", "tool", "turn", "asked", "tool", "turn",
    ]  # fmt: skip
