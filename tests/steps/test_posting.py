"""A POST to an address that a user named: where it may go, and that it ends."""

import socket
import ssl
import threading
import time

import pytest

from longtask.core.errors import BadPlan
from longtask.steps.posting import ANSWER_BYTES_MAX, AddressRefused, Allowed, Post, PostError, check_url, public, shown
from tests.receiver import receiving

NOTHING = Allowed()
LOOPBACK = Allowed.read(["127.0.0.0/8"], "X")


def post(url, allowed=LOOPBACK, timeout_s=5.0, **headers):
    return Post(url, b'{"a":1}', headers, allowed, timeout_s).send()


def test_what_is_sent_arrives_as_it_is():
    with receiving((200, {"Retry-After": "3"}, b"fine")) as there:
        answer = post(there.url + "/a/b?c=d", Authorization="Bearer fake")
    assert (answer.status, answer.body, answer.retry_after, answer.accepted) == (200, b"fine", "3", True)
    (got,) = there.got
    assert (got.path, got.body) == ("/a/b?c=d", b'{"a":1}')
    assert got.headers["authorization"] == "Bearer fake" and got.headers["content-type"] == "application/json"
    assert got.headers["host"] == there.url.removeprefix("http://")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"],
)
def test_this_machine_is_not_reached_however_it_is_written(host):
    with receiving() as there:
        port = there.url.rpartition(":")[2]
        with pytest.raises(PostError):
            post(f"http://{host}:{port}/", NOTHING)
    assert there.got == []


@pytest.mark.parametrize(
    "address",
    "10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 127.0.0.1 0.0.0.0 224.0.0.1 255.255.255.255 ::1 :: "
    "fe80::1 fc00::1 ff02::1 ::ffff:10.0.0.1 2002:a00:1:: 64:ff9b::a00:1".split(),
)
def test_what_is_not_public_is_known(address):
    import ipaddress

    assert not public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_what_is_public_is_known(address):
    import ipaddress

    assert public(ipaddress.ip_address(address))


def test_a_name_is_looked_up_once_and_what_was_looked_at_is_connected_to(monkeypatch):
    """DNS rebinding: the name means a public address when it is looked at, and this machine afterwards."""
    asked: list[str] = []
    reached: list[tuple] = []

    def resolve(host, port, **_):
        asked.append(host)
        address = "93.184.215.14" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    def connect(address, timeout):
        reached.append(address)
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(PostError, match="nobody is there"):
        post("https://rebound.example/", NOTHING)
    assert (asked, reached) == (["rebound.example"], [("93.184.215.14", 443)])


def test_of_the_addresses_of_a_name_only_public_ones_are_reached(monkeypatch):
    reached: list[str] = []

    def resolve(host, port, **_):
        return [(2, 1, 6, "", (a, port)) for a in ("10.0.0.1", "93.184.215.14", "169.254.169.254")]

    def connect(address, timeout):
        reached.append(address[0])
        raise ConnectionRefusedError("no")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(PostError):
        post("https://mixed.example/", NOTHING)
    assert reached == ["93.184.215.14"]
    with pytest.raises(AddressRefused, match="public: send there by https"):
        post("http://mixed.example/", NOTHING)
    with pytest.raises(PostError):
        post("http://mixed.example/", Allowed.read(["10.0.0.0/8"], "X"))
    assert reached[1:] == ["10.0.0.1"], "by http only what is allowed"


def test_what_is_allowed_is_reached_by_address_or_by_name():
    with receiving() as there:
        port = there.url.rpartition(":")[2]
        assert post(there.url, Allowed.read(["127.0.0.1"], "X")).status == 204
        assert post(f"http://localhost:{port}/", Allowed.read(["LOCALHOST"], "X")).status == 204
        with pytest.raises(AddressRefused, match="LONGTASK_ALLOW_PRIVATE"):
            post(there.url, Allowed.read(["localhost", "10.0.0.0/8"], "X"))
    assert Allowed.read(["*.corp.example"], "X").named("ci.corp.example")
    assert not Allowed.read(["*.corp.example"], "X").named("corp.example.evil.example")


@pytest.mark.parametrize("entry", ["http://x", "a b", "", "x:80", "10.0.0.0/99", "me@x"])
def test_an_allow_list_that_cannot_be_meant_is_refused(entry):
    with pytest.raises(BadPlan, match="LONGTASK_ALLOW_PRIVATE"):
        Allowed.read([entry], "LONGTASK_ALLOW_PRIVATE")


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "//x", "ftp://x/", "file:///etc/passwd", "gopher://x", "https://", "https:///p", "https://a b/",
        "https://x/\n", "https://u:p@x/", "https://u@x/", "https://x:port/", "https://[::1/", "https://x/" + "p" * 3000,
        "https://x:99999/",
    ],
)  # fmt: skip
def test_what_is_no_address_for_a_post_is_refused_before_anybody_is_asked(url):
    with pytest.raises(AddressRefused):
        check_url(url)


def test_an_address_is_told_without_what_may_be_secret():
    assert shown("https://user:pw@x.example:8443/hook?token=abc#f") == "https://x.example:8443/hook"
    with pytest.raises(AddressRefused) as told:
        check_url("https://user:hunter2@x.example/?token=abc")
    assert "hunter2" not in str(told.value) and "abc" not in str(told.value)


def test_a_redirect_is_an_answer_and_is_not_followed():
    with receiving() as inside, receiving((302, {"Location": inside.url}, b"")) as there:
        answer = post(there.url)
        assert (answer.status, answer.accepted) == (302, False)
        assert inside.got == []


def test_no_proxy_of_the_environment_is_asked(monkeypatch):
    with receiving() as proxy, receiving() as there:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        post(there.url)
        assert (len(proxy.got), len(there.got)) == (0, 1)


@pytest.fixture
def slow():
    """A server that says a byte of its answer now and then, for ever."""
    server = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve():
        line, _ = server.accept()
        with line:
            line.recv(65536)
            try:
                line.sendall(b"HTTP/1.1 200 OK\r\n")
                while not over.wait(0.02):
                    line.sendall(b"X-A: b\r\n"[:1] * 1)
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    over.set()
    thread.join()
    server.close()


def test_it_ends_at_its_deadline_however_slowly_the_other_side_drips(slow):
    began = time.monotonic()
    with pytest.raises(PostError, match=r"no answer within 0\.2 s"):
        post(slow, timeout_s=0.2)
    assert time.monotonic() - began < 3


def test_a_handshake_that_never_ends_is_cut():
    server = socket.create_server(("127.0.0.1", 0))  # accepts, and says nothing
    try:
        with pytest.raises(PostError, match=r"no answer within 0\.2 s"):
            post(f"https://127.0.0.1:{server.getsockname()[1]}/", timeout_s=0.2)
    finally:
        server.close()


def test_cutting_it_ends_it_at_once(slow):
    made = Post(slow, b"", {}, LOOPBACK, 60.0)
    timer = threading.Timer(0.1, made.cut, ["enough"])
    timer.start()
    with pytest.raises(PostError, match="enough"):
        made.send()
    timer.join()


def test_who_has_no_certificate_that_is_known_is_not_sent_anything(tmp_path):
    with receiving() as plain, pytest.raises(PostError) as told:
        post(plain.url.replace("http:", "https:"))
    assert isinstance(told.value.__cause__, ssl.SSLError)


def test_a_long_answer_is_cut():
    with receiving((200, {}, b"x" * (ANSWER_BYTES_MAX + 500))) as there:
        assert len(post(there.url).body) == ANSWER_BYTES_MAX


def test_a_header_that_would_be_two_is_refused():
    with receiving() as there, pytest.raises(PostError, match=r"[Ii]nvalid header"):
        post(there.url, Bad="a\r\nX-Other: b")
