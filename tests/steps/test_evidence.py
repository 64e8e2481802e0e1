"""Evidence: numbers that a command shows, and changes that a step may not make, or must."""

import json
from pathlib import Path

import pytest

from longtask.steps import evidence
from longtask.steps.reading.contract import Progress

COBERTURA = '<?xml version="1.0" ?>\n<coverage version="7.4" line-rate="0.875" branch-rate="0"><packages/></coverage>'
LCOV = "SF:a.js\nLF:10\nLH:9\nend_of_record\nSF:b.js\nLF:10\nLH:8\nend_of_record\n"


@pytest.mark.parametrize(
    ("text", "percent"),
    [(COBERTURA, 87.5), (LCOV, 85.0), (json.dumps({"totals": {"percent_covered": 71.25}}), 71.25)],
)
def test_coverage_is_read_from_the_usual_reports(tmp_path: Path, text: str, percent: float):
    (tmp_path / "report").write_text(text)
    assert evidence.coverage(tmp_path, "report") == percent


@pytest.mark.parametrize("text", ["", "87%", "[1]", '{"totals": {}}', "\0\1"])
def test_a_report_that_tells_nothing_is_no_evidence(tmp_path: Path, text: str):
    (tmp_path / "report").write_text(text)
    with pytest.raises(ValueError, match="neither Cobertura XML, nor LCOV"):
        evidence.coverage(tmp_path, "report")


def test_a_report_lies_in_the_worktree_and_is_a_file(tmp_path: Path):
    (tmp_path / "outside.xml").write_text(COBERTURA)
    work = tmp_path / "work"
    (work / "folder").mkdir(parents=True)
    (work / "link.xml").symlink_to(tmp_path / "outside.xml")
    for report in ("missing.xml", "folder", "../outside.xml", "link.xml"):
        with pytest.raises(ValueError, match="was not written"):
            evidence.coverage(work, report)


def test_too_few_tests_and_too_little_coverage_say_what_was_found(tmp_path: Path):
    (tmp_path / "c.xml").write_text(COBERTURA)
    wanted = {"tests_min": 38, "coverage": {"report": "c.xml", "min": 80}}
    seen = Progress(38, 38, "38 passed in 0.4s", 38, 0)
    assert evidence.numbers(wanted, seen, tmp_path, "c0ffee") == {"tests": 38, "coverage": 87.5, "tested": "c0ffee"}
    with pytest.raises(ValueError, match="37 tests have passed, at least 38 are to"):
        evidence.numbers(wanted, Progress(37, 37, "", 37, 0), tmp_path, None)
    with pytest.raises(ValueError, match="nothing that it has written tells how many tests"):
        evidence.numbers(wanted, None, tmp_path, None)
    with pytest.raises(ValueError, match=r"87.5 % of the lines are covered \(c.xml\), at least 90 %"):
        evidence.numbers({"coverage": {"report": "c.xml", "min": 90}}, None, tmp_path, None)
    assert evidence.numbers({}, None, tmp_path, "c0ffee") == {}


def test_a_rule_names_a_file_a_folder_or_a_glob():
    changed = ["a.py", "tests/test_a.py", "tests/deep/test_b.py", "docs/x.md", "testsuite.py"]
    assert evidence.touched(["tests"], changed) == ["tests/test_a.py", "tests/deep/test_b.py"]
    assert evidence.touched(["tests/*.py", "a.py"], changed) == ["a.py", "tests/test_a.py", "tests/deep/test_b.py"]
    assert evidence.touched([], changed) == []
