"""`longtask --server URL run` and `workspace`: a checkout on one machine, a server on another, a hub between them."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from longtask import Client, boot
from longtask.api.access.policy import Policy
from longtask.api.access.tokens import Tokens
from longtask.api.server import Server, make_server
from longtask.api.settings import Settings
from longtask.config import Config
from longtask.core.errors import NotFound, Refused
from longtask.workspace.names import attempt_ref, resolved_ref
from tests.api.carrying import carry_to
from tests.api.live import serving
from tests.cli.shell import Shell

PLAN = """\
longtask: 1
name: work
workspace: {repo: .}
steps:
  - {id: edit, run: "cat *.txt > all; git describe --tags >> all || true", commit: true}
  - {id: patch, needs: [edit], artifact: {patch: {name: work.patch}}}
"""


@dataclass
class Town:
    """A server, and somebody elsewhere who has a checkout.  `token`: of an operator; None: none is asked for."""

    server: Server
    url: str
    shell: Shell
    token: str | None

    def __call__(self, *words: str, code: int | None = 0, **more: str):
        env = {"LONGTASK_TOKEN": self.token or "", **more}
        return self.shell.here("--server", self.url, *words, code=code, env=env)

    def base(self, handle: str, path: str) -> str:
        """A file of what a task has begun from."""
        with Client(self.url, self.token) as client:
            tree = client.task(handle, steps=0)
        task = self.server.parts.store.get_task(tree["id"])
        assert task.base is not None
        return self.server.parts.merger.workspace(task.workspace_id).read_file(task.base, path).decode()

    def patch(self, handle: str) -> str:
        """What has come of a task, once it was carried to its end."""
        carry_to(self.server.parts, handle, "completed")
        return self("artifacts", handle, "work.patch").out


@pytest.fixture
def town(shell: Shell, tmp_path: Path) -> Iterator[Callable[..., Town]]:
    """Makes one, at a time."""
    shell.plan(PLAN)
    away = replace(shell, home=tmp_path / "away", env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    with _towns(away, tmp_path / "server") as made:
        yield made


@contextmanager
def _towns(away: Shell, home: Path) -> Iterator[Callable[..., Town]]:
    opened: list[tuple[boot.Parts, object]] = []

    def made(hub: str | None = None, tokens: bool = False, **more) -> Town:
        parts = boot.open_parts(Config(home, str(home / "longtask.db"), hub=hub, **more))
        server = make_server(parts, Settings(policy=Policy(tokens=tokens)))
        token = Tokens(parts.store).create("bea", ["operator"], by="root")[1] if tokens else None
        running = serving(server)
        opened.append((parts, running))
        return Town(server, f"http://{running.__enter__().host}", away, token)

    try:
        yield made
    finally:
        for parts, running in opened:
            running.__exit__(None, None, None)  # type: ignore[attr-defined]
            parts.merger.close()
            parts.store.close()


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.com")
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(params=["home", "folder", "bare"])
def place(request, tmp_path: Path) -> str | None:
    """LONGTASK_HUB of the server: none, a folder for many repositories, or one bare repository."""
    if request.param == "home":
        return None
    if request.param == "folder":
        return str(tmp_path / "hubs")
    git(tmp_path, "init", "-q", "--bare", "hub.git")
    return f"file://{tmp_path / 'hub.git'}"


def test_a_checkout_that_is_registered_is_run_from_elsewhere(town, place, tmp_path):
    town = town(place)
    refused = town("run", code=2).err
    assert f"is no workspace of {town.url}" in refused and refused.rstrip().endswith("workspace add .")
    assert town("ls", "--json").json == []
    id = town("workspace", "add", "--json").json["id"]
    git(town.shell.cwd, "tag", "v1")
    assert town("run", "--detach", "--key", "k").out.startswith("work-1 runs at")
    assert town("run", "--detach", "--key", "k", "--json").json["handle"] == "work-1"
    patch = town.patch("work-1")
    assert "+one" in patch and "+v1" in patch
    assert [one["id"] for one in town("workspace", "list", "--json").json] == [id]
    assert town("workspace", "show", id, "--json").json["repository"] == str(town.shell.cwd)
    assert "work-1 completed" in town("watch", "work-1").out
    assert not (town.shell.home / "longtask.db").exists()


def test_what_is_not_committed_is_refused_left_out_or_pushed_too(town, place):
    town = town(place)
    town("workspace", "add")
    (town.shell.cwd / "b.txt").write_text("two\n")
    assert "b.txt" in town("run", code=2).err
    ignored = town("run", "--detach", "--dirty", "ignore")
    assert "not part of the base" in ignored.err
    with pytest.raises(NotFound):
        town.base("work-1", "b.txt")
    assert "includes 1 file" in town("run", "--detach", "--dirty", "include").err
    assert town.base("work-2", "b.txt") == "two\n"
    assert "+two" in town.patch("work-2") and git(town.shell.cwd, "status", "--short") == "?? b.txt\n?? longtask.yaml\n"
    (town.shell.cwd / "longtask.yaml").write_text(PLAN.replace("repo: .", "repo: ., dirty: include"))
    town("run", "--detach")
    assert town.base("work-3", "b.txt") == "two\n"


def test_another_base_than_what_is_checked_out_is_pushed(town):
    town = town()
    town("workspace", "add")
    git(town.shell.cwd, "checkout", "-q", "-b", "other")
    (town.shell.cwd / "a.txt").write_text("other\n")
    git(town.shell.cwd, "commit", "-q", "-a", "-m", "other")
    git(town.shell.cwd, "checkout", "-q", "main")
    town("run", "--detach", "--base", "other")
    assert town.base("work-1", "a.txt") == "other\n"
    assert "no such branch" in town("run", "--base", "nothing", code=2).err
    id = town("workspace", "list", "--json").json[0]["id"]
    (town.shell.cwd / "longtask.yaml").write_text(PLAN.replace("repo: .", f"repo: {id}, base: other"))
    town("run", "--detach")
    assert town.base("work-2", "a.txt") == "other\n"


def test_on_one_machine_with_one_home_nothing_has_to_be_pushed(town):
    town = town()
    town = replace(town, shell=replace(town.shell, home=town.server.parts.config.home))
    town("workspace", "add")
    (town.shell.cwd / "b.txt").write_text("two\n")
    town("run", "--detach", "--dirty", "include")
    assert town.base("work-1", "b.txt") == "two\n"


def test_a_worktree_of_a_registered_repository_is_the_same_workspace(town, tmp_path):
    town = town()
    town("workspace", "add")
    git(town.shell.cwd, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "tree")
    (tmp_path / "tree" / "longtask.yaml").write_text(PLAN)
    town("run", str(tmp_path / "tree" / "longtask.yaml"), "--detach")
    assert len(town("workspace", "list", "--json").json) == 1


# --- a server that is somebody else's -----------------------------------------------------------------------------


def test_an_operator_registers_a_checkout_of_another_machine_and_runs_it(town, place, tmp_path):
    town = town(place, tokens=True)
    if place is None:
        assert "LONGTASK_HUB" in town("workspace", "add", code=1).err
        return
    made = town("workspace", "add", "--json").json
    assert made["host"] and made["repository"] == str(town.shell.cwd) and made["hub"]
    assert town("workspace", "add", "--json").json == made
    town("run", "--detach")
    assert "+one" in town.patch("work-1")
    assert "branch" not in git(town.shell.cwd, "branch", "--list", "longtask/*")


def test_the_server_of_somebody_else_reads_and_fetches_nothing_for_an_operator(town, tmp_path):
    town = town(str(tmp_path / "hubs"), tokens=True)
    with Client(town.url, town.token) as client:
        for given in ({"repository": str(town.shell.cwd)}, {"url": "https://git.example.com/shop.git"}):
            with pytest.raises(Exception, match="lacks the role 'admin'"):
                client.register_workspace(**given)
        for repo in ("https://git.example.com/shop.git", "file:///etc", "ext::sh -c true", str(town.shell.cwd)):
            plan = {"longtask": 1, "name": "x", "workspace": {"repo": repo}, "steps": [{"id": "a", "run": "true"}]}
            with pytest.raises(Exception, match=r"is no workspace here|over HTTP it is the id"):
                client.submit(plan)
        assert client.workspaces() == []


def test_a_token_for_some_workspaces_registers_none(town, tmp_path):
    town = town(str(tmp_path / "hubs"), tokens=True)
    bound = Tokens(town.server.parts.store).create("cy", ["admin"], by="root", workspaces=["0" * 16])[1]
    assert "not for the server" in town("workspace", "add", code=1, LONGTASK_TOKEN=bound).err


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://127.0.0.1/x", "not public"),
        ("https://localhost/x", "not public"),
        ("ssh://git@[::1]/x", "not public"),
        ("http://192.0.2.1/x", "not public"),
        ("http://1.1.1.1/x", "by https"),
        ("file:///etc", "without a token"),
        ("ext::sh://x", "not by"),
    ],
)
def test_an_administrator_elsewhere_registers_no_url_that_leads_inside(town, url, why):
    town = town(tokens=True)
    admin = Tokens(town.server.parts.store).create("root", ["admin"], by="root")[1]
    assert why in town("workspace", "add", url, code=2, LONGTASK_TOKEN=admin).err
    assert town("workspace", "list", "--json").json == []


# --- URLs ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def bare(shell: Shell, tmp_path: Path) -> str:
    git(tmp_path, "clone", "-q", "--bare", str(shell.cwd), "shop.git")
    return f"file://{tmp_path / 'shop.git'}"


def test_the_user_of_the_machine_names_any_url(town, bare):
    town = town()
    (town.shell.cwd / "longtask.yaml").write_text(PLAN.replace("repo: .", f"repo: '{bare}', base: main"))
    town("run", "--detach")
    assert "+one" in town.patch("work-1")
    [known] = town("workspace", "list", "--json").json
    assert known["url"] == known["repository"] == bare and known["host"] is None


def test_a_url_that_was_registered_here_may_be_named_from_elsewhere_and_its_clones_are_run(town, bare, tmp_path):
    town = town(str(tmp_path / "hubs"), tokens=True)
    config = town.server.parts.config
    here = replace(town.shell, home=config.home, env={**town.shell.env, "LONGTASK_HUB": str(config.hub)})
    id = here.here("workspace", "add", bare, "--json").json["id"]
    (town.shell.cwd / "longtask.yaml").write_text(PLAN.replace("repo: .", f"repo: '{bare}'"))
    town("run", "--detach")
    assert "+one" in town.patch("work-1")
    git(tmp_path, "clone", "-q", bare, "clone")
    (tmp_path / "clone" / "b.txt").write_text("two\n")
    (tmp_path / "clone" / "longtask.yaml").write_text(PLAN)
    town("run", str(tmp_path / "clone" / "longtask.yaml"), "--detach", "--dirty", "include")
    assert town.base("work-2", "b.txt") == "two\n"
    assert [one["id"] for one in town("workspace", "list", "--json").json] == [id]


def test_workspaces_are_registered_and_listed_without_a_server(shell, bare):
    assert "no workspace; register one" in shell.here("workspace", "list").out
    made = shell.here("workspace", "add", "--json").json
    assert made["repository"] == str(shell.cwd)
    fetched = shell.here("workspace", "add", bare, "--json").json
    listed = shell.here("workspace", "list", "--json").json
    assert sorted(one["id"] for one in listed) == sorted([made["id"], fetched["id"]])
    assert bare in shell.here("workspace", "show", fetched["id"]).out
    assert "no such folder" in shell.here("workspace", "add", "nothing", code=2).err
    assert "no workspace" in shell.here("workspace", "show", "nothing", code=2).err


# --- by hand ------------------------------------------------------------------------------------------------------

FAILING = """\
longtask: 1
name: work
workspace: {repo: .}
steps:
  - {id: edit, run: "exit 3", commit: true}
  - {id: patch, needs: [edit], artifact: {patch: {name: work.patch}}}
"""


@pytest.fixture
def failed(town, place, tmp_path) -> Town:
    made = town(place)
    (made.shell.cwd / "longtask.yaml").write_text(FAILING)
    git(made.shell.cwd, "config", "user.name", "ann")
    git(made.shell.cwd, "config", "user.email", "ann@example.com")
    made("workspace", "add")
    made("run", "--detach", "--unattended")
    carry_to(made.server.parts, "work-1", "failed")
    return made


def test_a_step_is_worked_on_in_a_folder_of_this_machine_and_its_change_goes_through_the_hub(failed):
    taken = failed("take", "work-1", "edit", "--json").json
    assert taken.keys() == {"task", "handle", "status", "step", "folder"}, "as without a server"
    folder = Path(taken["folder"])
    assert folder.is_relative_to(failed.shell.home) and (folder / "a.txt").read_text() == "one\n"
    (folder / "b.txt").write_text("by hand\n")
    assert str(folder) in failed("take", "work-1", "edit", "--give-back").out
    folder = Path(failed("take", "work-1", "edit", "--json").json["folder"])
    (folder / "b.txt").write_text("by hand\n")
    assert failed("take", "work-1", "edit", "--json").json["folder"] == str(folder), "theirs already"
    failed("done", "work-1", "edit", "-m", "By hand", "--output", "n=3")
    assert not folder.exists()
    assert "+by hand" in failed.patch("work-1")


def test_a_commit_of_this_machine_is_pushed_checked_and_fenced(failed):
    cwd, id = failed.shell.cwd, failed("show", "work-1", "--json", code=None).json["id"]
    assert "no such commit" in failed("done", "work-1", "edit", "--commit", "nothing", code=None).err
    git(cwd, "checkout", "-q", "--orphan", "apart")
    git(cwd, "commit", "-q", "-m", "apart", "--allow-empty")
    assert "no history in common" in failed("done", "work-1", "edit", "--commit", "apart", code=1).err
    with Client(failed.url, failed.token) as client:
        assert client.step(id, "edit")["state"] == "failed", "as it was"
        taken = client.take(id, "edit")
        for commit, attempt in (("0" * 40, taken["attempt"]), (git(cwd, "rev-parse", "main").strip(), 99)):
            with pytest.raises(Refused, match="is not in the hub as"):
                client.done(id, "edit", commit=commit, attempt=attempt)
    git(cwd, "checkout", "-q", "-f", "-b", "mine", "main")
    (cwd / "c.txt").write_text("mine\n")
    git(cwd, "add", "c.txt")
    git(cwd, "commit", "-q", "-m", "mine")
    failed("done", "work-1", "edit", "--commit", "mine")
    assert "+mine" in failed.patch("work-1")


CLASHING = """\
longtask: 1
name: work
workspace: {repo: .}
steps:
  - {id: left, run: "echo left > a.txt", commit: true}
  - {id: right, run: "echo right > a.txt", commit: true}
  - {id: patch, needs: [left, right], artifact: {patch: {name: work.patch}}}
"""


def test_a_conflict_is_resolved_from_elsewhere_by_a_commit_that_holds_both_sides_and_by_no_other(town, place):
    town = town(place)
    cwd = town.shell.cwd
    (cwd / "longtask.yaml").write_text(CLASHING)
    town("workspace", "add")
    town("run", "--detach", "--attended")
    carry_to(town.server.parts, "work-1", "waiting_user")
    with Client(town.url, town.token) as client:
        tree = client.task("work-1")
        (row,) = (step for step in tree["steps"] if step["state"] == "waiting")
        own, head = str(row["commit"]), str(tree["head"])
        hub = town.server.parts.merger.workspace(str(tree["workspace"])).hub
        there = str(hub.path) if hub.remote is None else hub.remote.url
        ref = resolved_ref(tree["id"], row["key"], row["attempt"], int(row["ask"] or 0))
        with pytest.raises(Refused, match=rf"is not in the hub as .*: longtask done work-1 {row['key']} --commit 0"):
            client.decide(client.approval(tree["id"], row["key"]), "resolve", commit="0" * 40)
        for commit in (own, head):
            git(hub.path, "push", "-q", "-f", there, f"{commit}:{ref}")
            with pytest.raises(Refused, match="does not contain"):
                client.decide(client.approval(tree["id"], row["key"]), "resolve", commit=commit)
    told = town("done", "work-1", row["key"], code=1).err
    begin, switch, fetch, _ = told.partition("called both: ")[2].split(" && ")
    git(cwd, "stash", "-q", "--include-untracked")
    for words in (begin, switch, fetch):
        git(cwd, *shlex.split(words)[1:])
    refused = town("done", "work-1", row["key"], "--commit", "both", code=1).err
    assert "does not contain the step's own commit" in refused
    delivered = attempt_ref(tree["id"], row["key"], row["attempt"])
    for place in {there, str(hub.path)}:
        assert git(cwd, "ls-remote", place, delivered).split() == [own, delivered], "what the step has delivered stays"
    git(cwd, "merge", "-q", "-s", "ours", "-m", "both", "FETCH_HEAD")
    town("done", "work-1", row["key"], "--commit", "both")
    assert "a.txt" in town.patch("work-1")


def test_what_somebody_else_has_taken_is_not_done_and_nothing_is_pushed(town, tmp_path):
    town = town(str(tmp_path / "hubs"), tokens=True)
    cwd, parts = town.shell.cwd, town.server.parts
    (cwd / "longtask.yaml").write_text(FAILING)
    town("workspace", "add")
    town("run", "--detach", "--unattended")
    carry_to(parts, "work-1", "failed")
    town("take", "work-1", "edit", "--no-shell")
    other = Tokens(parts.store).create("cid", ["operator"], by="root")[1]
    for words in (["--commit", "HEAD"], []):
        told = town("done", "work-1", "edit", *words, code=1, LONGTASK_TOKEN=other).err
        assert "is taken by bea; it is theirs to say that it is done" in told
    assert "taken by bea already" in town("take", "work-1", "edit", code=1, LONGTASK_TOKEN=other).err
    with Client(town.url, town.token) as client:
        tree = client.task("work-1")
        assert client.step(tree["id"], "edit")["taken_by"] == "bea"
    remote = parts.merger.workspace(str(tree["workspace"])).hub.remote
    assert remote is not None and "/attempts/" not in git(cwd, "ls-remote", remote.url)


def test_a_step_is_not_taken_in_a_checkout_of_another_workspace(failed, tmp_path):
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", "-b", "main", str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "other")
    elsewhere = replace(failed, shell=replace(failed.shell, cwd=other))
    elsewhere("workspace", "add")
    with Client(failed.url, failed.token) as client:
        tree = client.task("work-1")
        for words in (["take"], ["done"], ["done", "--commit", "main"]):
            told = elsewhere(words[0], "work-1", "edit", *words[1:], code=1).err
            assert f"is of workspace '{tree['workspace']}'" in told and f"'{other}' is no checkout of that" in told
            assert client.step(tree["id"], "edit")["state"] == "failed"


def test_without_a_hub_a_step_is_not_taken_and_what_helps_is_said(town):
    town = town(tokens=True)
    config = town.server.parts.config
    replace(town.shell, home=config.home).here("workspace", "add")
    (town.shell.cwd / "longtask.yaml").write_text(FAILING)
    replace(town.shell, home=config.home).here("run", "--foreground", "--unattended", "--dirty", "ignore", code=1)
    assert "LONGTASK_HUB there names one" in town("take", "work-1", "edit", code=1).err
