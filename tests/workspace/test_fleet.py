"""One hub and many machines: what one has done, the others go on with."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from longtask.core.errors import HubUnreachable, Refused
from longtask.workspace import Conflict, Merged, NotPublished, Published
from longtask.workspace.hub import has_commit, read_ref, read_refs
from longtask.workspace.names import attempt_ref, checkpoint_ref, head_ref, merge_ref, record_ref, shared_base_ref
from tests.workspace.conftest import TASK, Repo
from tests.workspace.fleet import Machine, assignment, git_there, refs_of, row

BRANCH = "longtask/job-1"


HUBS = ("{}/disk/hubs", "file://{}/disk/hubs/{{workspace}}.git", "file://{}/disk/hub.git")
each_hub = pytest.mark.parametrize("shared", HUBS, ids=("folder", "url", "one-for-all"), indirect=True)


@pytest.fixture
def shared(request, tmp_path: Path) -> str:
    return getattr(request, "param", HUBS[0]).format(tmp_path)


@pytest.fixture
def machines(tmp_path: Path, shared: str) -> tuple[Machine, Machine, Machine]:
    a, b, c = (Machine(tmp_path / name, shared) for name in "abc")
    return a, b, c


def there(machine: Machine, workspace_id: str) -> Path:
    """The shared hub itself."""
    remote = machine.at(workspace_id).hub.remote
    assert remote is not None and remote.folder is not None
    return remote.folder


@each_hub
def test_a_killed_attempt_goes_on_elsewhere_and_its_commit_is_merged_by_a_third(machines, repo, tmp_path):
    a, b, c = machines
    repo.git("tag", "v1")
    at_a = a.open(repo)
    base = at_a.base().commit
    first = assignment(at_a.id, base)
    places = a.places
    place = a.begin(places, first)
    (place / "a").write_text("of the first attempt\n")
    tree = places.save_tree(place)  # and now machine A is gone, with all that it had
    shutil.rmtree(a.root)
    repo.path.rename(tmp_path / "elsewhere")

    second = replace(first, attempt=2, journal=(row(1, tree),), checkpoint=(1, tree))
    places = b.places
    place = b.begin(places, second)
    assert (place / "a").read_text() == "of the first attempt\n"
    assert git_there(place, "describe", "--tags") == "v1"
    (place / "b").write_text("of the second\n")
    done = b.keep(places, second, place)
    other = b.work(at_a.id, "other", base, c="c\n")
    shutil.rmtree(b.root)

    at_c = c.at(at_a.id)
    merged = at_c.merge(other, done.commit, "merge\n")
    assert isinstance(merged, Merged)
    assert [at_c.read_file(merged.commit, name) for name in "abc"] == [
        b"of the first attempt\n",
        b"of the second\n",
        b"c\n",
    ]
    assert at_c.advance(TASK, merged.commit)
    assert refs_of(there(c, at_a.id))[head_ref(TASK)] == merged.commit


def test_nothing_of_other_tasks_is_fetched(machines, repo):
    a, b, _ = machines
    at_a = a.open(repo)
    base = at_a.base().commit
    wanted, other = a.work(at_a.id, "wanted", base, a="1\n"), a.work(at_a.id, "other", base, a="2\n")
    at_b = b.at(at_a.id)
    assert at_b.stat(base, wanted).paths == ("a",)
    assert not has_commit(at_b.hub, other)


def test_what_is_reported_is_there_before_it_is_reported(machines, repo):
    a, *_ = machines
    at_a = a.open(repo)
    base = at_a.base().commit
    assert {shared_base_ref(base), record_ref(at_a.id)} <= refs_of(there(a, at_a.id)).keys()
    wt = at_a.checkout(TASK, "s", 1, base)
    (wt.path / "a").write_text("half\n")
    tree = at_a.checkpoint(wt)
    assert git_there(there(a, at_a.id), "rev-parse", f"{checkpoint_ref(TASK, 's', 1)}^{{tree}}") == tree
    commit = at_a.commit(wt, "x")
    assert commit is not None
    assert refs_of(there(a, at_a.id))[attempt_ref(TASK, "s", 1)] == commit
    other = a.work(at_a.id, "other", base, b="1\n")
    merged = at_a.merge(other, commit, "m")
    assert isinstance(merged, Merged)
    assert refs_of(there(a, at_a.id))[merge_ref(commit)] == merged.commit


def test_a_checkpoint_that_could_not_be_sent_is_sent_by_the_next_call_though_it_is_the_same(machines, repo):
    a, *_ = machines
    at_a = a.open(repo)
    wt = at_a.checkout(TASK, "s", 1, at_a.base().commit)
    (wt.path / "a").write_text("half\n")
    away = there(a, at_a.id).rename(there(a, at_a.id).with_name("away"))
    with pytest.raises(HubUnreachable, match="sending a checkpoint: there is no such repository"):
        at_a.checkpoint(wt)
    away.rename(at_a.hub.remote.folder)
    tree = at_a.checkpoint(wt)
    assert git_there(there(a, at_a.id), "rev-parse", f"{checkpoint_ref(TASK, 's', 1)}^{{tree}}") == tree


def test_a_commit_that_cannot_be_sent_keeps_its_worktree_and_is_delivered_later(machines, repo):
    a, b, _ = machines
    at_a = a.open(repo)
    work = assignment(at_a.id, at_a.base().commit)
    places = a.places
    place = a.begin(places, work)
    (place / "a").write_text("precious\n")
    away = there(a, at_a.id).rename(there(a, at_a.id).with_name("away"))
    for _ in range(2):
        with pytest.raises(HubUnreachable):
            a.keep(places, work, place)
    assert (place / "a").read_text() == "precious\n"
    away.rename(at_a.hub.remote.folder)
    commit = a.keep(places, work, place).commit
    assert b.at(at_a.id).read_file(commit, "a") == b"precious\n"
    assert not place.exists()


def test_a_conflict_is_resolved_on_a_machine_that_made_neither_side(machines, repo):
    a, b, c = machines
    at_a = a.open(repo)
    base = at_a.base().commit
    mine, theirs = a.work(at_a.id, "x", base, a="mine\n"), b.work(at_a.id, "y", base, a="theirs\n")
    assert isinstance(c.at(at_a.id).merge(theirs, mine, "m"), Conflict)
    shutil.rmtree(c.root)
    work = assignment(at_a.id, theirs, "x.conflict.1", conflict={"head": theirs, "commit": mine})
    places = c.places
    place = c.begin(places, work)
    (place / "a").write_text("both\n")
    done = c.keep(places, work, place)
    assert a.at(at_a.id).merge(theirs, done.commit, "m") == Merged(done.commit)


def test_only_the_machine_with_the_repository_gets_the_branch(machines, repo):
    a, b, _ = machines
    at_a = a.open(repo)
    head = b.work(at_a.id, "s", at_a.base().commit, a="1\n")
    at_b = b.at(at_a.id)
    answer = at_b.publish(BRANCH, head)
    assert isinstance(answer, NotPublished) and "is on host" in answer.reason
    assert repo.git("branch", "--list", BRANCH) == ""
    assert at_a.publish(BRANCH, head) == Published(BRANCH, head)
    with pytest.raises(Refused, match="the repository is on host"):
        at_b.adopt(TASK, "s", 2, "main")


def test_repositories_at_one_path_of_two_machines_are_two_workspaces(machines, repo):
    a, b, _ = machines
    ids = {a.open(repo).id, b.open(repo).id}
    assert len(ids) == 2
    assert a.open(repo).id in ids


def test_what_the_user_ignores_is_ignored_on_every_machine(machines, repo):
    a, b, _ = machines
    repo.write(".git/info/exclude", ".idea\n")
    at_a = a.open(repo)
    commit = b.work(at_a.id, "s", at_a.base().commit, **{"a": "1\n", ".idea": "mine"})
    assert a.at(at_a.id).stat(at_a.base().commit, commit).paths == ("a",)


def test_tags_come_with_each_new_base(machines, repo):
    a, b, _ = machines
    for n in (1, 2):
        repo.commit(f"{n}")
        repo.git("tag", f"v{n}")
        at_a = a.open(repo)
        place = b.begin(b.places, assignment(at_a.id, at_a.base().commit, attempt=n))
        assert git_there(place, "describe", "--tags") == f"v{n}"


# --- the head ---------------------------------------------------------------------------------------------------------


def test_the_head_never_goes_back_whoever_comes_late(machines, repo):
    a, b, c = machines
    at_a = a.open(repo)
    one = a.work(at_a.id, "one", at_a.base().commit, a="1\n")
    two = b.work(at_a.id, "two", one, a="2\n")
    at_b = b.at(at_a.id)
    assert at_b.advance(TASK, two)
    assert c.at(at_a.id).advance(TASK, one)  # a slow machine's
    assert refs_of(there(c, at_a.id))[head_ref(TASK)] == two


@each_hub
def test_of_two_that_move_the_head_from_one_place_one_wins(machines, repo):
    a, b, _ = machines
    at_a = a.open(repo)
    base = at_a.base().commit
    one, two = a.work(at_a.id, "one", base, a="1\n"), b.work(at_a.id, "two", base, b="2\n")
    at_b = b.at(at_a.id)
    assert at_a.advance(TASK, base, "")
    assert at_a.advance(TASK, one, base)
    assert not at_b.advance(TASK, two, base)
    assert refs_of(there(a, at_a.id))[head_ref(TASK)] == one


def test_of_many_that_move_the_head_at_once_the_newest_wins(machines, repo):
    a, b, c = machines
    at_a = a.open(repo)
    heads = [at_a.base().commit]
    for n in range(3):
        heads.append(a.work(at_a.id, f"s{n}", heads[-1], a=f"{n}\n"))
    workspaces = [at_a, b.at(at_a.id), c.at(at_a.id)]
    with ThreadPoolExecutor(3) as pool:
        moves = [pool.submit(w.advance, TASK, head) for w, head in zip(workspaces, reversed(heads[1:]), strict=True)]
        assert all(move.result() for move in moves)
    assert refs_of(there(a, at_a.id))[head_ref(TASK)] == heads[-1]


def test_after_a_crash_the_hub_is_made_to_equal_the_journal(machines, repo):
    a, b, _ = machines
    at_a = a.open(repo)
    base = at_a.base().commit
    one, two, orphan = (a.work(at_a.id, step, base, **{step: "x"}) for step in ("one", "two", "lost"))
    head = at_a.merge(one, two, "m").commit
    at_b = b.at(at_a.id)
    git_there(there(a, at_a.id), "update-ref", "-d", attempt_ref(TASK, "one", 1))
    at_b.advance(TASK, orphan)  # a reference that moved before the journal
    journal = (TASK, head, [("one", 1, one), ("two", 1, two)])
    report = at_b.reconcile(*journal)
    assert report.missing == ()
    found = refs_of(there(a, at_a.id))
    assert (found[head_ref(TASK)], found[attempt_ref(TASK, "one", 1)]) == (head, one)
    assert at_b.reconcile(*journal).moved == ()
    assert at_a.reconcile(TASK, head, [("gone", 1, "0" * 39 + "1")]).missing == ("0" * 39 + "1",)


# --- the hub's own life -----------------------------------------------------------------------------------------------


def test_a_hub_that_collects_its_garbage_loses_nothing_that_counts(machines, repo):
    a, b, c = machines
    at_a = a.open(repo)
    base = at_a.base().commit
    work = assignment(at_a.id, base)
    places = a.places
    place = a.begin(places, work)
    (place / "a").write_text("saved\n")
    tree = places.save_tree(place)
    one, two = a.work(at_a.id, "one", base, b="1\n"), a.work(at_a.id, "two", base, c="2\n")
    merged = at_a.merge(one, two, "m").commit  # and the head's reference does not say it yet
    git_there(there(a, at_a.id), "gc", "--quiet", "--prune=now")
    at_b = b.at(at_a.id)
    assert at_b.contains(merged, one) and at_b.contains(merged, two)
    again = replace(work, attempt=2, base=merged, journal=(row(1, tree),), checkpoint=(1, tree))
    assert (c.begin(c.places, again) / "a").read_text() == "saved\n"


def test_a_hub_that_was_made_anew_is_filled_again(machines, repo):
    a, b, _ = machines
    at_a = a.open(repo)
    head = a.work(at_a.id, "s", at_a.base().commit, a="1\n")
    shutil.rmtree(there(a, at_a.id))
    git_there(repo.path, "init", "--quiet", "--bare", str(at_a.hub.remote.folder))
    assert at_a.advance(TASK, head)
    assert b.at(at_a.id).read_file(head, "a") == b"1\n"


def test_a_commit_that_nobody_has_is_told_with_what_to_look_after(machines, repo):
    a, b, _ = machines
    at_a = a.open(repo)
    at_a.base()
    with pytest.raises(HubUnreachable, match=r"0000.* is neither there nor here; see that LONGTASK_HUB is the same"):
        b.at(at_a.id).tree_of("0" * 39 + "1")
    assert not at_a.has_commit("0" * 39 + "1")


def test_a_task_that_was_submitted_without_a_hub_is_told_so(machines, repo, workspace):
    a, *_ = machines
    a.open(repo).base()
    with pytest.raises(HubUnreachable, match=f"{workspace.id}.*LONGTASK_HUB is the same on every machine"):
        a.at(workspace.id)


@each_hub
def test_cleaning_takes_references_away_from_the_hub_too_in_batches(machines, repo, monkeypatch):
    a, b, _ = machines
    monkeypatch.setattr("longtask.workspace.exchange.BATCH_REFS_MAX", 2)
    at_a = a.open(repo)
    base = at_a.base().commit
    one, two = a.work(at_a.id, "one", base, b="1\n"), b.work(at_a.id, "two", base, c="2\n")
    unmerged = b.work(at_a.id, "three", base, b="3\n")
    at_b = b.at(at_a.id)
    head = at_b.merge(one, two, "m").commit
    at_a.advance(TASK, head)
    report = at_a.clean(TASK)
    assert report.kept == (attempt_ref(TASK, "three", 1),)
    found = refs_of(there(a, at_a.id), f"refs/longtask/{TASK}")
    assert found == {head_ref(TASK): head, attempt_ref(TASK, "three", 1): unmerged}
    assert merge_ref(two) not in refs_of(there(a, at_a.id))
    assert at_b.clean(TASK).kept == (attempt_ref(TASK, "three", 1),)
    assert set(read_refs(at_b.hub, f"refs/longtask/{TASK}")) <= {head_ref(TASK), attempt_ref(TASK, "three", 1)}
    at_a.forget(TASK)
    assert refs_of(there(a, at_a.id), f"refs/longtask/{TASK}") == {}
    assert read_ref(at_a.hub, head_ref(TASK)) is None


def test_a_lock_that_a_dead_machine_left_on_a_shared_disk_is_taken_away_but_no_fresh_one(machines, repo):
    a, *_ = machines
    at_a = a.open(repo)
    base = at_a.base().commit
    wt = at_a.checkout(TASK, "s", 1, base)
    (wt.path / "a").write_text("x\n")
    lock = there(a, at_a.id) / f"{attempt_ref(TASK, 's', 1)}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with pytest.raises(HubUnreachable, match="File exists"):
        at_a.commit(wt, "x")
    long_ago = lock.stat().st_mtime - 3600
    subprocess.run(["touch", "-d", f"@{int(long_ago)}", str(lock)], check=True)
    assert at_a.commit(wt, "x")


def test_a_push_that_was_killed_half_way_is_made_again(machines, repo):
    """What a kill leaves there: objects that no reference holds, in a folder for what comes in."""
    a, b, _ = machines
    at_a = a.open(repo)
    base = at_a.base().commit
    incoming = there(a, at_a.id) / "objects" / "incoming-xyz" / "pack"
    incoming.mkdir(parents=True)
    (incoming / "tmp_pack_1").write_bytes(b"PACK half")
    assert b.at(at_a.id).read_file(a.work(at_a.id, "s", base, a="1\n"), "a") == b"1\n"


def test_packs_that_fetches_bring_are_joined(machines, repo, monkeypatch):
    a, b, _ = machines
    monkeypatch.setattr("longtask.workspace.exchange.PACKS_MAX", 2)
    at_a = a.open(repo)
    head = at_a.base().commit
    at_b = b.at(at_a.id)
    for n in range(4):
        head = a.work(at_a.id, f"s{n}", head, a=f"{n}\n")
        at_b.tree_of(head)
    assert len(list((at_b.hub.path / "objects" / "pack").glob("*.pack"))) <= 3
    assert at_b.read_file(head, "a") == b"3\n"


def test_a_shallow_clone_works_on_a_shared_disk(machines, repo, tmp_path):
    a, b, _ = machines
    repo.commit("second", a="2\n")
    Repo(tmp_path / "user", "clone").git("clone", "--quiet", "--depth=1", f"file://{repo.path}", "shallow")
    at_a = a.open(Repo(tmp_path / "user" / "shallow", "clone"))
    commit = b.work(at_a.id, "s", at_a.base().commit, b="new\n")
    assert at_a.read_file(commit, "b") == b"new\n"


def test_a_repository_of_the_other_object_format_can_be_shared(machines, make_repo):
    a, b, _ = machines
    other = make_repo("other", "--object-format=sha256")
    other.commit("first", a="1\n")
    at_a = a.open(other)
    commit = b.work(at_a.id, "s", at_a.base().commit, b="new\n")
    assert len(commit) == 64 and at_a.read_file(commit, "b") == b"new\n"


def test_two_machines_that_join_at_once_both_succeed(machines, repo):
    a, b, _ = machines
    at_a = a.open(repo)
    base = at_a.base().commit
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: b.at(at_a.id).read_file(base, "b"), range(4)))
    assert found == [b"b\n"] * 4
    assert [path.name for path in (b.home / "hubs").iterdir()] == [f"{at_a.id}.git"]


def test_an_agent_finds_the_hub_s_address_nowhere_in_its_folder(machines, repo, shared):
    a, b, _ = machines
    at_a = a.open(repo)
    place = b.begin(b.places, assignment(at_a.id, at_a.base().commit))
    config = git_there(place, "config", "--list", "--show-origin")
    assert "disk" not in config and "remote" not in config
    assert "disk" not in (at_a.hub.path / "config").read_text()
