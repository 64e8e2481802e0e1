"""Any output is read line by line, and none makes the reading slow or large."""

import time

import pytest

from longtask.steps.reading.contract import NAME_LENGTH_MAX, NAMES_MAX, Progress
from longtask.steps.reading.lines import LINE_BYTES_MAX, Lines
from longtask.steps.reading.reader import COUNTS, TOOLS, Reader


def test_lines_are_whole_plain_and_never_empty():
    lines = Lines()
    assert lines.feed(b"one\r\n\n  \ntw") == ["one"]
    assert lines.beginning == "tw"
    assert lines.feed(b"o\x1b[1") == [] and lines.beginning == "two"
    assert lines.feed(b"m  \r50%\r\x1b[2K\xe2\x82") == ["two", "50%"]
    assert lines.feed(b"\xac 1\n") == ["€ 1"]


def test_of_a_long_line_the_first_part_is_read():
    content = b"a" * 1_000_000 + b"\nb\n"
    for size in (1_000, 4_097, 65_536, len(content)):
        lines = Lines()
        found = [line for at in range(0, len(content), size) for line in lines.feed(content[at : at + size])]
        assert found == ["a" * LINE_BYTES_MAX, "b"]


def test_a_word_that_is_not_known_is_refused():
    with pytest.raises(KeyError):
        Reader("mocha")


def test_names_are_bounded():
    reader = Reader("pytest")
    reader.feed(b"=== short test summary info ===\n")
    for number in range(NAMES_MAX + 500):
        reader.feed(b"FAILED a.py::test_%d[%s] - no\n" % (number, b"x" * 2_000))
    assert len(reader.failing) == NAMES_MAX
    assert {len(name) for name in reader.failing} == {NAME_LENGTH_MAX}


HOSTILE = {
    "no end": b"a::" * 60_000,
    "names": (b"a::" * 660 + b"\n") * 60,
    "dots": b"." * 200_000,
    "rules": b"=" * 200_000 + b"\n",
    "counts": (b"1 a, " * 800 + b"\n") * 40,
    "directives": (b"not ok 1 - " + b" # " * 1_300 + b"\n") * 40,
    "words": (b"FAIL " + b"a " * 2_000 + b"\n") * 40,
    "times": (b"[ERROR] " + b" Time elapsed: " * 270 + b"<<< FAILURE!\n") * 40,
    "files": b" RUN  v1\n" + (" ✓ a (".encode() + b"1 tests | 1 a" * 300 + b"\n") * 40,
    "dashes": b"=== short test summary info ===\n" + (b"FAILED a" + b" - [" * 1_000 + b"\n") * 40,
    "nested": b'{"Action":' + b"[" * 4_000 + b"\n" + (b'{"Action":' + b'{"a":' * 800 + b"\n") * 40,
    "escapes": b"\x1b[" * 100_000 + b"\x1b]" * 60_000,
    "returns": b"\r" * 200_000,
}


@pytest.mark.parametrize("word", [None, *TOOLS, COUNTS])
def test_no_output_makes_the_reading_slow(word):
    for name, content in HOSTILE.items():
        begun = time.process_time()
        reader = Reader(word)
        for at in range(0, len(content), 65_536):
            reader.feed(content[at : at + 65_536])
        assert len(reader.failing) <= NAMES_MAX
        assert time.process_time() - begun < 1, name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12/40\n", (12, 40)),
        ("[12/40] Building CXX object\n", (12, 40)),
        ("step 12 of 40: copying\n", (12, 40)),
        ("Step 3 / 9 : RUN make\n", (3, 9)),
        (" 42%|####      | 42/100 [00:01<00:02, 30.1it/s]\r", (42, 100)),
        ("1/3 done, now 2/3\n", (2, 3)),
        ("finished 40/40.\n", (40, 40)),
        ("\x1b[32m[7/8]\x1b[0m ok\n", (7, 8)),
        ("12/31/2026\n", None),
        ("src/1/2/file\n", None),
        ("v1/2.5\n", None),
        ("41/40\n", None),
        ("0/0\n", None),
        ("and/or 3\n", None),
    ],
)
def test_n_of_m(text, expected):
    reader = Reader("n/m")
    for byte in text.encode():
        reader.feed(bytes([byte]))
    seen = reader.progress
    assert (None if seen is None else (seen.done, seen.total)) == expected


def test_half_a_number_is_not_believed():
    reader = Reader("n/m")
    assert reader.feed(b"progress 1/4") is None
    assert reader.feed(b"0") is None
    assert reader.feed(b"\n") == Progress(1, 40, "progress 1/40")
    assert reader.feed(b"progress 1/40\n") is None
    assert reader.feed(b"progress 2/40 ") == Progress(2, 40, "progress 2/40")
