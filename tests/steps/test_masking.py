"""Values of secrets do not come out of a process tree."""

import select
import sys

import pytest

from longtask.steps.process import Process, allowed_environment

SECRET = "obviously-fake-0123456789"


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
