"""Values of secrets do not come out of a process tree."""

import select
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtask.steps.masking import Mask
from longtask.steps.process import Process, allowed_environment

SECRET = "obviously-fake-0123456789"


@given(st.lists(st.integers(1, 30), max_size=8), st.booleans())
def test_a_secret_cut_anywhere_is_found(cuts: list[int], twice: bool) -> None:
    whole = f"before {SECRET} between {SECRET if twice else ''} after".encode()
    mask, out, at = Mask([SECRET]), b"", 0
    for cut in cuts:
        out += mask.feed(whole[at : at + cut])
        at += cut
    out += mask.feed(whole[at:]) + mask.rest()
    assert out == whole.replace(SECRET.encode(), b"***")


def test_short_values_are_not_looked_for() -> None:
    assert Mask(["abc"]).feed(b"abc") == b"abc"


def test_each_line_of_a_key_block_is_hidden() -> None:
    mask = Mask(["-----BEGIN-----\nfake-line-one\nfake-line-two\n"])
    assert b"fake-line" not in mask.feed(b"x fake-line-two y") + mask.rest()


def test_values_in_frames_are_hidden_whole() -> None:
    assert Mask([SECRET]).value({"a": [f"x{SECRET}"], SECRET: 1}) == {"a": ["x***"], "***": 1}


@pytest.mark.parametrize("merge", [True, False])
def test_what_a_program_writes_of_its_secrets_is_masked(tmp_path, monkeypatch, merge) -> None:
    monkeypatch.setenv("FAKE_TOKEN", SECRET)
    env = allowed_environment({}, ["FAKE_TOKEN"])
    program = "import os,sys; t=os.environ['FAKE_TOKEN']; print(t); sys.stderr.write(t); sys.stdout.write(t[:9])"
    out = b""
    with Process.start(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=env,
        mark="t/s/1",
        merge_stderr=merge,
        secrets=["FAKE_TOKEN"],
    ) as process:
        while True:
            ended, chunks = process.poll(), process.read()
            out += b"".join(chunk.content for chunk in chunks)
            if ended is not None and not chunks:
                break
            select.select(process.filenos(), [], [], 0.05)
    assert SECRET.encode() not in out
    assert out.count(b"***") == 2 and b"obviously" in out
