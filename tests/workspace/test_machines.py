"""A task of the whole engine, submitted on one machine and done on others."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from longtask import boot, plan
from longtask.config import Config
from longtask.core.errors import HubUnreachable
from longtask.core.model import Task, TaskState
from longtask.workspace import Workspace
from tests.workspace.fleet import git_there, refs_of

PLAN = """
longtask: 1
name: job
workspace: {repo: .}
stages:
  - name: change
    steps:
      - {id: left, run: "echo left > left.txt", commit: true}
      - {id: right, run: "echo right > right.txt", commit: true}
  - name: check
    steps:
      - {id: check, run: "grep -q left left.txt && grep -q right right.txt"}
"""


@pytest.fixture
def configs(tmp_path: Path) -> list[Config]:
    """Of three machines with one database and one hub."""
    hub = f"file://{tmp_path}/disk/{{workspace}}.git"
    return [Config(tmp_path / name, str(tmp_path / "tasks.db"), str(tmp_path / "artifacts"), hub=hub) for name in "abc"]


def submitted(config: Config, folder: Path, text: str = PLAN) -> Task:
    parts = boot.open_parts(config)
    workspace = Workspace.open(config.home, folder, config.hub)
    graph = plan.compile_plan(plan.load(text), attended=False)
    task = parts.desk.submit(graph, by="ann", workspace_id=workspace.id, base=workspace.base().commit)
    parts.store.close()
    return task


def worked(config: Config, task: Task) -> Task:
    parts = boot.open_parts(config)
    running = boot.make_loop(parts, slots=2)
    running.loop.run(lambda: parts.store.get_task(task.id).ended)
    ended = parts.store.get_task(task.id)
    running.close()
    return ended


def test_a_task_is_done_by_a_machine_that_has_never_seen_its_repository(configs, repo, tmp_path):
    a, b, _ = configs
    task = submitted(a, repo.path)
    away = repo.path.rename(tmp_path / "away")  # as on a machine that does not have it
    ended = worked(b, task)
    assert ended.state is TaskState.COMPLETED
    there = tmp_path / "disk" / f"{task.workspace_id}.git"
    assert refs_of(there, f"refs/longtask/{task.id}") == {f"refs/longtask/{task.id}/head": ended.head}
    away.rename(repo.path)
    assert repo.git("branch", "--list", "longtask/*") == ""
    shutil.rmtree(b.home)
    parts = boot.open_parts(a)
    parts.merger.follow_now(ended)
    parts.store.close()
    assert repo.git("rev-parse", boot.branch_of(ended)) == ended.head
    assert git_there(repo.path, "show", f"{ended.head}:left.txt") == "left"


def test_a_worker_of_the_submitting_machine_makes_the_branch_by_itself(configs, repo):
    a, *_ = configs
    ended = worked(a, submitted(a, repo.path))
    assert repo.git("rev-parse", boot.branch_of(ended)) == ended.head


def test_work_waits_for_a_hub_that_is_away_and_is_not_done_again(configs, repo, tmp_path, caplog):
    """A shared disk that is lost just before the delivery, and comes back when the attempt has met that."""
    a, *_ = configs
    disk, away, begun = tmp_path / "disk", tmp_path / "away", tmp_path / "begun"
    text = PLAN.replace("echo left >", f"mv {disk} {away}; echo x >> {begun}; echo left >")
    task = submitted(a, repo.path, text)
    parts = boot.open_parts(a)
    running = boot.make_loop(parts, slots=1)

    class Mending(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("attempt.waits") and away.exists():
                away.rename(disk)

    mending = Mending()
    logging.getLogger("longtask.attempt").addHandler(mending)
    try:
        running.loop.run(lambda: parts.store.get_task(task.id).ended)
    finally:
        logging.getLogger("longtask.attempt").removeHandler(mending)
    found = parts.store.get_task(task.id)
    running.close()
    assert found.state is TaskState.COMPLETED
    assert begun.read_text() == "x\n"
    assert "sending a commit: there is no such repository" in caplog.text


def test_a_merge_waits_for_a_hub_that_is_away(configs, repo, tmp_path):
    """And it is in the hub before the journal names it."""
    a, *_ = configs
    task = submitted(a, repo.path)
    workspace = Workspace.at(a.home, task.workspace_id, a.hub)
    sides: list[str] = []
    for step in ("one", "two"):
        wt = workspace.checkout(task.id, step, 1, task.base or "")
        (wt.path / step).write_text("x\n")
        sides.append(workspace.commit(wt, "x") or "")
    (tmp_path / "disk").rename(tmp_path / "away")
    merger = boot.GitMerger(a.home, a.hub)
    with pytest.raises(HubUnreachable, match="sending a merge"):
        merger.merge(workspace.id, sides[0], sides[1], "m")
    (tmp_path / "away").rename(tmp_path / "disk")
    merged = merger.merge(workspace.id, sides[0], sides[1], "m").commit
    merger.close()
    assert merged in refs_of(tmp_path / "disk" / f"{workspace.id}.git").values()


def test_a_follower_that_has_seen_the_hub_equal_the_journal_does_not_look_again_at_once(configs, repo, tmp_path):
    a, *_ = configs
    task = submitted(a, repo.path)
    parts = boot.open_parts(a)
    parts.merger.follow_now(task)
    (tmp_path / "disk").rename(tmp_path / "away")
    parts.merger.follow(task)
    assert parts.merger._beside is None  # nobody was asked
    parts.store.close()


def test_a_process_that_begins_asks_once_where_all_tasks_stand(configs, repo, tmp_path):
    a, *_ = configs
    tasks = [submitted(a, repo.path) for _ in range(3)]
    parts = boot.open_parts(a)
    for task in tasks[:2]:
        parts.merger.follow_now(task)
    anew = boot.GitMerger(a.home, a.hub)
    anew.follow_now(tasks[0])
    (tmp_path / "disk").rename(tmp_path / "away")
    anew.follow_now(tasks[1])  # nobody is asked
    with pytest.raises(HubUnreachable):
        anew.follow_now(tasks[2])  # its head is not there yet
    parts.store.close()


def test_a_branch_that_is_missing_is_made_though_the_head_is_there(configs, repo):
    a, *_ = configs
    ended = worked(a, submitted(a, repo.path))
    repo.git("branch", "-D", boot.branch_of(ended))
    boot.GitMerger(a.home, a.hub).follow_now(ended)
    assert repo.git("rev-parse", boot.branch_of(ended)) == ended.head
