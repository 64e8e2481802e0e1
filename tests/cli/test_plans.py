"""`plan check | show | schema` and `init`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from longtask.plan import compile_plan, load
from tests.cli.conftest import make_repository
from tests.cli.shell import Shell

KINDS = [
    ({"Makefile": "test:\n\techo 3/3\n"}, "make test"),
    ({"Makefile": "build:\n\ttrue\n", "pyproject.toml": "[project]\nname = 'x'\n"}, "python3 -m pytest -q"),
    ({"uv.lock": "", "pyproject.toml": ""}, "uv run pytest -q"),
    ({"package.json": '{"scripts": {"test": "node t.js"}}', "package-lock.json": "{}"}, "npm test"),
    ({"package.json": '{"scripts": {}}'}, "echo"),
    ({"package.json": "no json"}, "echo"),
    ({"go.mod": "module x\n"}, "go test ./..."),
    ({"Cargo.toml": ""}, "cargo test"),
    ({"pom.xml": "", "mvnw": ""}, "./mvnw -B test"),
    ({}, "echo"),
]


BAD = """
longtask: 1
name: x
stages:
  - name: a
    steps:
      - {id: b, run: 'true', needs: [c]}
      - {id: d}
"""
SHOWN = """
longtask: 1
name: x
goal: g
stages:
  - name: one
    steps:
      - {id: a, run: 'true', when_failed: continue}
      - {id: b, for_each: [1, 2], run: 'true', needs: [a], if: '1 == 1'}
"""


@pytest.mark.parametrize(("files", "command"), KINDS, ids=[command for _, command in KINDS])
def test_the_starter_has_the_projects_own_test_command_and_is_a_good_plan(
    world: Shell, tmp_path: Path, files: dict[str, str], command: str
):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    made = world.here("init", str(tmp_path), "--json").json
    text = Path(made["file"]).read_text()
    assert f"run: {json.dumps(command)}" in text or f'run: "{command}' in text
    assert "no git repository yet" in made["notes"][0]
    world.here("plan", "check", made["file"])
    assert "is there already" in world.here("init", str(tmp_path), code=1).err
    world.here("init", str(tmp_path), "--force")


@pytest.mark.parametrize("name", ["9 Lives", "日本", "My.Project", "-x-"])
def test_any_folder_gives_a_name(world: Shell, tmp_path: Path, name: str):
    (tmp_path / name).mkdir()
    world.here("init", str(tmp_path / name))
    assert compile_plan(load((tmp_path / name / "longtask.yaml").read_text())).name


def test_the_starter_runs_to_its_question(tmp_path: Path):
    repo = make_repository(tmp_path / "repo")
    (repo / "Makefile").write_text("test:\n\t@echo ==== 2 passed in 0.01s ====\n")
    for words in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "tests"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    shell = Shell(tmp_path / "home", repo)
    assert "longtask run\n" in shell.here("init").out
    waits = shell("run", "--foreground", code=3)
    assert "step.completed     tests  2 passed in 0.01s" in waits.out and "Does this look right?" in waits.out


def test_a_folder_that_is_not_there_is_usage(world: Shell, tmp_path: Path):
    assert "no such folder" in world.here("init", str(tmp_path / "x"), code=2).err
    assert "no such file" in world.here("plan", "check", str(tmp_path / "x.yaml"), code=2).err
    assert "no such file" in world.here("plan", "show", str(tmp_path / "x.yaml"), code=2).err


def test_every_problem_of_a_plan_is_told_at_once_and_as_json(world: Shell, tmp_path: Path):
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    told = world.here("plan", "check", str(file), code=2).err.splitlines()
    assert len(told) >= 2 and all(f"{file}:" in line for line in told)
    error = world.here("plan", "check", str(file), "--json", code=2).json
    assert error["error"] == "bad_plan" and len(error["problems"]) == len(told)


def test_a_plan_is_shown_with_what_each_step_waits_for(world: Shell, tmp_path: Path):
    file = tmp_path / "plan.yaml"
    file.write_text(SHOWN)
    assert world.here("plan", "show", str(file)).out.splitlines() == [
        "x",
        "  g",
        "  one  (2 steps)",
        "    a  run  when_failed continue",
        "    b  for_each run  needs a  if 1 == 1",
    ]
