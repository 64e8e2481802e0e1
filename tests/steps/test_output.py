"""Output is cut and bounded without losing what matters, and its failures are told apart."""

import random
import re
import time

import pytest

from longtask.steps.output import (
    OutputBuffer,
    OutputChunk,
    failed_names,
    failure_digest,
    plain,
    sealed,
    tail,
    without_noise,
)
from tests.steps.recorded import record


def drain(buffer: OutputBuffer, now_ms: int = 0) -> list[OutputChunk]:
    return buffer.take(now_ms, final=True)


def test_small_output_is_taken_every_quarter_of_a_second():
    buffer = OutputBuffer()
    buffer.feed(b"one\n")
    assert [chunk.content for chunk in buffer.take(1000)] == [b"one\n"]  # the first at once
    buffer.feed(b"two\n")
    assert buffer.take(1249) == []
    buffer.feed(b"three\n")
    assert buffer.take(1250) == [OutputChunk(2, 4, b"two\nthree\n")]
    assert buffer.take(2000) == []


def test_full_chunks_are_taken_at_once_and_end_with_a_line():
    buffer = OutputBuffer(chunk_bytes_max=100)
    buffer.feed(b"x" * 10)
    buffer.take(0)
    buffer.feed(b"x" * 39 + (b"y" * 59 + b"\n") * 3)
    chunks = buffer.take(1)
    assert [len(chunk.content) for chunk in chunks] == [99, 60]
    assert all(chunk.content.endswith(b"\n") for chunk in chunks)
    assert drain(buffer) == [OutputChunk(4, 169, b"y" * 59 + b"\n")]


def test_no_chunk_cuts_a_character():
    text = "aä€𝄞" * 200
    buffer = OutputBuffer(chunk_bytes_max=64)
    chunks = []
    content = text.encode()
    for at in range(0, len(content), 3):
        buffer.feed(content[at : at + 3])
        chunks += buffer.take(at * 100)
    chunks += drain(buffer)
    assert "".join(chunk.content.decode() for chunk in chunks) == text


def test_bytes_that_are_no_text_are_kept_as_they_are():
    content = bytes(range(256)) * 50
    buffer = OutputBuffer(chunk_bytes_max=1000)
    buffer.feed(content)
    assert sealed(buffer.take(0) + drain(buffer)) == content
    buffer.feed(b"\xf0\x9f")  # half a character at the very end
    assert sealed(drain(buffer)).endswith(b"\xf0\x9f")


@pytest.mark.parametrize("seed", range(20))
def test_the_first_and_the_last_part_are_kept_and_the_gap_is_told(seed):
    chance = random.Random(seed)
    content = b"".join(b"line %d\n" % n for n in range(chance.randrange(10, 3000)))
    maximum = chance.choice([500, 2000, 5000])
    buffer = OutputBuffer(bytes_max=maximum, chunk_bytes_max=chance.choice([50, 200]))
    kept: dict[int, OutputChunk] = {}
    at = now = 0
    numbers = []
    while at < len(content):
        size = chance.randrange(1, 700)
        buffer.feed(content[at : at + size])
        at += size
        now += chance.choice([0, 10, 300])
        for chunk in buffer.take(now) if chance.random() < 0.7 else []:
            kept[chunk.number] = chunk
            numbers.append(chunk.number)
        for number in buffer.forget():
            del kept[number]
        assert sum(len(chunk.content) for chunk in kept.values()) <= maximum + 200
    for chunk in drain(buffer, now):
        kept[chunk.number] = chunk
        numbers.append(chunk.number)
    for number in buffer.forget():
        del kept[number]
    assert numbers == list(range(1, len(numbers) + 1))
    assert buffer.total_bytes == len(content)
    result = sealed(kept.values())
    if len(content) <= maximum:
        assert result == content
        assert buffer.left_out_bytes == 0
        return
    first, gap, last = re.split(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n", result)
    assert content.startswith(first) and content.endswith(last)
    assert len(first) == maximum // 2
    assert maximum // 2 <= len(last) <= maximum // 2 + 200
    assert int(gap) == buffer.left_out_bytes == len(content) - len(first) - len(last)


def test_a_flood_costs_little_memory_and_few_chunks():
    buffer = OutputBuffer(bytes_max=1_000_000)
    block = b"x" * 99_999 + b"\n"
    written = 0
    for now in range(0, 2_000, 10):  # 100 MB in two seconds
        for _ in range(5):
            buffer.feed(block)
        written += sum(len(chunk.content) for chunk in buffer.take(now))
    written += sum(len(chunk.content) for chunk in drain(buffer))
    assert buffer.total_bytes == 100_000_000
    assert written < 500_000 + 8 * 4 * 65_536 + 500_000 + 65_536
    assert buffer.left_out_bytes > 98_000_000


def test_the_tail_is_the_last_lines_that_say_something():
    buffer = OutputBuffer(bytes_max=100)
    buffer.feed(b"".join(b"\x1b[31mline %d\x1b[0m\r\n\n" % n for n in range(100_000)))
    assert buffer.tail(lines=2) == "line 99998\nline 99999"
    assert buffer.tail(lines=1_000, bytes_max=15) == "8\nline 99999"[-15:] or buffer.tail(bytes_max=10) == "line 99999"
    assert tail(b"") == ""
    assert tail("€".encode() * 10, bytes_max=7) == "€€"


def test_plain_text_has_no_colours_controls_and_overwritten_lines():
    assert plain(b"\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x1b\\ a\x08\x00b") == "red link ab"
    assert plain(b"10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"
    assert plain(b"\xff ok") == "� ok"
    assert plain(b"title \x1b]0;never ended\nnext line") == "title \nnext line"


# What failed.


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
    assert failed_names(outputs["first"]) == failed_names(outputs["again"]) == NAMES
    assert failure_digest(outputs["first"], 1) == failure_digest(outputs["again"], 1)
    assert failure_digest(outputs["first"], 1) != failure_digest(outputs["first"], 2)


def test_one_failing_test_less_or_another_kind_of_failure_is_progress(outputs):
    assert failed_names(outputs["fewer"]) == NAMES[:2]
    assert len({failure_digest(outputs[name], 1) for name in ("first", "fewer", "other")}) == 3


def test_another_reason_why_a_file_is_not_collected_is_progress(outputs):
    assert failed_names(outputs["nowhere"]) == ["test_a.py"]
    assert failure_digest(outputs["nowhere"], 2) == failure_digest(outputs["still nowhere"], 2)
    assert failure_digest(outputs["nowhere"], 2) != failure_digest(outputs["nothing"], 2)


def test_failing_tests_are_found_without_a_summary(outputs):
    assert b"short test summary" not in outputs["no summary"]
    assert failed_names(outputs["no summary"]) == NAMES


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("[gw1] [ 50%] FAILED tests/test_a.py::test_x \n", ["tests/test_a.py::test_x"]),
        ("FAIL: test_x (tests.T.test_x)\nERROR: test_y (tests.T)\n", ["test_x (tests.T.test_x)", "test_y (tests.T)"]),
        (
            "--- FAIL: TestX (0.00s)\n    --- FAIL: TestX/sub (0.01s)\nFAIL\tmod/pkg\t0.1s\n",
            ["TestX", "TestX/sub", "mod/pkg"],
        ),
        ("test a::b ... FAILED\ntest a::c ... ok\n", ["a::b"]),
        (
            "  ● Login › rejects a bad password\nFAIL src/login.test.tsx\n",
            ["Login › rejects a bad password", "src/login.test.tsx"],
        ),
        ("[ERROR]   UserTest.login:42 expected: <1> but was: <2>\n", ["UserTest.login"]),
        ("UserTest > login() FAILED\n", ["UserTest > login()"]),
        ("ok 1 - a\nnot ok 2 - b # time=3ms\n", ["b"]),
        ("ERROR 2026-01-01 something\nFAILED to open\nerror: x\n", []),
    ],
)
def test_other_runners_are_understood(output, names):
    assert failed_names(output.encode()) == names


NOISY = [
    b"2026-11-29T18:08:01.123Z worker[4711]: pid 812 at 0x7f33a9857b00\n"
    b"error: /tmp/tmpabc123/tree/src/main.c:12:5: undeclared 'x' (took 0.31s, port localhost:40123)\n"
    b"fatal: id 6f1c2d3e-1111-2222-3333-444455556666 commit 0a1b2c3d4e failed in 12 ms\n",
    b"fatal: id 00000000-1111-2222-3333-444455556666 commit ffff2c3d4e failed in 7 ms\n"
    b"2027-01-02T03:04:05Z worker[1]: pid 1 at 0x7f0000000000\n"
    b"error: /var/lib/trees/t/3/src/main.c:19:1: undeclared 'x' (took 12s, port localhost:1)\n",
]


def test_noise_and_order_do_not_change_a_digest():
    assert failure_digest(NOISY[0], 1) == failure_digest(NOISY[1], 1)
    assert failure_digest(b"\x1b[31m" + NOISY[0], 1) == failure_digest(NOISY[0], 1)
    assert failure_digest(NOISY[0], 1) != failure_digest(NOISY[0].replace(b"'x'", b"'y'"), 1)
    assert failure_digest(NOISY[0], 1) != failure_digest(NOISY[0], None)


def test_numbers_that_mean_something_change_a_digest():
    assert failure_digest(b"Found 132 errors.\n", 1) != failure_digest(b"Found 20 errors.\n", 1)
    assert failure_digest(b"exit 3", 1) != failure_digest(b"exit 4", 1)
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
    failure_digest(content, 1)
    tail(content)
    assert time.process_time() - begun < 3
