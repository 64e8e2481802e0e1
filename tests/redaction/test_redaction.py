"""What looks like a key, or is the value of a secret, does not come through; what does not, comes through unchanged.

The keys are made up here, so that nobody who searches this repository for keys finds one.
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtask.redaction import Mask, configured, key_in, redact, redact_value, without_shapes

SECRET = "obviously-fake-0123456789"
CHANCE = "Q7fK2mZ9pX4vB8nL1cR6tY3w" * 3
LINES = "\n".join(["MIIEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKE1234"] * 5 + ["fake1234=="])
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{LINES}\n-----END RSA PRIVATE KEY-----"
KEYS = {
    "aws": "AKIA" + "FAKEFAKEFAKE1234",
    "github": "ghp_" + CHANCE[:36],
    "github-app": "ghs_" + CHANCE[:36],
    "github-fine": "github_pat_" + CHANCE[:60],
    "gitlab": "glpat-" + CHANCE[:20],
    "anthropic": "sk-ant-api03-" + CHANCE[:40],
    "openai": "sk-" + CHANCE[:48],
    "openai-project": "sk-proj-" + CHANCE[:20] + "_-" + CHANCE,
    "google": "AIza" + CHANCE[:35],
    "google-access": "ya29." + CHANCE[:40],
    "slack": "xoxb-" + "123456789012-" + CHANCE[:24],
    "slack-app": "xapp-1-" + CHANCE[:24],
    "slack-hook": "hooks.slack.com/" + "services/T0FAKE/B0FAKE/" + CHANCE[:24],
    "npm": "npm_" + CHANCE[:36],
    "pypi": "pypi-" + CHANCE[:60],
    "hugging-face": "hf_" + CHANCE[:34],
    "stripe": "sk_live_" + CHANCE[:24],
    "webhook": "whsec_" + CHANCE[:32],
    "longtask": "lt_" + CHANCE[:43],
    "jwt": "eyJ" + CHANCE[:20] + ".eyJ" + CHANCE[:40] + "." + CHANCE[:43],
    "pem": PEM,
}
BESIDE = {  # what is kept, the secret, what is kept
    "bearer": ("Authorization: Bearer ", CHANCE[:32], ""),
    "bearer-lower": ('{"authorization": "bearer ', CHANCE[:32], '"}'),
    "basic": ("authorization: Basic ", "dXNlcjpwYXNzd29yZA==", ""),
    "storage": ("DefaultEndpointsProtocol=https;AccountKey=", CHANCE[:64], ";x"),
    "url": ("postgresql://ann:", "pass-word", "@db.example/x"),
    "url-odd": ("amqp://ann:", "p@ss$w%20", "@h:5672/"),
    "url-nameless": ("redis://:", "hunter22", "@h"),
}
HARMLESS = (
    "a task, a sk-elegant-fade thing, x sk-", "ghp_short", "https://example.org/a:b@c", "http://127.0.0.1:8700/v1",
    "the bearer token of this caller", "Bearer lt_…", "-----BEGIN CERTIFICATE-----", "see eyJ", "git@host.example:a/b",
    "postgresql://ann@db/x", "postgresql://ann:$PASSWORD@db/x", "postgresql://ann:${{ x }}@db", "basic training",
    "postgresql://ann:***@db/x", "lt_" + "x" * 42, "0123456789abcdef" * 4, "a/b+c==", "", "AKIA", "🙂 ümlaut 漢字",
)  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("around", ["{}", "x={}", '"{}"', "a {} b", "({}).", "k: {}\n"])
def test_what_looks_like_a_key_is_taken_out(name, around):
    text = around.format(KEYS[name])
    for left in (redact(text), without_shapes(text.encode()).decode()):
        assert "***" in left
        assert not [part for part in (KEYS[name][12:], *LINES.split("\n"), CHANCE[:16]) if part in left], left
        before, _, after = around.partition("{}")
        assert left.startswith(before) and left.endswith(after)
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("name", BESIDE)
def test_what_stands_around_a_secret_is_kept(name):
    before, secret, after = BESIDE[name]
    assert redact(before + secret + after) == f"{before}***{after}"
    assert without_shapes((before + secret + after).encode()) == f"{before}***{after}".encode()


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_key_is_left_alone(text):
    assert redact(text) == text
    assert Mask().whole(text.encode()) == text.encode()


def test_a_key_within_json_text_is_taken_out():
    import json

    text = json.dumps({"a": PEM, "b": [KEYS["github"]], KEYS["aws"]: 1})
    assert "FAKE" not in redact(text) and KEYS["github"] not in redact(text)
    assert redact_value({"a": PEM, "b": [KEYS["github"], 5, None, True], KEYS["aws"]: 1.5}) == {
        "a": "***\n-----END RSA PRIVATE KEY-----",
        "b": ["***", 5, None, True],
        "***": 1.5,
    }


def test_a_private_key_without_an_end_takes_no_words_with_it():
    text = "-----BEGIN PRIVATE KEY-----\nis how such a file begins\nand then there is more of them"
    assert redact(text) == "***\nis how such a file begins\nand then there is more of them"


@pytest.mark.parametrize("name", [*KEYS, *BESIDE])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 61])
def test_a_key_that_comes_in_pieces_is_taken_out(name, size):
    secret = KEYS[name] if name in KEYS else "".join(BESIDE[name])
    whole = f"before\n{secret}\nbetween {secret} after\n".encode()
    mask, out = Mask(), b""
    for at in range(0, len(whole), size):
        out += mask.feed(whole[at : at + size])
    out += mask.rest()
    assert out == without_shapes(whole)


@given(st.lists(st.integers(1, 30), max_size=8), st.booleans())
def test_a_value_cut_anywhere_is_found(cuts: list[int], twice: bool) -> None:
    whole = f"before {SECRET} between {SECRET if twice else ''} after".encode()
    mask, out, at = Mask([SECRET]), b"", 0
    for cut in cuts:
        out += mask.feed(whole[at : at + cut])
        at += cut
    out += mask.feed(whole[at:]) + mask.rest()
    assert out == whole.replace(SECRET.encode(), b"***")


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_a_stream_without_keys_is_what_it_was(pieces: list[bytes]) -> None:
    mask, whole = Mask(), b"".join(pieces)
    out = b"".join(mask.feed(piece) for piece in pieces) + mask.rest()
    assert out == without_shapes(whole)


def test_what_cannot_be_the_beginning_of_a_key_is_shown_at_once() -> None:
    mask = Mask()
    for piece in (b"Continue? [y/n] ", b"\r 12/80", b"...", b"made 5 files\n", b"done", b"ab"):
        assert mask.feed(piece) == piece
    assert mask.feed(b"a ghp_") == b"a "
    assert mask.feed(b"x\n") == b"ghp_x\n"


def test_no_more_is_held_back_than_a_key_is_long() -> None:
    mask, shown = Mask(), 0
    for _ in range(100):
        shown += len(mask.feed(b"-----BEGIN PRIVATE KEY-----\n" + b"A" * 1_000))
    assert len(mask.rest()) < 20_000


def test_short_values_are_not_looked_for() -> None:
    assert Mask(["abc"], shapes=False).whole(b"abc") == b"abc"


def test_each_line_of_a_value_is_hidden() -> None:
    mask = Mask(["-----BEGIN-----\nfake-line-one\nfake-line-two\n"])
    assert b"fake-line" not in mask.feed(b"x fake-line-two y") + mask.rest()


def test_values_in_json_are_hidden_whole() -> None:
    assert Mask([SECRET], shapes=False).value({"a": [f"x{SECRET}"], SECRET: 1}) == {"a": ["x***"], "***": 1}


def test_without_shapes_only_values_are_looked_for() -> None:
    mask = Mask([SECRET], shapes=False)
    assert mask.whole(f"{SECRET} {KEYS['github']}".encode()) == f"*** {KEYS['github']}".encode()


def test_the_environment_names_what_is_secret_in_this_process() -> None:
    found = configured({
        "LONGTASK_REDACT": "MINE, OTHER", "MINE": "my-own", "OTHER": "other-own", "HOME": "/home/ann",
        "API_TOKEN": CHANCE[:24], "KEY_PATH": CHANCE[:24], "SOME_KEY": "words only here", "EMPTY_TOKEN": "",
    })  # fmt: skip
    assert found == ["my-own", "other-own", CHANCE[:24]]


def test_a_plan_is_told_what_kind_of_key_it_holds() -> None:
    assert key_in(f"x {KEYS['slack']}") == "a Slack token"
    assert key_in(PEM) == "a private key"
    assert key_in("postgresql://ann:pass@db") is None, "addresses are looked at where they stand"


@pytest.mark.parametrize(
    "piece",
    ["sk-", "eyJ", "eyJ-", "eyJaaaaaaaaaaaa.", "://", "://a:", "Bearer ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----",
     "xoxb-", "hooks.slack.com/", "a", "AKIA", "basic ", "-----BEGIN PRIVATE KEY-----\nA: b", "lt_a", "sk-a1-"],
)  # fmt: skip
def test_the_time_grows_with_the_text_alone(piece) -> None:
    text = piece * (400_000 // len(piece))
    began = time.process_time()  # of the processor: a busy machine is no fault of ours
    redact(text)
    mask = Mask()
    for at in range(0, len(text), 65_536):
        mask.feed(text[at : at + 65_536].encode())
    assert time.process_time() - began < 3
