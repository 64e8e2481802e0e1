"""`longtask export` and `longtask import`, on this machine and at a server."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.api.conftest import make  # noqa: F401
from tests.cli.shell import Shell
from tests.cli.test_remote import away, done, home, server, url  # noqa: F401
from tests.client.conftest import database  # noqa: F401

PLAN = """
longtask: 1
name: work
workspace: {repo: .}
steps:
  - {id: edit, run: "echo two >> a.txt; echo said", commit: true}
  - {id: patch, needs: [edit], artifact: {patch: {name: change.patch}}}
"""
FILE = "work-1.longtask.tar.gz"


@pytest.fixture
def there(shell: Shell, tmp_path: Path) -> Shell:
    """A shell at another installation."""
    return replace(shell, home=tmp_path / "there")


def test_a_task_is_looked_at_elsewhere_as_at_home(shell: Shell, there: Shell):
    shell.plan(PLAN)
    shell("run", "--foreground")
    assert f"wrote {FILE}" in shell("export", "@last").out
    assert "work-1 is imported (completed); look: " in there("import", FILE).out
    for words in (["show", "@last", "--json"], ["events", "@last", "--json"], ["logs", "@last", "edit"],
                  ["diff", "@last"], ["artifacts", "@last", "--json"], ["artifacts", "@last", "change.patch"],
                  ["trace", "@last", "--json"]):  # fmt: skip
        assert there.here(*words).out == shell.here(*words).out, words
    assert "nothing is wrong: 1 task audited" in there.here("doctor").out
    assert there.here("import", FILE, "--json").json["again"]
    told = shell.here("import", FILE, code=1).err
    assert "work-1" in told and "is here already" in told


def test_its_commits_are_fetched_from_the_bundle_into_a_clone(shell: Shell, tmp_path: Path):
    shell.plan(PLAN)
    shell("run", "--foreground")
    shell.here("export", "-o", str(tmp_path / "x"))
    subprocess.run(["tar", "-xzf", tmp_path / "x", "-C", tmp_path, "code.bundle"], check=True)
    words = ["git", "fetch", "-q", str(tmp_path / "code.bundle"), "refs/longtask/*:refs/archive/*"]
    subprocess.run(words, cwd=shell.cwd, check=True)
    listed = ["git", "for-each-ref", "--format=%(objectname) %(refname)", "refs/archive"]
    refs = subprocess.run(listed, cwd=shell.cwd, check=True, capture_output=True, text=True).stdout
    head = shell.here("show", "@last", "--json").json["head"]
    assert any(line.startswith(head) and line.endswith("/head") for line in refs.splitlines())


def test_a_failed_task_may_be_taken_up_where_it_was_brought_to(shell: Shell, there: Shell, tmp_path: Path):
    good = tmp_path / "good"
    shell.plan(f"""
longtask: 1
name: work
workspace: {{repo: .}}
steps:
  - {{id: edit, run: "echo two >> a.txt", commit: true}}
  - {{id: last, needs: [edit], run: "cat a.txt; test -e {good}"}}
""")
    shell("run", "--foreground", code=1)
    shell.here("export", "@last")
    there.here("import", FILE)
    good.touch()
    there("retry", "@last", "last")
    there("watch", "@last")
    assert "two" in there.here("logs", "@last", "last").out
    assert there.here("doctor").code == 0
    assert shell.here("show", "@last", "--json").json["status"] == "failed"
    there.sweep()


def test_what_does_not_fit_is_told(shell: Shell, tmp_path: Path):
    shell.plan("{longtask: 1, name: ask, steps: [{id: a, approval: {ask: 'Fine?'}}]}")
    shell("run", "--foreground", code=3)
    assert "export it when it has ended" in shell.here("export", "@last", code=1).err
    assert "no task 'x'" in shell.here("export", "x", code=2).err
    assert "No such file" in shell.here("import", str(tmp_path / "nothing"), code=1).err
    (tmp_path / "x").write_text("hello" * 200)
    told = shell.here("import", str(tmp_path / "x"), "--json", code=2).json
    assert told["error"] == "bad_plan" and "no archive of a task" in told["message"]
    assert "is refused inside a step" in shell.here("import", "x", code=1, env={"LONGTASK_STEP": "a"}).err
    shell("cancel", "@last")
    shell.sweep()


def test_a_server_gives_and_takes_archives(away, url, done, home, there, tmp_path):  # noqa: F811
    file = tmp_path / "x.tar.gz"
    made = away.here("--server", url, "export", "@last", "-o", str(file), "--json").json
    assert (made["task"], made["size_bytes"]) == (done, file.stat().st_size)
    assert home.here("export", done, "-o", str(tmp_path / "y"), "--json").json["sha256"] == made["sha256"]
    assert there.here("import", str(file), "--json").json["task"] == done
    assert "is here already" in away.here("--server", url, "import", str(file), code=1).err
    assert not away.home.exists()
