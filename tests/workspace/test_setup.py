"""The set-up's cache."""

from __future__ import annotations

import os

import pytest

from longtask.core.errors import Refused
from tests.workspace.conftest import TASK

PATHS = ["node_modules", "tool"]


def make_modules(folder):
    (folder / "node_modules" / "pkg").mkdir(parents=True)
    (folder / "node_modules" / "pkg" / "index.js").write_text("1")
    (folder / "node_modules" / "run").symlink_to("pkg/index.js")
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o755)


def test_the_key_is_the_state_of_the_lock_files_and_the_command(repo, workspace):
    repo.write("web/package-lock.json", "1")
    one = workspace.base(repo.commit("lock")).commit
    repo.write("src/main.py", "code")
    two = workspace.base(repo.commit("code")).commit
    repo.write("web/package-lock.json", "2")
    three = workspace.base(repo.commit("lock again")).commit
    assert workspace.setup_key(one, "npm ci") == workspace.setup_key(two, "npm ci")
    assert workspace.setup_key(one, "npm ci") != workspace.setup_key(three, "npm ci")
    assert workspace.setup_key(one, "npm ci") != workspace.setup_key(one, "npm i")
    assert workspace.setup_key(one, "x", ["src/*"]) != workspace.setup_key(two, "x", ["src/*"])
    assert workspace.setup_key(two, "x", ["*.py"]) == workspace.setup_key(three, "x", ["*.py"])


def test_a_script_that_the_command_names_and_the_environment_are_part_of_the_key(repo, workspace):
    repo.write("tools/setup.sh", "pip install good")
    repo.write("Makefile", "one:")
    one = workspace.base(repo.commit("script")).commit
    repo.write("tools/setup.sh", "pip install bad")
    two = workspace.base(repo.commit("script again")).commit
    repo.write("Makefile", "two:")
    three = workspace.base(repo.commit("makefile")).commit
    for command in ("sh tools/setup.sh", "cd x; ./tools/setup.sh --fast", 'bash "tools/setup.sh"&&true'):
        assert workspace.setup_key(one, command) != workspace.setup_key(two, command)
        assert workspace.setup_key(two, command) == workspace.setup_key(three, command)
    assert workspace.setup_key(two, "make deps") != workspace.setup_key(three, "make deps")
    keys = {workspace.setup_key(one, "x", environment=env) for env in (None, {"A": "1"}, {"A": "2"}, {"B": "1"})}
    assert len(keys) == 4


def test_what_was_kept_comes_back_and_a_steps_writes_stay_its_own(workspace, base):
    one, two, three = (workspace.checkout(TASK, "s", n, base, aside=PATHS) for n in (1, 2, 3))
    make_modules(one.path)
    assert not workspace.restore_cache(two, "key", PATHS)
    assert workspace.save_cache(one, "key", PATHS)
    assert not workspace.save_cache(one, "key", PATHS)
    (one.path / "node_modules" / "pkg" / "index.js").write_text("broken by one")
    assert workspace.restore_cache(two, "key", list(reversed(PATHS)))
    assert (two.path / "node_modules" / "run").read_text() == "1"
    assert os.readlink(two.path / "node_modules" / "run") == "pkg/index.js"
    assert os.access(two.path / "tool", os.X_OK)
    (two.path / "node_modules" / "pkg" / "index.js").write_text("broken by two")
    assert workspace.restore_cache(three, "key", PATHS)
    assert (three.path / "node_modules" / "pkg" / "index.js").read_text() == "1"
    assert workspace.leftovers(three) == []


def test_nothing_is_restored_over_something_or_for_other_paths(workspace, base):
    one, two = (workspace.checkout(TASK, "s", n, base) for n in (1, 2))
    make_modules(one.path)
    workspace.save_cache(one, "key", PATHS)
    assert not workspace.restore_cache(one, "key", PATHS)
    assert not workspace.restore_cache(two, "key", ["node_modules"])


def test_a_path_that_the_setup_did_not_make_is_left_out(workspace, base):
    one, two = (workspace.checkout(TASK, "s", n, base) for n in (1, 2))
    assert workspace.save_cache(one, "key", ["a/b", ".venv"])
    assert workspace.restore_cache(two, "key", [".venv", "a/b"])


def test_no_path_leads_out_of_the_worktree(workspace, base, tmp_path):
    wt = workspace.checkout(TASK, "s", 1, base)
    (wt.path / "out").symlink_to(tmp_path)
    for path in ("../x", "/etc/passwd", ".git/config", "out/x"):
        with pytest.raises(Refused):
            workspace.save_cache(wt, "key", [path])


def test_the_oldest_entries_go_first(workspace, base):
    wt = workspace.checkout(TASK, "s", 1, base)
    make_modules(wt.path)
    for n, key in enumerate(("one", "two", "three")):
        workspace.save_cache(wt, key, PATHS)
        os.utime(workspace.hub.home / "caches" / workspace.id / key, (n, n))
    other = workspace.checkout(TASK, "s", 2, base)
    assert workspace.restore_cache(other, "one", PATHS)
    assert workspace.trim_caches(keep=1) == 2
    assert workspace.restore_cache(workspace.checkout(TASK, "s", 3, base), "one", PATHS)
    assert workspace.trim_caches(keep=1) == 0
