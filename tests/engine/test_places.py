"""Where attempts work, on real git: a run keeps its edits and its base, and nothing of others is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from longtask.agents.journal import TREE
from longtask.core.errors import Refused, WorkspaceError
from longtask.core.model import Done, Failed, JsonMap, Kind, Outcome, Parked, Released, StepSpec, Stopped, WaitingFor
from longtask.steps.contract import Assignment, Ended
from longtask.steps.places import Places, ToldConflicts
from longtask.workspace.hub import read_ref
from longtask.workspace.names import checkpoint_ref
from longtask.workspace.tree import read_worktree, worktrees
from longtask.workspace.workspace import Workspace

SECRET = "sesame-4711"
TASK = "01900000-0000-7000-8000-000000000001"


@dataclass
class Line:
    """What a place asks of its attempt's desk."""

    checkpoints: list[tuple[int, str | None]] = field(default_factory=list)
    asked_to_stop: bool = False
    said: list[bytes] = field(default_factory=list)
    kept: list[bytes] = field(default_factory=list)

    def checkpoint(self, position: int, tree: str | None) -> bool:
        self.checkpoints.append((position, tree))
        return True

    def output(self, stream: str, body: bytes) -> None:
        self.said.append(body)

    def stopping(self) -> bool:
        return self.asked_to_stop

    def put_artifact(self, name: str, body: bytes, media_type: str) -> JsonMap:
        self.kept.append(body)
        return {"name": name, "digest": "d", "size_bytes": len(body), "media_type": media_type}


class Repository:
    def __init__(self, folder: Path) -> None:
        user = folder / "user"
        user.mkdir()
        for words in (["init", "-qb", "main"], ["commit", "-qm", "first"]):
            if words[0] == "commit":
                (user / "a.txt").write_text("one\n")
                (user / "b.txt").write_text("two\n")
                self._git(user, "add", ".")
            self._git(user, *words)
        self.workspace = Workspace.open(folder / "home", user)
        self.base = self.workspace.base("main").commit
        self.places = Places(folder / "home")
        self.line = Line()

    def _git(self, folder: Path, *words: str) -> None:
        name = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True)

    def assignment(self, step: str = "s", attempt: int = 1, **more) -> Assignment:
        spec = StepSpec(more.pop("kind", Kind.AGENT), {}, commits=more.pop("commits", True))
        more.setdefault("base", self.base)
        return Assignment(TASK, "t", step, attempt, 1, spec, workspace_id=self.workspace.id, timeout_at=None, **more)

    def begin(self, a: Assignment) -> Path:
        return self.places.prepare(a, self.line)  # type: ignore[arg-type]

    def keep(self, a: Assignment, place: Path, outcome: Outcome) -> Outcome:
        return self.places.keep(a, place, outcome, self.line)  # type: ignore[arg-type]

    def done(self, name: str, content: str, step: str = "other") -> str:
        """A sibling's commit on the base."""
        a = self.assignment(step)
        place = self.begin(a)
        (place / name).write_text(content)
        outcome = self.keep(a, place, Done())
        assert isinstance(outcome, Done) and outcome.commit is not None
        return outcome.commit

    def pinned(self, attempt: int = 1) -> str | None:
        return read_ref(self.workspace.hub, checkpoint_ref(TASK, "s", attempt), "tree")


@pytest.fixture
def here(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def row(n: int, tree: str | None = None) -> JsonMap:
    return {"n": n, "body": {"text": "x"} | ({TREE: tree} if tree else {}), "done": True}


def test_a_run_that_goes_on_keeps_what_others_have_merged_meanwhile(here: Repository):
    """Its files on the newer head would have taken the sibling's change back."""
    first = here.assignment()
    place = here.begin(first)
    (place / "a.txt").write_text("mine\n")
    tree = here.places.save_tree(place)  # then its worker is killed
    head = here.done("b.txt", "theirs\n")
    second = replace(first, attempt=2, base=head, journal=(row(1, tree),), checkpoint=(1, tree))
    place = here.begin(second)
    assert (place / "a.txt").read_text() == "mine\n"
    outcome = here.keep(second, place, Done())
    assert isinstance(outcome, Done) and outcome.commit is not None
    assert outcome.base == here.base  # not the head: so it is merged like any other commit
    merged = here.workspace.merge(head, outcome.commit, "m")
    read = here.workspace.read_file
    assert [read(merged.commit, name) for name in ("a.txt", "b.txt")] == [b"mine\n", b"theirs\n"]  # type: ignore[union-attr]


def test_a_run_whose_journal_has_begun_stays_on_its_base_though_it_has_no_edits_yet(here: Repository):
    first = here.assignment()
    here.begin(first)
    [saved] = here.line.checkpoints
    assert saved == (0, f"@{here.base}")
    head = here.done("a.txt", "theirs\n")
    here.line.checkpoints.clear()
    again = replace(first, attempt=2, base=head, journal=(row(1),), checkpoint=saved)
    assert (here.begin(again) / "a.txt").read_text() == "one\n"
    assert here.line.checkpoints == []


def test_a_run_of_which_nothing_was_done_begins_on_the_newest_head(here: Repository):
    first = here.assignment()
    here.begin(first)
    head = here.done("a.txt", "theirs\n")
    saved = here.line.checkpoints[0]
    again = replace(first, attempt=2, base=head, checkpoint=saved)
    assert (here.begin(again) / "a.txt").read_text() == "theirs\n"
    assert here.line.checkpoints[-1] == (0, f"@{head}")


@pytest.mark.parametrize("outcome", [Released("drain"), Stopped(), Parked(WaitingFor.USER, {})])
def test_half_of_a_tool_s_work_does_not_take_the_place_of_the_checkpoint(here: Repository, outcome: Outcome):
    a = here.assignment()
    place = here.begin(a)
    (place / "a.txt").write_text("whole\n")
    tree = here.places.save_tree(place).partition("@")[0]
    (place / "a.txt").write_text("half\n")
    assert here.keep(a, place, outcome) == outcome
    assert here.pinned() == tree
    assert not place.exists()


def test_what_a_failed_run_had_edited_stays_reachable(here: Repository):
    a = here.assignment()
    place = here.begin(a)
    (place / "a.txt").write_text("a try\n")
    here.keep(a, place, Failed("no"))
    tree = here.pinned()
    assert tree is not None
    assert here.workspace.diff(here.workspace.tree_of(here.base), tree).count(b"+a try") == 1


def test_what_killed_attempts_have_left_is_taken_away_before_the_next(here: Repository):
    left = [here.begin(here.assignment(attempt=n)) for n in (1, 2)]
    read = read_worktree(left[1])
    assert read is not None
    read.record.unlink()  # it was killed in the middle of taking it away
    place = here.begin(here.assignment(attempt=3))
    assert sorted(part.name for part in place.parent.iterdir()) == ["s.3", "s.3.own", "s.3.tmp"]


def test_a_conflict_step_is_told_the_paths_of_its_own_folder(here: Repository):
    commit, head = here.done("a.txt", "mine\n", "x"), here.done("a.txt", "theirs\n", "y")
    a = here.assignment("x.conflict.1", base=head, conflict={"head": "older", "commit": commit})
    seen: list[Assignment] = []

    class Told:
        def start(self, assignment: Assignment, desk: object, place: Path | None) -> Ended:
            seen.append(assignment)
            return Ended(Done())

    ToldConflicts(Told()).start(a, here.line, here.begin(a))  # type: ignore[arg-type]
    assert seen[0].conflict == {"head": head, "commit": commit, "paths": ["a.txt"]}


def test_a_command_s_leftovers_are_kept_as_an_artifact_and_never_committed(here: Repository):
    a = here.assignment(kind=Kind.RUN, commits=False)
    place = here.begin(a)
    (place / "left.txt").write_text("over\n")
    outcome = here.keep(a, place, Done({"n": 1}))
    assert isinstance(outcome, Done)
    assert (outcome.commit, [artifact["name"] for artifact in outcome.artifacts]) == (None, ["leftovers/s.1.patch"])
    assert here.line.checkpoints == []  # a command has no run to go on with


def test_what_a_command_does_to_its_own_folder_is_no_failure(here: Repository):
    a = here.assignment(kind=Kind.RUN, commits=False)
    place = here.begin(a)
    (place / os.fsdecode(b"no text \xff")).write_text("x")
    kept = here.keep(a, place, Done({"n": 1}))
    assert isinstance(kept, Done) and len(kept.artifacts) == 1
    again = replace(a, attempt=2)
    place = here.begin(again)
    shutil.rmtree(place)
    assert here.keep(again, place, Done({"n": 1})) == Done({"n": 1})


def test_no_secret_stands_in_what_a_command_left_over(here: Repository, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET", SECRET)
    a = here.assignment(kind=Kind.RUN, commits=False, secrets=("SECRET",))
    place = here.begin(a)
    (place / f"{SECRET}.txt").write_text(f"password={SECRET}\n")
    here.keep(a, place, Done())
    assert here.line.kept and all(SECRET.encode() not in body for body in [*here.line.kept, *here.line.said])


def test_a_commit_that_holds_a_secret_is_not_delivered(here: Repository, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET", SECRET)
    a = here.assignment(secrets=("SECRET",))
    place = here.begin(a)
    (place / "a.txt").write_text(f"password={SECRET}\n")
    with pytest.raises(Refused, match="hold the value of secret 'SECRET': take it out"):
        here.keep(a, place, Done())
    (place / "a.txt").write_text("password=$SECRET\n")
    done = here.keep(a, place, Done())
    assert isinstance(done, Done) and done.commit is not None


def test_a_failure_is_told_though_its_edits_cannot_be_kept(here: Repository):
    a = here.assignment()
    place = here.begin(a)
    shutil.rmtree(place)
    assert here.keep(a, place, Failed("the tests fail")) == Failed("the tests fail")


def test_whoever_waits_for_the_set_up_of_another_can_be_stopped(here: Repository):
    settings = {"setup": "mkdir dep", "cache": ["dep"]}
    a = here.assignment(workspace=settings)
    key = here.workspace.setup_key(here.base, "mkdir dep")
    here.line.asked_to_stop = True
    with here.places._one_at_a_time(here.workspace.id, key, here.line), pytest.raises(WorkspaceError, match="stopped"):  # type: ignore[arg-type]
        here.begin(a)
    assert worktrees(here.places._home, TASK) == []


def test_a_folder_whose_set_up_fails_does_not_stay(here: Repository):
    with pytest.raises(WorkspaceError, match="failed with exit code 3"):
        here.begin(here.assignment(workspace={"setup": "exit 3"}))
    assert worktrees(here.places._home, TASK) == []


# --- what the set-up changes ------------------------------------------------------------------------------------------

SETTINGS = {"setup": "echo made > made.txt; echo set-up >> b.txt; mkdir -p dep; echo x > dep/x", "cache": ["dep"]}


def committed(here: Repository, a: Assignment, place: Path) -> list[str]:
    done = here.keep(a, place, Done())
    assert isinstance(done, Done)
    return list(here.workspace.stat(here.base, done.commit).paths) if done.commit else []


def test_what_the_set_up_changes_is_not_in_the_commit(here: Repository):
    a = here.assignment(workspace={"setup": SETTINGS["setup"]} | {"cache": []})
    place = here.begin(a)
    (place / "a.txt").write_text("mine\n")
    assert (place / "made.txt").exists() and (place / "b.txt").read_text() == "two\nset-up\n"
    assert committed(here, a, place) == ["a.txt"]


def test_an_attempt_that_changes_nothing_after_its_set_up_has_no_commit(here: Repository):
    a = here.assignment(workspace=SETTINGS)
    assert committed(here, a, here.begin(a)) == []


def test_a_file_of_the_set_up_that_the_attempt_edits_is_its_own(here: Repository):
    a = here.assignment(workspace=SETTINGS)
    place = here.begin(a)
    (place / "b.txt").write_text("two\nset-up\nmine\n")
    (place / "made.txt").unlink()
    assert committed(here, a, place) == ["b.txt"]


def test_what_a_set_up_from_the_cache_leaves_is_no_change_either(here: Repository):
    first, second = (here.assignment(step, workspace=SETTINGS) for step in ("one", "two"))
    here.begin(first)
    place = here.begin(second)
    assert (place / "dep" / "x").exists()
    (place / "a.txt").write_text("mine\n")
    assert committed(here, second, place) == ["a.txt"]


@pytest.mark.parametrize("cache", [[], ["dep"]])
def test_a_resumed_attempt_commits_what_its_run_has_changed_and_nothing_of_any_set_up(here: Repository, cache):
    settings = SETTINGS | {"cache": cache}
    first = here.assignment(workspace=settings)
    place = here.begin(first)
    (place / "a.txt").write_text("mine\n")
    tree = here.places.save_tree(place)
    assert here.workspace.stat(here.base, tree.partition("@")[0]).paths == ("a.txt",)
    second = replace(first, attempt=2, journal=(row(1, tree),), checkpoint=(1, tree))
    place = here.begin(second)
    (place / "new.txt").write_text("new\n")
    assert committed(here, second, place) == ["a.txt", "new.txt"]


def test_the_set_up_of_a_resumed_attempt_takes_back_none_of_its_edits(here: Repository):
    first = here.assignment(workspace={"setup": "echo made > made.txt; echo two > b.txt; git checkout -q a.txt"})
    place = here.begin(first)
    (place / "made.txt").write_text("made, and mine\n")
    (place / "b.txt").unlink()
    (place / "a.txt").write_text("mine\n")
    tree = here.places.save_tree(place)
    second = replace(first, attempt=2, journal=(row(1, tree),), checkpoint=(1, tree))
    place = here.begin(second)
    assert (place / "made.txt").read_text() == "made, and mine\n"
    assert (place / "a.txt").read_text() == "mine\n"
    assert not (place / "b.txt").exists()
    assert committed(here, second, place) == ["a.txt", "b.txt", "made.txt"]


def test_what_the_set_up_made_is_not_left_over_by_a_command(here: Repository):
    a = here.assignment(kind=Kind.RUN, commits=False, workspace=SETTINGS)
    place = here.begin(a)
    assert here.keep(a, place, Done()) == Done()
    again = replace(a, attempt=2)
    place = here.begin(again)
    (place / "b.txt").write_text("left\n")
    here.keep(again, place, Done())
    [patch] = here.line.kept
    assert b"b.txt" in patch and b"made.txt" not in patch


def test_a_secret_in_the_edits_of_an_earlier_attempt_is_still_found(here: Repository, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET", SECRET)
    first = here.assignment(workspace=SETTINGS, secrets=("SECRET",))
    place = here.begin(first)
    (place / "a.txt").write_text(f"password={SECRET}\n")
    tree = here.places.save_tree(place)
    second = replace(first, attempt=2, journal=(row(1, tree),), checkpoint=(1, tree))
    with pytest.raises(Refused, match="hold the value of secret"):
        here.keep(second, here.begin(second), Done())


def test_a_dead_worktree_s_set_up_is_not_saved(here: Repository):
    here.begin(here.assignment(workspace=SETTINGS))
    assert here.workspace.clean(TASK).saved == ()
