"""The demo's recording and plan, played by hand on the real library: no engine, but the agents' real tools and git.

Needs a package registry, as the demo does.  The whole story is played once; each test looks at one part of it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from ruamel.yaml import YAML

from longtask.agents import recorded
from longtask.agents.tools import Toolbox
from longtask.cli.demo_input import ARCHIVE, Repo, assets, prepare
from longtask.core.errors import WorkspaceError

PARTS = ("core", "calendar", "vcard")
BASE = "a2a97adf13726bb5a7e944027f4b97ca51b7ce1b"
IDENTITY = {
    "GIT_AUTHOR_NAME": "Demo",
    "GIT_AUTHOR_EMAIL": "demo@localhost",
    "GIT_COMMITTER_NAME": "Demo",
    "GIT_COMMITTER_EMAIL": "demo@localhost",
}


@dataclass
class Ran:
    code: int
    out: str

    @property
    def last(self) -> str:
        return self.out.rstrip().rpartition("\n")[2]


@dataclass
class Story:
    repo: Path
    plan: Mapping[str, Any]
    recording: Mapping[str, Any]
    scratch: Path
    env: dict[str, str]
    ran: dict[str, Ran] = field(default_factory=dict)
    failed_tools: list[str] = field(default_factory=list)

    def step(self, key: str) -> Mapping[str, Any]:
        steps: list[Mapping[str, Any]] = [step for stage in self.plan["stages"] for step in stage["steps"]]
        return next(step for step in steps if step["id"] == key)

    def sh(self, script: str, env: Mapping[str, str] = MappingProxyType({})) -> Ran:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script], cwd=self.repo, env={**self.env, **env}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout)

    def git(self, *words: str) -> str:
        return self.git_bytes(*words).decode()

    def git_bytes(self, *words: str) -> bytes:
        done = subprocess.run(["git", *words], cwd=self.repo, env=self.env, capture_output=True, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def run(self, key: str, name: str = "") -> None:
        step = self.step(key)
        self.ran[name or key] = self.sh(step["run"], step.get("env", {}))

    def play(self, key: str, base: str) -> None:
        """Let the recorded agent work on `base`, and keep its commit on a branch of its own."""
        self.git("switch", "--quiet", "--create", f"attempt/{key}", base)
        box = Toolbox(self.repo.resolve(), self.env, lambda text: None)
        for turn in recorded.choose(self.recording, "recording.yaml", key, 1)["turns"]:
            for tool in turn.get("tools", ()):
                result = box.use(tool["tool"], {name: value for name, value in tool.items() if name != "tool"})
                if result["failed"]:
                    self.failed_tools.append(f"{key}: {tool}: {result['text']}")
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", key)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("demo")
    scratch = folder / "scratch"
    (scratch / "artifacts").mkdir(parents=True)
    repo = prepare(folder, lambda text: None)
    plan = read("longtask.yaml")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, **plan["env"], **IDENTITY, "PATH": path, "TMPDIR": str(scratch)}
    env |= {"LONGTASK_BASE": repo.base, "LONGTASK_OUTPUT": str(scratch / "output")}
    env |= {"LONGTASK_ARTIFACTS": str(scratch / "artifacts")}
    story = Story(repo.path, plan, recorded.check(read("recording.yaml"), "recording.yaml"), scratch, env)

    story.ran["setup"] = story.sh(plan["workspace"]["setup"])
    story.run("baseline")
    story.run("analysis")
    for part in PARTS:
        story.play(part, "main")
    story.git("switch", "--quiet", "--create", "head", "main")
    for part in PARTS:
        story.git("merge", "--quiet", "--no-ff", "-m", f"Merge {part}", f"attempt/{part}")
    story.run("tests", "tests 1")
    for fix in (1, 2):
        story.play(f"tests.fix.{fix}", "head")
        story.git("switch", "--quiet", "head")
        story.git("merge", "--quiet", "--ff-only", f"attempt/tests.fix.{fix}")
        story.run("tests", f"tests {fix + 1}")
    # As bytes: tests.py and setup.py have CRLF line ends, which a patch must keep.
    (scratch / "artifacts" / "vobject.patch").write_bytes(story.git_bytes("diff", "--binary", "main", "head"))
    story.run("proof")
    return story


def read(name: str) -> Any:
    return YAML(typ="safe").load((assets() / name).read_text(encoding="utf-8"))


def test_the_same_input_makes_the_same_commit(story: Story) -> None:
    assert story.git("rev-parse", "main").strip() == BASE


def test_what_is_prepared_is_not_prepared_again(story: Story) -> None:
    said: list[str] = []
    repo = prepare(story.repo.parent, said.append)
    assert repo == Repo(story.repo, BASE, story.repo.parent / "longtask.yaml")
    assert said == [f"the repository '{story.repo}' is there already"]


def test_a_repository_that_is_not_the_demos_is_left_alone(story: Story, tmp_path: Path) -> None:
    shutil.copy(story.repo.parent / ARCHIVE, tmp_path)
    (tmp_path / "vobject").mkdir()
    (tmp_path / "vobject" / "mine").touch()
    with pytest.raises(WorkspaceError, match=f"begins with commit none, not with {BASE}"):
        prepare(tmp_path, print)
    assert [path.name for path in (tmp_path / "vobject").iterdir()] == ["mine"]


def test_the_tools_are_installed(story: Story) -> None:
    assert story.ran["setup"].code == 0, story.ran["setup"].out


def test_the_library_fails_its_tests_before_anything_is_done(story: Story) -> None:
    assert story.ran["baseline"].code != 0
    assert "No module named 'six'" in story.ran["baseline"].out


def test_the_analysis_counts(story: Story) -> None:
    assert story.ran["analysis"].code == 0, story.ran["analysis"].out
    lines = (story.scratch / "output").read_text().splitlines()
    found = {name: json.loads(value) for name, _, value in (line.partition("=") for line in lines)}
    assert found == {"findings": 132, "six_lines": 13}
    assert set(found) == set(story.step("analysis")["outputs"])


def test_every_recorded_tool_call_succeeds(story: Story) -> None:
    assert story.failed_tools == []


def test_an_agent_hands_over_what_the_plan_asks_for(story: Story) -> None:
    kinds = {"string": str, "list": list}
    for key in (*PARTS, "tests.fix.1", "tests.fix.2"):
        step = story.step(key.partition(".")[0])
        agent = step["on_failure"]["fix"]["agent"] if "." in key else step["agent"]
        outputs = recorded.choose(story.recording, "recording.yaml", key, 1)["turns"][-1]["outputs"]
        assert {name: type(value) for name, value in outputs.items()} == {
            name: kinds[word] for name, word in agent["outputs"].items()
        }, key


def test_the_parts_merge_and_do_not_fit_together(story: Story) -> None:
    ran = story.ran["tests 1"]
    assert ran.code != 0 and "1 error" in ran.last
    assert "ImportError: cannot import name 'str_' from 'vobject.base'" in ran.out


def test_the_first_fix_uncovers_fifteen_failures(story: Story) -> None:
    ran = story.ran["tests 2"]
    assert ran.code != 0 and "15 failed, 23 passed, 1 skipped" in ran.last
    assert "cannot switch from automatic field numbering to manual field specification" in ran.out
    told = "\n".join(ran.out.splitlines()[-15:])  # what the one who mends it is told
    assert "ValueError: cannot switch from automatic field numbering to manual field specification" in told


def test_the_second_fix_makes_all_tests_pass(story: Story) -> None:
    ran = story.ran["tests 3"]
    assert ran.code == 0 and "38 passed, 1 skipped" in ran.last, ran.out


def test_the_patch_alone_passes_on_a_clean_checkout(story: Story) -> None:
    ran = story.ran["proof"]
    assert ran.code == 0 and "38 passed, 1 skipped" in ran.last, ran.out
    assert story.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_nothing_but_the_change_is_committed(story: Story) -> None:
    changed = story.git("diff", "--name-only", "main", "head").split()
    assert sorted(changed) == sorted(
        "README.md pyproject.toml setup.cfg setup.py tests.py vobject/base.py vobject/behavior.py vobject/change_tz.py"
        " vobject/hcalendar.py vobject/icalendar.py vobject/ics_diff.py vobject/vcard.py vobject/win32tz.py".split()
    )
    assert story.git("status", "--porcelain") == ""


def test_nothing_of_python_2_is_left(story: Story) -> None:
    left = story.sh(r"git grep -nwE 'six|basestring|unicode_type|str_|xrange|_winreg' -- '*.py' README.md")
    assert left.out == ""
