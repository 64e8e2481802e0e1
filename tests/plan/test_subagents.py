"""`subagents`: an agent that may give out work, and the spec of what it gives out."""

from __future__ import annotations

import pytest

from longtask.core.errors import BadPlan
from longtask.core.graph import Graph
from longtask.core.model import StepSpec
from longtask.plan import compile_plan, load

PLAN = """
longtask: 1
name: t
workspace: {repo: .}
defaults: {agent: {runtime: builtin, model: 'openai-chat:m', limits: {tokens: 1000}}, retry: 2}
steps:
  - {id: first, run: 'true', outputs: {mode: string}}
"""


def graph(step: str) -> Graph:
    return compile_plan(load(f"{PLAN}  - {{id: lead, needs: [first], {step}}}\n"))


def specs(step: str) -> tuple[StepSpec, StepSpec]:
    """Of the step, and of what it gives out."""
    made = graph(step)
    lead = made.specs[made.planned[1].spec]
    assert lead.item is not None
    return lead, made.specs[lead.item]


def said(step: str) -> list[str]:
    with pytest.raises(BadPlan) as refused:
        graph(step)
    return [problem.message for problem in refused.value.problems]


def test_what_the_plan_says_of_the_agent_holds_of_what_it_gives_out():
    lead, item = specs(
        "agent: {prompt: Lead it., subagents: {max: 3}, tools: [read, edit], deny: ['write(m/*)']}, "
        "outputs: {n: list}, env: {MODE: '${{ steps.first.outputs.mode }}'}, sandbox: bubblewrap, timeout: 5m, mutex: m"
    )
    same = ("kind", "pool", "failures_max", "losses_max", "timeout_ms", "commits", "conflict", "mutex", "reads")
    assert [getattr(item, name) for name in same] == [getattr(lead, name) for name in same]
    assert item.reads == ("first",) and item.failures_max == 2
    assert {**item.body, "prompt": "Lead it."} == lead.body
    assert (lead.parallel_max, item.item, item.fix, item.outputs) == (3, None, None, {"answer": "string"})


def test_they_may_have_a_model_of_their_own():
    lead, item = specs("agent: {prompt: x, subagents: {model: 'openai-chat:small'}}")
    assert (lead.body["model"], item.body["model"], lead.parallel_max) == ("openai-chat:m", "openai-chat:small", 4)


def test_what_none_of_them_may_touch_stays_so_and_none_has_to_change_anything():
    lead, item = specs("agent: {prompt: x, subagents: {}}, evidence: {protect: ['tests/**'], change: true}")
    assert lead.body["evidence"] == {"protect": ["tests/**"], "change": True}
    assert item.body["evidence"] == {"protect": ["tests/**"]}


def test_a_fix_is_the_agent_s_alone():
    lead, item = specs("agent: {prompt: x, subagents: {}}, on_failure: {fix: {run: make fix}}")
    assert (lead.fix is not None, item.fix) == (True, None)


def test_without_the_word_nothing_is_given_out():
    made = graph("agent: {prompt: x}")
    assert made.specs[made.planned[1].spec].item is None


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            "agent: {prompt: x, runtime: codex, subagents: {}}",
            "step 'lead': runtime `codex` cannot give out work as steps of the task; `recorded`, `builtin` can",
        ),
        (
            "for_each: [1], agent: {prompt: x, subagents: {}}",
            "step 'lead': an item of a for_each has no items of its own; leave out one of the two",
        ),
        ("agent: {prompt: x, subagents: {max: 17}}", "step 'lead': agent.subagents.max is 17, the limit is 16"),
        ("agent: {prompt: x, subagents: {max: 0}}", "step 'lead': agent.subagents.max must be at least 1, found 0"),
        (
            "agent: {prompt: x, tools: [read, spawn]}",
            "step 'lead': agent.tools names `spawn`; that an agent may give out work, `subagents: {max: 4}` says",
        ),
        (
            "subagents: {max: 2}, agent: {prompt: x}",
            "step 'lead': unknown key 'subagents'; it belongs into agent",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(step: str, message: str):
    assert said(step) == [message]


def test_defaults_give_it_to_nobody():
    text = PLAN.replace("limits: {tokens: 1000}", "subagents: {max: 2}") + "  - {id: x, agent: {prompt: x}}\n"
    with pytest.raises(BadPlan, match="it belongs into a step's agent"):
        load(text)


def test_notes_are_kept_by_who_can_keep_them():
    lead, item = specs("agent: {prompt: x, notes: true, subagents: {}}")
    assert (lead.body["notes"], item.body["notes"]) == (True, True)
    (problem,) = said("agent: {prompt: x, notes: true, runtime: codex}")
    assert problem == "step 'lead': agent.notes are kept by `builtin` only"


def test_rules_may_name_it():
    lead, _ = specs("agent: {prompt: x, subagents: {}, ask: [spawn]}")
    assert lead.body["ask"] == ["spawn"]
