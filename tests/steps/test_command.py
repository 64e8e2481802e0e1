"""Command steps, with real processes: what they hand over, what they are handed, and what stays behind."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from longtask.core.errors import StoreBusy
from longtask.core.model import Done, Failed, Kind, StepSpec
from longtask.steps.command import CommandExecutor, inner_name
from longtask.steps.contract import Assignment
from longtask.steps.serving import as_written
from tests.agents.worker import FileDesk, until_ended

SECRET = "sesame-4711"
RECORDINGS = Path(__file__).parent / "reading" / "recordings"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def start(folder: Path, command: str, *, made: Sequence[str] = (), desk: FileDesk | None = None, **body: Any) -> Any:
    spec = StepSpec(Kind.RUN, {"command": command, **body})
    kept = folder / "kept"
    kept.write_text("content")
    executor = CommandExecutor(as_written, lambda workspace_id, digest: kept)
    artifacts = tuple({"name": name, "digest": "d"} for name in made)
    given = Assignment("task", "t", "step", 1, 1, spec, None, "", None, secrets=("SECRET",), artifacts=artifacts)
    return executor.start(given, desk or FileDesk(folder / "journal.db"), None)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", SECRET)


def outcome(folder: Path, command: str, **more: Any) -> Any:
    return until_ended(start(folder, command, **more))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("3", 3),
        ('{"a": [true]}', {"a": [True]}),
        ("plain text", "plain text"),
        ("NaN", "NaN"),  # Python reads these, but they are no JSON and no database takes them
        ("-Infinity", "-Infinity"),
        ('["a", NaN]', '["a", NaN]'),
        ("9" * 5_000, "9" * 5_000),
        ("[" * 50_000, "[" * 50_000),
    ],
    ids=range(8),
)
def test_an_output_that_is_json_keeps_its_type_and_anything_else_is_text(tmp_path: Path, written: str, value: object):
    (tmp_path / "out").write_text(f"x={written}\n")
    done = outcome(tmp_path, f"cat {tmp_path}/out >> $LONGTASK_OUTPUT")
    assert done == Done({"exit_code": 0, "x": value})


def test_no_secret_stands_in_the_reason_why_an_output_is_refused(tmp_path: Path):
    failed = outcome(tmp_path, 'echo "my $SECRET" >> $LONGTASK_OUTPUT')
    assert isinstance(failed, Failed)
    assert failed.reason == "$LONGTASK_OUTPUT has a line that is not name=value: 'my ***'"


class BusyDesk(FileDesk):
    """Cannot keep the first artifact at once."""

    busy = True

    def put_artifact(self, name: str, body: bytes, media_type: str) -> dict[str, Any]:
        if self.busy:
            self.busy = False
            raise StoreBusy("another process holds it")
        return super().put_artifact(name, body, media_type)


def test_outputs_survive_a_store_that_is_busy_when_the_command_has_ended(tmp_path: Path, temporary: Path):
    handle = start(tmp_path, "echo hi; echo x=1 >> $LONGTASK_OUTPUT", desk=BusyDesk(tmp_path / "journal.db"))
    with pytest.raises(StoreBusy):
        until_ended(handle)
    done = handle.poll()
    assert isinstance(done, Done) and done.result == {"exit_code": 0, "x": 1}
    assert handle.poll() is done
    assert list(temporary.glob("longtask-*/[!.]*")) == []


def test_artifacts_are_handed_over_as_links_by_name(tmp_path: Path):
    done = outcome(
        tmp_path, "cd $LONGTASK_ARTIFACTS; echo x=$(cat a.txt b/c) >> $LONGTASK_OUTPUT", made=["a.txt", "b/c"]
    )
    assert done.result["x"] == "contentcontent"


def test_an_artifact_that_cannot_be_handed_over_stops_no_step(tmp_path: Path, temporary: Path):
    made = ["a", "a/b", "../../../out", f"{tmp_path}/absolute", "x" * 300, "new\nline"]
    done = outcome(tmp_path, "echo x=$(ls $LONGTASK_ARTIFACTS) >> $LONGTASK_OUTPUT", made=made)
    assert done.result["x"] == "a"
    assert not (tmp_path / "absolute").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/../../b", "/etc/passwd", "a\nb"])
def test_a_name_that_is_no_path_below_a_folder_is_refused(name: str):
    with pytest.raises(ValueError, match="is no path below a folder"):
        inner_name(name)


def test_a_command_that_cannot_be_started_leaves_no_folder(tmp_path: Path, temporary: Path):
    assert isinstance(outcome(tmp_path, "true\0"), Failed)
    failing = start(tmp_path, "exit 3")
    assert isinstance(until_ended(failing), Failed)
    assert list(temporary.glob("longtask-*/[!.]*")) == []


def test_a_failure_names_the_command_its_code_the_failed_tests_and_the_last_lines(tmp_path: Path):
    (tmp_path / "out").write_bytes((RECORDINGS / "cargo.failing.txt").read_bytes())
    desk = FileDesk(tmp_path / "journal.db")
    failed = outcome(tmp_path, f"cat {tmp_path}/out; exit 101", desk=desk)
    assert isinstance(failed, Failed)
    head, *lines = failed.reason.splitlines()
    assert head.startswith("exit code 101: cat ")
    assert lines[:6] == [
        "Failed tests: 4",
        "- tests::answers",
        "- tests::panics",
        "- tests::adds_wrongly",
        "- part",
        "Last lines:",
    ]
    assert failed.reason.endswith("error: 2 targets failed:\n    `--lib`\n    `--test whole`")
    assert desk.told[-1] == (8, 8, "3 passed, 4 failed")


def test_the_same_failed_tests_have_the_same_digest_though_other_things_were_said(tmp_path: Path):
    first, again, other = (
        outcome(tmp_path, f"cat {RECORDINGS}/{name}.txt; echo {name}; exit 1").digest
        for name in ("jest.failing", "jest.verbose", "jest.coloured")
    )
    assert first == again != other


REPORTS = f"mkdir -p build && cp {RECORDINGS}/gradle/*.xml build/"


def test_reports_that_the_command_has_written_tell_of_its_tests(tmp_path: Path):
    desk = FileDesk(tmp_path / "journal.db")
    done = outcome(tmp_path, REPORTS, junit=["build/*.xml"], evidence={"tests_min": 3}, desk=desk)
    assert done.result == {"exit_code": 0, "summary": "3 passed, 2 failed", "tests": 3}
    assert desk.told == [(6, 6, "3 passed, 2 failed")]
    failed = outcome(tmp_path, f"{REPORTS}; exit 1", junit=["build/*.xml"])
    assert failed.reason.splitlines()[1:] == [
        "Failed tests: 2",
        "- org.example.SumsTest.addsWrongly",
        "- org.example.SumsTest.throwsIt",
        "Last lines:",
    ]


def test_reports_that_are_not_written_are_no_evidence(tmp_path: Path):
    missing = outcome(tmp_path, "true", junit=["build/*.xml"], evidence={"tests_min": 1})
    assert missing.reason == "evidence: no report was written at 'build/*.xml'"
    assert outcome(tmp_path, "true", junit=["build/*.xml"]) == Done({"exit_code": 0})


def test_no_secret_stands_in_the_name_of_a_test(tmp_path: Path):
    case = "<testsuite><testcase name='a[$SECRET]'><failure/></testcase></testsuite>"
    failed = outcome(tmp_path, f'echo "{case}" > r.xml; exit 1', junit=["r.xml"])
    assert "- a[***]" in failed.reason and SECRET not in failed.reason


def test_a_command_that_falls_silent_is_told_with_what_it_said_last(tmp_path: Path):
    failed = outcome(tmp_path, f"cat {RECORDINGS}/tap.perl.txt; echo test 7; sleep 60", silence_ms=300)
    assert failed.digest == "silent" and failed.reason.startswith("silent for more than 300 ms, and stopped: cat ")
    assert "- adds wrongly\n" in failed.reason and failed.reason.endswith("\ntest 7")
