"""JUnit's XML, as Surefire and Gradle have written it, and as nobody should."""

import os
from pathlib import Path

import pytest

from longtask.core.errors import NotFound
from longtask.steps.reading import junit
from longtask.steps.reading.contract import Progress

RECORDINGS = Path(__file__).parent / "recordings"
NAMES = ["org.example.SumsTest.addsWrongly", "org.example.SumsTest.throwsIt"]


def written(folder: Path, text: str, name: str = "r.xml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("tool", ["surefire", "gradle"])
def test_what_the_tools_have_written_is_understood(tool):
    reports = junit.read(RECORDINGS, [f"{tool}/TEST-*.xml"], 0)
    assert reports.progress == Progress(6, 6, "3 passed, 2 failed", 3, 2)
    assert list(reports.failing) == NAMES and reports.files == 2


def test_a_case_that_fails_twice_or_is_skipped_counts_once(tmp_path: Path):
    case = "<testcase name='a'><failure/><error type='E'/></testcase><testcase name='b'><skipped/></testcase>"
    written(tmp_path, f"<testsuites><testsuite>{case}<testcase classname='c' name='d'/></testsuite></testsuites>")
    reports = junit.read(tmp_path, ["r.xml"], 0)
    assert reports.progress == Progress(3, 3, "1 passed, 1 failed", 1, 1)
    assert dict(reports.failing) == {"a": "E"}


def test_what_stood_there_before_the_command_is_no_report_of_it(tmp_path: Path):
    path = written(tmp_path, "<testsuite><testcase name='a'/></testsuite>")
    os.utime(path, ns=(1_000, 1_000))
    with pytest.raises(NotFound, match=r"no report was written at 'r.xml'"):
        junit.read(tmp_path, ["r.xml"], 1_001)
    assert junit.read(tmp_path, ["r.xml"], 1_000).files == 1


def test_globs_find_files_below_and_follow_no_links(tmp_path: Path):
    folder = tmp_path / "work"
    one = "<testsuite><testcase name='a'/></testsuite>"
    for name in ("a/build/r.xml", "b/c/build/r.xml", "r.xml", ".git/build/r.xml", "node_modules/x/build/r.xml"):
        written(folder, one, name)
    written(tmp_path, one, "outside/build/r.xml")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "build").mkdir()
    (folder / "build" / "s.xml").symlink_to(tmp_path / "outside/build/r.xml")
    assert junit.read(folder, ["**/build/*.xml"], 0).files == 2
    assert junit.read(folder, ["a/**/*.xml", "a/build/r.xml", "*.xml"], 0).files == 2
    assert junit.read(folder, ["**"], 0).files == 3
    with pytest.raises(NotFound):
        junit.read(folder, ["link/build/r.xml", "build/*.xml", "nowhere/*.xml"], 0)


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbbbbbb"><!ENTITY c "&b;&b;&b;">]><testsuite><testcase name="&c;"/></testsuite>'
OUTSIDE = (
    '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><testsuite><testcase name="x">&b;</testcase></testsuite>'
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "has a document type"),
        (OUTSIDE, "has a document type"),
        ("<testsuite>", "is no XML: no element found"),
        ("", "is no XML"),
        ("{}", "is no XML"),
        ('<?xml version="1.0" encoding="nonsense"?><testsuite/>', "is no XML: unknown encoding"),
        ("<testsuite>&nothing;</testsuite>", "is no XML: undefined entity"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str, why: str):
    written(tmp_path, text, "deep/r.xml")
    with pytest.raises(ValueError, match=f"report 'deep/r.xml': {why}"):
        junit.read(tmp_path, ["deep/*.xml"], 0)


def test_reports_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written(tmp_path, "<testsuite>" + "<testcase name='a'/>" * 100 + "</testsuite>")
    monkeypatch.setattr(junit, "BYTES_MAX", 1_000)
    with pytest.raises(ValueError, match="the reports are larger than 1,000 bytes"):
        junit.read(tmp_path, ["r.xml"], 0)
    monkeypatch.setattr(junit, "ENTRIES_MAX", 3)
    for number in range(4):
        written(tmp_path, "", f"f{number}")
    with pytest.raises(ValueError, match="more than 3 files were looked at"):
        junit.read(tmp_path, ["**/*.xml"], 0)


def test_folders_in_folders_end_somewhere(tmp_path: Path):
    deep = tmp_path
    for _ in range(200):
        deep /= "a"
        deep.mkdir()
    written(deep, "<testsuite/>")
    with pytest.raises(NotFound):
        junit.read(tmp_path, ["**/r.xml"], 0)


def test_a_pipe_is_no_report_and_nothing_waits_for_it(tmp_path: Path):
    os.mkfifo(tmp_path / "r.xml")
    with pytest.raises(ValueError, match="is no ordinary file"):
        junit.read(tmp_path, ["r.xml"], 0)
