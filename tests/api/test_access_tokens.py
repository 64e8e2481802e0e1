"""A server that asks for tokens: who has which role, of which workspaces, until when; and who has changed what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute

from longtask.api.access.caller import Needed
from longtask.api.access.guard import STREAM_LOOK_S, is_open
from longtask.api.access.limits import Buckets
from longtask.api.access.policy import Policy, came_from
from longtask.api.access.roles import Caller, Role
from longtask.api.access.shared import check_listening
from longtask.api.access.tokens import FORM, Tokens, fresh, hash_of
from longtask.api.app import OUTSIDE, ROUTERS
from longtask.api.server import Server
from longtask.core.errors import BadPlan, NotFound, Refused
from tests import raw
from tests.api.conftest import client_of
from tests.api.plans import running

ROLES = [str(role) for role in Role]


class Town:
    """A server that asks for tokens, and who calls it."""

    def __init__(self, server: Server) -> None:
        self.server, self.tokens = server, Tokens(server.parts.store)
        self.client = client_of(server)

    def bearer(self, *roles: str, name: str = "ann", **more: Any) -> dict[str, str]:
        _, text = self.tokens.create(name, roles, by="root", **more)
        return {"Authorization": f"Bearer {text}"}

    def submit(self, **more: Any) -> dict[str, Any]:
        answer = self.client.post("/v1/tasks", json=running(), headers=more or self.bearer("operator"))
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture
def town(make: Callable[..., Server]) -> Iterator[Town]:
    made = Town(make(policy=Policy(tokens=True)))
    with made.client:
        yield made


def problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


# --- who is let in --------------------------------------------------------------------------------------------------


def test_without_a_token_nothing_is_told(town):
    for answer in (
        town.client.get("/v1/tasks"),
        town.client.post("/v1/tasks", json={}),
        town.client.get("/v1/nowhere"),
    ):
        assert problem(answer) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "longtask token create" in answer.json()["detail"]
    assert town.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", "Bearer lt_", "Bearer {} x", "Basic {}", "{}", "Token {}", "Bearer {}x", "Bearer x{}",
     "bearer\t{}"],
)  # fmt: skip
def test_a_header_that_is_no_token_is_refused(town, given):
    text = town.bearer("admin")["Authorization"].removeprefix("Bearer ")
    answer = town.client.get("/v1/tasks", headers={"Authorization": given.format(text)})
    assert problem(answer) == (401, "unauthenticated")
    assert text not in answer.text


def test_two_tokens_are_none(town):
    good = town.bearer("admin")["Authorization"]
    answer = town.client.get("/v1/tasks", headers=[("Authorization", good), ("Authorization", good)])
    assert problem(answer) == (401, "unauthenticated")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_good_token_is_let_in(town, scheme):
    good = town.bearer("viewer")["Authorization"].removeprefix("Bearer")
    assert town.client.get("/v1/tasks", headers={"Authorization": scheme + good}).status_code == 200


def test_a_host_or_an_origin_says_nothing_where_a_token_is_asked_for(town):
    headers = {**town.bearer("viewer"), "Host": "longtask.example", "Origin": "https://evil.example"}
    answer = town.client.get("/v1/tasks", headers=headers)
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")], "so no page can read it"


def test_an_expired_a_revoked_and_an_unknown_token_are_refused_alike(town):
    expired, revoked = town.bearer("admin", expires_ms=-1), town.bearer("admin", name="bob")
    town.tokens.revoke("bob")
    unknown = {"Authorization": f"Bearer {fresh()}"}
    answers = [town.client.get("/v1/tasks", headers=headers) for headers in (expired, revoked, unknown)]
    assert {problem(answer) for answer in answers} == {(401, "unauthenticated")}
    assert len({answer.text for answer in answers}) == 1


def test_a_rotated_token_is_good_in_both_forms_for_a_grace(town):
    old = town.bearer("viewer")
    _, text = town.tokens.rotate("ann", grace_ms=60_000)
    new = {"Authorization": f"Bearer {text}"}
    assert [town.client.get("/v1/whoami", headers=h).json()["token"] for h in (old, new)] == [
        town.tokens.get("ann").id
    ] * 2
    _, text = town.tokens.rotate("ann", grace_ms=0)
    town.server.access.forget()
    assert town.client.get("/v1/tasks", headers=old).status_code == 401
    assert town.client.get("/v1/tasks", headers=new).status_code == 401, "its grace was none"
    assert town.client.get("/v1/tasks", headers={"Authorization": f"Bearer {text}"}).status_code == 200


def test_a_revoked_token_is_known_no_more_within_seconds(town):
    bearer = town.bearer("viewer")
    assert town.client.get("/v1/tasks", headers=bearer).status_code == 200
    town.tokens.revoke("ann")
    town.server.access.forget()
    assert town.client.get("/v1/tasks", headers=bearer).status_code == 401


def test_whoever_guesses_is_slowed_down_and_others_are_not(town):
    bearer = town.bearer("viewer")
    town.server.access.strangers = Buckets(0.01, town.server.access.policy.stranger_burst)  # however slow we ask
    assert town.client.get("/v1/tasks", headers=bearer).status_code == 200
    codes = [
        town.client.get("/v1/tasks", headers={"Authorization": f"Bearer {fresh()}"}).status_code
        for _ in range(town.server.access.policy.stranger_burst + 20)
    ]
    assert codes[0] == 401 and codes[-1] == 429
    answer = town.client.get("/v1/tasks")
    assert problem(answer) == (429, "too-many-requests") and int(answer.headers["retry-after"]) >= 1
    assert town.client.get("/v1/tasks", headers=bearer).status_code == 200, "a token that is known already"


# --- what a role may do ---------------------------------------------------------------------------------------------

ALLOWED = {  # by what is asked: the roles that may
    ("GET", "/v1/tasks"): {"viewer", "operator", "approver", "admin"},
    ("GET", "/v1/tasks/{task}"): {"viewer", "operator", "approver", "admin"},
    ("POST", "/v1/tasks/{task}/pause"): {"operator", "admin"},
    ("POST", "/v1/tasks/{task}/cancel"): {"operator", "admin"},
    ("GET", "/v1/audit"): {"admin"},
    ("GET", "/v1/tokens"): {"admin"},
    ("POST", "/v1/tokens"): {"admin"},
}


@pytest.mark.parametrize(("method", "path"), ALLOWED)
def test_a_role_may_do_what_it_is_for_and_nothing_else(town, method, path):
    task = town.submit()["task"]
    for role in ROLES:
        body = {"name": "new", "roles": ["admin"]} if path == "/v1/tokens" else {}
        answer = town.client.request(
            method, path.format(task=task), headers=town.bearer(role), **({} if method == "GET" else {"json": body})
        )
        if role in ALLOWED[method, path]:
            assert answer.status_code in (200, 201, 409), answer.text
        else:
            assert problem(answer) == (403, "forbidden")
            assert "lacks the role" in answer.json()["detail"]


def test_every_route_names_its_role_or_needs_no_token(server):
    """A route that forgot its role would be open to every token, of whatever role."""
    made = [("/v1", make(server)) for make in ROUTERS] + [("", make(server)) for make in OUTSIDE]
    routes = [(prefix + route.path, route) for prefix, router in made for route in _routes(router)]
    assert len(routes) > 40 and all(isinstance(route, APIRoute) for _, route in routes)
    without = {
        path
        for path, route in routes
        if not is_open(path) and not any(isinstance(one.call, Needed) for one in _dependants(route.dependant))
    }
    assert without <= {"/v1/whoami"}


def _routes(router: Any) -> Iterator[Any]:
    for route in router.routes:
        inner = getattr(route, "original_router", None)  # of a router within
        if inner is None:
            yield route
        else:
            yield from _routes(inner)


def _dependants(dependant: Any) -> Iterator[Any]:
    for inner in dependant.dependencies:
        yield inner
        yield from _dependants(inner)


def test_what_needs_no_token_does_not_reach_further():
    assert is_open("/healthz") and is_open("/v1/callbacks/calls/x") and is_open("/")
    for path in (
        "/healthz/x",
        "/v1/callbacks",
        "/v1/tasks",
        "/V1/callbacks/x",
        "//v1/callbacks/x",
        "/v1",
        "/v1/tasks//",
    ):
        assert not is_open(path)


def test_roles_imply_each_other_as_documented():
    def may(*roles: Role) -> set[Role]:
        return {role for role in Role if Caller("x", frozenset(roles)).may(role)}

    assert may(Role.ADMIN) == set(Role)
    assert may(Role.OPERATOR) == {Role.OPERATOR, Role.VIEWER}
    assert may(Role.APPROVER) == {Role.APPROVER, Role.VIEWER}
    assert may(Role.VIEWER) == {Role.VIEWER}
    assert may(Role.WORKER) == {Role.WORKER}
    assert may() == set()


def test_a_task_of_another_workspace_is_not_there(town):
    task = town.submit()["task"]
    stranger = town.bearer("viewer", "operator", workspaces=["elsewhere"])
    for method, path in (("GET", ""), ("GET", "/events"), ("GET", "/graph"), ("POST", "/pause"), ("POST", "/cancel")):
        answer = town.client.request(method, f"/v1/tasks/{task}{path}", headers=stranger)
        nothing = town.client.request(method, f"/v1/tasks/{task[:-1]}x{path}", headers=stranger)
        assert problem(answer) == problem(nothing) == (404, "not-found")
    assert town.client.get("/v1/tasks", headers=stranger).json()["items"] == []


def test_an_administrator_of_some_workspaces_makes_no_tokens_and_reads_no_audit(town):
    bearer = town.bearer("admin", workspaces=["w"])
    for answer in (
        town.client.get("/v1/audit", headers=bearer), town.client.get("/v1/tokens", headers=bearer),
        town.client.post("/v1/tokens", json={"name": "x", "roles": ["admin"]}, headers=bearer),
    ):  # fmt: skip
        assert problem(answer) == (403, "forbidden")


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_of_a_token_only_its_hash_is_kept(town, tmp_path):
    text = town.bearer("admin")["Authorization"].removeprefix("Bearer ")
    assert FORM.fullmatch(text) and len(text) == 46
    assert town.client.get("/v1/tasks", headers={"Authorization": f"Bearer {text}"}).status_code == 200
    assert town.server.parts.store.find_token(hash_of(text)).token.name == "ann"
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert text.encode() not in file.read_bytes() and text[3:].encode() not in file.read_bytes()


def test_no_two_tokens_are_alike():
    assert len({fresh() for _ in range(1_000)}) == 1_000


def test_a_token_is_made_listed_rotated_and_revoked_over_http(town):
    admin = town.bearer("admin", name="root")
    given = {"name": "ci", "roles": ["viewer", "operator"], "workspaces": ["w"], "expires_ms": 60_000}
    made = town.client.post("/v1/tokens", json=given, headers={**admin, "Idempotency-Key": "k"})
    assert made.status_code == 201 and FORM.fullmatch(made.json()["token"])
    again = town.client.post("/v1/tokens", json=given, headers={**admin, "Idempotency-Key": "k"})
    assert again.json().get("token") != made.json()["token"], "a secret is not kept to be told again"
    id_ = made.json()["id"]
    listed = {one["id"]: one for one in town.client.get("/v1/tokens", headers=admin).json()["items"]}
    assert listed[id_]["created_by"] == "root" and listed[id_]["good"] and "token" not in listed[id_]
    turned = town.client.post(f"/v1/tokens/{id_}/rotate", json={"grace_ms": 0}, headers=admin)
    assert turned.status_code == 200 and turned.json()["token"] != made.json()["token"]
    assert town.client.post(f"/v1/tokens/{id_}/revoke", headers=admin).json()["good"] is False
    assert problem(town.client.post(f"/v1/tokens/{id_}/rotate", json={}, headers=admin)) == (409, "refused")
    assert problem(town.client.post("/v1/tokens/nobody/revoke", headers=admin)) == (404, "not-found")
    assert problem(town.client.post("/v1/tokens", json={"name": "x", "roles": ["king"]}, headers=admin)) == (
        422,
        "bad-plan",
    )


@pytest.mark.parametrize("name", ["", " ", "a\n", "\x00", "a\x7f", " a", "x" * 65, "\ud800"])
def test_a_name_that_would_confuse_a_journal_is_refused(town, name):
    with pytest.raises(BadPlan, match="name"):
        town.tokens.create(name, ["viewer"], by="root")


def test_a_name_stands_for_a_token_while_only_one_has_it(town):
    one, _ = town.tokens.create("ann", ["viewer"], by="root")
    assert town.tokens.get("ann") == town.tokens.get(one.id) == one
    town.tokens.create("ann", ["viewer"], by="root")
    with pytest.raises(Refused, match="several tokens are named 'ann'"):
        town.tokens.get("ann")
    town.tokens.revoke(one.id)
    assert town.tokens.get("ann").id != one.id
    with pytest.raises(NotFound, match="no token 'bob'"):
        town.tokens.get("bob")


@pytest.mark.parametrize("roles", [[], ["king"], ["viewer", "King"]])
def test_a_role_that_is_none_is_refused(town, roles):
    with pytest.raises(BadPlan, match="role"):
        town.tokens.create("ann", roles, by="root")


# --- where a server may listen --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"host": "0.0.0.0"}, {"host": "::"}, {"host": "192.0.2.1"}, {"host": "my-host"}, {"host": ""},
     {"policy": Policy(tokens=True)}, {"policy": Policy(proxies=("10.0.0.1",))}, {"public_url": "https://lt.example"}],
)  # fmt: skip
def test_who_can_be_reached_from_elsewhere_asks_for_tokens_and_does_not_start_without_one(make, settings):
    server = make(**settings)
    assert server.access.asks
    with pytest.raises(Refused, match=r"there is none that is good.*longtask token create"):
        check_listening(server.access, server.settings.host)
    Tokens(server.parts.store).create("ann", ["admin"], by="root", expires_ms=-1)
    with pytest.raises(Refused):
        check_listening(server.access, server.settings.host)
    Tokens(server.parts.store).create("ann", ["admin"], by="root")
    check_listening(server.access, server.settings.host)


@pytest.mark.parametrize("settings", [{}, {"host": "::1"}, {"host": "localhost"}, {"public_url": "http://localhost:1"}])
def test_on_this_machine_alone_no_token_is_asked_for(make, settings):
    server = make(**settings)
    assert not server.access.asks
    check_listening(server.access, server.settings.host)


def test_a_client_of_elsewhere_is_refused_whatever_its_request_says(make):
    client = client_of(make())
    client._transport.client = ("192.0.2.7", 5)  # type: ignore[attr-defined]
    assert problem(client.get("/v1/tasks")) == (403, "foreign")


# --- from where -----------------------------------------------------------------------------------------------------

NET = Policy(proxies=("10.0.0.0/8", "fd00::/8")).networks


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),  # nobody's proxy
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.1"], "198.51.100.1"),  # the left one was made up
        ("10.0.0.1", ["6.6.6.6", "198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, rubbish"], "10.0.0.1"),
        ("10.0.0.1", ["rubbish, 10.0.0.9"], "10.0.0.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("fd00::1", ["2001:db8::1"], "2001:db8::1"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_a_proxy_is_believed_only_where_it_was_named(peer, forwarded, found):
    assert came_from(peer, forwarded, NET) == found


def test_a_proxy_that_is_no_address_is_told_at_once():
    with pytest.raises(BadPlan, match="proxy 'here'"):
        Policy(proxies=("here",))


# --- the audit ------------------------------------------------------------------------------------------------------


def rows(town: Town, **query: Any) -> list[dict[str, Any]]:
    answer = town.client.get("/v1/audit", params=query, headers=town.bearer("admin", name="root"))
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_each_change_has_a_row_that_says_who_when_from_where_and_what_came_of_it(town):
    bearer = town.bearer("operator")
    before = town.server.parts.store.now()
    task = town.submit(**bearer)["task"]
    handle = town.client.get(f"/v1/tasks/{task}", headers=bearer).json()["handle"]
    town.client.post(f"/v1/tasks/{handle}/pause", headers=bearer)
    town.client.post(f"/v1/tasks/{task}/steps/nowhere/retry", headers=bearer)
    newest, paused, submitted = rows(town)
    assert submitted["who"] == "ann" and submitted["address"] == "127.0.0.1"
    assert submitted["token"] == town.tokens.get("ann").id
    assert before <= submitted["at"] <= town.server.parts.store.now()
    assert (submitted["action"], submitted["status"], submitted["task"]) == ("POST /v1/tasks", 201, task)
    assert (paused["action"], paused["status"], paused["task"]) == ("POST /v1/tasks/{task}/pause", 200, task)
    assert (newest["status"], newest["outcome"], newest["step"]) == (404, "not-found", "nowhere")
    assert [row["id"] for row in rows(town, task=task)] == [row["id"] for row in (newest, paused, submitted)]
    assert rows(town, who="bob") == []


def test_looking_leaves_no_row_and_neither_does_who_is_not_known(town):
    town.client.get("/v1/tasks", headers=town.bearer("viewer"))
    town.client.post("/v1/tasks", json=running())
    town.client.post("/v1/callbacks/calls/nobodys", json={})
    assert rows(town) == []


def test_what_was_refused_for_want_of_a_role_has_a_row(town):
    task = town.submit()["task"]
    town.client.post(f"/v1/tasks/{task}/cancel", headers=town.bearer("viewer", name="eve"))
    row = rows(town)[0]
    assert (row["who"], row["status"], row["outcome"], row["task"]) == ("eve", 403, "forbidden", task)


def test_an_address_that_is_none_stands_in_no_row(town):
    secret = "hunter2" * 3
    town.client.post(f"/v1/nowhere/{secret}", headers=town.bearer("operator"))
    row = rows(town)[0]
    assert row["action"] == "POST (no such address)" and secret not in str(row)


def test_the_audit_is_read_in_pages(town):
    bearer = town.bearer("operator")
    for _ in range(5):
        town.client.post("/v1/tasks/nobodys/pause", headers=bearer)
    admin = town.bearer("admin", name="root")
    seen: list[str] = []
    cursor = ""
    while True:
        page = town.client.get("/v1/audit", params={"limit": 2, "cursor": cursor}, headers=admin).json()
        seen += [row["id"] for row in page["items"]]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert len(seen) == len(set(seen)) == 5 and seen == sorted(seen, reverse=True)


def test_a_change_whose_row_cannot_be_written_is_not_made(town):
    """The row comes first: should the store refuse it, nothing was done."""
    task, bearer = town.submit()["task"], town.bearer("operator", name="bob")
    store = town.server.parts.store
    raw.run(store, "alter table audit rename to gone")
    answer = town.client.post(f"/v1/tasks/{task}/cancel", headers=bearer)
    assert answer.status_code == 500 and problem(answer) == (500, "store")
    assert store.get_task(task).state == "active"
    raw.run(store, "alter table gone rename to audit")
    assert town.client.post(f"/v1/tasks/{task}/cancel", headers=bearer).status_code == 200


def test_a_stream_is_looked_at_about_as_often_as_it_has_something_to_say():
    assert STREAM_LOOK_S <= 60
