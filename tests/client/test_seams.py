"""What holds without a server: documents are those of the API, both clients are alike, nothing is loaded too early."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import types

import pytest

from longtask import AsyncClient, Client
from longtask.api.callbacks import shapes
from longtask.api.description import NOUNS
from longtask.api.problems import KINDS, OF_HTTP
from longtask.api.routes import access, turns
from longtask.client import documents, v1
from longtask.client.course import Course, Limits, Tries
from longtask.client.problems import OF_STATUS, OF_WORD, answered, error_of
from longtask.client.request import KEY, Answer, path
from longtask.client.servers import Logins, server_url
from longtask.core.errors import BadPlan, Refused, StoreBusy, StoreUnavailable

TYPED = [
    found
    for name, found in vars(documents).items()
    if isinstance(found, type) and hasattr(found, "__required_keys__") and name not in ("TypedDict", "Page")
]


@pytest.mark.parametrize("typed", TYPED, ids=lambda found: found.__name__)
def test_documents_have_the_keys_that_the_server_tells(typed):
    [shape] = {found for where in (*NOUNS, shapes, access, turns) if (found := getattr(where, typed.__name__, None))}
    assert typed.__required_keys__ | typed.__optional_keys__ == set(shape.model_fields)


def test_both_clients_have_the_same_methods_with_the_same_arguments():
    def methods(kind):
        return {
            name: str(inspect.signature(found).replace(return_annotation=None))
            for name, found in vars(kind).items()
            if inspect.isfunction(found) and not name.startswith("_")
        }

    assert methods(Client) == methods(AsyncClient)
    described = {name for name, found in vars(v1).items() if _describes(found)}
    assert described <= methods(Client).keys()


def _describes(found):
    told = isinstance(found, types.FunctionType) and found.__module__ == v1.__name__
    return told and found.__annotations__.get("return", "").startswith(("Request[", "Pages["))


def test_the_clients_are_loaded_when_they_are_asked_for():
    code = "import longtask, sys; assert 'httpx' not in sys.modules; longtask.Client; assert 'httpx' in sys.modules; "
    code += (
        "assert not [m for m in sys.modules if m.startswith('longtask.') and m.split('.')[1] not in ('core', 'client')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    import longtask

    with pytest.raises(AttributeError):
        longtask.Nothing  # type: ignore[attr-defined]  # noqa: B018


def test_each_request_that_changes_something_has_a_key_of_its_own():
    one, other = v1.pause("x"), v1.pause("x")
    assert one.headers[KEY] != other.headers[KEY]
    assert v1.submit("", idempotency_key="k").headers[KEY] == "k"
    assert KEY not in v1.task("x").headers


def test_names_are_quoted_in_addresses():
    assert path("tasks", "a/b ?#ä", query={"none": None, "no": (), "yes": True, "many": ("a", "b")}) == (
        "/v1/tasks/a%2Fb%20%3F%23%C3%A4?yes=true&many=a&many=b"
    )
    assert path("tasks", "@last") == "/v1/tasks/@last"


# --- what becomes of an answer --------------------------------------------------------------------------------------


def problem(status: int, slug: str, **headers: str) -> Answer:
    body = json.dumps({"type": f"urn:longtask:problem:{slug}", "title": "t", "status": status, "detail": "words"})
    return Answer(status, {"content-type": "application/problem+json", **headers}, body.encode())


def course(patience_s: float = 60.0) -> Course:
    limits = Limits(patience_s=patience_s)
    return Course("http://x", limits, Tries(limits, patience_s))


@pytest.mark.parametrize(
    "status, slug", [(503, "busy"), (503, "store-unavailable"), (409, "in-flight"), (429, "too-many-requests")]
)
def test_what_waiting_may_mend_is_tried_again_no_sooner_than_the_server_says(status, slug):
    wait = course().answered(problem(status, slug, **{"retry-after": "7"}))
    assert wait is not None and 7 <= wait <= 7.5
    soon = course().answered(problem(status, slug))
    assert soon is not None and 0 < soon <= 0.1
    if slug == "in-flight":  # its server may have died; then it is carried out anew after a minute
        return
    with pytest.raises(Exception, match="words"):
        course(patience_s=1).answered(problem(status, slug, **{"retry-after": "7"}))


@pytest.mark.parametrize("status, slug", [(409, "refused"), (404, "not-found"), (500, "unexpected"), (401, "new-word")])
def test_what_waiting_does_not_mend_is_told_at_once(status, slug):
    with pytest.raises(Exception, match="words"):
        course().answered(problem(status, slug))


def test_a_proxy_without_a_server_behind_it_is_waited_for():
    assert course().answered(Answer(502, {"content-type": "text/html"}, b"<html>")) is not None
    with pytest.raises(StoreUnavailable, match="behind its proxy"):
        course(patience_s=0).answered(Answer(502, {}, b""))


def test_every_error_that_the_server_maps_comes_back_as_itself():
    for kind, status, slug, _ in KINDS:
        found = error_of(answered(status, "application/problem+json", problem(status, slug).body), "http://x")
        assert type(found) is kind, slug
    assert isinstance(error_of(answered(503, "application/problem+json", problem(503, "x").body), ""), StoreBusy)
    assert {slug for slug, _ in OF_HTTP.values()} - {"method-not-allowed"} <= OF_WORD.keys()
    assert set(OF_STATUS) >= {401, 403, 404, 409, 422, 429, 503}


# --- servers and logins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, meant",
    [
        (None, "http://127.0.0.1:8700"),
        ("https://LongTask.example.com:443/", "https://longtask.example.com"),
        ("http://[::1]:8700", "http://[::1]:8700"),
        (" https://x.example/longtask/ ", "https://x.example/longtask"),
    ],
)
def test_a_server_is_always_written_in_one_way(given, meant):
    assert server_url(given) == meant


@pytest.mark.parametrize(
    "given", ["x.example", "ftp://x", "https://", "http://x:port", "http://x/?a=1", "http://a:b@x"]
)
def test_what_is_no_address_of_a_server_is_refused(given):
    with pytest.raises(BadPlan) as bad:
        server_url(given)
    assert "a:b" not in str(bad.value)


def test_logins_are_kept_for_several_servers_in_a_file_of_their_owner():
    logins = Logins()
    logins.keep("https://a", "lt_1", "ann")
    logins.keep("https://b", "lt_2", "bea")
    logins.keep("https://a", "lt_3", "ann")
    assert logins.file.stat().st_mode & 0o777 == 0o600
    assert (logins.token("https://a"), logins.token("https://b"), logins.token("https://c")) == ("lt_3", "lt_2", None)
    assert logins.servers() == {"https://a": "ann", "https://b": "bea"}
    assert logins.forget("https://a") and not logins.forget("https://a")
    assert logins.servers() == {"https://b": "bea"}
    assert not list(logins.file.parent.glob(".servers-*"))


def test_a_file_of_tokens_that_others_can_read_or_that_is_damaged_is_not_used():
    logins = Logins()
    logins.keep("https://a", "lt_1", "ann")
    logins.file.chmod(0o640)
    with pytest.raises(Refused, match="chmod 600"):
        logins.token("https://a")
    logins.file.chmod(0o600)
    for content in ("", "[]", '{"servers": 1}', "{"):
        logins.file.write_text(content)
        with pytest.raises(Refused, match="damaged"):
            logins.token("https://a")
