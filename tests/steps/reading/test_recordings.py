"""What the real tools have printed is read as what has happened, in whatever pieces it comes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtask.plan.step import Work
from longtask.steps.reading.reader import COUNTS, TOOLS, Reader

RECORDINGS = Path(__file__).parent / "recordings"
OUTPUTS = {path.stem: path.read_bytes() for path in sorted(RECORDINGS.glob("*.txt"))}
SUMS = [
    "test_three (sums.Sums.test_three)",
    "setUpClass (orders.Orders)",
    "test_six (sums.Sums.test_six) (n=1)",
    "test_two (sums.Sums.test_two)",
]
TARGETS = ["tests::adds_wrongly", "tests::answers", "tests::panics"]
JESTS = ["sums.test.js › sums › adds › three > numbers", "sums.test.js › sums › of texts › throws"]
VITESTS = ["sums.test.js > sums > adds › three > numbers", "sums.test.js > sums > of texts > throws"]
GO = "example.org/app"
GO_SUMS = [f"{GO}/sums TestPrints", f"{GO}/sums TestTable", f"{GO}/sums TestTable/two_words"]
MAVEN = ["org.example.SumsTest.addsWrongly", "org.example.SumsTest.throwsIt"]
GRADLE = ["org.example.SumsTest > addsWrongly", "org.example.SumsTest > throwsIt"]
TAP = ["adds wrongly", "of texts > inner wrong", "test 6"]

# done, total, passed, failed; None: nothing is told.  And the names.
EXPECTED = {
    "unittest.failing": ((8, 8, 2, 4), SUMS),
    "unittest.verbose": ((8, 8, 2, 4), SUMS),
    "unittest.good": ((2, 2, 2, 0), []),
    "unittest.broken": ((3, 3, 2, 1), ["nowhere (unittest.loader._FailedTest.nowhere)"]),
    "unittest.stopped": ((4, 4, 1, 1), SUMS[2:3]),
    "jest.failing": ((8, 8, 4, 2), [*JESTS, "broken.test.js"]),
    "jest.verbose": ((8, 8, 4, 2), [*JESTS, "broken.test.js"]),
    "jest.coloured": ((5, 5, 1, 2), JESTS),
    "jest.good": ((3, 3, 3, 0), []),
    "vitest.failing": ((8, 8, 4, 2), [*VITESTS, "broken.test.js"]),
    "vitest.verbose": ((8, 8, 4, 2), [*VITESTS, "broken.test.js"]),
    "vitest.dots": ((8, 8, 4, 2), [*VITESTS, "broken.test.js"]),
    "vitest.coloured": ((5, 5, 1, 2), VITESTS),
    "vitest.good": ((3, 3, 3, 0), []),
    "cargo.failing": ((8, 8, 3, 4), [*TARGETS, "part"]),
    "cargo.quiet": ((8, 8, 3, 4), [*TARGETS, "part"]),
    "cargo.stopped": ((5, 5, 1, 3), TARGETS),
    "cargo.good": ((1, 1, 1, 0), []),
    "cargo.broken": (None, []),
    "go.failing": ((4, None, None, None), [*GO_SUMS, f"{GO}/broken", f"{GO}/panics TestPanics"]),
    "go.verbose": ((10, None, 5, 4), [*GO_SUMS, f"{GO}/panics TestPanics"]),
    "go.json": ((9, None, 5, 3), GO_SUMS),
    "go.good": ((1, None, None, None), []),
    "maven.failing": ((6, None, 3, 2), MAVEN),
    "maven.quiet": ((4, None, 1, 2), MAVEN),
    "maven.good": ((2, None, 2, 0), []),
    "gradle.failing": ((6, None, 3, 2), GRADLE),
    "gradle.good": (None, []),
    "tap.perl": ((6, 6, 2, 3), TAP),
    "tap.prove": ((8, None, 4, 3), [*(f"t/sums.t > {name}" for name in TAP), "t/died.t"]),
    "tap.died": ((1, None, 1, 0), []),
    "tap.node": ((5, 5, 1, 2), [r"adds \# wrongly", "group > inner wrong"]),
    "tap.bats": ((3, 3, 1, 1), ["adds wrongly"]),
    "tap.good": ((1, 1, 1, 0), []),
}
UNSURE = {"tap.died"}  # a plan would come at its end


def read(word: str | None, *pieces: bytes) -> Reader:
    reader = Reader(word)
    for piece in pieces:
        reader.feed(piece)
    return reader


def seen(reader: Reader) -> tuple[object, ...] | None:
    now = reader.progress
    return None if now is None else (now.done, now.total, now.passed, now.failed)


def test_each_recording_is_expected_and_each_tool_is_recorded():
    assert OUTPUTS.keys() == EXPECTED.keys()
    assert {name.split(".")[0] for name in OUTPUTS} == TOOLS.keys() - {"pytest"}  # which is run by its own tests


def test_the_words_of_plans_are_the_tools():
    said = Work.model_json_schema()["properties"]["progress"]["anyOf"][0]["enum"]
    assert set(said) == {*TOOLS, COUNTS}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_is_understood_with_and_without_the_plans_word(name):
    numbers, names = EXPECTED[name]
    for word in (name.split(".")[0], None):
        if word is not None or name not in UNSURE:
            reader = read(word, OUTPUTS[name])
            assert (seen(reader), sorted(reader.failing)) == (numbers, sorted(names))


@pytest.mark.parametrize("name", EXPECTED)
def test_ends_of_lines_and_colours_make_no_difference(name):
    coloured = b"".join(b"\x1b[31m" + line + b"\x1b[0m\x1b[K\r\n" for line in OUTPUTS[name].splitlines())
    one, other = read(None, OUTPUTS[name]), read(None, coloured)
    assert (one.progress, one.failing) == (other.progress, other.failing)


@pytest.mark.parametrize("word", [*TOOLS, COUNTS])
def test_no_tool_says_that_tests_of_another_have_failed(word):
    for name, output in OUTPUTS.items():
        if not name.startswith(f"{word}."):
            reader = read(word, output)
            names = {shown.removesuffix(" ---") for shown in reader.failing}  # `a::b --- FAILED` might be pytest's
            assert names == set(EXPECTED[name][1]), name


def test_progress_is_told_while_tests_run_and_never_goes_back():
    for name in ("cargo.failing", "cargo.quiet", "go.verbose", "maven.failing", "tap.perl", "vitest.verbose"):
        reader, told = Reader(name.split(".")[0]), []
        for byte in OUTPUTS[name]:
            if (now := reader.feed(bytes([byte]))) is not None:
                told.append(now.done)
        assert len(set(told)) > 1 and told == sorted(told), name


def test_of_tools_that_run_one_after_the_other_all_failures_are_named():
    reader = read(None, OUTPUTS["cargo.failing"], OUTPUTS["jest.failing"], OUTPUTS["unittest.failing"])
    assert set(reader.failing) == {*TARGETS, "part", *JESTS, "broken.test.js", *SUMS}
    assert seen(reader) == (8, 8, 2, 4)


def test_what_a_test_prints_is_no_other_tools_summary():
    inner = OUTPUTS["unittest.failing"] + OUTPUTS["jest.failing"] + OUTPUTS["tap.perl"]
    output = b"=== test session starts ===\ncollected 2 items\n\na.py .F\n=== FAILURES ===\n" + inner
    output += b"=== short test summary info ===\nFAILED a.py::test_b - no\n=== 1 failed, 1 passed in 0.1s ===\n"
    for word in ("pytest", None):
        reader = read(word, output)
        assert list(reader.failing) == ["a.py::test_b"]
        assert seen(reader) == (2, 2, 1, 1)


pieces = st.lists(st.integers(1, 5_000), min_size=1, max_size=30)


def cut(content: bytes, sizes: list[int]) -> list[bytes]:
    parts: list[bytes] = []
    at = 0
    while at < len(content):
        size = sizes[len(parts) % len(sizes)]
        parts.append(content[at : at + size])
        at += size
    return parts


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(OUTPUTS)), sizes=pieces, named=st.booleans())
def test_recordings_are_read_alike_however_they_are_cut(name, sizes, named):
    word = name.split(".")[0] if named else None
    whole, parts = read(word, OUTPUTS[name]), read(word, *cut(OUTPUTS[name], sizes))
    assert (whole.progress, whole.failing) == (parts.progress, parts.failing)


LINES = sorted({line for output in OUTPUTS.values() for line in output.splitlines(keepends=True)})
texts = st.lists(
    st.one_of(
        st.sampled_from(LINES),
        st.binary(max_size=40),
        st.sampled_from([b"\x1b[31", b"\r", b"\n", b"\xe2\x9c", b"x" * 5_000, b"....", b"12/40", b"=" * 70 + b"\n"]),
    ),
    max_size=40,
).map(b"".join)


@settings(max_examples=100, deadline=None)
@given(content=texts, sizes=pieces, word=st.sampled_from([None, *TOOLS, COUNTS]))
def test_any_bytes_are_read_alike_however_they_are_cut(content, sizes, word):
    whole, parts = read(word, content), read(word, *cut(content, sizes))
    assert (whole.progress, whole.failing) == (parts.progress, parts.failing)
    if (last := whole.progress) is not None:
        assert last.done >= 0 and (last.total is None or last.done <= last.total)
