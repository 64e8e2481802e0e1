"""`longtask dev model-server`, called as a user does."""

from __future__ import annotations

import json
import signal
import subprocess

import httpx
import pytest

from tests.cli.shell import DEADLINE_S, LONGTASK, Shell
from tests.modelserver.conftest import PATHS, body

SCRIPT = "turns:\n  - text: hi\n  - text: there\n"


@pytest.fixture
def shell(tmp_path):
    (tmp_path / "s.yaml").write_text(SCRIPT)
    return Shell(tmp_path / "home", tmp_path)


@pytest.fixture
def start(shell):
    """Starts the server; ended with the test if the test has not."""
    running = []

    def begin(*words):
        running.append(
            subprocess.Popen(
                [LONGTASK, "dev", "model-server", *words],
                cwd=shell.cwd,
                env=shell.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def ask(url, *said, tools=()):
    with httpx.Client(timeout=20) as client:
        return client.post(url + PATHS["chat"], json=body("chat", said, False, dict.fromkeys(tools, ())))


def test_a_call_of_a_tool_that_is_not_offered_is_told(start, shell):
    (shell.cwd / "s.yaml").write_text("turns:\n  - calls: [{tool: mcp_one, args: {}}, {tool: note, args: {}}]\n")
    process = start("--script", "s.yaml")
    url = [process.stdout.readline() for _ in range(5)][1].split("=")[1].strip()
    ask(url, "go", tools=("note", "mcp__one"))
    assert process.stdout.readline().strip() == (
        "1 /v1/chat/completions: turn 1, calls mcp_one, note; not offered: mcp_one; there is mcp__one, note"
    )


def test_it_tells_where_it_is_and_what_came_of_it(start):
    process = start("--script", "s.yaml", "--script", "other=s.yaml", "--json")
    begun = json.loads(process.stdout.readline())
    assert begun["type"] == "model_server.started"
    other = begun["scripts"]["other"]
    assert other["url"] == f"{begun['url']}/s/other"
    assert other["environment"]["OPENAI_BASE_URL"] == f"{other['url']}/v1"
    assert ask(other["url"], "go").json()["choices"][0]["message"]["content"] == "hi"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=DEADLINE_S)
    ended = json.loads(out)
    assert [(state["name"], state["requests"]) for state in ended["scripts"]] == [("default", 0), ("other", 1)]
    assert process.returncode == 0


def test_people_are_told_what_to_export_and_each_request(start):
    process = start("--script", "s.yaml")
    lines = [process.stdout.readline().strip() for _ in range(5)]
    exported = dict(line.removeprefix("export ").split("=", 1) for line in lines[1:])
    assert exported["ANTHROPIC_API_KEY"] == "not-a-key"
    ask(exported["ANTHROPIC_BASE_URL"], "go")
    assert process.stdout.readline().strip() == "1 /v1/chat/completions: turn 1"
    ask(exported["ANTHROPIC_BASE_URL"], "go", "a", "on", "b", "on")
    assert "turn 3 was asked for; the script has 2" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert "default: request 2: turn 3 was asked for" in err
    assert process.returncode == 1


def test_a_script_is_checked_without_serving(shell):
    assert shell.here("dev", "model-server", "--script", "s.yaml", "--check").out == "1 script: nothing is wrong\n"
    (shell.cwd / "bad.yaml").write_text("turns:\n  - txt: a\n")
    found = shell.here("dev", "model-server", "--script", "bad.yaml", "--check", code=2)
    assert found.err == "longtask: bad.yaml:2:5: unknown key 'txt' in turns[0]; did you mean 'text'?\n"
    assert "no such file" in shell.here("dev", "model-server", "--script", "none.yaml", code=2).err


def test_its_help_teaches_a_script_that_is_one(shell):
    text = shell.here("dev", "model-server", "--help").out
    begin = text.index("  turns:")
    script = text[begin : text.index("\n\n", begin)]
    (shell.cwd / "help.yaml").write_text(script)
    assert shell.here("dev", "model-server", "--script", "help.yaml", "--check").code == 0
