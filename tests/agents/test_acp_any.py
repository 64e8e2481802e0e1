"""Any agent by its command: what the protocol leaves open is taken as it comes; nothing is believed for its sound."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longtask.agents.acp import kept
from longtask.agents.acp.agents import Broken, News, Own, Spent
from longtask.agents.acp.aside import Aside
from longtask.agents.acp.outcome import failure
from longtask.agents.acp.servers import offered
from longtask.agents.acp.table import NAMED, agent_of
from longtask.agents.acp.updates import Ended, Over, Turn, Updates
from longtask.agents.catalog import NAMED_OF_ACP, named
from longtask.agents.contract import Brief
from longtask.agents.native.outputs import outputs_in
from longtask.core.errors import BadPlan
from longtask.core.model import Failed, Parked
from tests.agents import acp_agent
from tests.agents.site import Site, decided, site

NOW = 1_800_000_000_000


@pytest.fixture
def agent(tmp_path: Path) -> Callable[..., Site]:
    """A site whose agent plays these turns."""

    def make(*turns: dict[str, Any], script: dict[str, Any] | None = None, **more: Any) -> Site:
        path = tmp_path / "agent.json"
        path.write_text(json.dumps({**(script or {}), "turns": list(turns)}))
        command = [sys.executable, "-I", acp_agent.__file__, str(path)]
        more["body"] = {"options": {"command": command, **more.pop("options", {})}, **more.get("body", {})}
        return site(tmp_path, "acp", Path(sys.executable), {}, **more)

    return make


def prompts(run: Site) -> list[str]:
    lines = (run.folder / "agent.heard").read_text().splitlines()
    return [
        message["params"]["prompt"][0]["text"]
        for message in map(json.loads, lines)
        if message.get("method") == "session/prompt"
    ]


def test_a_run_of_any_agent(agent):
    run = agent(
        {"text": "I look.", "calls": ["cat hello.txt"], "asks": ["terminal/create"]},
        {"calls": ["echo made > made.txt"]},
        {"text": 'Here: {"n": 3}', "usage": {"inputTokens": 7, "outputTokens": 3}},
        outputs={"n": "integer"},
        body={"model": "large"},
    )
    outcome = run.attempt()
    assert (outcome["kind"], outcome.get("result")) == ("Done", {"n": 3}), outcome
    assert (run.folder / "machine 1" / "place" / "made.txt").exists()
    assert [step for step in run.seen if step != ("tool", "session")] == [
        ("told", ""), ("tool", "shell"), ("turn", "large"), ("tool", "shell"), ("turn", "large"), ("turn", "large"),
    ]  # fmt: skip
    assert sum(row["tokens_in"] for row in run.rows) == 7
    heard = (run.folder / "agent.heard").read_text()
    assert '"configId":"which","value":"large"' in heard and "terminal/create is not offered" in heard
    assert '"properties": {"n": {"type": "integer"}}' in prompts(run)[0]


def test_what_a_session_has_cost_is_told_as_a_sum_and_counted_once(agent):
    run = agent({"text": "Done.", "cost": 0.01}, {"text": '{"n": 1}', "cost": 0.03}, outputs={"n": "integer"})
    assert run.attempt()["kind"] == "Done"
    assert [row["micros"] for row in run.rows if row["kind"] == "turn"] == [10_000, 20_000]


def test_what_each_turn_has_used_is_counted_where_an_agent_tells_it_and_once(agent):
    run = agent(
        {"calls": ["true"], "used": {"inputTokens": 7, "outputTokens": 2}},
        {"text": "Done.", "used": {"inputTokens": 9, "outputTokens": 1}, "usage": {"inputTokens": 16}},
    )
    assert run.attempt()["kind"] == "Done"
    assert [(row["tokens_in"], row["tokens_out"]) for row in run.rows if row["kind"] == "turn"] == [(7, 2), (9, 1)]


def test_one_that_stops_when_a_call_is_refused_is_told_why_and_goes_on(agent):
    run = agent(
        {"text": "I make it.", "calls": ["touch made.txt"]},
        {"text": "Then not."},
        script={"stops_when_refused": True},
        body={"deny": ["shell(touch *)"]},
    )
    assert run.attempt()["kind"] == "Done"
    assert prompts(run)[1:] == ["The plan does not allow shell touch made.txt. Go on without."]
    assert not (run.folder / "machine 1" / "place" / "made.txt").exists()


@pytest.mark.parametrize("resume", [False, True], ids=["loads", "says_that_it_resumes"])
def test_a_session_that_is_loaded_does_not_tell_its_past_again(agent, resume):
    run = agent(
        {"text": "May I?", "calls": ["touch made.txt"]},
        {"text": "I make it.", "calls": ["touch made.txt"]},
        {"text": "Done."},
        script={"load": True, "resume": resume},
        body={"ask": ["shell"]},
    )
    parked = run.attempt()
    assert (parked["kind"], parked["waiting_for"]) == ("Parked", "user"), parked
    assert run.attempt(decided(parked, "approve"))["kind"] == "Done"
    assert (run.folder / "machine 2" / "place" / "made.txt").exists()
    assert prompts(run)[1].startswith("a person has allowed your call")
    assert "Said long ago." not in str([row["body"] for row in run.rows])


@pytest.mark.parametrize("script", [{}, {"load": True, "lost": True}], ids=["cannot", "loads_nothing"])
def test_one_that_cannot_load_its_session_is_told_that_it_begins_anew(agent, script):
    turns = [{"text": "May I?", "calls": ["touch made.txt"]}, {"text": "Then not."}]
    run = agent(*turns, script=script, body={"ask": ["shell"]})
    parked = run.attempt()
    assert run.attempt(decided(parked, "reject", text="not today"))["kind"] == "Done"
    assert prompts(run)[1].startswith("Do it.\n\nThis was begun before and cut off")
    assert prompts(run)[1].endswith("ann has refused this call: not today. It was not made.")


ENDS = [
    ({"turns": [{"text": ""}]}, True, "without a last word"),
    ({"turns": [{"text": "I will not.", "stop": "refusal"}]}, False, "refuses this work"),
    ({"turns": [{"text": "So lo", "stop": "max_tokens"}]}, True, "cut off at the limit"),
    ({"turns": [{"text": "…", "stop": "cancelled"}]}, True, "not by LongTask"),
    ({"turns": [{"error": {"code": -32603, "message": "Internal error: 401 Unauthorized"}}]}, False, "refused the key"),
    ({"turns": [{"error": {"code": -32603, "message": "fetch failed"}}]}, True, "did not answer"),
    ({"auth": True, "turns": []}, False, "refused the key"),
]


@pytest.mark.parametrize(("script", "retryable", "says"), ENDS, ids=lambda value: str(value)[:40])
def test_an_end_that_is_none_fails_the_attempt_with_a_word_of_what_to_do(agent, script, retryable, says):
    outcome = agent(*script.pop("turns"), script=script).attempt()
    assert (outcome["kind"], outcome.get("retryable")) == ("Failed", retryable), outcome
    assert says in outcome["reason"], outcome["reason"]


def test_a_turn_is_over_when_its_calls_have_ended_and_something_else_comes():
    def call(id: str, **more: Any) -> dict[str, Any]:
        return {"sessionUpdate": "tool_call_update", "toolCallId": id, **more}

    def words(text: str, **more: Any) -> dict[str, Any]:
        return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}

    updates = Updates()
    stream = [words("I l"), words("ook."), call("a", rawInput={"command": "ls"}), call("b")]
    assert [event for update in stream for event in updates.feed(update)] == []
    assert [type(event) for event in updates.feed(call("a", status="completed"))] == [Ended]
    assert updates.feed({"sessionUpdate": "agent_thought_chunk"}) == []
    updates.feed(call("b", status="failed"))
    (over,) = updates.feed(words("Done.", messageId="m1"))
    assert isinstance(over, Over)
    assert (over.turn.text, [call.id for call in over.turn.calls]) == ("I look.", ["a", "b"])
    (over,) = updates.feed(words("More.", messageId="m2"))
    assert over.turn.text == "Done." and updates.turn.text == "More."


def test_what_a_turn_has_cost_is_found_though_turns_without_words_have_no_name(tmp_path):
    class Telling(Own):
        tells_turns = True

        def news(self) -> list[News]:
            told, spent[:] = list(spent), []
            return told

    spent: list[News] = [Spent("m1", 1, 1, 1), Spent("", 2, 2, None), Spent("m2", 3, 3, 3, "length")]
    spent += [Spent("m3", 4, 4, 4)]
    aside = Aside(Telling(tmp_path, Brief("s", 1, 1, "Do it.", tmp_path), tmp_path))
    assert aside.spent_by(Turn()) == Spent("", 1, 1, 1)
    assert aside.spent_by(Turn()) == Spent("", 5, 5, 3, "length")
    assert aside.spent_by(Turn("m3")) == Spent("m3", 4, 4, 4)


@pytest.mark.parametrize(
    "broken",
    [
        Broken("slow down", 429, {"Retry-After": "7200"}),
        Broken("slow down", 429, {"anthropic-ratelimit-unified-reset": str(NOW // 1000 + 7200)}),
        Broken("slow down", 429, {}, json.dumps({"error": {"resets_at": NOW // 1000 + 7200}})),
        Broken("usage limit reached; try again in 2 hours"),
    ],
    ids=lambda broken: str(broken)[:40],
)
def test_a_limit_that_says_when_it_is_lifted_is_waited_for(broken):
    outcome = failure("agent", broken, NOW)
    assert isinstance(outcome, Parked) and 0 <= outcome.due_at - NOW - 7_200_000 < 61_000


def test_what_is_wrong_is_read_off_words_where_no_status_is_told():
    said = {"prompt is too long: 210000 tokens": True, "model: claude-x not found": False, "socket hang up": True}
    found = {text: failure("agent", Broken(text, 400 if "prompt" in text else 0), NOW) for text in said}
    assert {text: isinstance(end, Failed) and end.retryable for text, end in found.items()} == said


def test_a_database_is_kept_as_of_one_moment_while_it_is_written_to(tmp_path):
    database = tmp_path / "data" / "sessions.db"
    database.parent.mkdir()
    with sqlite3.connect(database) as writer:
        writer.execute("pragma journal_mode = wal")
        writer.execute("create table said (text)")
        writer.execute("insert into said values ('whole')")
        writer.commit()
        writer.execute("insert into said values ('half')")
        assert kept.keep(tmp_path, ["data/sessions.db", "data/none.db"]) == ["kept/data/sessions.db"]
    writer.close()
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kept" / "data").mkdir(parents=True)
    (tmp_path / "kept" / "data" / "sessions.db").rename(elsewhere / "kept" / "data" / "sessions.db")
    kept.put_back(elsewhere, ["data/sessions.db", "data/none.db"])
    reader = sqlite3.connect(elsewhere / "data" / "sessions.db")
    assert reader.execute("select text from said").fetchall() == [("whole",)]
    reader.close()


def test_servers_that_the_plan_names_are_handed_over_without_keys_of_models(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    tickets = {"command": "tickets-mcp", "args": ["--all"], "env": {"KEY": "${OPENAI_API_KEY:-none}"}}
    wiki = {"type": "http", "url": "https://wiki.invalid/mcp"}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"tickets": tickets, "wiki": wiki}}))
    env = [{"name": "KEY", "value": "none"}]
    told = {"name": "tickets", "command": "tickets-mcp", "args": ["--all"], "env": env}
    assert offered(["tickets"], tmp_path, {}) == [told]
    assert offered([], tmp_path, {}) == []
    with pytest.raises(BadPlan, match="'wiki' is reached by HTTP"):
        offered(["wiki"], tmp_path, {})
    with pytest.raises(BadPlan, match="'none' is not in"):
        offered(["none"], tmp_path, {})


def test_outputs_are_found_in_a_message_whatever_stands_around_them():
    assert outputs_in('Done.\n```json\n{"a": {"b": 1}}\n```') == {"a": {"b": 1}}
    assert outputs_in('Not {this}, but {"a": 1} and then {"a": 2}.') == {"a": 2}
    assert outputs_in("Done {.") is None


def test_a_plan_may_name_an_agent_in_either_way():
    assert tuple(NAMED) == NAMED_OF_ACP
    either = {"runtime": "acp", "options": {"agent": "opencode", "stall_s": 5}}
    assert named(either) == {"runtime": "opencode", "options": {"stall_s": 5}}
    assert named({"runtime": "acp", "options": {"agent": "goose"}})["runtime"] == "acp"
    assert agent_of("acp", {"agent": "goose"})[1].words == ("acp",)
    assert agent_of("acp", {"command": ["/opt/mine", "--acp"]})[0] == "mine"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "which agent"),
        ({"agent": "goos"}, "there is opencode, auggie"),
        ({"command": "goose acp"}, "is a list of words"),
        ({"agent": "goose", "retries": 3}, "option 'retries': there is 'agent', 'command', 'stall_s', 'mcp'"),
        ({"agent": "opencode", "retries": "many"}, "'retries' is a number"),
    ],
)
def test_options_that_are_none_are_told(options, says):
    with pytest.raises(BadPlan, match=says):
        agent_of("acp", options)
