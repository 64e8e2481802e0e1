"""pytest is run here, in each of its ways to talk."""

import pytest

from longtask.steps.reading.contract import Progress
from longtask.steps.reading.reader import Reader
from tests.steps.recorded import record

SUITE = """
import pytest
@pytest.mark.parametrize("n", range(100))
def test_ok(n): pass
@pytest.mark.parametrize("n", ["a b", "c - d"])
def test_bad(n): assert n == 2
@pytest.fixture
def broken(): raise TypeError("x")
def test_error(broken): print("12/40 .....")
@pytest.fixture
def late():
    yield
    raise ValueError("x")
def test_late(late): pass
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_xfail(): assert 0
@pytest.mark.xfail
def test_xpass(): pass
"""
SUMMARY = "2 failed, 101 passed, 1 skipped, 1 xfailed, 1 xpassed, 2 errors"


COUNTED = {
    "plain": [],
    "verbose": ["-v"],
    "very verbose": ["-vv", "-rA", "-o", "console_output_style=count"],
    "coloured": ["--color=yes", "-o", "console_output_style=count"],
    "times": ["-o", "console_output_style=times"],
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    return record(
        tmp_path_factory.mktemp("pytest"),
        {
            **{name: (SUITE, arguments) for name, arguments in COUNTED.items()},
            "quiet": (SUITE, ["-q"]),
            "very quiet": (SUITE, ["-qq"]),
            "selected": (SUITE, ["-k", "bad or skipped"]),
            "stopped": (SUITE, ["-x"]),
            "broken": ("import nowhere", []),
            "empty": ("", []),
            "small": ("def test_a(): assert 0\ndef test_b(): pass", []),
        },
    )


def read(name: str, content: bytes, size: int) -> list[Progress]:
    reader = Reader(name)
    found = [reader.feed(content[at : at + size]) for at in range(0, len(content), size)]
    return [progress for progress in found if progress is not None]


@pytest.mark.parametrize("name", COUNTED)
def test_pytest_with_a_number_of_tests(outputs, name):
    output = outputs[name]
    for size in (1, 7, 500, len(output)):
        found = read("pytest", output, size)
        last = found[-1]
        assert (last.done, last.total, last.passed, last.failed) == (107, 107, 101, 4)
        assert last.text.startswith(f"{SUMMARY} in ")
        assert {progress.total for progress in found if progress.done} <= {107, None}
        steps = [progress.done for progress in found]
        assert steps == sorted(steps)
    one_by_one = [progress.done for progress in read("pytest", output, 1)]
    assert set(range(100)) <= set(one_by_one)


def test_quiet_pytest_counts_in_per_cent_until_its_end(outputs):
    output = outputs["quiet"]
    found = read("pytest", output, 1)
    assert found[0] == Progress(4, None, "4 passed", 4, 0)
    assert next(progress.done for progress in found if progress.total == 100) == 67
    assert found[-1].text.startswith(f"{SUMMARY} in ")
    assert (found[-1].done, found[-1].total, found[-1].failed) == (108, 108, 4)


def test_very_quiet_pytest_never_tells_its_end(outputs):
    last = read("pytest", outputs["very quiet"], 100)[-1]
    assert (last.done, last.total, last.failed) == (100, 100, 4)


def test_pytest_with_deselected_tests(outputs):
    last = read("pytest", outputs["selected"], 100)[-1]
    assert (last.done, last.total, last.passed, last.failed) == (3, 3, 0, 2)


def test_pytest_that_stops_early_is_not_at_its_end(outputs):
    last = read("pytest", outputs["stopped"], 100)[-1]
    assert (last.done, last.total, last.passed, last.failed) == (101, 107, 100, 1)


def test_pytest_that_cannot_collect(outputs):
    last = read("pytest", outputs["broken"], 100)[-1]
    assert (last.passed, last.failed) == (0, 1)
    assert last.text.startswith("1 error in ")


def test_pytest_without_tests(outputs):
    last = read("pytest", outputs["empty"], 100)[-1]
    assert (last.done, last.total, last.text[:16]) == (0, 0, "no tests ran in ")


def test_two_runs_in_one_output_are_counted_one_after_the_other(outputs):
    output = outputs["small"]
    found = read("pytest", output + output[: output.index(b"items") + 5] + b"\n\ntest_a.py F", 1)
    assert (found[-1].done, found[-1].total, found[-1].failed) == (1, 2, 1)


def test_parallel_pytest():
    content = (
        b"bringing up nodes...\n2 workers [4 items]\n"
        b"[gw0] [ 25%] PASSED tests/test_a.py::test_x \n[gw1] [ 50%] FAILED tests/test_a.py::test_y[a b] \n"
    )
    last = read("pytest", content, 1)[-1]
    assert (last.done, last.total, last.passed, last.failed) == (2, 4, 1, 1)


def test_output_that_is_not_pytests_moves_nothing():
    assert read("pytest", b"Collecting six\nInstalling ... done\nE: x\n12/40\nRunning...\n", 1) == []


def test_names_of_failed_tests_are_the_same_in_each_of_its_ways(outputs):
    whole = [f"test_a.py::{name}" for name in ("test_bad[a b]", "test_bad[c - d]", "test_error", "test_late")]
    for name in (*COUNTED, "quiet"):
        for word in ("pytest", None):
            reader = Reader(word)
            reader.feed(outputs[name])
            assert sorted(reader.failing) == whole
    reader = Reader()
    reader.feed(outputs["broken"])
    assert list(reader.failing) == ["test_a.py"]


def test_without_the_plans_word_pytest_is_recognised(outputs):
    for name in (*COUNTED, "quiet", "selected", "stopped", "broken", "empty"):
        named, own = Reader("pytest"), Reader()
        named.feed(outputs[name])
        own.feed(outputs[name])
        assert own.progress == named.progress
