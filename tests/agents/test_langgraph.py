"""The runtime `langgraph`: the user's own graphs, whose checkpoints are kept with the rows of their run."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from longtask.agents.contract import library_version
from longtask.agents.journal import Asks, Diverged, Halted
from longtask.agents.policy import Policy
from longtask.core.errors import BadPlan
from longtask.core.model import Done, Failed, Parked, WaitingFor
from longtask.modelserver.server import ModelServer
from tests.agents.line import Died
from tests.agents.story import KeptBook, Story

CODE = """
import operator
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import openai
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel


def note(word):
    with Path("log.txt").open("a") as file:
        file.write(word + "\\n")


class Scripted(BaseChatModel):
    model_name: str = "gpt-5"

    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **more):
        said = [{"role": "assistant" if one.type == "ai" else "user", "content": one.content} for one in messages]
        with openai.OpenAI(max_retries=0) as client:
            answer = client.chat.completions.create(model=self.model_name, messages=said)
        usage = {"input_tokens": answer.usage.prompt_tokens, "output_tokens": answer.usage.completion_tokens}
        usage["total_tokens"] = answer.usage.total_tokens
        message = AIMessage(content=answer.choices[0].message.content, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


class State(TypedDict, total=False):
    prompt: str
    log: Annotated[list, operator.add]
    plan: str
    answer: Any


def plan(state):
    note("plan")
    return {"plan": Scripted().invoke(state["prompt"]).content, "log": ["plan"]}


def act(state):
    note("act")
    Path("b.py").write_text(state["plan"])
    return {"log": ["act"]}


def ask(state):
    note("ask")
    return {"answer": interrupt({"question": "Ship it?", "plan": state["plan"]}), "log": ["ask"]}


async def ship(state):
    note("ship")
    return {"log": ["ship"]}


def build(asks=True):
    graph = StateGraph(State).add_node("plan", plan).add_node("act", act).add_node("ship", ship)
    graph.add_edge(START, "plan").add_edge("plan", "act").add_edge("ship", END)
    if asks:
        graph.add_node("ask", ask).add_edge("act", "ask").add_edge("ask", "ship")
    else:
        graph.add_edge("act", "ship")
    return graph


graph = build(False).compile()
asking = build()
"""
NODES = ["plan", "act", "ship"]
ROWS = [
    "told", "tool import", "tool checkpoint", "turn", "tool node.plan", "tool checkpoint", "tool node.act",
    "tool checkpoint", "tool node.ship", "tool checkpoint",
]  # fmt: skip
OUTPUTS = {"log": "list"}


@pytest.fixture
def story(tmp_path: Path, models: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Story:
    for name, value in models.environment().items():
        monkeypatch.setenv(name, value)
    made = Story("langgraph", models, tmp_path, CODE, {"graph": "mine:graph"}, KeptBook(tmp_path / "session"))
    monkeypatch.chdir(made.place)
    made.script({"text": "A plan.", "usage": {"tokens_in": 300, "tokens_out": 30}})
    return made


def named(graph: str, **more: Any) -> dict[str, Any]:
    return {"options": {"graph": f"mine:{graph}", **more}}


def answered(asks: pytest.ExceptionInfo[Asks], decision: str, **more: Any) -> dict[str, Any]:
    return {"decision": decision, "by": "anna", "text": "", "bound": asks.value.question["bound"], **more}


def test_a_graph_runs_and_its_state_fills_the_outputs(story):
    assert story.attempt(outputs=OUTPUTS) == Done({"log": NODES})
    assert story.written() == NODES and story.calls == ROWS
    assert story.book.shown == "» A plan.\nplan\nact\nship\n"
    (turn,) = [row for row in story.book.journal() if row["kind"] == "turn"]
    assert (turn["name"], turn["tokens_in"], turn["tokens_out"]) == ("gpt-5", 300, 30) and turn["micros"] > 0
    assert [row["changed"] for row in story.book.journal()[2:]] == [True, False, *[True] * 6]


def test_dead_at_any_row_it_loses_at_most_the_unfinished_node(story):
    for n in range(3, len(ROWS) + 1):
        for when in ("before", "after"):
            story.book.die_at = ("journal.saw", n, when)
            with pytest.raises(Died):
                story.attempt(outputs=OUTPUTS)
    assert story.attempt(outputs=OUTPUTS) == Done({"log": NODES})
    finished = [row["name"] for row in story.book.journal() if row["name"].startswith("node.")]
    assert finished == [f"node.{node}" for node in NODES]
    assert [node for node, _ in groupby(story.written())] == NODES  # none again after its end


def test_a_finished_run_ends_again_without_a_node(story):
    story.attempt(outputs=OUTPUTS)
    assert story.attempt(outputs=OUTPUTS) == Done({"log": NODES})
    assert story.written() == NODES and story.requests == 1


def test_an_interrupt_parks_and_the_decision_is_what_it_returns(story):
    with pytest.raises(Asks) as asks:
        story.attempt(**named("asking"))
    question = asks.value.question
    assert question["text"] == "Ship it?"
    assert question["show"]["call"]["args"] == {"question": "Ship it?", "plan": "A plan."}
    with pytest.raises(Asks) as again:
        story.attempt(**named("asking"))
    assert again.value.question == question
    outputs = {"answer": "boolean", "log": "list"}
    done = Done({"answer": True, "log": ["plan", "act", "ask", "ship"]})
    assert story.attempt(**named("asking"), outputs=outputs, cause=answered(asks, "approve")) == done
    assert story.written() == ["plan", "act", "ask", "ask", "ship"] and story.requests == 1


@pytest.mark.parametrize(
    ("resume", "decision", "value"),
    [
        ("value", {"decision": "reject"}, False),
        ("value", {"decision": "respond", "text": "tomorrow"}, "tomorrow"),
        ("value", {"decision": "edit", "edited": {"when": 1}}, {"when": 1}),
        (
            "decision",
            {"decision": "reject", "text": "no"},
            {"decision": "reject", "by": "anna", "text": "no"},
        ),
    ],
)
def test_each_decision_has_its_value(story, resume, decision, value):
    more = named("asking", resume=resume)
    with pytest.raises(Asks) as asks:
        story.attempt(**more)
    cause = {**answered(asks, ""), **decision}
    assert story.attempt(**more, outputs={"answer": "any"}, cause=cause) == Done({"answer": value})


def test_a_decision_survives_a_death_after_it(story):
    with pytest.raises(Asks) as asks:
        story.attempt(**named("asking"))
    cause = answered(asks, "approve")
    first = max(story.book.rows) + 1
    story.book.die_at = ("journal.saw", first, "before")
    with pytest.raises(Died):
        story.attempt(**named("asking"), cause=cause)
    assert story.attempt(**named("asking"), outputs={"answer": "boolean"}) == Done({"answer": True})


def test_several_interrupts_are_asked_one_after_another_and_answered_together(story):
    story.write(
        CODE
        + """

def one(state):
    note(f"one-{state['n']}")
    return {"log": [f"{state['n']}:{interrupt('Number ' + str(state['n']) + '?')}"]}


fan = StateGraph(State).add_node("one", one).add_node("plan", lambda state: {})
fan.add_edge(START, "plan")
fan.add_conditional_edges("plan", lambda state: [Send("one", {"n": n}) for n in range(2)], ["one"])
"""
    )
    with pytest.raises(Asks) as first:
        story.attempt(**named("fan"))
    with pytest.raises(Asks) as second:
        story.attempt(**named("fan"), cause=answered(first, "respond", text="a"))
    texts = [asks.value.question["text"] for asks in (first, second)]
    assert sorted(texts) == ["Number 0?", "Number 1?"]
    assert sorted(story.written()) == ["one-0", "one-1"]
    outcome = story.attempt(**named("fan"), outputs=OUTPUTS, cause=answered(second, "respond", text="b"))
    assert isinstance(outcome, Done) and isinstance(outcome.result, dict)
    assert sorted(outcome.result["log"]) == ["0:a", "1:b"] or sorted(outcome.result["log"]) == ["0:b", "1:a"]


def test_a_node_that_asks_twice_is_answered_twice(story):
    story.write(
        CODE
        + """

def both(state):
    return {"log": [interrupt("First?"), interrupt("Second?")]}


twice = StateGraph(State).add_node("both", both).add_edge(START, "both")
"""
    )
    with pytest.raises(Asks) as first:
        story.attempt(**named("twice"))
    with pytest.raises(Asks) as second:
        story.attempt(**named("twice"), cause=answered(first, "respond", text="a"))
    assert second.value.question["text"] == "Second?"
    cause = answered(second, "respond", text="b")
    assert story.attempt(**named("twice"), outputs=OUTPUTS, cause=cause) == Done({"log": ["a", "b"]})


def test_an_answer_that_does_not_fit_is_asked_for_again(story):
    story.write(
        CODE
        + """

class When(BaseModel):
    days: int


def due(state):
    return {"answer": interrupt("When?", response_schema=When).days}


timed = StateGraph(State).add_node("due", due).add_edge(START, "due")
"""
    )
    with pytest.raises(Asks) as first:
        story.attempt(**named("timed"))
    assert first.value.question["show"]["call"]["answer"]["properties"] == {
        "days": {"title": "Days", "type": "integer"}
    }
    with pytest.raises(Asks) as second:
        story.attempt(**named("timed"), cause=answered(first, "respond", text='{"days": "soon"}'))
    assert second.value.question["text"].startswith("When? (the answer did not fit")
    cause = answered(second, "respond", text='{"days": 3}')
    assert story.attempt(**named("timed"), outputs={"answer": "integer"}, cause=cause) == Done({"answer": 3})


def test_a_stop_is_heeded_at_the_end_of_the_node_and_nothing_is_lost(story):
    story.book.refuse_after = 5  # node.plan
    with pytest.raises(Halted):
        story.attempt(outputs=OUTPUTS)
    assert story.written() == ["plan"] and len(story.book.rows) == 6
    story.book.refuse_after = None
    assert story.attempt(outputs=OUTPUTS) == Done({"log": NODES})
    assert story.written() == NODES


def test_subgraphs_keep_their_own_checkpoints_and_old_ones_go(story):
    story.write(
        CODE
        + """

def again(state):
    note("again")
    return {"log": ["again"]}


inner = StateGraph(State).add_node("ask", ask).add_node("again", again)
inner.add_edge(START, "again").add_edge("again", "ask")
outer = StateGraph(State).add_node("plan", plan).add_node("inner", inner.compile()).add_node("ship", ship)
outer.add_edge(START, "plan").add_edge("plan", "inner").add_edge("inner", "ship")
"""
    )
    with pytest.raises(Asks) as asks:
        story.attempt(**named("outer"))
    story.attempt(**named("outer"), cause=answered(asks, "approve"))
    assert story.written() == ["plan", "again", "ask", "ask", "ship"]
    state = json.loads(story.book.kept["graph/state.json"])
    assert [namespace for namespace, *_ in state["checkpoints"]] == [""]


def test_a_long_talk_is_kept_once(story):
    story.write(
        CODE
        + """

def turn(state):
    return {"log": ["x" * 1000]}


long = StateGraph(State).add_node("turn", turn).add_edge(START, "turn")
long.add_conditional_edges("turn", lambda state: END if len(state["log"]) == 40 else "turn")
"""
    )
    assert isinstance(story.attempt(**named("long")), Done)
    assert sum(map(len, story.book.kept.values())) < 100_000


def test_the_functional_api_runs_too(story):
    story.write(
        CODE
        + """

@task
def double(n):
    note(f"double-{n}")
    return 2 * n


@entrypoint()
def flow(n):
    first = double(n).result()
    return {"answer": double(first).result()}
"""
    )
    more = {**named("flow", input=3), "outputs": {"answer": "integer"}}
    assert story.attempt(**more) == Done({"answer": 12})
    assert story.written() == ["double-3", "double-6"]


def test_a_talk_begins_with_the_prompt(story):
    story.write(
        CODE
        + """

def say(state):
    return {"messages": [Scripted().invoke(state["messages"])]}


talk = StateGraph(MessagesState).add_node("say", say).add_edge(START, "say")
"""
    )
    outcome = story.attempt(**named("talk"), outputs={"messages": "list"})
    assert isinstance(outcome, Done) and isinstance(outcome.result, dict)
    assert [one["content"] for one in outcome.result["messages"]] == ["Do it.", "A plan."]


def test_a_request_budget_ends_a_graph_that_goes_in_circles(story):
    story.script(*[{"text": str(n)} for n in range(9)])
    story.write(CODE + '\nround = StateGraph(State).add_node("plan", plan).add_edge(START, "plan")\n'
                'round.add_edge("plan", "plan")\n')  # fmt: skip
    outcome = story.attempt(**named("round"), requests_max=3)
    assert outcome == Failed("request budget: 3 model calls were made and the run has not ended")
    assert story.requests == 3


def test_a_limit_of_the_provider_parks_until_it_ends(story):
    story.script({"text": "A plan.", "faults": [{"status": 429, "retry_after": "1h"}]})
    outcome = story.attempt(outputs=OUTPUTS)
    assert isinstance(outcome, Parked) and outcome.waiting_for is WaitingFor.TIMER
    assert story.attempt(outputs=OUTPUTS) == Done({"log": NODES})


def test_a_graph_with_other_nodes_than_it_began_with_has_diverged(story):
    story.book.die_at = ("journal.saw", 6, "after")
    with pytest.raises(Died):
        story.attempt()
    story.write(CODE.replace('add_node("ship", ship)', 'add_node("send", ship)').replace('"ship"', '"send"'))
    with pytest.raises(Diverged, match=r"other nodes: send, ship; its code is not the one .*: mine\.py changed"):
        story.attempt()


def test_a_node_that_raises_is_a_failure(story):
    story.write(CODE.replace('    note("act")', '    raise ValueError("no such plan")'))
    with pytest.raises(ValueError, match="no such plan"):
        story.attempt()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "which graph"),
        ({"graph": "mine:NODE"}, "'mine' has no 'NODE'"),
        ({"graph": "mine:State"}, "'mine:State' is no graph but a"),
        ({"graph": "mine:graph", "prompt": "task"}, "state of 'mine:graph' has no 'task'; it has"),
        ({"graph": "mine:graph", "resume": "all"}, "'resume' is to be value or decision"),
        ({"graph": "mine:graph", "colour": 1}, "no option 'colour'"),
    ],
)
def test_a_plan_that_names_no_graph_is_told_so(story, given, message):
    with pytest.raises(BadPlan, match=message):
        story.attempt(options=given)


def test_rules_about_tools_are_refused(story):
    with pytest.raises(BadPlan, match="no rule would hold"):
        story.attempt(policy=Policy(ask=("shell",)))


def test_nothing_is_told_to_langsmith(story, monkeypatch):
    from langsmith.utils import get_env_var, tracing_is_enabled

    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    get_env_var.cache_clear()  # type: ignore[attr-defined]
    story.write(CODE.replace('    note("ship")', "    from langsmith.utils import tracing_is_enabled as on\n"
                             '    note(f"traced-{on()}")'))  # fmt: skip
    story.attempt()
    assert story.written()[-1] == "traced-False" and tracing_is_enabled() is not None


def test_a_worker_tells_its_version_without_importing_it():
    version = library_version("langgraph")
    assert version is not None and version.startswith("langgraph 1.")
