"""`longtask fork`: a step is done again in a new task, on its own branch, beside the old one."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.shell import Shell

PLAN = """
longtask: 1
name: forks
workspace: {repo: .}
stages:
  - name: work
    steps:
      - {id: first, run: "echo first >> %(log)s; echo 1 > one.txt", commit: true}
      - {id: second, needs: [first], run: "echo second >> %(log)s; date +%%s%%N > two.txt", commit: true}
      - {id: third, needs: [second], run: "echo third >> %(log)s; test -e %(log)s.go"}
  - name: end
    steps:
      - {id: last, run: "echo last >> %(log)s; test -e one.txt -a -e two.txt"}
"""


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def log(shell: Shell) -> Path:
    """What each step writes when it runs; the task has failed at `third`."""
    log = shell.home.parent / "log"
    shell.plan(PLAN % {"log": log})
    shell("run", "--foreground", "--unattended", code=1)
    return log


def ran(log: Path) -> Counter[str]:
    return Counter(log.read_text().split())


def test_a_fork_does_the_step_again_and_nothing_that_came_before_it(shell: Shell, log: Path):
    log.with_name("log.go").touch()
    made = shell("fork", "@last", "--from", "second", "--json").json
    assert (made["handle"], made["step"]) == ("forks-2", "second")
    shell("watch", "forks-2")
    assert ran(log) == {"first": 1, "second": 2, "third": 2, "last": 1}
    assert shell.here("show", "forks-1", "--json", code=None).json["status"] == "failed", "it is left alone"
    shown = shell.here("show", "forks-2", "--json").json
    assert shown["forked_from"] == {"task": made["forked_from"], "step": "second", "seq": shown["forked_from"]["seq"]}


def test_a_paused_fork_waits_for_what_is_edited_first(shell: Shell, log: Path):
    told = shell("fork", "@last", "--from", "third", "--paused").out
    assert "edit forks-2 third" in told and "resume forks-2" in told
    shell("worker", "--until-idle", code=None)
    assert ran(log)["third"] == 1, "it waits"
    shell("edit", "forks-2", "third", "--run", f"echo other >> {log}")
    shell("resume", "forks-2")
    shell("watch", "forks-2")
    assert ran(log) == {"first": 1, "second": 1, "third": 1, "other": 1, "last": 1}


def test_its_branch_holds_what_was_done_before_and_not_what_is_done_again(shell: Shell, log: Path):
    log.with_name("log.go").touch()
    old = {step["key"]: step["commit"] for step in shell.here("show", "forks-1", "--json", code=None).json["steps"]}
    shell("fork", "forks-1", "--from", "second")
    begun = git(shell.cwd, "rev-parse", "longtask/forks-2")
    assert begun == old["first"], "at once, with what it has taken over"
    shell("watch", "forks-2")
    merged = git(shell.cwd, "rev-list", "longtask/forks-2").split()
    assert old["first"] in merged and old["second"] not in merged
    assert git(shell.cwd, "show", "longtask/forks-2:one.txt") == "1"
    assert git(shell.cwd, "show", "longtask/forks-2:two.txt") != git(shell.cwd, "show", "longtask/forks-1:two.txt")


def test_what_will_run_again_is_told_first_and_nothing_is_done(shell: Shell, log: Path):
    said = shell.here("fork", "@last", "--from", "second", "--dry-run").out
    for text in (
        r"a fork from second is a new task, from commit [0-9a-f]{12}; this one stays as it is",
        r"runs again: second, third$",
        r"is to run: last$",
        r"stays as it is: first$",
    ):
        assert re.search(text, said, re.MULTILINE), text
    assert "forks-2" not in shell.here("ls", "--json").out
    back = shell.here("retry", "@last", "third", "--dry-run", "--json").json
    assert (back["act"], back["again"], back["begins"]) == ("retry", ["third"], ["last"])
    assert shell.here("show", "forks-1", "--json", code=None).json["status"] == "failed"


def test_the_same_key_gives_the_same_fork(shell: Shell, log: Path):
    first = shell("fork", "@last", "--from", "third", "--key", "k", "--json").json
    assert shell("fork", "forks-1", "--from", "third", "--key", "k", "--json").json["task"] == first["task"]


def test_what_cannot_be_forked_from_is_refused_with_what_helps(shell: Shell, log: Path):
    assert "did you mean 'second'" in shell.here("fork", "@last", "--from", "secnd", code=2).err
    assert "--from" in shell.here("fork", "@last", code=2).err
