"""Function steps, in a child and inline: the same rules, whatever the function does."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longtask.core.model import Done, Failed, Kind, StepSpec, Stopped
from longtask.steps.contract import Assignment
from longtask.steps.function import FunctionExecutor
from tests.agents.worker import FileDesk, until_ended

HERE = "tests.agents.functions"
INLINE = pytest.mark.parametrize("inline", [True, False], ids=["inline", "child"])


def start(folder: Path, function: str, *, place: Path | None = None, desk: FileDesk | None = None, **body: Any) -> Any:
    outputs: Mapping[str, str] = body.pop("outputs", {})
    spec = StepSpec(Kind.FUNCTION, {"function": function, **body}, outputs=outputs)
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), **body.pop("environment", {})}
    given = Assignment("task", "t", "step", 1, 1, spec, None, "", None, environment=environment)
    return FunctionExecutor().start(given, desk or FileDesk(folder / "journal.db"), place or folder)


def call(folder: Path, name: str, **more: Any) -> Any:
    return until_ended(start(folder, f"{HERE}:{name}" if ":" not in name else name, **more))


@INLINE
def test_a_function_gets_its_arguments_by_name_and_returns_json(tmp_path, inline):
    assert call(tmp_path, "double", inline=inline, args={"n": 21}) == Done({"twice": 42})
    assert call(tmp_path, "nothing", inline=inline) == Done(None)
    assert call(tmp_path, "Group.inner", inline=inline) == Done("inside")


@INLINE
def test_a_result_is_what_it_would_be_after_a_restart(tmp_path, inline):
    assert call(tmp_path, "pair", inline=inline) == Done({"1": ["a", "b"]})


@INLINE
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_json", "its result is not JSON: Object of type set"),
        ("no_number", "its result is not JSON: Out of range float values"),
        ("much", "its result has 2000002 bytes as JSON, at most 1000000; write a file"),
        ("value", "is no function but a int"),
        ("missing", f"'{HERE}' has no 'missing'"),
    ],
)
def test_what_can_never_work_is_not_tried_again(tmp_path, inline, name, reason):
    outcome = call(tmp_path, name, inline=inline)
    assert isinstance(outcome, Failed) and not outcome.retryable
    assert outcome.reason.startswith(f"function '{HERE}:{name}': {reason}")


@INLINE
def test_an_exception_is_a_failure_with_its_words_and_place(tmp_path, inline):
    outcome = call(tmp_path, "raises", inline=inline)
    assert isinstance(outcome, Failed) and outcome.retryable
    first, where, line = outcome.reason.splitlines()
    assert first == f"function '{HERE}:raises': ValueError: the config has no 'port'"
    assert where.startswith('  File "') and where.endswith('functions.py", line 39, in raises')
    assert line.strip().startswith("raise ValueError")
    assert outcome.digest == call(tmp_path, "raises", inline=inline).digest is not None


@INLINE
def test_a_module_that_cannot_be_imported_is_a_failure_that_a_fix_may_mend(tmp_path, inline):
    outcome = call(tmp_path, "no_such_module_of_ours:f", inline=inline)
    assert (
        isinstance(outcome, Failed)
        and outcome.retryable
        and "No module named 'no_such_module_of_ours'" in outcome.reason
    )


@INLINE
def test_leaving_by_sys_exit_is_a_failure_of_the_attempt_alone(tmp_path, inline):
    outcome = call(tmp_path, "leaves", inline=inline)
    assert isinstance(outcome, Failed) and "SystemExit: no" in outcome.reason


@INLINE
def test_wanted_outputs_are_checked(tmp_path, inline):
    assert isinstance(call(tmp_path, "double", inline=inline, args={"n": 1}, outputs={"twice": "integer"}), Done)
    outcome = call(tmp_path, "double", inline=inline, args={"n": 1}, outputs={"twice": "string", "more": "list"})
    assert isinstance(outcome, Failed) and outcome.reason.endswith(
        "'twice' is to be text, found int; 'more' (list) is missing"
    )
    outcome = call(tmp_path, "Group.inner", inline=inline, outputs={"twice": "integer"})
    assert isinstance(outcome, Failed) and outcome.reason.endswith("to be a map of names, found str")


def test_a_child_works_in_its_place_with_its_own_environment(tmp_path):
    outcome = call(tmp_path, "where", environment={"COLOUR": "red"})
    assert outcome.result["cwd"] == str(tmp_path) and outcome.result["env"] == "red"
    assert not Path(outcome.result["tmp"]).exists()


def test_what_it_prints_is_the_steps_output(tmp_path):
    desk = FileDesk(tmp_path / "journal.db")
    call(tmp_path, "double", args={"n": 1}, desk=desk)
    assert sorted(desk.said) == [("err", b"aside\n"), ("out", b"doubling\n")]


def test_a_child_finds_the_code_of_its_place_first(tmp_path):
    (tmp_path / "mine.py").write_text("import json\ndef f(**named): return json.loads('{\"here\": true}') | named\n")
    assert call(tmp_path, "mine:f", args={"x": [1]}) == Done({"here": True, "x": [1]})


def test_a_child_that_vanishes_has_failed_though_its_exit_code_is_0(tmp_path):
    outcome = call(tmp_path, "vanishes")
    assert isinstance(outcome, Failed) and outcome.reason == "the function ended without an outcome (exit code 0)"


def test_a_child_is_ended_when_it_is_stopped(tmp_path):
    desk = FileDesk(tmp_path / "journal.db")
    handle = start(tmp_path, f"{HERE}:hangs", desk=desk)
    while not desk.said:
        assert handle.poll() is None
    handle.stop("pause", 1_000)
    assert until_ended(handle) == Stopped()


def test_a_child_leaves_a_witness(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGTASK_WITNESS", str(tmp_path / "witness"))
    call(tmp_path, "nothing")
    (line,) = map(json.loads, (tmp_path / "witness").read_text().splitlines())
    assert (line["step"], line["run"], line["n"], line["kind"], line["name"]) == (
        "step",
        1,
        1,
        "function",
        f"{HERE}:nothing",
    )


def test_a_secret_that_is_not_there_fails_before_anything_runs(tmp_path):
    given = Assignment(
        "task", "t", "step", 1, 1, StepSpec(Kind.FUNCTION, {"function": f"{HERE}:nothing"}), None, "", None,
        secrets=("NO_SUCH_SECRET",),
    )  # fmt: skip
    outcome = until_ended(FunctionExecutor().start(given, FileDesk(tmp_path / "journal.db"), tmp_path))
    assert isinstance(outcome, Failed) and not outcome.retryable and "'NO_SUCH_SECRET'" in outcome.reason


@pytest.mark.parametrize("secrets", [("SECRET",), ()])
def test_no_secret_stands_in_what_an_inline_function_returns_or_raises(tmp_path, monkeypatch, secrets):
    monkeypatch.setenv("SECRET", "sesame-4711")
    spec = StepSpec(Kind.FUNCTION, {"function": "os:environ.get", "inline": True, "args": {"key": "SECRET"}})
    given = Assignment("task", "t", "step", 1, 1, spec, None, "", None, secrets=secrets)
    assert FunctionExecutor().start(given, FileDesk(tmp_path / "journal.db"), None).poll() == Done(
        "***" if secrets else "sesame-4711"
    )
    spec = StepSpec(Kind.FUNCTION, {"function": "builtins:int", "inline": True, "args": {"sesame-4711": 1}})
    failed = FunctionExecutor().start(replace(given, spec=spec), FileDesk(tmp_path / "journal.db"), None).poll()
    assert isinstance(failed, Failed) and ("sesame" in failed.reason) is not bool(secrets)
