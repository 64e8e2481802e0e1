"""A run of the user's own graph whose worker is killed again and again: real processes, each on a machine of its own
(another home, another folder), a model on loopback; what was asked is told by the server, what was done by files."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longtask.modelserver.server import ModelServer
from tests.agents.native import decided
from tests.agents.test_langgraph import CODE as NODES
from tests.agents.test_openai_agents_killed import log, placed
from tests.agents.worker import task_of

CODE = (
    NODES
    + """
import time

OUTSIDE = Path(os.environ["OUTSIDE"])


def note(word):
    with (OUTSIDE / "log").open("a") as file:
        file.write(word + "\\n")


class Streamed(Scripted):
    def _generate(self, messages, stop=None, run_manager=None, **more):
        with openai.OpenAI(max_retries=0) as client:
            said = [{"role": "user", "content": messages[-1].content}]
            pieces = client.chat.completions.create(model="gpt-5", messages=said, stream=True)
            text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text, usage_metadata=usage))])


def plan(state):
    note("plan")
    return {"plan": Streamed().invoke("Plan.").content}


def act(state):
    note("act")
    with Path("hello.txt").open("a") as file:
        file.write(state["plan"] + "\\n")
    while not (OUTSIDE / "go").exists():
        time.sleep(0.05)
    note("acted")


def close(state):
    note("close")
    return {"files": [Streamed().invoke("Close.").content]}


class Work(State, total=False):
    files: list


work = StateGraph(Work).add_node("plan", plan).add_node("act", act).add_node("ask", ask).add_node("close", close)
work.add_edge(START, "plan").add_edge("plan", "act").add_edge("act", "ask").add_edge("ask", "close")
"""
)
SCRIPT: dict[str, Any] = {
    "routes": [
        {"match": "Plan", "turns": [{"text": "A plan.", "faults": [{"stall": "always", "after": 2}]}]},
        {"match": "Close", "turns": [{"text": "hello.txt"}]},
    ]
}


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with ModelServer(SCRIPT) as server:
        yield server


def test_killed_in_a_stream_in_a_node_and_while_a_person_is_asked_it_loses_the_unfinished_node(tmp_path, models):
    made = placed(tmp_path, "langgraph", models, CODE, {"graph": "mine:work"})

    run = made.start()  # killed in the middle of a stream
    run.until(lambda: any(request.cue for request in models.requests()))
    run.kill()
    assert log(made) == ["plan"]

    run = made.start()  # killed in the middle of a node, which has written half of what it writes
    run.until(lambda: "act" in log(made))
    run.kill()
    assert not run.left() and log(made) == ["plan", "plan", "act"]

    (tmp_path / "outside" / "go").touch()
    asked = made.attempt()
    assert (asked["kind"], asked["waiting_for"]) == ("Parked", "user"), asked
    assert asked["question"]["text"] == "Ship it?"

    again = made.attempt()  # nobody has decided: the same question, and nothing was asked for or done
    assert again["question"] == asked["question"]

    outcome = made.attempt(decided(asked, "approve"))
    assert (outcome["kind"], outcome["result"]) == ("Done", {"files": ["hello.txt"]}), outcome
    assert log(made) == ["plan", "plan", "act", "act", "acted", "ask", "ask", "close"]
    place = tmp_path / f"machine {made.attempts}" / "place"
    assert (place / "hello.txt").read_text() == "hello\nA plan.\n"
    assert models.state()["requests"] == 3  # the turn that was cut, and each turn once
    assert [name for kind, name in made.seen if kind == "turn"] == ["gpt-5", "gpt-5"]
    assert "not-a-key" not in str(made.rows)


def test_a_term_of_its_own_process_is_heeded_at_the_end_of_the_node(tmp_path, models):
    models.load("default", {"routes": [{"turns": [{"text": "A plan."}]}]})
    made = placed(tmp_path, "langgraph", models, CODE, {"graph": "mine:work"})
    run = made.start()
    run.until(lambda: "act" in log(made))
    _terminate(f"{task_of(str(made.folder))}/core/{made.attempts}")
    (tmp_path / "outside" / "go").touch()
    ended = run.end()
    assert (ended["kind"], ended["waiting_for"]) == ("Parked", "timer"), ended
    assert log(made) == ["plan", "act", "acted"]
    asked = made.attempt()
    assert asked["question"]["text"] == "Ship it?" and log(made) == ["plan", "act", "acted", "ask"]


def _terminate(mark: str) -> None:
    """The child of an attempt, as a machine that is shut down does."""
    word = f"LONGTASK_MARK={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                if word in (entry / "environ").read_bytes().split(b"\0") and b"agent_child" in command:
                    os.kill(int(entry.name), signal.SIGTERM)
            except OSError:
                continue
