"""What many files cost.  The times are printed (`pytest -s`), not asserted: they belong to the machine."""

from __future__ import annotations

import time

import pytest

from tests.workspace.conftest import TASK


@pytest.mark.parametrize("files", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_checkpoint_of_many_files_finds_the_one_that_changed(repo, workspace, files):
    lines = ["blob\nmark :1\ndata 2\nx\n", "commit refs/heads/main", "committer A <a@example.org> 1 +0000", "data 0"]
    lines += [f"M 100644 :1 d{n // 100}/f{n}" for n in range(files)]
    repo.git("fast-import", "--quiet", "--force", stdin="\n".join([*lines, "", ""]).encode())
    repo.git("reset", "--quiet", "--hard")
    took: dict[str, float] = {}

    def timed(name, call, *args):
        begin = time.perf_counter()
        answer = call(*args)
        took[name] = (time.perf_counter() - begin) * 1000
        return answer

    base = timed("base", workspace.base).commit
    wt = timed("checkout", workspace.checkout, TASK, "s", 1, base)
    assert timed("first", workspace.checkpoint, wt) == workspace.tree_of(base)
    (wt.path / "d7" / "f777").write_text("changed\n")
    tree = timed("checkpoint", workspace.checkpoint, wt)
    assert workspace.stat(base, tree).paths == ("d7/f777",)
    assert timed("again", workspace.checkpoint, wt) == tree
    made = timed("commit", workspace.commit, wt, "x")
    timed("remove", workspace.remove, wt)
    assert workspace.tree_of(made) == tree
    print(f"{files} files:", {name: f"{ms:.0f} ms" for name, ms in took.items()})
