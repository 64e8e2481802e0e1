"""A run of the user's own agent whose worker is killed again and again: real processes, each on a machine of its own
(another home, another folder), a model on loopback; what was asked is told by the server, what was done by files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longtask.modelserver.server import ModelServer
from tests.agents.native import Site, decided, site
from tests.agents.worker import save_tree
from tests.steps.test_sandbox import needs_bubblewrap

CODE = """
import os
import time
from pathlib import Path

from agents import Agent, function_tool

OUTSIDE = Path(os.environ["OUTSIDE"])


def note(word):
    with (OUTSIDE / "log").open("a") as file:
        file.write(word + "\\n")


@function_tool
def change(text: str) -> str:
    "Writes into the worktree."
    note(f"change-{text}")
    with Path("hello.txt").open("a") as file:
        file.write(text + "\\n")
    while text == "slowly" and not (OUTSIDE / "go").exists():
        time.sleep(0.05)
    note(f"changed-{text}")
    return Path("hello.txt").read_text()


@function_tool(needs_approval=True)
def pay(sum: int) -> str:
    note(f"pay-{sum}")
    return "paid"


agent = Agent(name="desk", model="openai-chat:gpt-5", tools=[change, pay])
"""
SCRIPT: dict[str, Any] = {
    "turns": [
        {
            "text": "First a change.",
            "calls": [{"tool": "change", "args": {"text": "once"}}],
            "faults": [{"stall": "always", "after": 3}],
        },
        {"calls": [{"tool": "change", "args": {"text": "slowly"}}]},
        {"calls": [{"tool": "pay", "args": {"sum": 3}}]},
        {"text": "All done.", "output": {"files": ["hello.txt"]}},
    ]
}


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with ModelServer(SCRIPT) as server:
        yield server


def placed(folder: Path, runtime: str, models: ModelServer, code: str, options: dict[str, Any]) -> Site:
    """A site whose base holds `mine.py`."""
    outside = folder / "outside"
    outside.mkdir()
    body = {"options": options, "env": {"OUTSIDE": str(outside)}}
    made = site(folder, runtime, Path("/"), models.environment(), body=body, outputs={"files": "list"})
    base = folder / "base of it"
    base.mkdir()
    (base / "hello.txt").write_text("hello\n")
    (base / "mine.py").write_text(code)
    (folder / "base").write_text(save_tree(folder / "hub", base))
    return made


def log(made: Site) -> list[str]:
    path = made.folder / "outside" / "log"
    return path.read_text().split() if path.exists() else []


def test_killed_in_a_stream_in_a_tool_and_while_a_person_is_asked_it_repeats_nothing(tmp_path, models):
    made = placed(tmp_path, "openai-agents", models, CODE, {"agent": "mine:agent"})

    run = made.start()  # killed in the middle of a stream
    run.until(lambda: any(request.cue for request in models.requests()))
    run.kill()
    assert made.seen == [("told", ""), ("tool", "import")]

    run = made.start()  # killed in the middle of a tool, which has written half of what it writes
    run.until(lambda: "change-slowly" in log(made))
    run.kill()
    assert not run.left() and log(made) == ["change-once", "changed-once", "change-slowly"]

    (tmp_path / "outside" / "go").touch()
    asked = made.attempt()
    assert (asked["kind"], asked["waiting_for"]) == ("Parked", "user"), asked
    assert asked["question"]["show"]["call"] == {"name": "pay", "args": {"sum": 3}}

    again = made.attempt()  # nobody has decided: the same question, and nothing was asked for or done
    assert again["question"] == asked["question"]

    outcome = made.attempt(decided(asked, "approve"))
    assert (outcome["kind"], outcome["result"]) == ("Done", {"files": ["hello.txt"]}), outcome
    assert log(made) == [
        "change-once", "changed-once", "change-slowly", "change-slowly", "changed-slowly", "pay-3",
    ]  # fmt: skip
    place = tmp_path / f"machine {made.attempts}" / "place"
    assert (place / "hello.txt").read_text() == "hello\nonce\nslowly\n"
    assert not list(place.rglob("__pycache__"))
    # What the server tells: every turn was answered once, beside the one that was cut.
    assert models.state()["routes"][0]["told"] == {"1": 1, "2": 1, "3": 1, "4": 1}
    assert models.state()["requests"] == 5
    assert [kind for kind, _ in made.seen] == [
        "told", "tool", "turn", "tool", "turn", "tool", "turn", "asked", "tool", "turn",
    ]  # fmt: skip
    assert "not-a-key" not in str(made.rows)


@needs_bubblewrap
def test_the_users_code_stands_in_the_sandbox_itself(tmp_path, models):
    code = """
from pathlib import Path

from agents import Agent, function_tool


@function_tool
def write(path: str) -> str:
    try:
        Path(path).write_text("x")
    except OSError as error:
        return error.strerror
    return "written"


agent = Agent(name="desk", model="openai-chat:gpt-5", tools=[write])
"""
    paths = ["new.txt", str(tmp_path / "outside" / "new.txt")]
    calls = [{"tool": "write", "args": {"path": path}} for path in paths]
    models.load("default", {"turns": [{"calls": calls}, {"output": {"files": paths[:1]}}]})
    made = placed(tmp_path, "openai-agents", models, code, {"agent": "mine:agent"})
    made.body["sandbox"] = "bubblewrap"
    outcome = made.attempt()
    assert outcome["kind"] == "Done", outcome
    texts = [row["body"]["text"] for row in made.rows if row["name"] == "write"]
    assert texts[0] == "written" != texts[1] and not (tmp_path / "outside" / "new.txt").exists()
