"""A server without tokens, on a real socket: whoever is not this machine's user is refused, whatever they write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from longtask.api.server import make_server
from longtask.api.settings import Settings
from tests.api.live import Live, serving
from tests.api.plans import running


@pytest.fixture(scope="module")
def live(tmp_path_factory) -> Iterator[Live]:
    from longtask import boot
    from longtask.config import Config

    folder = tmp_path_factory.mktemp("local")
    parts = boot.open_parts(Config(folder / "home", str(folder / "longtask.db")))
    with serving(make_server(parts, Settings())) as made:
        yield made
    parts.store.close()


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}", "localhost", "127.0.0.1:9", "[::1]:{port}"]
)
def test_this_machine_is_called_as_people_call_it(live, host):
    assert live.ask("GET /v1/tasks", "Host: " + host.format(port=live.port)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example:{port}", "localhost.",
        "localhost.:{port}", "127.0.0.2", "127.1", "2130706433", "0x7f000001", "0.0.0.0:{port}", "[::]",
        "[::ffff:127.0.0.1]",
        "user@localhost", "localhost@evil.example", "localhost:evil", "localhost:80:80", "localhost evil", "", ":80",
        "localhost:", "localhost#.evil.example", "localhost/../evil", "\xe9vil", "localhost,evil.example", "[::1",
        "127.0.0.1%00.evil.example", "xn--localhost-",
    ],
)  # fmt: skip
def test_a_foreign_host_is_refused(live, host):
    for verb in ("GET /v1/tasks", "POST /v1/tasks"):
        answer = live.ask(verb, "Host: " + host.format(port=live.port))
        assert answer.status in (400, 403)
        if answer.status == 403:
            assert answer.slug == "foreign"


def test_two_hosts_none_or_an_old_protocol_without_one_are_refused(live):
    line = b"GET /v1/tasks HTTP/1.%d\r\n%sConnection: close\r\n\r\n"
    good, bad = b"Host: localhost\r\n", b"Host: evil.example\r\n"
    assert live.raw(line % (1, good + bad)).status == 400
    assert live.raw(line % (1, bad + good)).status == 400
    assert live.raw(line % (1, b"")).status == 400
    assert live.raw(line % (0, b"")).status == 403
    assert live.raw(line % (0, good + good)).status in (400, 403)
    assert live.raw(line % (1, b"Host: localhost\r\n evil.example\r\n")).status in (400, 403)


@pytest.mark.parametrize(
    "target", ["http://evil.example/v1/tasks", "http://localhost/v1/tasks", "//evil.example/v1/tasks", "*", "v1/tasks"]
)
def test_a_target_that_names_a_host_is_refused(live, target):
    assert live.ask(f"GET {target}").status in (400, 404)


@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-Host: localhost", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1;host=localhost",
        "X-Real-IP: 127.0.0.1", "X-Forwarded-Proto: https", "Via: 1.1 proxy",
    ],
)  # fmt: skip
def test_whoever_comes_through_a_proxy_is_refused(live, header):
    answer = live.ask("GET /v1/tasks", header)
    assert (answer.status, answer.slug) == (403, "foreign")
    assert "--tokens" in answer.detail


@pytest.mark.parametrize("origin", ["http://127.0.0.1:{port}", "HTTP://127.0.0.1:{port}"])
def test_the_servers_own_page_may_call(live, origin):
    header = "Origin: " + origin.format(port=live.port)
    assert live.post("/v1/tasks", {}, header, "Sec-Fetch-Site: same-origin").status == 422


@pytest.mark.parametrize(
    "origin",
    [
        "null", "", "http://evil.example", "https://127.0.0.1.evil.example", "http://127.0.0.1", "http://127.0.0.1:1",
        "http://localhost:{port}", "file://", "chrome-extension://abc", "127.0.0.1:{port}", "http://127.0.0.1:{port}/",
        "http://127.0.0.1:{port}@evil.example", "http://127.0.0.1:{port} http://evil.example", "https://127.0.0.1:{port}x",
    ],
)  # fmt: skip
def test_a_page_of_another_origin_is_refused(live, origin):
    header = "Origin: " + origin.format(port=live.port)
    for answer in (live.post("/v1/tasks", {}, header), live.ask("GET /v1/tasks", header)):
        assert (answer.status, answer.slug) == (403, "foreign")
        assert "access-control-allow-origin" not in answer.headers


def test_two_origins_are_refused_if_one_is_foreign(live):
    own = f"Origin: http://{live.host}"
    assert live.ask("GET /v1/tasks", own, "Origin: http://evil.example").status == 403
    assert live.ask("GET /v1/tasks", "Origin: http://evil.example", own).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "CROSS-SITE", "?", ""])
def test_a_browser_that_says_that_a_page_of_elsewhere_calls_is_believed(live, site):
    """A form or an image sends no Origin in some browsers; a page on another port of this machine is `same-site`."""
    header = f"Sec-Fetch-Site: {site}"
    assert live.post("/v1/tasks", {}, header).status == 403
    assert live.ask("POST /v1/tasks/x/pause", header).status == 403
    assert live.ask("GET /v1/tasks", header, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image").status == 403
    assert live.ask("GET /v1/tasks", header, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe").status == 403
    assert live.ask("POST /v1/tasks", header, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document").status == 403


def test_a_link_to_the_server_may_be_followed_from_anywhere(live):
    visit = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
    assert live.ask("GET /v1/tasks", *visit).status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "Multipart/Form-Data; boundary=x"])
def test_a_body_as_a_form_sends_it_is_refused(live, kind):
    answer = live.ask("POST /v1/tasks", f"Content-Type: {kind}", body=b'{"plan": {}}')
    assert (answer.status, answer.slug) == (415, "media-type")


def test_a_body_without_a_type_submits_nothing(live):
    assert live.ask("POST /v1/tasks", body=b'{"plan": {}}').status in (415, 422)


def test_no_page_of_elsewhere_is_allowed_beforehand(live):
    answer = live.ask("OPTIONS /v1/tasks", f"Origin: http://{live.host}", "Access-Control-Request-Method: POST")
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_web_socket_is_refused(live):
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA==")
    assert live.ask("GET /v1/tasks", *upgrade).status == 400


def test_a_method_in_a_header_is_no_method(live):
    assert live.ask("GET /v1/tasks/x", "X-HTTP-Method-Override: DELETE").status == 404


def test_a_token_that_is_not_good_does_not_become_the_user_of_this_machine(live):
    answer = live.ask("GET /v1/tasks", "Authorization: Bearer lt_" + "x" * 43)
    assert (answer.status, answer.slug) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert live.ask("GET /v1/tasks", "Authorization: Basic YWRtaW46YWRtaW4=").status == 401


@pytest.mark.parametrize(
    "target", ["/v1/tasks?token=lt_{x}", "/v1/tasks?a=%6ct_{x}", "/v1/tasks/lt_{x}", "/nowhere?access_token=lt_{x}&b"]
)
def test_a_token_in_the_address_is_refused_and_not_repeated(live, target):
    answer = live.ask("GET " + target.format(x="a" * 43))
    assert (answer.status, answer.slug) == (400, "token-in-address")
    assert "a" * 43 not in answer.body.decode()


def test_a_task_is_submitted_without_a_token(live):
    answer = live.post("/v1/tasks", running())
    assert answer.status in (200, 201), answer.body


def test_every_answer_tells_browsers_what_not_to_do(live):
    for answer in (
        live.ask("GET /v1/tasks"), live.ask("GET /nowhere"), live.ask("GET /v1/tasks", "Host: evil.example"),
        live.post("/v1/tasks", {}),
    ):  # fmt: skip
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers
