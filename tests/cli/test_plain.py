"""A run without a plan: a task of one step, which may grow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from longtask.cli.plain import name_of, plan_of
from longtask.cli.session import Session
from longtask.core.errors import BadPlan, NotFound
from longtask.modelserver.server import ModelServer
from longtask.plan import compile_plan, load
from tests.agents.programs import program
from tests.cli.shell import LONGTASK, Shell, until


@pytest.fixture
def session(monkeypatch, tmp_path) -> Session:
    monkeypatch.setenv("LONGTASK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LONGTASK_AGENT", raising=False)
    monkeypatch.chdir(tmp_path)
    return Session()


def test_a_prompt_is_a_plan_of_one_step(session: Session, tmp_path):
    graph = compile_plan(
        load(plan_of(session, "Fix the crash: on `${empty}` files\nand test it", "builtin", "openai:m"))
    )
    assert (graph.name, [step.key for step in graph.planned]) == ("fix-the-crash-on-empty", ["run"])
    assert graph.options.workspace is None, "there is no repository here"
    body = graph.specs[0].body
    assert (body["runtime"], body["model"]) == ("builtin", "openai:m")
    (tmp_path / "prompt.md").write_text("what to do")
    assert json.loads(plan_of(session, "@prompt.md", "codex", None))["steps"][0]["agent"]["prompt"] == "what to do"


def test_the_agent_is_the_one_that_is_named_or_found(session: Session, monkeypatch, tmp_path):
    git = shutil.which("git")
    assert git is not None
    (tmp_path / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadPlan, match="no agent was found here"):
        plan_of(session, "x", None, None)
    codex = tmp_path / "codex"
    codex.write_text("#!/bin/sh\n")
    codex.chmod(0o755)
    assert '"runtime": "codex"' in plan_of(session, "x", None, None)
    monkeypatch.setenv("LONGTASK_AGENT", "opencode")
    assert '"runtime": "opencode"' in plan_of(session, "x", None, None)


def test_what_is_no_prompt_or_no_agent_is_told(session: Session):
    with pytest.raises(BadPlan, match="-p is empty"):
        plan_of(session, "  ", "codex", None)
    with pytest.raises(BadPlan, match="--agent 'codecks'"):
        plan_of(session, "x", "codecks", None)
    with pytest.raises(NotFound, match=r"no\.md"):
        plan_of(session, "@no.md", "codex", None)


def test_a_name_is_made_of_the_first_words():
    assert name_of("Fix it!") == "fix-it"
    assert name_of("修复登录") == "run"


def test_a_plan_and_a_prompt_are_not_given_together(shell: Shell):
    assert "give one of them" in shell.here("run", "plan.yaml", "-p", "x", code=2).err
    assert "are for -p" in shell.here("run", "--agent", "codex", code=2).err


# --- a run that turns out to be too small -------------------------------------------------------------------------

MODELS = {"builtin": "openai-chat:any", "opencode": "anthropic/any"}
FIRST = """
longtask: 1
name: more
stages:
  - {name: look, steps: [{id: check, run: "test -e out.txt"}]}
  - {name: tell, steps: [{id: notes, run: "echo told > notes.txt", commit: true}]}
"""
SECOND = """
longtask: 1
name: further
workspace: {repo: .}
steps: [{id: both, run: "test -e out.txt -a -e notes.txt"}]
"""


@pytest.mark.parametrize("agent", MODELS)
def test_a_run_grows_while_it_runs_and_is_gone_on_from_when_it_has_ended(shell: Shell, tmp_path: Path, agent: str):
    """Its work is counted outside of the worktree and of the database, by the tool that did it and by the model."""
    path = f"{Path(LONGTASK).parent}:{os.environ['PATH']}"
    shell.env["PATH"] = path if agent == "builtin" else f"{program(agent).path.parent}:{path}"
    done, gate = tmp_path / "done", tmp_path / "gate"
    os.mkfifo(gate)
    turns = [
        {"calls": [{"shell": f"echo done >> {done}"}]},
        {"calls": [{"shell": f"cat {gate} > out.txt"}]},  # until the test writes into it
        {"text": "It is written."},
    ]
    with ModelServer({"aux": "A title", "turns": turns}) as models:
        shell.env |= models.environment()
        shell("run", "--detach", "-p", "Write it down", "--agent", agent, "--model", MODELS[agent])
        until(done.exists)
        shell.plan(FIRST, "first.yaml")
        assert shell("add", "@last", "first.yaml", "--after", "run", "--json").json["steps"] == ["check", "notes"]
        steps = {step["key"]: step["state"] for step in shell("show", "@last", "--json").json["steps"]}
        assert steps == {"run": "running", "check": "blocked", "notes": "blocked"}
        gate.write_text("written\n")
        shell("watch", "@last")
        shell.plan(SECOND, "second.yaml")
        assert "--base" in shell("add", "@last", "second.yaml", "--after", "run", code=1).err
        shell("run", "second.yaml", "--foreground", "--dirty", "ignore", "--base", "longtask/write-it-down-1")
        (route,) = models.state()["routes"]
    assert done.read_text() == "done\n" and route["told"] == {"1": 1, "2": 1, "3": 1}
    tree = subprocess.run(
        ["git", "ls-tree", "--name-only", "longtask/write-it-down-1"], cwd=shell.cwd, capture_output=True, text=True
    )
    assert tree.stdout.split() == ["a.txt", "notes.txt", "out.txt"]
