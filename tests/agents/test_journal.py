"""The two seams: what has finished is answered from its row, what has not is done again, what must not be is asked."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from longtask.agents.journal import Answer, Asks, Diverged, Halted, OutcomeUnknown, Seams, resume_tree
from longtask.agents.witness import Count, Witness, count
from longtask.core.model import JsonMap
from tests.agents.line import Book, Died


def seams(book: Book, witness: Path | None = None) -> Seams:
    return Seams(book.journal(), book, Witness("core", 1, None if witness is None else str(witness)))


def acting(log: list[str], name: str = "acted") -> Callable[[], Answer]:
    def call() -> Answer:
        log.append(name)
        return Answer({"said": name}, tokens_in=7, tokens_out=3, micros=None)

    return call


def three_calls(s: Seams, log: list[str]) -> list[object]:
    return [
        s.told("do it"),
        s.model("m", {"ask": 1}, acting(log, "turn")),
        s.tool("edit", {"path": "a"}, acting(log, "edit"), repeatable=True, writes=True),
        s.model("m", {"ask": 2}, acting(log, "last")),
    ]


def test_a_replay_answers_from_the_rows_and_calls_nothing():
    book, log = Book(), list[str]()
    first = three_calls(seams(book), log)
    again = three_calls(seams(book), log)
    assert first == again == ["do it", {"said": "turn"}, {"said": "edit"}, {"said": "last"}]
    assert log == ["turn", "edit", "last"]


def test_an_answer_is_hidden_before_the_run_reads_it():
    book = Book()
    s = Seams([], book, Witness("core", 1, None), lambda body: dict.fromkeys(body, "***"))
    assert s.model("m", {}, acting([])) == {"said": "***"}
    assert book.journal()[-1]["body"] == {"said": "***"}


def test_usage_stands_in_the_row_and_is_not_sent_again():
    book = Book()
    three_calls(seams(book), [])
    assert [(row["kind"], row["tokens_in"], row["micros"]) for row in book.journal()] == [
        ("told", 0, 0), ("turn", 7, None), ("tool", 7, None), ("turn", 7, None),
    ]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("frame", "when"), [("started", "before"), ("started", "after"), ("done", "before"), ("done", "after")]
)
def test_killed_at_any_point_no_finished_call_is_made_again(n, frame, when, tmp_path):
    book, log, witness = Book(), list[str](), tmp_path / "witness"
    book.die_at = (f"journal.{frame}", n, when)
    with pytest.raises(Died):
        three_calls(seams(book, witness), log)
    assert three_calls(seams(book, witness), log)[-1] == {"said": "last"}
    name = ["told", "turn", "edit", "last"][n - 1]
    lost_its_row = (frame, when) == ("done", "before") and n > 1
    assert sorted(log) == sorted(["turn", "edit", "last", *([name] if lost_its_row else [])])
    seen = count(map(json.loads, witness.read_text().splitlines()))
    assert seen == Count(executed=len(log), distinct=3, repeated=0)


def test_another_request_at_the_same_number_is_a_divergence_and_never_reused():
    book = Book()
    three_calls(seams(book), [])
    s = seams(book)
    s.told("do it")
    with pytest.raises(
        Diverged, match=r"call 2: its journal has turn 'm' with another request, asked was turn 'm'; .*anew"
    ):
        s.model("m", {"ask": "else"}, lambda: Answer({}))
    with pytest.raises(Diverged, match="its journal has turn 'm', asked was tool 'edit'"):
        s.tool("edit", {}, lambda: Answer({}), repeatable=True, writes=True)


def test_a_begun_tool_that_is_not_repeatable_is_unknown_and_named():
    book, log = Book(), list[str]()
    book.die_at = ("journal.done", 1, "before")
    with pytest.raises(Died):
        seams(book).tool("shell", {"command": "pay"}, lambda: Answer({}), repeatable=False, writes=True)
    with pytest.raises(OutcomeUnknown, match="outcome unknown: tool 'shell' was begun as call 1"):
        seams(book).tool("shell", {"command": "pay"}, acting(log), repeatable=False, writes=True)
    assert log == []


def test_a_tool_does_not_start_when_the_worker_says_no():
    book, log = Book(), list[str]()
    book.refuse = "pause"
    with pytest.raises(Halted):
        seams(book).tool("write", {}, acting(log), repeatable=True, writes=True)
    assert log == []


def test_what_was_told_is_replayed_though_it_is_worded_otherwise_today():
    book = Book()
    assert seams(book).told("first wording") == "first wording"
    assert seams(book).told("second wording") == "first wording"


def test_what_was_begun_to_be_told_may_change_or_be_gone():
    for text, heard in (("new", "new"), (None, "go on")):
        book = Book()
        book.die_at = ("journal.done", 1, "before")
        with pytest.raises(Died):
            seams(book).told("old")
        assert seams(book).told(text) == heard


def test_the_tree_in_a_row_is_not_part_of_its_answer():
    book = Book()
    three_calls(seams(book), [])
    book.rows[3]["body"]["tree"] = "t3"
    assert three_calls(seams(book), [])[2] == {"said": "edit"}


def test_a_run_goes_on_from_the_newest_tree_that_its_finished_calls_have_left():
    def row(n: int, tree: str | None) -> dict[str, object]:
        return {"n": n, "body": None if tree is None else {"tree": tree} if tree else {}}

    assert resume_tree([], None) is None
    assert resume_tree([row(1, "")], (0, None)) is None
    assert resume_tree([row(1, "a"), row(2, ""), row(3, None)], (1, "a")) == "a"
    assert resume_tree([row(1, "a"), row(2, "b")], (1, "a")) == "b"  # killed before the checkpoint's row
    assert resume_tree([row(1, "a"), row(2, "b")], None) == "b"
    assert resume_tree([row(1, "a"), row(2, "")], (2, "parked")) == "parked"


def test_a_witness_tells_a_repeat_from_a_call_that_had_not_finished():
    def line(run: int, n: int, kind: str = "tool") -> dict[str, object]:
        return {"step": "core", "run": run, "n": n, "kind": kind}

    assert count([line(1, 1), line(1, 2), line(1, 2), line(2, 1)]) == Count(4, 3, 0)
    assert count([line(1, 1), line(1, 2), line(1, 1)]) == Count(3, 2, 1)
    assert count([line(1, 1), line(1, 2, "end"), line(1, 1)]) == Count(2, 1, 1)


PUSH = {"command": "git push"}


def asking(book: Book, cause: JsonMap | None = None) -> JsonMap:
    s = Seams(book.journal(), book, Witness("core", 1, None), cause=cause)
    s.told("do it")
    return s.ask("shell", PUSH, "may it push?")


def decision(question: JsonMap, **more: object) -> JsonMap:
    return {"decision": "approve", "by": "ann", "text": "", "bound": question["bound"], "ask": 1, "at": 5, **more}


def test_a_run_parks_on_a_question_and_goes_on_with_its_decision():
    book = Book()
    with pytest.raises(Asks) as asked:
        asking(book)
    question = asked.value.question
    assert question["show"] == {"call": {"name": "shell", **PUSH}} and question["text"] == "may it push?"
    decided = asking(book, decision(question, edited={"command": "git push -n"}))
    assert decided == {"decision": "approve", "by": "ann", "text": "", "edited": {"command": "git push -n"}}
    assert asking(book) == decided, "a replay, woken by something else, finds it in its row"


def test_a_decision_counts_for_the_call_that_was_asked_about_only():
    book = Book()
    with pytest.raises(Asks) as asked:
        asking(book)
    s = Seams(book.journal(), book, Witness("core", 1, None), cause=decision(asked.value.question))
    s.told("do it")
    with pytest.raises(Diverged):
        s.ask("shell", {"command": "git push --force"}, "may it push?")
    s = Seams(book.journal(), book, Witness("core", 1, None), cause=decision(asked.value.question))
    s.told("do it")
    s.ask("shell", PUSH, "may it push?")
    with pytest.raises(Asks):
        s.ask("shell", PUSH, "may it push?")  # the same words a second time are another call


def test_a_run_that_was_killed_before_it_took_the_decision_takes_it_once():
    book = Book()
    with pytest.raises(Asks) as asked:
        asking(book)
    book.die_at = ("journal.done", 2, "before")
    with pytest.raises(Died):
        asking(book, decision(asked.value.question))
    assert asking(book, decision(asked.value.question))["decision"] == "approve"


def test_what_an_agent_tells_of_itself_is_passed_over_by_the_run_that_goes_on():
    book, log = Book(), list[str]()
    s = seams(book)
    s.tool("session", {}, lambda: Answer({"session": "s1"}), repeatable=True, writes=False)
    s.saw("turn", "m", Answer({"text": "hello"}, 7, 3, None), writes=False)
    s.saw("tool", "shell", Answer({"text": "ok"}), writes=True)
    again = seams(book)
    assert [row["kind"] for row in again.pass_over()] == ["tool", "turn", "tool"]
    again.saw("turn", "m", Answer({"text": "done"}), writes=False)
    assert sorted(book.rows) == [1, 2, 3, 4] and not log
