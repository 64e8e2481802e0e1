"""`longtask token …` and `longtask audit`."""

from __future__ import annotations

from longtask.api.access.tokens import FORM, Tokens
from longtask.store.access import new_audit_id
from longtask.store.callers import Audit
from longtask.store.sqlite import SqliteStore
from tests.cli.shell import Shell
from tests.cli.test_look import documented

INSIDE = {"LONGTASK_STEP": "x"}


def store_of(shell: Shell) -> SqliteStore:
    return SqliteStore(shell.home / "longtask.db")


def test_a_token_is_printed_once_and_alone_on_stdout(shell: Shell):
    made = shell.here("token", "create", "ann", "--role", "operator", "--role", "approver")
    text = made.out.strip()
    assert FORM.fullmatch(text) and "keep it" in made.err and text not in made.err
    store = store_of(shell)
    found = Tokens(store).find(text)
    assert found is not None and (found.name, found.roles, found.workspaces) == ("ann", ("operator", "approver"), None)
    assert text not in shell.here("token", "list").out + shell.here("token", "list", "--json").out
    store.close()


def test_tokens_are_listed_with_what_becomes_of_them(shell: Shell):
    assert "no token; make one" in shell.here("token", "list").out
    one = shell.here("token", "create", "ci", "--role", "viewer", "--workspace", "web", "--json").json
    assert set(one) == documented("id", "name", "roles") | {"token"}
    assert one["workspaces"] == ["web"] and one["expires_at"] - one["created_at"] == 90 * 86_400_000
    shell.here("token", "create", "bob", "--role", "admin", "--expires", "off")
    listed = shell.here("token", "list").out
    assert "good for 90d" in listed or "good for 89d" in listed
    assert "bob" in listed and "never" in listed and "web" in listed
    shell.here("token", "revoke", one["id"])
    assert [row["name"] for row in shell.here("token", "list", "--json").json] == ["bob"]
    every = {row["name"]: row for row in shell.here("token", "list", "--all", "--json").json}
    assert every["ci"]["good"] is False and every["ci"]["revoked_at"] and every["bob"]["expires_at"] is None
    assert "revoked" in shell.here("token", "list", "--all").out


def test_a_rotated_token_gets_a_new_form_and_the_old_one_its_grace(shell: Shell):
    old = shell.here("token", "create", "ann", "--role", "viewer").out.strip()
    new = shell.here("token", "rotate", "ann").out.strip()
    store = store_of(shell)
    found = [Tokens(store).find(text) for text in (old, new)]
    assert old != new and [token and token.name for token in found] == ["ann", "ann"]
    newest = shell.here("token", "rotate", "ann", "--grace", "off").out.strip()
    assert [Tokens(store).find(text) is not None for text in (old, new, newest)] == [False, False, True]
    store.close()


def test_who_may_call_is_not_decided_inside_a_step(shell: Shell):
    for words in (["create", "x", "--role", "admin"], ["rotate", "x"], ["revoke", "x"]):
        assert "is refused inside a step" in shell.here("token", *words, code=1, env=INSIDE).err
    assert shell.here("token", "list", "--json").json == []


def test_what_cannot_be_is_told(shell: Shell):
    assert "no role 'king'" in shell.here("token", "create", "x", "--role", "king", code=2).err
    assert "missing option" in shell.here("token", "create", "x", code=2).err.lower()
    assert "no token 'nobody'" in shell.here("token", "revoke", "nobody", code=2).err
    assert "--expires '5'" in shell.here("token", "create", "x", "--role", "viewer", "--expires", "5", code=2).err
    shell.here("token", "create", "x", "--role", "viewer")
    shell.here("token", "create", "x", "--role", "viewer")
    assert "several tokens are named 'x'" in shell.here("token", "revoke", "x", code=1).err


def test_changes_of_tokens_stand_in_the_audit_and_changes_of_tasks_too(shell: Shell):
    assert "nothing was changed through a server" in shell.here("audit").out
    id_ = shell.here("token", "create", "bob", "--role", "viewer", "--json").json["id"]
    store = store_of(shell)
    now = store.now()
    store.begin_audit(
        [Audit(new_audit_id(now), now, "bob", id_, "192.0.2.7", "POST /v1/tasks/{task}/cancel", "nobodys")]
    )
    store.close()
    newest, first = shell.here("audit", "--json").json
    assert set(newest) == documented("id", "at", "who")
    assert (newest["who"], newest["token"], newest["address"], newest["status"]) == ("bob", id_, "192.0.2.7", None)
    assert (first["who"], first["action"], first["status"]) == ("ann", f"token create {id_}", 200)
    shown = shell.here("audit").out
    assert "192.0.2.7" in shown and "not known" in shown and "nobodys" in shown
    assert [row["who"] for row in shell.here("audit", "--who", "bob", "--json").json] == ["bob"]
    assert len(shell.here("audit", "-n", "1", "--json").json) == 1
    assert "no task" in shell.here("audit", "nothing-9", code=2).err
