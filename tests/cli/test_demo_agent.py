"""The demo with a real agent: its recording becomes a script for whatever agent it is, and does the same in a shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from longtask.cli.demo_agent import AGENTS, PROMPTS, _command, prepare_agent, script_of
from longtask.cli.demo_input import PLAN, RECORDING, assets
from longtask.core.errors import BadPlan
from longtask.modelserver.script import from_values
from tests.cli.shell import Shell


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in (PLAN, RECORDING):
        shutil.copyfile(assets() / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("agent", AGENTS)
def test_the_recording_is_a_script_for_every_agent(place: Path, agent: str):
    script = from_values(dict(script_of(place, agent)))
    assert [route.match for route in script.routes] == [prompt for _, prompt in PROMPTS]
    assert sum(len(route.turns) for route in script.routes) == 25


def test_the_plan_names_the_agent_and_its_model(place: Path):
    prepare_agent("builtin", place, place, "openai-chat:recorded", print)
    assert "agent: {runtime: builtin, model: 'openai-chat:recorded'}" in (place / PLAN).read_text()
    with pytest.raises(BadPlan, match="there is claude-code, codex, opencode, builtin"):
        prepare_agent("nobody", place, place, None, print)


@pytest.mark.parametrize(
    ("tool", "args", "left"),
    [
        ("write", {"path": "b", "content": 'it\'s "new"\n$HOME\n'}, {"a": "x 'x'\n", "b": 'it\'s "new"\n$HOME\n'}),
        ("edit", {"path": "a", "old": "x", "new": "\\y'", "count": 2}, {"a": "\\y' '\\y''\n"}),
        ("delete", {"path": "a"}, {}),
        ("read", {"path": "a"}, {"a": "x 'x'\n"}),
    ],
)
def test_a_tool_does_the_same_in_a_shell(tmp_path: Path, tool: str, args: dict[str, object], left: dict[str, str]):
    (tmp_path / "a").write_text("x 'x'\n")
    subprocess.run(["/bin/sh", "-c", _command(tool, args)], cwd=tmp_path, check=True, capture_output=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == left


def test_an_edit_that_does_not_fit_fails(tmp_path: Path):
    (tmp_path / "a").write_text("x\n")
    command = _command("edit", {"path": "a", "old": "x", "new": "y", "count": 2})
    assert subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True).returncode != 0


def test_a_model_without_an_agent_is_refused(shell: Shell):
    assert "name it: --agent NAME" in shell.here("demo", "--model-server", code=2).err
