"""A run without a plan: a task of one step, which may grow."""

from __future__ import annotations

import json
import shutil

import pytest

from longtask.cli.plain import name_of, plan_of
from longtask.cli.session import Session
from longtask.core.errors import BadPlan, NotFound
from longtask.plan import compile_plan, load
from tests.cli.shell import Shell


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
