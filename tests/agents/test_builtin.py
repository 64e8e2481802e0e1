"""The runtime `builtin` against a scripted model on loopback: its two seams, its rules, how its runs end."""

import json
import os
import re
import sys
import threading
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from longtask.agents.builtin import Builtin
from longtask.agents.contract import AgentOutcome, Brief
from longtask.agents.journal import Asks, Halted, OutcomeUnknown, Seams
from longtask.agents.policy import Policy
from longtask.agents.witness import VARIABLE, Witness, count
from longtask.core.errors import BadPlan
from longtask.core.model import Done, Failed, Parked, WaitingFor
from longtask.modelserver.server import ModelServer
from tests.agents import tickets_mcp
from tests.agents.line import Book, Died

MODELS = ("anthropic:claude-sonnet-4-6", "openai:gpt-5", "openai-chat:gpt-5")
EDITS: list[dict[str, Any]] = [
    {"text": "First I look.", "calls": [{"read": "a.py"}]},
    {
        "calls": [{"edit": {"path": "a.py", "old": "six", "new": "io"}}, {"shell": "echo one >> log.txt; cat a.py"}],
        "usage": {"tokens_in": 1000, "tokens_out": 50, "tokens_cached": 900},
    },
    {"text": "All done.", "output": {"files": ["a.py"]}},
]
OUTPUTS = {"files": "list"}
CALLS = [
    "told", "told", "turn", "tool read", "turn", "tool edit", "tool shell", "turn",
]  # fmt: skip


@dataclass
class Story:
    """Attempts of one run; its journal and its files outlive each."""

    models: ModelServer
    folder: Path
    book: Book = field(default_factory=Book)
    attempts: int = 0

    @property
    def place(self) -> Path:
        return self.folder / "place"

    def attempt(self, **more: Any) -> AgentOutcome:
        """Raises what ends an attempt without an outcome."""
        self.attempts += 1
        brief = Brief(
            **{
                "step": "core",
                "run": 1,
                "attempt": self.attempts,
                "prompt": "Do it.",
                "cwd": self.place,
                "outputs": OUTPUTS,
                "model": MODELS[0],
                **more,
            }
        )
        witness = Witness("core", 1, str(self.folder / "witness"))
        return Builtin().run(brief, Seams(self.book.journal(), self.book, witness, cause=brief.cause), self.book)

    def script(self, *turns: dict[str, Any]) -> None:
        self.models.load("default", {"turns": list(turns)})

    @property
    def calls(self) -> list[str]:
        return [f"{row['kind']} {row['name'] if row['kind'] == 'tool' else ''}".strip() for row in self.book.journal()]

    @property
    def requests(self) -> int:
        return len(self.models.requests())

    def asked(self, n: int = -1) -> str:
        """The body of a request, as text."""
        return json.dumps(self.models.requests()[n].body, ensure_ascii=False)

    def witnessed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "witness").read_text().splitlines()]

    def result(self, tool: str) -> str:
        """The text of its last row."""
        return [row["body"]["text"] for row in self.book.journal() if row["name"] == tool and row["body"]][-1]


@pytest.fixture
def story(tmp_path: Path, models: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Story:
    for name, value in models.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "witness"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "a.py").write_text("import six\n")
    made = Story(models, tmp_path)
    made.script(*EDITS)
    return made


@pytest.mark.parametrize("model", MODELS)
def test_it_looks_edits_runs_and_hands_over(story, model):
    assert story.attempt(model=model) == Done({"files": ["a.py"]})
    assert story.calls == CALLS and story.requests == 3
    assert (story.place / "a.py").read_text() == "import io\n"
    assert story.book.shown.startswith("» First I look.\nread a.py\nedit a.py\n$ echo one")
    turns = [row for row in story.book.journal() if row["kind"] == "turn"]
    assert [(turn["tokens_in"], turn["tokens_out"]) for turn in turns] == [(100, 20), (1000, 50), (100, 20)]
    assert turns[1]["body"]["usage"] == {"cache_read": 900}
    assert all(0 < turn["micros"] < 100_000 for turn in turns)


def test_a_run_without_outputs_ends_with_the_last_word(story):
    story.script({"calls": [{"read": "a.py"}]}, {"text": "All done."})
    assert story.attempt(outputs={}) == Done({})
    assert story.book.shown.endswith("» All done.\n")


def test_a_model_without_a_known_price_costs_an_unknown_sum(story):
    story.script({"text": "Done."})
    assert story.attempt(model="openai-chat:local-model", outputs={}) == Done({})
    assert [row["micros"] for row in story.book.journal() if row["kind"] == "turn"] == [None]


@pytest.mark.parametrize("model", MODELS)
def test_dead_at_any_point_it_goes_on_and_repeats_nothing_that_had_finished(story, model):
    points = [
        (frame, n, when)
        for n in range(1, len(CALLS) + 1)
        for frame in ("journal.started", "journal.done")
        for when in ("before", "after")
        if model == MODELS[0] or (frame, when) == ("journal.done", "before")  # where a call has to be made again
    ]
    for point in points:
        story.book.die_at = point
        with pytest.raises(Died):
            story.attempt(model=model)
    assert story.attempt(model=model) == Done({"files": ["a.py"]})
    assert story.calls == CALLS
    assert count(story.witnessed()).repeated == 0
    # A turn or a tool was done again only where its row had not been written when the run died.
    again = {n: sum(line["n"] == n for line in story.witnessed()) for n in range(3, 9)}
    assert again == dict.fromkeys(range(3, 9), 2) and story.requests == 6


def test_a_finished_run_replays_without_a_request(story):
    story.attempt()
    assert story.attempt() == Done({"files": ["a.py"]})
    assert story.requests == 3 and (story.place / "log.txt").read_text() == "one\n"


def test_what_the_worker_refuses_ends_it_at_once(story):
    story.book.refuse = "pause"
    with pytest.raises(Halted):
        story.attempt()
    assert story.requests == 0


def test_outputs_that_do_not_fit_are_told_and_asked_again(story):
    story.script({"output": {"files": "a.py"}}, {"text": "Sorry.", "output": {"files": ["a.py"]}})
    assert story.attempt() == Done({"files": ["a.py"]})
    assert "'files' is to be a list, found str" in story.asked()


def test_a_model_that_never_hands_over_what_is_wanted_has_failed(story):
    story.script(*[{"output": {"file": n}} for n in range(9)])
    outcome = story.attempt()
    assert isinstance(outcome, Failed) and outcome.retryable
    assert 2 <= story.requests <= 5


def test_a_request_budget_ends_a_run_that_goes_in_circles(story):
    story.script(*[{"calls": [{"read": "a.py"}]}] * 9)
    outcome = story.attempt(requests_max=4)
    assert outcome == Failed("request budget: 4 model calls were made and the run has not ended")
    assert story.requests == 4


def test_a_tool_that_fails_is_told_to_the_model(story):
    story.script({"calls": [{"read": "b.py"}, {"shell": "exit 3"}]}, {"text": "Well."})
    assert story.attempt(outputs={}) == Done({})
    assert "'b.py': no such file or directory" in story.asked() and "(exit code 3)" in story.asked()


def test_a_call_of_no_tool_and_one_without_sense_are_told_to_the_model(story):
    story.script(
        {"calls": [{"tool": "fly", "args": {}}]},
        {"calls": [{"tool": "read", "args": {"path": 7, "colour": "red"}}]},
        {"text": "Well."},
    )
    assert story.attempt(outputs={}) == Done({})
    assert "fly" in story.asked(1) and "'path' is to be string" in story.asked(2)


# what is told


def test_what_has_come_meanwhile_is_told_once_and_replayed_where_it_was(story):
    story.book.die_at = ("journal.started", 6, "before")
    with pytest.raises(Died):
        story.attempt()
    news = "anna says:\n> use io"
    story.book.die_at = ("journal.done", 9, "after")
    with pytest.raises(Died):
        story.attempt(news=news)
    assert story.attempt(news=news) == Done({"files": ["a.py"]})
    assert story.calls == [*CALLS[:7], "told", "turn"]
    assert story.asked().count("use io") == 1


def test_news_that_finds_a_turn_begun_is_told_after_it(story):
    story.book.die_at = ("journal.started", 5, "after")
    with pytest.raises(Died):
        story.attempt()
    assert story.attempt(news="anna says: use io") == Done({"files": ["a.py"]})
    assert story.calls == [*CALLS[:7], "told", "turn"]


# rules and people


def parked(story: Story, **more: Any) -> dict[str, Any]:
    """The question that an attempt ends with."""
    with pytest.raises(Asks) as asks:
        story.attempt(**more)
    return dict(asks.value.question)


def answered(question: dict[str, Any], decision: str, text: str = "", **more: Any) -> dict[str, Any]:
    cause = {"decision": decision, "by": "anna", "text": text, "bound": question["bound"], **more}
    return {"cause": cause, "news": f"anna answered: {decision}:\n> {text}" if text else None}


ASK = {"policy": Policy(ask=("shell(git push*)",)), "outputs": {}}
PUSH = ({"calls": [{"shell": "echo pushed >> log.txt && git push || true"}]}, {"text": "Done."})


@pytest.fixture
def pushing(story: Story) -> Story:
    story.script(*PUSH)
    return story


def test_a_call_that_is_asked_about_waits_and_goes_on_when_it_is_approved(pushing):
    question = parked(pushing, **ASK)
    assert question["text"].startswith("May the agent do this? $ echo pushed") and question["kind"] == "approval"
    assert question["show"]["call"]["args"]["command"].startswith("echo pushed")
    assert not (pushing.place / "log.txt").exists()
    assert pushing.attempt(**ASK, **answered(question, "approve")) == Done({})
    assert (pushing.place / "log.txt").read_text() == "pushed\n"
    assert pushing.calls == ["told", "told", "turn", "asked", "tool shell", "turn"]
    assert pushing.requests == 2


def test_as_long_as_nobody_has_decided_it_waits_and_nothing_is_asked_anew(pushing):
    first = parked(pushing, **ASK)
    assert parked(pushing, **ASK) == first and pushing.requests == 1


def test_a_refusal_is_told_with_its_words_and_only_once(pushing):
    question = parked(pushing, **ASK)
    assert pushing.attempt(**ASK, **answered(question, "reject", "not on a Friday")) == Done({})
    assert not (pushing.place / "log.txt").exists()
    assert pushing.asked().count("not on a Friday") == 1 and "anna refused this call" in pushing.asked()


@pytest.mark.parametrize("edited", [{"command": "echo edited >> log.txt"}, "echo edited >> log.txt"])
def test_a_changed_call_is_made_as_changed_and_the_model_is_told(pushing, edited):
    question = parked(pushing, **ASK)
    assert pushing.attempt(**ASK, **answered(question, "edit", edited=edited)) == Done({})
    assert (pushing.place / "log.txt").read_text() == "edited\n"
    assert "anna changed this call to" in pushing.asked()


def test_a_persons_own_answer_is_the_result(pushing):
    question = parked(pushing, **ASK)
    assert pushing.attempt(**ASK, **answered(question, "respond", "I have pushed it myself")) == Done({})
    assert not (pushing.place / "log.txt").exists() and "I have pushed it myself" in pushing.asked()


def test_a_decision_counts_for_its_call_only(story):
    story.script({"calls": [{"shell": "git push one"}, {"shell": "git push two"}]}, {"text": "Done."})
    first = parked(story, **ASK)
    second = parked(story, **ASK, **answered(first, "reject", "no"))
    assert second["bound"] != first["bound"] and "git push two" in second["text"]
    assert story.attempt(**ASK, **answered(second, "reject", "no again")) == Done({})
    assert story.requests == 2


def test_killed_after_the_decision_was_written_down_it_is_not_asked_again(pushing):
    question = parked(pushing, **ASK)
    pushing.book.die_at = ("journal.done", 5, "before")
    with pytest.raises(Died):
        pushing.attempt(**ASK, **answered(question, "approve"))
    assert pushing.attempt(**ASK) == Done({})


def test_a_denied_call_is_not_made_and_the_model_is_told(story):
    rules = Policy(deny=("write", "shell(rm *)"))
    story.script({"calls": [{"shell": "cd . && rm a.py"}]}, {"text": "Done."})
    assert story.attempt(policy=rules, outputs={}) == Done({})
    assert (story.place / "a.py").exists() and "the plan does not allow this call" in story.asked()
    offered = set(story.models.requests()[0].asked.tools)
    assert {"read", "edit", "shell", "ask_person"} <= offered and not {"write", "delete"} & offered


def test_only_the_tools_of_the_plan_are_offered_and_what_comes_with_them(story):
    story.script({"text": "Done."})
    assert story.attempt(policy=Policy(tools=("read", "search")), outputs={}) == Done({})
    offered = set(story.models.requests()[0].asked.tools)
    assert offered == {"read", "list", "skill", "search", "find", "ask_person"}


def test_a_question_to_a_person_waits_for_the_answer(story):
    story.script(
        {"calls": [{"tool": "ask_person", "args": {"question": "Which database?"}}]},
        {"text": "Done."},
    )
    question = parked(story, outputs={})
    assert question["text"] == "Which database?"
    assert story.attempt(outputs={}, **answered(question, "respond", "PostgreSQL")) == Done({})
    assert "anna: PostgreSQL" in story.asked() and story.requests == 2


# keys


def test_no_tool_sees_a_key_of_a_model(story):
    story.script({"calls": [{"shell": "env"}]}, {"text": "Done."})
    assert story.attempt(outputs={}) == Done({})
    assert "API_KEY" not in story.result("shell") and "PATH=" in story.result("shell")


def test_a_shell_is_put_into_the_sandbox_of_its_step(story):
    story.script({"calls": [{"shell": "echo it is $WHERE"}]}, {"text": "Done."})
    assert story.attempt(outputs={}, inside=("/usr/bin/env", "WHERE=inside")) == Done({})
    assert "it is inside" in story.result("shell")


@pytest.mark.parametrize(
    ("model", "missing", "says"),
    [
        (None, None, "which model? say `model:`"),
        ("gpt-5", None, "Unknown model: gpt-5"),
        ("nobody:gpt-5", None, "Unknown model: nobody:gpt-5"),
        ("anthropic:claude-sonnet-4-6", "ANTHROPIC_API_KEY", "its worker has no ANTHROPIC_API_KEY; set it where"),
    ],
)
def test_a_model_or_a_key_that_is_missing_is_told_before_anything_is_asked(story, monkeypatch, model, missing, says):
    if missing:
        monkeypatch.delenv(missing)
    with pytest.raises(BadPlan, match=re.escape(says)):
        story.attempt(model=model)
    assert story.requests == 0 and story.calls == []


@pytest.mark.parametrize("options", [{"colour": "red"}, {"tries": 0}, {"settings": 1}, {"mcp": "all"}])
def test_an_option_that_is_none_is_told(story, options):
    with pytest.raises(BadPlan, match="agent runtime 'builtin'"):
        story.attempt(options=options)


# what goes wrong on the wire


def test_a_limit_that_ends_soon_is_waited_for(story):
    story.script({**EDITS[0], "faults": [{"status": 429, "retry_after": "1s"}]}, *EDITS[1:])
    assert story.attempt() == Done({"files": ["a.py"]})
    assert story.requests == 4


@pytest.mark.parametrize("model", MODELS)
def test_a_limit_that_ends_later_parks_the_step_until_then(story, model):
    story.script({**EDITS[0], "faults": [{"status": 429, "resets_in": "2h", "message": "You are at your limit"}]})
    outcome = story.attempt(model=model)
    assert isinstance(outcome, Parked) and outcome.waiting_for is WaitingFor.TIMER, outcome
    assert outcome.question["text"] == "usage limit: 429: You are at your limit"
    in_s = outcome.due_at / 1000 - os.stat(story.folder / "place").st_ctime
    assert 7190 < in_s < 7200 + 120
    story.script(*EDITS)
    assert story.attempt(model=model) == Done({"files": ["a.py"]})
    assert story.calls == CALLS


@pytest.mark.parametrize("fault", [{"status": 529}, {"status": 503}, {"cut": 3}, {"malformed": 2}])
@pytest.mark.parametrize("model", MODELS)
def test_what_goes_wrong_for_a_while_is_asked_again_within_the_turn(story, model, fault):
    story.script({**EDITS[0], "faults": [fault]}, *EDITS[1:])
    assert story.attempt(model=model) == Done({"files": ["a.py"]})
    assert story.calls == CALLS and story.requests == 4


def test_what_stays_wrong_fails_the_attempt_and_may_be_tried_again(story):
    story.script({**EDITS[0], "faults": [{"status": 529, "times": "always", "message": "Overloaded"}]})
    outcome = story.attempt(options={"tries": 2})
    assert outcome == Failed("model 'anthropic:claude-sonnet-4-6': 529: Overloaded (2 times)")
    assert story.requests == 2


@pytest.mark.parametrize(
    ("status", "says"),
    [(400, "look at the model's settings"), (401, "look at the key"), (404, "look at the model's name")],
)
def test_what_would_be_refused_again_is_not_asked_again(story, status, says):
    story.script({**EDITS[0], "faults": [{"status": status, "times": "always", "message": "No."}]})
    outcome = story.attempt()
    assert isinstance(outcome, Failed) and not outcome.retryable
    assert f"{status}: No." in outcome.reason and says in outcome.reason and story.requests == 1


def test_a_talk_that_is_too_long_goes_on_without_old_results_and_replays(story):
    (story.place / "big.txt").write_text("word " * 2_000)
    too_long = {"status": 400, "message": "prompt is too long: 210000 tokens > 200000 maximum"}
    script: list[dict[str, Any]] = [
        *[{"calls": [{"read": "big.txt"}]}] * 4,
        {"text": "Done.", "faults": [too_long]},
    ]
    story.script(*script)
    story.book.die_at = ("journal.started", 12, "before")
    with pytest.raises(Died):
        story.attempt(outputs={})
    assert story.attempt(outputs={}) == Done({})
    assert story.calls[-2:] == ["turn", "turn"] and story.requests == 6
    assert story.asked(4).count("word word") > story.asked().count("word word")
    assert "(left out: the talk had become too long" in story.asked()


def test_a_last_word_that_was_cut_is_not_the_end(story):
    story.script({"text": "It is", "stop": "length"}, {"text": "Done."})
    assert story.attempt(outputs={}) == Done({})
    assert "your answer was cut" in story.asked()


# memory, skills, search


def test_the_repositorys_memory_is_told_at_the_start_and_where_it_is_touched(story):
    (story.place / "AGENTS.md").write_text("Use tabs.\n")
    (story.place / "src" / "deep").mkdir(parents=True)
    (story.place / "src" / "AGENTS.md").write_text("In here use spaces.\n")
    (story.place / "src" / "deep" / "b.py").write_text("x = 1\n")
    story.script({"calls": [{"read": "src/deep/b.py"}, {"read": "src/deep/b.py"}]}, {"text": "Done."})
    story.book.die_at = ("journal.started", 5, "before")
    with pytest.raises(Died):
        story.attempt(outputs={})
    assert story.attempt(outputs={}) == Done({})
    assert "Use tabs." in story.asked(0) and "use spaces" not in story.asked(0)
    assert story.asked().count("In here use spaces.") == 1


def test_skills_are_listed_and_read_when_they_are_wanted(story):
    folder = story.place / ".agents" / "skills" / "release"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: release\ndescription: >\n  How a release\n  is made.\n---\nTag it.\n")
    (folder / "notes.txt").write_text("x")
    story.script({"calls": [{"tool": "skill", "args": {"name": "release"}}]}, {"text": "Done."})
    assert story.attempt(outputs={}) == Done({})
    assert "- release: How a release is made." in story.asked(0) and "Tag it." not in story.asked(0)
    assert "Tag it." in story.result("skill") and ".agents/skills/release/notes.txt" in story.result("skill")


def test_full_text_search_finds_what_the_code_is_about(story):
    (story.place / "dates.py").write_text("def parseTimeZone(text):\n    return text\n")
    story.script(
        {"calls": [{"tool": "find", "args": {"query": "time zone"}}]},
        {"calls": [{"write": {"path": "more.py", "content": "# the time zone of a date\n"}}]},
        {"calls": [{"tool": "find", "args": {"query": "time zone"}}]},
        {"text": "Done."},
    )
    assert story.attempt(outputs={}) == Done({})
    found = [row["body"]["text"] for row in story.book.journal() if row["name"] == "find"]
    assert found[0] == "dates.py:1\n1\tdef parseTimeZone(text):\n2\t    return text"
    assert "more.py:1" in found[1] and "dates.py:1" in found[1]


# MCP servers


def with_server(story: Story, **entry: Any) -> dict[str, Any]:
    """The options of a plan that names a server of the repository's file."""
    script = str(Path(__file__).with_name("tickets_mcp.py"))
    served = {"command": sys.executable, "args": [script], "env": {"TICKETS_TOKEN": "${TICKETS:-none}"}, **entry}
    told = {name: value for name, value in served.items() if value is not None}
    (story.place / ".mcp.json").write_text(json.dumps({"mcpServers": {"tickets": told}}))
    return {"options": {"mcp": ["tickets"]}, "outputs": {}}


def test_a_server_that_the_plan_names_gives_its_tools_and_sees_no_key(story):
    story.script({"calls": [{"tool": "mcp__tickets__close", "args": {"number": 7}}]}, {"text": "Done."})
    assert story.attempt(**with_server(story)) == Done({})
    assert (story.place / "closed.txt").read_text() == "7\n"
    assert story.result("mcp.tickets.close") == "closed; sees ['TICKETS_TOKEN']"
    assert story.calls == ["told", "told", "tool mcp.tickets", "turn", "tool mcp.tickets.close", "turn"]
    assert [row["n"] for row in story.book.journal() if row.get("changed")] == [5]


def test_a_server_over_http_is_sent_its_headers(story, monkeypatch):
    monkeypatch.chdir(story.place)
    monkeypatch.setenv("TICKETS", "sesame")
    with ThreadingHTTPServer(("127.0.0.1", 0), tickets_mcp.Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        more = with_server(story, command=None, url=url, headers={"Authorization": "Bearer ${TICKETS}"})
        story.script({"calls": [{"tool": "mcp__tickets__close", "args": {"number": 7}}]}, {"text": "Done."})
        assert story.attempt(**more) == Done({})
        server.shutdown()
    assert (story.place / "closed.txt").read_text() == "7\n"
    assert set(tickets_mcp.Handler.seen) == {"Bearer sesame"}


def test_a_server_that_the_plan_does_not_name_is_not_started(story):
    with_server(story, command="/bin/false")
    story.script({"text": "Done."})
    assert story.attempt(outputs={}) == Done({})
    assert not [name for name in story.models.requests()[0].asked.tools if name.startswith("mcp")]


def test_rules_hold_for_the_tools_of_servers(story):
    story.script({"calls": [{"tool": "mcp__tickets__close", "args": {"number": 7}}]}, {"text": "Done."})
    question = parked(story, policy=Policy(ask=("mcp.*",)), **with_server(story))
    assert question["show"]["call"] == {"name": "mcp.tickets.close", "args": {"number": 7}}


def test_a_servers_tool_that_was_begun_is_never_called_again(story):
    story.script({"calls": [{"tool": "mcp__tickets__close", "args": {"number": 7}}]}, {"text": "Done."})
    story.book.die_at = ("journal.done", 5, "before")
    with pytest.raises(Died):
        story.attempt(**with_server(story))
    with pytest.raises(OutcomeUnknown, match=re.escape("tool 'mcp.tickets.close' was begun as call 5")):
        story.attempt(**with_server(story))
    assert (story.place / "closed.txt").read_text() == "7\n"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"command": "/nowhere/tickets"}, "MCP server 'tickets' does not start"),
        ({"command": None}, "has neither a `command` nor a `url`"),
        ({"args": ["${NOT_THERE}"]}, ".mcp.json names ${NOT_THERE}"),
    ],
)
def test_a_server_that_cannot_be_had_fails_the_attempt_and_says_why(story, entry, says):
    outcome = story.attempt(**with_server(story, **entry))
    assert isinstance(outcome, Failed) and says in outcome.reason and story.requests == 0
