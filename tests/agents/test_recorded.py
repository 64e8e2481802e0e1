"""Recordings: checked as a whole, chosen by what fits best, and never telling what did not happen."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from longtask.agents import recorded
from longtask.agents.contract import AgentOutcome, Brief, runtime
from longtask.agents.journal import Asks, Seams
from longtask.agents.policy import Policy
from longtask.agents.recorded import BANNER, Recorded, check, choose
from longtask.agents.witness import Witness
from longtask.core.errors import BadPlan, NotFound
from longtask.core.model import Done, Failed, JsonMap
from tests.agents.line import Book

LAST = {"text": "Done."}


def recording(*turns: dict[str, Any], **run: Any) -> dict[str, Any]:
    return {"recording": 1, "runs": [{"step": "core", "turns": [*turns, LAST], **run}]}


def play(book: Book, root: Path, *turns: dict[str, Any], ended: JsonMap | None = None, **brief: Any) -> AgentOutcome:
    script = {"source": "demo.yaml", "step": "core", "turns": list(turns)}
    check({"recording": 1, "runs": [{"step": "core", "turns": list(turns)}]}, "demo.yaml")
    given = Brief("core", 1, 1, "Do it.", root, options={"script": script}, **brief)
    seams = Seams(book.journal(), book, Witness("core", 1, None), cause=given.cause, ended=ended)
    return Recorded().run(given, seams, book)


def tools(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"text": "Now.", "tools": list(calls), **more}


def problems(document: Any) -> list[str]:
    with pytest.raises(BadPlan) as bad:
        check(document, "demo.yaml")
    return [str(problem) for problem in bad.value.problems]


def test_a_recording_is_played_through_real_tools(tmp_path):
    (tmp_path / "a.py").write_text("import six\n")
    book = Book()
    outcome = play(
        book,
        tmp_path,
        tools({"tool": "edit", "path": "a.py", "old": "six", "new": "io"}, {"tool": "shell", "command": "cat a.py"}),
        {"text": "Done.", "outputs": {"files": ["a.py"]}},
        outputs={"files": "list"},
    )
    assert outcome == Done({"files": ["a.py"]})
    assert (tmp_path / "a.py").read_text() == "import io\n"
    assert book.shown == f"{BANNER}\n» Now.\nedit a.py\n$ cat a.py\nimport io\n» Done.\n"
    assert [row["kind"] for row in book.journal()] == ["told", "turn", "tool", "tool", "turn"]
    assert [row["n"] for row in book.journal() if row.get("changed")] == [3, 4]


def test_usage_is_priced_only_when_the_recording_says_the_price(tmp_path):
    book = Book()
    play(
        book,
        tmp_path,
        tools({"tool": "list"}, usage={"tokens_in": 1200, "tokens_out": 300, "price": 0.012}),
        tools({"tool": "list"}, usage={"tokens_in": 5}),
        LAST,
    )
    turns = [row for row in book.journal() if row["kind"] == "turn"]
    assert [(t["tokens_in"], t["tokens_out"], t["micros"]) for t in turns] == [
        (1200, 300, 12_000),
        (5, 0, None),
        (0, 0, 0),
    ]


def test_a_tool_that_fails_ends_the_run_and_nothing_after_it_is_told(tmp_path):
    book = Book()
    outcome = play(book, tmp_path, tools({"tool": "edit", "path": "a.py", "old": "x", "new": "y"}), LAST)
    assert isinstance(outcome, Failed) and not outcome.retryable
    assert outcome.reason.startswith(
        "recording 'demo.yaml', run 1 of step 'core', turn 1, tool 1 (edit) failed: 'a.py': no such file"
    )
    assert "Done." not in book.shown


def test_a_tool_that_is_to_fail_may_and_must(tmp_path):
    call = {"tool": "read", "path": "a.py", "fails": True}
    assert play(Book(), tmp_path, tools(call), LAST) == Done({})
    (tmp_path / "a.py").write_text("")
    outcome = play(Book(), tmp_path, tools(call), LAST)
    assert isinstance(outcome, Failed) and "was to fail and did not" in outcome.reason


def test_an_exit_code_is_a_result(tmp_path):
    assert play(Book(), tmp_path, tools({"tool": "shell", "command": "exit 3"}), LAST) == Done({})


def test_outputs_that_are_not_the_wanted_ones_fail(tmp_path):
    outcome = play(Book(), tmp_path, {"outputs": {"n": True, "x": 1}}, outputs={"files": "list", "n": "integer"})
    assert isinstance(outcome, Failed) and outcome.reason == (
        "model 'recording': the outputs are not the wanted ones: 'files' (list) is missing; "
        "'n' is to be a whole number, found bool; 'x' is not wanted (wanted: 'files', 'n')"
    )


def test_a_run_stops_at_its_request_budget(tmp_path):
    outcome = play(Book(), tmp_path, tools({"tool": "list"}), tools({"tool": "list"}), LAST, requests_max=2)
    assert isinstance(outcome, Failed) and outcome.reason.startswith("request budget: 2 model calls")


def test_a_changed_recording_makes_the_run_diverge(tmp_path):
    book = Book()
    play(book, tmp_path, tools({"tool": "list"}), LAST)
    with pytest.raises(Exception, match="the run diverged at call 2"):
        play(book, tmp_path, tools({"tool": "list"}), {"text": "Else."})


def test_news_is_told_once_to_a_run_that_goes_on(tmp_path):
    book = Book()
    play(book, tmp_path, tools({"tool": "list"}), LAST)
    del book.rows[4]  # the last turn
    for _ in range(2):  # the second attempt replays what the first has heard
        play(book, tmp_path, tools({"tool": "list"}), LAST, news="ana says: hurry")
    assert [(r["n"], r["kind"]) for r in book.journal()] == [
        (1, "told"),
        (2, "turn"),
        (3, "tool"),
        (4, "told"),
        (5, "turn"),
    ]
    assert book.rows[4]["body"] == {"text": "ana says: hurry"}


def test_the_best_fitting_script_is_taken():
    def entry(step: str, name: str, **more: int) -> dict[str, Any]:
        return {"step": step, "turns": [{"text": name}], **more}

    there = {
        "recording": 1,
        "runs": [
            entry("*", "any"), entry("te*", "pattern"), entry("te*", "pattern run 2", run=2),
            entry("tests.fix.1", "exact"), entry("x[3]", "item"), entry("te*", "later"),
        ],
    }  # fmt: skip
    check(there, "r")

    def taken(step: str, run: int = 1) -> str:
        return str(choose(there, "r", step, run)["turns"][0]["text"])

    assert taken("core") == "any"
    assert taken("tests") == "pattern"
    assert taken("tests", 2) == "pattern run 2"
    assert taken("tests.fix.1", 2) == "exact"
    assert taken("x[3]") == "item"


def test_a_run_that_is_not_recorded_names_what_there_is():
    there = recording(run=2)
    with pytest.raises(NotFound, match=r"recording 'r': nothing for run 1 of step 'core'; there is 'core' run 2"):
        choose(there, "r", "core", 1)


def test_every_problem_is_told_with_its_place():
    assert problems([]) == ["recording 'demo.yaml': is to be a map with 'recording: 1' and 'runs', found list"]
    assert problems({"recording": 2, "runs": None, "x": 1}) == [
        "recording 'demo.yaml': 'recording' is the version of its form and to be 1, found 2",
        "recording 'demo.yaml': unknown key 'x'; there is 'about', 'recording', 'runs'",
        "recording 'demo.yaml': 'runs' is to be a list, found nothing",
    ]
    bad = recording(
        {"text": "no tools"},
        tools({"tool": "fly"}, {"tool": "edit", "path": 1, "old": "x", "mode": 2}, outputs={}),
        tools({"tool": "list"}, usage={"price": -1, "tokens_in": 1.5}, delay_ms=-1),
    )
    bad["runs"] += [{"step": "", "turns": []}, {"step": "b", "run": 0, "turns": [tools({"tool": "list"})]}]
    where = "recording 'demo.yaml': run 1 (step 'core'): turn"
    found = problems(bad)
    assert [text for text in found if "there is 'read'" not in text] == [
        f"{where} 1: it calls no tool, which ends the run, and is not the last one",
        f"{where} 2: 'outputs' is to be a map in the last turn, found dict",
        f"{where} 2: tool 2: edit: 'path' is to be string, found int",
        f"{where} 2: tool 2: edit: 'new' is missing (what takes its place)",
        f"{where} 2: tool 2: edit: unknown key 'mode'; there is 'count', 'fails', 'new', 'old', 'path', 'tool'",
        f"{where} 3: 'delay_ms' is to be 0 to 600000, found -1",
        f"{where} 3: 'tokens_in' is to be a whole number from 0, found 1.5",
        f"{where} 3: 'price' is to be a number of dollars, found -1",
        "recording 'demo.yaml': run 2: 'step' is to be the key of a step or a pattern, found ''",
        "recording 'demo.yaml': run 2: 'turns' is to be a list of at least one turn, found list",
        "recording 'demo.yaml': run 3 (step 'b'): 'run' is the number of a run, from 1, found 0",
        "recording 'demo.yaml': run 3 (step 'b'): turn 1: it is the last one and calls tools; "
        "add a turn without tools that ends the run",
    ]
    assert f"{where} 2: tool 1: no tool 'fly'" in "\n".join(found)


def test_the_witness_is_not_handed_to_the_tools(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGTASK_WITNESS", "somewhere")
    book = Book()
    play(book, tmp_path, tools({"tool": "shell", "command": "echo [$LONGTASK_WITNESS]"}), LAST)
    assert "[]" in book.shown and os.environ["LONGTASK_WITNESS"]


def test_a_runtime_that_is_not_known_names_what_there_is():
    assert runtime("recorded").name == "recorded"
    assert type(runtime("longtask.agents.recorded:Recorded")) is recorded.Recorded
    with pytest.raises(BadPlan, match=r"agent runtime 'nobody': no such runtime; there is 'recorded'"):
        runtime("nobody")
    with pytest.raises(BadPlan, match="cannot be imported"):
        runtime("no.such:Thing")


def test_a_runtime_whose_library_is_not_installed_says_what_installs_it(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("longtask.agents.builtin")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(BadPlan, match=r"this worker needs `pip install 'longtask\[builtin\]'`"):
        runtime("builtin")


def test_a_call_that_the_plan_denies_is_not_made(tmp_path):
    book, policy = Book(), Policy(deny=("shell(rm*)",))
    denied = tools({"tool": "shell", "command": "touch a && rm -f b", "fails": True})
    assert play(book, tmp_path, denied, LAST, policy=policy) == Done(result={})
    assert not (tmp_path / "a").exists() and "does not allow this call" in book.shown


def test_a_call_that_is_asked_about_waits_for_its_decision(tmp_path):
    book, policy = Book(), Policy(ask=("write",))
    turns = tools({"tool": "write", "path": "a", "content": "x"}), LAST
    with pytest.raises(Asks) as asked:
        play(book, tmp_path, *turns, policy=policy)
    assert asked.value.question["text"] == "May the agent do this? write a" and not (tmp_path / "a").exists()
    cause = {"decision": "approve", "by": "ann", "bound": asked.value.question["bound"]}
    assert play(book, tmp_path, *turns, policy=policy, cause=cause) == Done(result={})
    assert (tmp_path / "a").read_text() == "x"
