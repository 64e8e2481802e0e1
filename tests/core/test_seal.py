"""Tokens that say what they are for, and cannot be made by anybody else."""

import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtask.core.seal import TOKEN_LENGTH_MAX, seal, unseal

KEY = b"k" * 32


@given(st.lists(st.text() | st.integers() | st.none()))
def test_what_was_sealed_is_found_again(content):
    token = seal(KEY, "link", content)
    assert unseal(KEY, "link", token) == (content if len(token) <= TOKEN_LENGTH_MAX else None)
    assert all(c.isalnum() or c in "-_." for c in token), "it stands in an address as it is"


def test_a_token_is_good_for_its_purpose_and_its_key_only():
    token = seal(KEY, "link", ["a", 1])
    assert unseal(KEY, "callback", token) is None
    assert unseal(b"x" * 32, "link", token) is None


@pytest.mark.parametrize("token", ["", ".", "a.b", "é.é", "\0", "x" * 5_000, "e30.", "..", "\ud800"])
def test_what_is_no_token_is_none(token):
    assert unseal(KEY, "link", token) is None


def test_no_part_of_a_token_can_be_changed():
    token = seal(KEY, "link", ["task-1", "step", 1])
    for n in range(len(token)):
        changed = token[:n] + ("A" if token[n] != "A" else "B") + token[n + 1 :]
        assert unseal(KEY, "link", changed) is None
    text = urlsafe_b64encode(json.dumps(["task-2", "step", 1]).encode()).rstrip(b"=").decode()
    assert unseal(KEY, "link", f"{text}.{token.partition('.')[2]}") is None
