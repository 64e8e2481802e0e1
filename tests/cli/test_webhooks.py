"""`longtask webhook`: endpoints from the command line."""

from __future__ import annotations

from tests.cli.shell import Shell


def test_a_webhook_is_added_listed_and_removed(shell: Shell):
    assert shell.here("webhook", "list").out.startswith("no webhook; add one: ")
    made = shell.here("webhook", "add", "https://hooks.example/x?t=hunter2", "--type", "step.*", "--json").json
    assert made["secret"].startswith("whsec_") and made["types"] == ["step.*"]
    listed = shell.here("webhook", "list")
    assert made["id"] in listed.out and "nothing yet" in listed.out
    assert "hunter2" not in listed.out and made["secret"] not in listed.out
    assert [one["id"] for one in shell.here("webhook", "list", "--json").json] == [made["id"]]
    assert "is removed" in shell.here("webhook", "remove", made["id"][:6]).out
    assert shell.here("webhook", "list", "--json").json == []
    gone = shell.here("webhook", "remove", made["id"], code=2)
    assert "no webhook" in gone.err


def test_a_webhook_is_replayed_from_a_time(shell: Shell):
    made = shell.here("webhook", "add", "https://hooks.example/x", "--secret-env", "HOOK", "--json").json
    assert (made["secret"], made["secret_env"]) == (None, "HOOK")
    for since in ("2h", "2026-01-31T09:00"):
        assert "is sent what has happened since" in shell.here("webhook", "replay", made["id"], "--since", since).out
    assert "write how long ago" in shell.here("webhook", "replay", made["id"], "--since", "soon", code=2).err
    assert "goes on" in shell.here("webhook", "enable", made["id"]).out


def test_an_address_that_cannot_be_meant_is_refused(shell: Shell):
    said = shell.here("webhook", "add", "https://me:hunter2@x/", code=2)
    assert "send secrets in a header" in said.err and "hunter2" not in said.err
