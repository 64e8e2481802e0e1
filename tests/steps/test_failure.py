"""Why a command failed: the words name it within a bounded size, and failures are told apart."""

import time

import pytest

from longtask.agents.prompt import compose
from longtask.core.policy import REASON_LENGTH_MAX
from longtask.steps.failure import digest, reason, without_noise
from longtask.steps.output import tail
from longtask.steps.reading.reader import Reader
from tests.steps.recorded import record


def read(output: bytes) -> Reader:
    reader = Reader()
    for at in range(0, len(output), 65_536):
        reader.feed(output[at : at + 65_536])
    return reader


def names_in(output: bytes) -> list[str]:
    return sorted(read(output).failing)


def digest_of(output: bytes, code: int | None) -> str:
    return digest(read(output).failing, output, code)


def test_the_words_name_the_command_the_tests_and_the_last_lines():
    failing = {"a::test_x": "", "a::test_y[b c]": "TypeError"}
    assert reason("exit code 1: make test", failing, 2, b"E  x\n\x1b[31m2 failed\x1b[0m\n") == (
        "exit code 1: make test\nFailed tests: 2\n- a::test_x\n- a::test_y[b c]\nLast lines:\nE  x\n2 failed"
    )
    assert reason("exit code 1: make", {}, None, b"no rule\n") == "exit code 1: make\nno rule"
    assert reason("signal 9: make", {}, None, b"") == "signal 9: make"


def test_however_much_failed_the_words_are_bounded_and_keep_their_end():
    failing = {f"tests/test_{number}.py::{'x' * 280}": "" for number in range(1_000)}
    text = reason("exit code 1: " + "m" * 100, failing, 4_711, b"line\n" * 10_000 + b"e" * 10_000 + b" THE END\n")
    assert len(text) <= REASON_LENGTH_MAX and text.endswith(" THE END")
    assert text.count("- tests/") == 3 and "- and 4708 more" in text and "Failed tests: 4711" in text
    told = compose("Mend it.", outputs={}, failure=text)
    assert all(f"> {line}" in told for line in text.splitlines())


FAILING = """
import os, time, pytest, uuid
def test_one(tmp_path): raise TypeError(f"{tmp_path} {os.getpid()} {time.time()} {object()} {uuid.uuid4()}")
def test_two(): assert time.time() == 3
@pytest.mark.parametrize("text", ["a b"])
def test_three(text): assert text == 0
def test_good(): pass
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    return record(
        tmp_path_factory.mktemp("pytest"),
        {
            "first": (FAILING, []),
            "again": ("import sys\n\n\n" + FAILING, ["-v", "--color=yes"]),
            "fewer": (FAILING.replace("time.time() == 3", "True"), ["-q"]),
            "other": (FAILING.replace("TypeError", "ValueError"), []),
            "no summary": (FAILING, ["-v", "-rN"]),
            "nowhere": ("import nowhere", []),
            "still nowhere": ("# mended nothing\nimport nowhere", ["-q"]),
            "nothing": ("from os import nothing", []),
        },
    )


NAMES = ["test_a.py::test_one", "test_a.py::test_three[a b]", "test_a.py::test_two"]


def test_the_same_failing_tests_have_the_same_digest(outputs):
    assert names_in(outputs["first"]) == names_in(outputs["again"]) == NAMES
    assert digest_of(outputs["first"], 1) == digest_of(outputs["again"], 1)
    assert digest_of(outputs["first"], 1) != digest_of(outputs["first"], 2)


def test_one_failing_test_less_or_another_kind_of_failure_is_progress(outputs):
    assert names_in(outputs["fewer"]) == NAMES[:2]
    assert len({digest_of(outputs[name], 1) for name in ("first", "fewer", "other")}) == 3


def test_another_reason_why_a_file_is_not_collected_is_progress(outputs):
    assert names_in(outputs["nowhere"]) == ["test_a.py"]
    assert digest_of(outputs["nowhere"], 2) == digest_of(outputs["still nowhere"], 2)
    assert digest_of(outputs["nowhere"], 2) != digest_of(outputs["nothing"], 2)


def test_failing_tests_are_found_without_a_summary(outputs):
    assert b"short test summary" not in outputs["no summary"]
    assert names_in(outputs["no summary"]) == NAMES


NOISY = [
    b"2026-11-29T18:08:01.123Z worker[4711]: pid 812 at 0x7f33a9857b00\n"
    b"error: /tmp/tmpabc123/tree/src/main.c:12:5: undeclared 'x' (took 0.31s, port localhost:40123)\n"
    b"fatal: id 6f1c2d3e-1111-2222-3333-444455556666 commit 0a1b2c3d4e failed in 12 ms\n",
    b"fatal: id 00000000-1111-2222-3333-444455556666 commit ffff2c3d4e failed in 7 ms\n"
    b"2027-01-02T03:04:05Z worker[1]: pid 1 at 0x7f0000000000\n"
    b"error: /var/lib/trees/t/3/src/main.c:19:1: undeclared 'x' (took 12s, port localhost:1)\n",
]


def test_noise_and_order_do_not_change_a_digest():
    assert digest_of(NOISY[0], 1) == digest_of(NOISY[1], 1)
    assert digest_of(b"\x1b[31m" + NOISY[0], 1) == digest_of(NOISY[0], 1)
    assert digest_of(NOISY[0], 1) != digest_of(NOISY[0].replace(b"'x'", b"'y'"), 1)
    assert digest_of(NOISY[0], 1) != digest_of(NOISY[0], None)


def test_numbers_that_mean_something_change_a_digest():
    assert digest_of(b"Found 132 errors.\n", 1) != digest_of(b"Found 20 errors.\n", 1)
    assert digest_of(b"exit 3", 1) != digest_of(b"exit 4", 1)
    assert without_noise("https://host/a/b.html  expected 3, got 5") == "https://host/a/b.html expected 3, got 5"


@pytest.mark.parametrize(
    "content",
    [b"x" * 5_000_000, b"a::" * 2_000_000, b"/a" * 2_000_000, b"\r" * 5_000_000, b"\x1b]" * 2_000_000, b"1" * 5_000_000,
     b"= " * 2_000_000, b"FAILED a::b - \n" * 300_000, b"abcdef0" * 700_000,
     (b"a::" * 660 + b"\n") * 1_000, (b"a::b" * 400 + b" PASSED\n") * 1_000,
     b"".join(b"E   " + b"a" * 900 + b"%d\n" % n for n in range(500)) + b"=== short test summary info ===\n"
     + b"".join(b"ERROR tests/test_%d.py - boom\n" % n for n in range(500))],
    ids=range(12),
)  # fmt: skip
def test_no_output_makes_the_search_slow(content):
    begun = time.process_time()
    digest_of(content, 1)
    tail(content)
    assert time.process_time() - begun < 3
