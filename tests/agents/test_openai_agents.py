"""The runtime `openai-agents` against a scripted model on loopback: the user's own agents, at our two seams."""

import sys
from pathlib import Path
from typing import Any

import pytest

from longtask.agents.contract import library_version
from longtask.agents.journal import Asks, Diverged, Halted, OutcomeUnknown
from longtask.agents.policy import Policy
from longtask.agents.witness import VARIABLE, count
from longtask.core.errors import BadPlan
from longtask.core.model import Done, Failed, Parked, WaitingFor
from longtask.modelserver.server import ModelServer
from tests.agents import tickets_mcp
from tests.agents.line import Died
from tests.agents.story import Story

CODE = """
import asyncio
from pathlib import Path
from agents import Agent, Runner, SQLiteSession, function_tool, handoff, input_guardrail, GuardrailFunctionOutput
from agents import ToolOutputImage, WebSearchTool
from pydantic import BaseModel

LOG = Path("log.txt")


def note(word):
    with LOG.open("a") as file:
        file.write(word + "\\n")


@function_tool
def look(path: str) -> str:
    "Reads a file."
    note("look")
    return Path(path).read_text()


@function_tool
async def save(path: str, content: str = "") -> str:
    "Writes a file."
    await asyncio.sleep(0)
    note("save")
    Path(path).write_text(content)
    return "saved"


@function_tool(needs_approval=True)
def pay(sum: int) -> str:
    note(f"pay-{sum}")
    return f"paid {sum}"


class Found(BaseModel):
    files: list[str]


agent = Agent(name="desk", instructions="Be brief.", tools=[look, save, pay])
typed = Agent(name="desk", tools=[look], output_type=Found)


def made():
    return Agent(name="made", tools=[look, save, pay])
"""
WORK: list[dict[str, Any]] = [
    {"text": "First I look.", "calls": [{"tool": "look", "args": {"path": "a.py"}}]},
    {
        "calls": [
            {"tool": "save", "args": {"path": "b.py", "content": "import io"}},
            {"tool": "look", "args": {"path": "b.py"}},
        ],
        "usage": {"tokens_in": 1000, "tokens_out": 50, "tokens_cached": 900},
    },
    {"text": "All done.", "output": {"files": ["b.py"]}},
]
OUTPUTS = {"files": "list"}
CALLS = ["told", "tool import", "turn", "tool look", "turn", "tool save", "tool look", "turn"]
MODELS = ("openai:gpt-5", "openai-chat:gpt-5")


@pytest.fixture
def story(tmp_path: Path, models: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Story:
    for name, value in models.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "witness"))
    made = Story("openai-agents", models, tmp_path, CODE, {"agent": "mine:agent"})
    monkeypatch.chdir(made.place)
    (made.place / "a.py").write_text("import six\n")
    made.script(*WORK)
    return made


def options(**more: Any) -> dict[str, Any]:
    return {"options": {"agent": "mine:agent", **more}}


@pytest.mark.parametrize("model", MODELS)
def test_the_users_agent_works_and_hands_over(story, model):
    assert story.attempt(model=model, outputs=OUTPUTS) == Done({"files": ["b.py"]})
    assert story.calls == CALLS and story.requests == 3
    assert (story.place / "b.py").read_text() == "import io" and story.written() == ["look", "save", "look"]
    assert story.book.shown.startswith('» First I look.\nlook {"path": "a.py"}\nsave {"path": "b.py", ')
    turns = [row for row in story.book.journal() if row["kind"] == "turn"]
    assert [(turn["tokens_in"], turn["tokens_out"]) for turn in turns] == [(100, 20), (1000, 50), (100, 20)]
    assert turns[1]["body"]["usage"] == {"cache_read": 900}
    assert all(0 < turn["micros"] < 100_000 for turn in turns)
    assert not list(story.place.rglob("__pycache__"))


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
            story.attempt(model=model, outputs=OUTPUTS)
    assert story.attempt(model=model, outputs=OUTPUTS) == Done({"files": ["b.py"]})
    assert story.calls == CALLS
    assert count(story.witnessed()).repeated == 0
    again = {n: sum(line["n"] == n for line in story.witnessed()) for n in range(2, 9)}
    assert again == dict.fromkeys(range(2, 9), 2) and story.requests == 6


def test_a_finished_run_replays_without_a_request(story):
    story.attempt(model=MODELS[0], outputs=OUTPUTS)
    assert story.attempt(model=MODELS[0], outputs=OUTPUTS) == Done({"files": ["b.py"]})
    assert story.requests == 3 and story.written() == ["look", "save", "look"]


def test_a_function_may_make_the_agent_and_the_plan_name_its_model(story):
    assert story.attempt(model="openai:gpt-5-mini", options={"agent": "mine:made"}) == Done({})
    assert {request.body["model"] for request in story.models.requests()} == {"gpt-5-mini"}


def test_an_output_type_of_the_agent_fills_the_outputs_of_the_step(story):
    assert story.attempt(outputs=OUTPUTS, options={"agent": "mine:typed"}) == Failed(
        "agent 'mine:typed': Tool save not found in agent desk"
    )
    story.book.rows.clear()
    story.script({"output": {"files": ["a.py"]}})
    assert story.attempt(outputs=OUTPUTS, options={"agent": "mine:typed"}) == Done({"files": ["a.py"]})


def test_outputs_that_do_not_fit_are_told_and_asked_again(story):
    story.script({"output": {"files": "a.py"}}, {"output": {"files": ["a.py"]}})
    assert story.attempt(outputs=OUTPUTS) == Done({"files": ["a.py"]})
    assert "'files' is to be a list, found str" in story.asked()


def test_a_call_that_needs_approval_parks_and_the_decision_counts_for_it_alone(story):
    story.script(
        {"calls": [{"tool": "pay", "args": {"sum": 3}}, {"tool": "look", "args": {"path": "a.py"}}]},
        {"text": "Paid."},
    )
    with pytest.raises(Asks) as asks:
        story.attempt()
    assert asks.value.question["show"]["call"] == {"name": "pay", "args": {"sum": 3}}
    with pytest.raises(Asks):
        story.attempt()  # nobody has decided yet
    decided = {"decision": "approve", "by": "anna", "text": "", "bound": asks.value.question["bound"]}
    assert story.attempt(cause=decided) == Done({})
    assert sorted(story.written()) == ["look", "pay-3"] and story.requests == 2


@pytest.mark.parametrize(
    ("decision", "log", "told"),
    [
        ({"decision": "reject", "text": "too much"}, [], "anna refused this call: too much"),
        ({"decision": "edit", "edited": {"sum": 2}}, ["pay-2"], 'anna changed this call to {\\\\\\"sum\\\\\\": 2}'),
        ({"decision": "respond", "text": "it is paid already"}, [], "it is paid already"),
    ],
)
def test_a_person_may_refuse_change_or_answer_a_call(story, decision, log, told):
    story.script({"calls": [{"tool": "pay", "args": {"sum": 3}}]}, {"text": "Well."})
    with pytest.raises(Asks) as asks:
        story.attempt()
    cause = {"by": "anna", "text": "", "bound": asks.value.question["bound"], **decision}
    assert story.attempt(cause=cause) == Done({})
    assert story.written() == log and told.replace("\\\\\\", "\\") in story.asked().replace("\\\\\\", "\\")


def test_the_plans_rules_hold_for_the_users_tools(story):
    rules = Policy(ask=("save(b*)",), deny=("pay",))
    with pytest.raises(Asks) as asks:
        story.attempt(policy=rules)
    assert asks.value.question["show"]["call"]["args"]["path"] == "b.py"
    offered = [tool["name"] for tool in story.models.requests()[0].body["tools"]]
    assert offered == ["look", "save"]
    cause = {"decision": "approve", "by": "anna", "text": "", "bound": asks.value.question["bound"]}
    assert story.attempt(policy=rules, cause=cause) == Done({})
    assert story.written() == ["look", "save", "look"]


def test_what_a_rule_denies_is_told_to_the_model(story):
    assert story.attempt(policy=Policy(deny=("save(b.*)",), tools=("*",)), outputs={}) == Done({})
    assert "the plan does not allow this call" in story.asked() and story.written() == ["look", "look"]


def test_agents_that_are_handed_over_to_and_agents_as_tools_have_their_own_rows(story):
    story.write(
        CODE
        + """
writer = Agent(name="writer", tools=[save])
clerk = Agent(name="clerk", tools=[pay])
front = Agent(
    name="front", tools=[clerk.as_tool("clerk", "Pays.")], handoffs=[handoff(writer)], output_type=None
)
"""
    )
    story.script(
        {"calls": [{"tool": "clerk", "args": {"input": "Pay 3."}}]},
        {"calls": [{"tool": "transfer_to_writer", "args": {}}]},
        {"calls": [{"tool": "save", "args": {"path": "b.py", "content": "x"}}]},
        {"text": "All done."},
    )
    story.models.load(
        "default",
        {
            "routes": [
                {"match": "^Pay 3", "turns": [{"calls": [{"tool": "pay", "args": {"sum": 3}}]}, {"text": "Paid."}]},
                {
                    "turns": [
                        {"calls": [{"tool": "clerk", "args": {"input": "Pay 3."}}]},
                        {"calls": [{"tool": "transfer_to_writer", "args": {}}]},
                        {"calls": [{"tool": "save", "args": {"path": "b.py", "content": "x"}}]},
                        {"text": "All done."},
                    ]
                },
            ]
        },
    )
    front = {"options": {"agent": "mine:front"}}
    with pytest.raises(Asks) as asks:
        story.attempt(**front)
    cause = {"decision": "approve", "by": "anna", "text": "", "bound": asks.value.question["bound"]}
    for point in (("journal.done", n, when) for n in range(5, 11) for when in ("before", "after")):
        story.book.die_at = point
        with pytest.raises(Died):
            story.attempt(**front, cause=cause)
    assert story.attempt(**front, cause=cause) == Done({})
    kinds = ["told", "tool import", "turn", "turn", "asked", "tool pay", "turn", "turn", "turn", "tool save", "turn"]
    assert story.calls == kinds
    assert count(story.witnessed()).repeated == 0


def test_a_guardrail_that_asks_a_model_is_in_the_journal_and_stops_a_run(story):
    story.write(
        CODE
        + """
judge = Agent(name="judge", instructions="Judge.")


@input_guardrail
async def polite(context, agent, input):
    result = await Runner.run(judge, "Polite? " + str(input))
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=result.final_output != "yes")


guarded = Agent(name="guarded", input_guardrails=[polite])
"""
    )
    routes = [{"match": "Polite", "turns": [{"text": "yes"}]}, {"turns": [{"text": "Good day."}]}]
    story.models.load("default", {"routes": routes})
    story.book.die_at = ("journal.started", 4, "after")
    with pytest.raises(Died):
        story.attempt(options={"agent": "mine:guarded"})
    assert story.attempt(options={"agent": "mine:guarded"}) == Done({})
    assert story.calls == ["told", "tool import", "turn", "turn"] and story.requests == 2
    story.book.rows.clear()
    story.models.load("default", {"routes": [{"match": "Polite", "turns": [{"text": "no"}]}]})
    assert story.attempt(options={"agent": "mine:guarded"}) == Failed("guardrail 'polite' has stopped the run")


def test_a_tool_that_asks_a_model_itself_is_one_call_with_its_tokens(story):
    story.write(
        CODE
        + """
helper = Agent(name="helper", tools=[look])


@function_tool
async def ask_helper(question: str) -> str:
    result = await Runner.run(helper, question)
    return result.final_output


outer = Agent(name="outer", tools=[ask_helper])
"""
    )
    helper = [{"calls": [{"tool": "look", "args": {"path": "a.py"}}]}, {"text": "six"}]
    outer = [{"calls": [{"tool": "ask_helper", "args": {"question": "Which?"}}]}, {"text": "Six."}]
    story.models.load("default", {"routes": [{"match": "^Which", "turns": helper}, {"turns": outer}]})
    assert story.attempt(options={"agent": "mine:outer"}, model="openai:gpt-5") == Done({})
    assert story.calls == ["told", "tool import", "turn", "tool ask_helper", "turn"]
    row = story.book.journal()[3]
    assert (row["tokens_in"], row["tokens_out"], row["body"]["text"]) == (200, 40, "six")


def test_a_session_is_read_once_and_added_to_once(story):
    story.write(CODE + '\ndef session():\n    return SQLiteSession("s", "talk.db")\n')
    story.script({"text": "Good day."})
    more = options(session="mine:session")
    rows = 8
    for n in range(3, rows):
        for when in ("before", "after"):
            story.book.die_at = ("journal.done", n, when)
            try:
                story.attempt(**more)
            except Died:
                continue
    assert story.attempt(**more) == Done({})
    kinds = set(story.calls)
    assert {"tool session.get_items", "tool session.add_items"} <= kinds
    first = len(story.book.rows)
    assert first < rows + 2
    story.book.rows.clear()
    story.script({"text": "Good day."}, {"text": "And again."})
    assert story.attempt(**more, prompt="And now?") == Done({})
    said = [item["content"] for item in story.models.requests()[-1].body["input"]]
    assert said[0] == "Do it." and said[-1] == "And now?" and len(said) == 3


def test_a_tool_that_must_not_run_twice_asks_what_became_of_it(story):
    story.book.die_at = ("journal.done", 6, "before")
    with pytest.raises(Died):
        story.attempt(outputs=OUTPUTS, **options(once=["save"]))
    with pytest.raises(OutcomeUnknown, match="'save' was begun as call 6"):
        story.attempt(outputs=OUTPUTS, **options(once=["save"]))
    assert story.written() == ["look", "save"]


def test_a_run_whose_code_has_changed_says_so(story):
    story.book.die_at = ("journal.started", 6, "before")
    with pytest.raises(Died):
        story.attempt(outputs=OUTPUTS)
    story.write(CODE.replace('note("look")', 'note("look")\n    return "nothing"'))
    with pytest.raises(Died):  # a change that its calls do not show
        story.book.die_at = ("journal.started", 6, "before")
        story.attempt(outputs=OUTPUTS)
    story.write(CODE.replace("agent = Agent(", 'agent = Agent(tool_use_behavior="stop_on_first_tool", '))
    story.script(*WORK)
    outcome = None
    try:
        outcome = story.attempt(outputs={})
    except Diverged as error:
        assert "mine.py changed" in str(error)
    assert outcome in (None, Done({}))


def test_code_that_goes_another_way_diverges_and_names_what_changed(story):
    story.book.die_at = ("journal.started", 6, "before")
    with pytest.raises(Died):
        story.attempt(outputs=OUTPUTS)
    story.write(CODE + "\n@input_guardrail\nasync def extra(context, agent, input):\n"
                "    await Runner.run(Agent(name='x'), 'Other?')\n"
                "    return GuardrailFunctionOutput(None, False)\n\n"
                "agent.input_guardrails.append(extra)\n")  # fmt: skip
    with pytest.raises(Diverged, match=r"with another request.*its code is not the one .*: mine\.py changed"):
        story.attempt(outputs=OUTPUTS)


def test_what_is_told_to_a_run_that_goes_on_stands_in_its_talk(story):
    story.book.die_at = ("journal.started", 5, "before")
    with pytest.raises(Died):
        story.attempt()
    assert story.attempt(news="anna says: use b.py") == Done({})
    assert "anna says: use b.py" in story.asked(1) and "anna says: use b.py" in story.asked()
    assert story.attempt(news="anna says: use b.py") == Done({}) and story.requests == 3


def test_what_the_worker_refuses_ends_it_at_once(story):
    story.book.refuse = "pause"
    with pytest.raises(Halted):
        story.attempt()
    assert story.requests == 0


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        ({"status": 529, "times": 2}, Done({})),
        ({"cut": 3}, Done({})),
        ({"malformed": 2}, Done({})),
        ({"status": 401, "message": "no such key"}, Failed),
        ({"status": 429, "resets_in": "1h", "times": "always"}, Parked),
    ],
)
def test_faults_of_a_provider_end_in_the_right_state(story, monkeypatch, faults, outcome):
    monkeypatch.setattr("longtask.agents.provider.PAUSE_S", 0.01)
    story.script({"text": "Done.", "faults": [faults]})
    ended = story.attempt(outputs={})
    if isinstance(outcome, Done):
        assert ended == outcome
    else:
        assert isinstance(ended, outcome)
    if isinstance(ended, Parked):
        assert ended.waiting_for is WaitingFor.TIMER
    if isinstance(ended, Failed):
        assert not ended.retryable and "look at the key" in ended.reason


def test_a_request_budget_ends_a_run_that_goes_in_circles(story):
    story.script(*[{"calls": [{"tool": "look", "args": {"path": "a.py"}}]}] * 15)
    outcome = story.attempt(requests_max=12)
    assert outcome == Failed("request budget: 12 model calls were made and the run has not ended")
    assert story.requests == 12


def test_a_missing_key_names_its_worker(story, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setattr("agents.models._openai_shared._default_openai_client", None)  # of an earlier test
    outcome = story.attempt()
    assert isinstance(outcome, Failed) and not outcome.retryable
    assert "its worker has no OPENAI_API_KEY" in outcome.reason


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "which agent"),
        ({"agent": "mine"}, "import path 'package.module:name'"),
        ({"agent": "yours:agent"}, "no module 'yours': neither in the worktree nor installed"),
        ({"agent": "mine:agnet"}, "'mine' has no 'agnet'; did you mean 'agent'?"),
        ({"agent": "mine:LOG"}, "is no `Agent` but a"),
        ({"agent": "mine:agent", "colour": 1}, "no option 'colour'"),
        ({"agent": "mine:agent", "session": "mine:agent"}, "is no session"),
    ],
)
def test_a_plan_that_names_no_agent_is_told_so(story, given, message):
    with pytest.raises(BadPlan, match=message):
        story.attempt(options=given)


def test_a_tool_that_the_sdk_would_run_past_the_journal_is_refused(story):
    story.write(CODE + "\nfrom agents import LocalShellTool\nagent.tools.append(LocalShellTool(executor=print))\n")
    with pytest.raises(BadPlan, match="'local_shell' of agent 'desk' is run by the SDK itself"):
        story.attempt()
    assert story.requests == 0


def test_tools_of_an_mcp_server_have_rows_and_rules(story):
    server = (
        f'MCPServerStdio(params={{"command": {sys.executable!r}, "args": [{tickets_mcp.__file__!r}]}}, name="tickets")'
    )
    story.write(f"{CODE}\nfrom agents.mcp import MCPServerStdio\nagent.mcp_servers.append({server})\n")
    story.script({"calls": [{"tool": "close", "args": {"number": 7}}]}, {"text": "Closed."})
    rules = Policy(ask=("mcp.tickets.*",))
    with pytest.raises(Asks) as asks:
        story.attempt(policy=rules)
    cause = {"decision": "approve", "by": "anna", "text": "", "bound": asks.value.question["bound"]}
    assert story.attempt(policy=rules, cause=cause) == Done({})
    assert story.attempt(policy=rules) == Done({})
    assert story.calls[-2:] == ["tool mcp.tickets.close", "turn"] and story.written("closed.txt") == ["7"]


def test_nothing_is_told_to_the_sdks_maker(story):
    story.attempt(outputs=OUTPUTS)
    from agents.tracing import get_trace_provider, trace

    with trace("x") as begun:
        assert type(begun).__name__ == "NoOpTrace"
    assert get_trace_provider() is not None
    assert all(request.path.startswith("/v1/responses") for request in story.models.requests())


def test_a_worker_tells_its_version_without_importing_it():
    version = library_version("openai-agents")
    assert version is not None and version.startswith("openai-agents 0.")
