"""`longtask login`, and commands that a server answers: `longtask --server URL …`."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longtask import Client
from longtask.api.access.policy import Policy
from longtask.api.access.tokens import Tokens
from longtask.api.server import Server
from longtask.cli.remote.look import reason_of
from longtask.cli.session import Session
from tests.api import plans
from tests.api.carrying import carry_to
from tests.api.conftest import make  # noqa: F401
from tests.api.live import serving
from tests.cli.shell import DEADLINE_S, LONGTASK, Shell
from tests.client.conftest import database  # noqa: F401


@pytest.fixture
def away(shell: Shell, tmp_path: Path) -> Shell:
    """A shell on another machine: its home is another one than the server's, and holds nothing."""
    made = replace(shell, home=tmp_path / "away", env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    for name in ("LONGTASK_SERVER", "LONGTASK_TOKEN"):
        made.env.setdefault(name, "")
    return made


@pytest.fixture
def server(make: Callable[..., Server]) -> Server:  # noqa: F811
    return make()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with serving(server) as live:
        yield f"http://{live.host}"


@pytest.fixture
def home(server: Server, shell: Shell) -> Shell:
    """A shell on the server's machine, at its database."""
    config = server.parts.config
    return replace(shell, home=config.home, env={"LONGTASK_DATABASE": config.database, "LONGTASK_SERVER": ""})


@pytest.fixture
def done(server: Server, url: str) -> str:
    """A task that has ended."""
    with Client(url) as client:
        id = client.submit(plans.running())["task"]
    carry_to(server.parts, id, "completed")
    return id


@pytest.fixture
def asked(server: Server, url: str) -> str:
    with Client(url) as client:
        id = client.submit(plans.asking())["task"]
    carry_to(server.parts, id, "waiting_user")
    return id


FLEET = "no worker; start one: longtask worker\n"  # the one that carried it has gone
LOOKING = ["ls", "show @last", "show @last --all", "why", "artifacts @last", "logs @last a", "events @last", "fleet"]


@pytest.mark.parametrize("words", LOOKING)
def test_what_a_server_shows_is_what_its_machine_shows(away, home, url, done, words):
    there = away.here("--server", url, *words.split(), "--json")
    here = home.here(*words.split(), "--json")
    if words == "fleet":
        assert [w["id"] for w in there.json["workers"]] == [w["id"] for w in here.json["workers"]]
        assert away.here("--server", url, "fleet").out == home.here("fleet").out == FLEET
        return
    assert there.out.replace(", ", ",").replace(": ", ":") == here.out.replace(", ", ",").replace(": ", ":")
    texts = [shell.here(*where, *words.split()).out for shell, where in ((away, ("--server", url)), (home, ()))]
    assert ageless(texts[0].replace(f" --server {url}", "")) == ageless(texts[1])
    assert not (away.home / "longtask.db").exists()


def test_an_older_server_tells_no_details():
    told: dict[str, object] = {"what": "it waits", "since": None, "help": [], "step": None, "who": []}
    assert reason_of(Session(), told).details == ()  # type: ignore[arg-type]


def ageless(text: str) -> list[str]:
    """Ages grow between two calls, and columns with them."""
    return re.sub(r"\d+(\.\d)?s", "T", text).split()


def test_an_artifact_comes_from_a_server(away, home, url, done, tmp_path):
    away.here("--server", url, "artifacts", "@last", "report.md", "-o", str(tmp_path / "got.md"))
    home.here("artifacts", "@last", "report.md", "-o", str(tmp_path / "own.md"))
    assert (tmp_path / "got.md").read_bytes() == (tmp_path / "own.md").read_bytes()
    assert "no artifact 'x'" in away.here("--server", url, "artifacts", "@last", "x", code=2).err


def test_a_person_decides_from_elsewhere(away, url, server, asked):
    at = {"LONGTASK_SERVER": url}
    why = away.here("why", env=at)
    assert "longtask approve ask-1 ok" in why.out
    assert f"longtask --server {url} approve ask-1 ok" in away.here("--server", url, "why").out
    assert "rejecting takes a reason" in away.here("reject", "@last", env=at, code=1).err
    wrong = away.here("approve", "@last", "--digest", "other", env=at, code=1)
    assert "not 'other'" in wrong.err
    told = away.here("approve", "@last", "-m", "looked", "--json", env=at).json
    assert (told["step"], told["answer"], told["by"]) == ("ok", "approve", "ann")
    carry_to(server.parts, asked, "completed")
    assert away.here("watch", env=at).out.splitlines()[-1].startswith("ask-1 completed after")


def test_a_task_is_steered_from_elsewhere(away, url, server, asked):
    def call(*words: str, code: int = 0):
        return away.here("--server", url, *words, code=code)

    assert call("pause", "@last", "--json").json["status"] == "paused"
    assert f"longtask --server {url} resume ask-1" in call("watch", "@last", code=3).out
    assert "goes on" in call("resume", "@last").out
    assert call("signal", "@last", "hello", "a=1", "--json").json["number"] == 1
    assert "did you mean 'ok'" in call("skip", "@last", "okk", code=2).err
    assert "goes on without it" in call("skip", "@last", "ok").out
    assert "nothing asks" in call("approve", "@last", code=1).err


def test_a_failed_step_is_found_and_retried_from_elsewhere(away, url, server):
    with Client(url) as client:
        plan = plans.failing()
        plan["steps"][0]["when_failed"] = "stop"
        id = client.submit(plan)["task"]
    carry_to(server.parts, id, "failed")
    assert "bad failed" in away.here("--server", url, "watch", code=1).out
    assert away.here("--server", url, "retry", "@last").out == "bad is ready again\n"
    assert away.here("--server", url, "cancel", "@last", "-m", "no").out == "broken-1 is being cancelled\n"


def test_a_task_is_forked_from_elsewhere(away, url, server, done):
    words = ("--server", url, "fork", done, "--from", "b")
    seen = away("--json", *words, "--dry-run").json
    assert (seen["kept"], seen["again"]) == (["a"], ["b", "report"])
    assert "runs again: b, report" in away(*words, "--dry-run").out
    made = away("--json", *words, "--key", "k").json
    assert (made["forked_from"], made["step"]) == (done, "b")
    assert away("--json", *words, "--key", "k").json["task"] == made["task"]
    carry_to(server.parts, made["task"], "completed")


def test_what_is_about_this_machine_is_refused_with_a_server_and_not_done_here(away, url):
    for words in (["init"], ["doctor"], ["prune"], ["up"], ["plan", "schema"]):
        told = away.here("--server", url, *words, code=1).err
        assert f"`longtask {' '.join(words)}` is about this machine" in told
    assert "$schema" in away.here("plan", "schema", env={"LONGTASK_SERVER": url}).json
    assert "Commands:" in away.here("--server", url, "token", code=2).out
    assert away.here("--server", url, "--database", "x", "ls", code=2).err.count("give one of them") == 1
    assert not away.home.exists()


def test_a_plan_is_checked_by_the_server_that_is_to_carry_it_out(away, url):
    good = away.plan("longtask: 1\nname: x\nsteps: [{id: a, run: 'true'}]\n")
    assert away.here("--server", url, "plan", "check", good).out.endswith("1 step in 1 stage, nothing wrong\n")
    away.plan("steps: [{id: b, run: 'true'}]\n", "one.yaml")
    named = away.plan("longtask: 1\nname: x\nsteps: [{id: a, task: {plan: one.yaml}}]\n")
    away.here("--server", url, "plan", "check", named)
    bad = away.plan("longtask: 1\nname: x\nsteps: [{id: a, rum: 'true'}]\n")
    told = away.here("--server", url, "plan", "check", bad, "--json", code=2).json
    assert told["error"] == "bad_plan" and "rum" in told["problems"][0]


# --- who may do what, and who is told -----------------------------------------------------------------------------


def test_tokens_are_made_rotated_and_revoked_at_a_server(away, home, url):
    def call(*words: str, code: int = 0):
        return away.here("--server", url, "token", *words, code=code)

    assert "no token; make one" in call("list").out
    made = call("create", "bea", "--role", "operator", "--workspace", "web", "--expires", "1d", "--json").json
    assert made["token"].startswith("lt_") and made["workspaces"] == ["web"]
    assert "no role 'king'" in call("create", "x", "--role", "king", code=2).err
    changed = call("rotate", "bea", "--grace", "1h", "--json").json
    assert changed["token"] != made["token"] and changed["id"] == made["id"]
    assert call("list", "--json").json == home.here("token", "list", "--json").json
    assert ageless(call("list").out) == ageless(home.here("token", "list").out)
    assert call("revoke", "bea").out == f"token {made['id']!r} of bea is revoked\n"
    assert call("list", "--json").json == [] and len(call("list", "--all", "--json").json) == 1


def test_the_audit_of_a_server_tells_who_has_changed_what(away, home, url, asked):
    there = away.here("--server", url, "audit", "@last", "--json").json
    assert there == home.here("audit", "@last", "--json").json and there[0]["action"] == "POST /v1/tasks"
    shown = away.here("--server", url, "audit", "--who", "ann", "-n", "1").out
    assert shown == home.here("audit", "--who", "ann", "-n", "1").out and "ask-1" in shown
    assert away.here("--server", url, "audit", "--who", "nobody").out == "nothing was changed through a server\n"


def test_webhooks_are_added_replayed_and_removed_at_a_server(away, home, url):
    def call(*words: str, code: int = 0):
        return away.here("--server", url, "webhook", *words, code=code)

    assert "no webhook; add one" in call("list").out
    made = call("add", "https://hooks.example.com/x", "--type", "step.*", "--json").json
    assert made["secret"].startswith("whsec_") and made["types"] == ["step.*"]
    assert "no event is of type" in call("add", "https://x.example", "--type", "stp.*", code=2).err
    assert call("list", "--json").json == home.here("webhook", "list", "--json").json
    short = made["id"][:6]
    assert "is sent what has happened since" in call("replay", short, "--since", "2h").out
    assert call("enable", short).out == f"webhook {made['id']} goes on\n"
    assert call("remove", short).out == f"webhook {made['id']} is removed\n"
    assert call("list", "--json").json == [] and "webhook" in call("remove", short, code=2).err


def test_a_step_decides_nothing_through_a_server_either(away, url, asked):
    inside = {"LONGTASK_STEP": "x", "LONGTASK_SERVER": url}
    assert "refused inside a step" in away.here("approve", "@last", env=inside, code=1).err


# --- login --------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(make: Callable[..., Server]) -> Iterator[tuple[str, str]]:  # noqa: F811
    server = make(policy=Policy(tokens=True))
    token = Tokens(server.parts.store).create("bea", ["operator"], by="root")[1]
    with serving(server) as live:
        yield f"http://{live.host}", token


def login(shell: Shell, url: str, token: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LONGTASK, "login", url, *words], input=token + "\n", capture_output=True, text=True,
        env=shell.environment(), timeout=DEADLINE_S, check=False,
    )  # fmt: skip


def test_a_token_is_tried_kept_used_and_forgotten(away, guarded):
    url, token = guarded
    assert "asks for a token" in away.here("--server", url, "ls", code=1).err
    wrong = login(away, url, "lt_" + "x" * 43)
    assert wrong.returncode == 1 and "not known here" in wrong.stderr
    made = login(away, url, token, "--json")
    assert made.returncode == 0 and token not in made.stdout + made.stderr
    assert json.loads(made.stdout)["name"] == "bea"
    [file] = Path(away.env["XDG_CONFIG_HOME"]).rglob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert away.here("--server", url, "ls").out == f"no tasks at {url}\n"
    assert "forgotten" in away.here("logout", url).out
    assert "asks for a token" in away.here("--server", url, "ls", code=1).err
    assert "no token is kept" in away.here("logout", url, code=2).err


def test_a_token_that_is_typed_is_not_shown(away, guarded):
    url, token = guarded
    mine, its = pty.openpty()
    process = subprocess.Popen(
        [LONGTASK, "login", url], stdin=its, stdout=its, stderr=its, env=away.environment(), start_new_session=True
    )
    os.close(its)
    shown = b""
    while b"token for" not in shown:
        shown += os.read(mine, 1000)
    os.write(mine, token.encode() + b"\n")
    try:
        while part := os.read(mine, 1000):
            shown += part
    except OSError:
        pass  # it has ended
    assert process.wait(DEADLINE_S) == 0
    os.close(mine)
    assert b"logged in" in shown and token.encode() not in shown
