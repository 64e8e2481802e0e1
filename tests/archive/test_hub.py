"""An archive into an installation whose machines share a hub: what it brings is there for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from longtask import boot
from longtask.boot.archives import make_exporter, make_importer
from longtask.config import Config
from longtask.core.errors import HubUnreachable, NotFound
from tests.workspace.conftest import Repo
from tests.workspace.fleet import git_there, refs_of
from tests.workspace.test_machines import submitted, worked


class Fleet:
    """Two machines with one database and one hub, which is a bare repository of git's."""

    def __init__(self, folder: Path, database: str) -> None:
        self.disk = folder / "disk"
        hub = f"file://{self.disk}/{{workspace}}.git"
        self.configs = [Config(folder / name, database, str(folder / "artifacts"), hub=hub) for name in "ab"]
        self.machines = [boot.open_parts(config) for config in self.configs]

    def hub(self, workspace_id: str) -> Path:
        return self.disk / f"{workspace_id}.git"

    def close(self) -> None:
        for parts in self.machines:
            parts.merger.close()
            parts.store.close()


@pytest.fixture
def fleet(request, databases, tmp_path: Path):
    made = Fleet(tmp_path / "fleet", databases(request.param))
    yield made
    made.close()


both = pytest.mark.parametrize("fleet", ["sqlite", "postgresql"], indirect=True)
one = pytest.mark.parametrize("fleet", ["sqlite"], indirect=True)


@both
def test_what_one_machine_imports_another_has_too(fleet, origin, archive):
    a, b = fleet.machines
    done = make_importer(a).read(archive, "bob")
    task = b.store.get_task(done.task.id)
    assert done.told == () and str(task.state) == "completed"
    there = refs_of(fleet.hub(task.workspace_id), f"refs/longtask/{task.id}")
    assert there[f"refs/longtask/{task.id}/head"] == task.head
    workspace = b.merger.workspace(task.workspace_id)
    assert workspace.read_file(task.head, "a.txt") == b"one\ntwo\n"
    at_home = origin.merger.workspace(task.workspace_id)
    assert workspace.diff(task.base, task.head) == at_home.diff(task.base, task.head)
    git_there(fleet.hub(task.workspace_id), "fsck", "--strict", "--connectivity-only")


@both
def test_it_goes_on_to_a_third_installation_from_a_machine_that_did_not_import_it(fleet, archive, tmp_path):
    a, b = fleet.machines
    task = make_importer(a).read(archive, "bob").task
    onward = tmp_path / "onward.tar.gz"
    make_exporter(b).write(task.id, onward)
    third = boot.open_parts(Config(tmp_path / "third", str(tmp_path / "third.db")))
    try:
        assert make_importer(third).read(onward, "eve").task.head == task.head
        assert third.merger.workspace(task.workspace_id).read_file(task.head or "", "a.txt") == b"one\ntwo\n"
    finally:
        third.store.close()


@one
def test_while_the_hub_is_away_nothing_is_stored_and_the_same_file_is_taken_later(fleet, archive):
    a, b = fleet.machines
    fleet.disk.parent.mkdir(exist_ok=True)
    fleet.disk.write_text("a file stands where the disk is mounted")
    with pytest.raises(HubUnreachable, match="see that the disk is there"):
        make_importer(a).read(archive, "bob")
    with pytest.raises(NotFound):
        a.store.get_task("kept-1")
    fleet.disk.unlink()
    done = make_importer(a).read(archive, "bob")
    assert (done.told, done.again) == ((), False)
    assert b.merger.workspace(done.task.workspace_id).read_file(done.task.head, "a.txt") == b"one\ntwo\n"


@one
def test_a_task_comes_back_to_a_hub_that_has_its_repository(fleet, tmp_path):
    """As after the database was lost: the hub knows the repository, and it stays that of its own machine."""
    a, b = fleet.machines
    repo = Repo(tmp_path / "repo")
    repo.commit("first", **{"a.txt": "one\n"})
    task = worked(fleet.configs[0], submitted(fleet.configs[0], repo.path))
    file = tmp_path / "back.tar.gz"
    make_exporter(b).write(task.id, file)
    fresh = boot.open_parts(Config(tmp_path / "fresh", str(tmp_path / "fresh.db"), hub=fleet.configs[0].hub))
    try:
        done = make_importer(fresh).read(file, "bob")
        workspace = fresh.merger.workspace(task.workspace_id)
        assert done.told == () and workspace.read_file(task.head or "", "left.txt") == b"left\n"
    finally:
        fresh.store.close()
    assert a.merger.workspace(task.workspace_id).base().commit == task.base, "its own machine's, as before"
