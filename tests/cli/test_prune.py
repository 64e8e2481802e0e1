"""`longtask prune`, and artifacts in a bucket: from outside, with a real repository and a real server."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import pytest

from longtask import room
from longtask.workspace.workspace import Workspace
from tests import s3
from tests.cli.shell import Shell

PLAN = """
longtask: 1
name: work
workspace: {repo: .}
stages:
  - name: first
    steps:
      - {id: edit, run: "echo two >> a.txt", commit: true}
      - {id: patch, needs: [edit], artifact: {patch: {name: change.patch}}}
      - {id: read, needs: [patch], run: 'grep -q "+two" "$LONGTASK_ARTIFACTS/change.patch" && echo read'}
"""


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def refs(shell: Shell) -> list[str]:
    """Of tasks, in all hubs of this home."""
    hubs = (shell.home / "hubs").glob("*.git")
    return [line for hub in hubs for line in git(hub, "for-each-ref", "refs/longtask").splitlines()]


def run(shell: Shell, plan: str = PLAN) -> None:
    shell.plan(plan)
    shell("run", "--foreground")


def test_a_task_goes_with_all_that_it_left_but_the_users_branch(shell: Shell):
    run(shell)
    run(shell)
    assert any("/head" in ref for ref in refs(shell))
    due = shell("prune", "--older-than", "0d", "--dry-run")
    assert "2 tasks would go" in due.out and "work-1" in due.out and "work-2" in due.out
    assert [task["handle"] for task in shell("ls", "--json").json] == ["work-2", "work-1"], "nothing is gone yet"
    said = shell("prune", "--older-than", "0s").out
    assert "1 task and 0 artifacts" in said, "the newest event's task waits"
    assert [task["handle"] for task in shell("ls", "--json").json] == ["work-2"]
    assert shell("doctor").code == 0
    assert len({ref.split("refs/longtask/")[1].split("/")[0] for ref in refs(shell)}) == 1
    assert set(git(shell.cwd, "branch", "--list", "longtask/*").split()) == {"longtask/work-1", "longtask/work-2"}
    assert "no task 'work-1'" in shell("show", "work-1", code=2).err


def test_by_default_tasks_are_kept_for_ninety_days_and_off_keeps_them_for_ever(shell: Shell):
    run(shell)
    assert shell("prune", "--json").json | {"rows": 0} == {
        "dry_run": False, "older_than_ms": 90 * 86_400_000, "tasks": 0, "rows": 0, "artifacts": 0, "bytes": 0,
    }  # fmt: skip
    shell.env["LONGTASK_RETENTION"] = "off"
    assert shell("prune", "--dry-run", "--json").json == {
        "dry_run": True, "older_than_ms": None, "tasks": 0, "handles": [],
    }  # fmt: skip
    assert "kept for ever (LONGTASK_RETENTION=off)" in shell("prune").out
    shell.env["LONGTASK_RETENTION"] = "12h"
    assert shell("prune", "--json").json["older_than_ms"] == 12 * 3_600_000


def test_what_kills_have_left_of_ended_tasks_is_tidied_up_once_a_day(shell: Shell, monkeypatch):
    run(shell)
    [task] = shell("ls", "--json").json
    [hub] = (shell.home / "hubs").glob("*.git")
    workspace = Workspace.at(shell.home, hub.name.removesuffix(".git"))

    def leave() -> Path:
        return workspace.checkout(task["id"], "edit", 9, git(shell.cwd, "rev-parse", "HEAD").strip()).path

    def loose() -> list[Path]:
        return list((hub / "objects").glob("[0-9a-f][0-9a-f]/*"))

    left = leave()
    monkeypatch.setattr(room, "LOOSE_MAX", -1)
    assert loose()
    shell.here("prune")
    assert not left.exists()
    assert loose() == [] and list((hub / "objects" / "pack").glob("*.pack"))
    left = leave()
    shell.here("prune")
    assert left.exists(), "not twice a day"
    (shell.home / "locks" / "tidy").write_text("0")
    shell.here("prune")
    assert not left.exists()


@pytest.mark.parametrize("time", ["5", "5x", "-1d", "1d2h", "", "999999999w", "off"])
def test_a_time_that_means_nothing_is_refused(shell: Shell, time: str):
    told = shell("prune", f"--older-than={time}", code=2)
    assert "--older-than" in told.err
    assert "write such as" in told.err or "longer than a hundred years" in told.err


def test_a_setting_that_means_nothing_is_told_by_every_command(shell: Shell):
    shell.env["LONGTASK_RETENTION"] = "soon"
    assert "LONGTASK_RETENTION 'soon': not a time to keep tasks for" in shell("ls", code=2).err


def test_inside_a_step_it_is_refused(shell: Shell):
    assert "is refused inside a step" in shell("prune", code=1, env={"LONGTASK_STEP": "a"}).err


def test_artifacts_travel_through_a_bucket(shell: Shell, tmp_path: Path):
    server = s3.server()
    name = f"b-{uuid.uuid4().hex}"
    kept = server.bucket(name)
    shell.env |= {**server.environment, "LONGTASK_ARTIFACT_STORE": f"s3://{name}/team"}
    shell.env["LONGTASK_DATABASE"] = str(tmp_path / "shared.db")
    run(shell)
    assert not (shell.home / "artifacts").exists()
    assert any(file.is_file() for file in (kept / "team").rglob("*"))
    elsewhere = Shell(tmp_path / "another-home", shell.cwd, dict(shell.env))
    fetched = elsewhere("artifacts", "@last", "change.patch").out
    assert "+two" in fetched
    assert "read" in shell("logs", "@last", "read").out, "a step was handed the file by a link"
    assert elsewhere("doctor", code=None).out.count("the bytes of artifact") == 0
    for file in (kept / "team").rglob("*"):
        if file.is_file():
            file.unlink()
    assert "the bytes of artifact 'change.patch' are gone" in shell("doctor", code=1).out


def test_a_bucket_out_of_reach_is_told(shell: Shell):
    shell.env |= {**s3.server().environment, "LONGTASK_ARTIFACT_STORE": "s3://no-such-bucket/x"}
    shell.plan(PLAN)
    told = shell("run", "--foreground", code=None)
    assert told.code != 0
    assert "there is no such bucket" in shell("show", "@last").out + told.out + told.err + shell("why", "@last").out
    assert s3.SECRET not in told.out + told.err
