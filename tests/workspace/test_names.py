"""Names of steps as parts of references and as folders."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtask.workspace import names
from longtask.workspace.hub import Move, move_refs, read_refs

ODD = "build mods[3] mods[3]~2 test.fix.1 a.lock .lock .. . .x x. a..b A - -- a/b @{0} é".split()
KEYS = [*ODD, "with space", "new\nline", "nul\0", "\udcff", "x" * 500, "x" * 501, "[" * 200]
anything = (
    st.text(min_size=1) | st.sampled_from(KEYS) | st.lists(st.sampled_from([".", "..", "lock", "a", "-"])).map("".join)
)


def test_names_of_ordinary_keys_can_be_read():
    assert names.attempt_name("test.fix.1", 2) == "test.fix.1.2"
    assert names.attempt_name("mods[3]~2", 1) == "mods-5b3-5d-7e2.1"
    assert names.safe_task("01890a5d-ac96-774b-bcce-b302099a8057") == "01890a5d-ac96-774b-bcce-b302099a8057"


@given(anything.filter(bool), anything.filter(bool))
@settings(max_examples=100, deadline=None)
def test_two_keys_never_get_one_name_even_without_case(one, two):
    if one != two:
        assert names.safe(one).lower() != names.safe(two).lower()
    assert len(names.safe(one)) <= names.LENGTH_MAX
    assert set(names.safe(one)) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-")


@given(anything.filter(bool))
@settings(max_examples=100, deadline=None)
def test_every_name_is_a_part_of_a_reference(key):
    name = names.safe(key)
    assert not name.startswith(".") and not name.endswith((".lock", ".")) and ".." not in name


def test_git_takes_every_name(workspace, base):
    moves = [Move(names.checkpoint_ref(key, key, 1), base, "") for key in KEYS]
    move_refs(workspace.hub, moves)
    assert read_refs(workspace.hub, "refs/longtask").keys() == {move.ref for move in moves}


@pytest.mark.parametrize("key", ["mods[3]~2", "a/../b", "a.lock", "x" * 300])
def test_a_worktree_of_an_oddly_named_step_works(workspace, base, key):
    wt = workspace.checkout(key, key, 1, base)
    (wt.path / "a").write_text("x")
    workspace.checkpoint(wt)
    made = workspace.commit(wt, key)
    assert made is not None
    assert workspace.find(key, key, 1) == wt
    assert workspace.advance(key, made)
    assert workspace.clean(key).removed == (wt.path,)
    assert not wt.path.parent.exists()
