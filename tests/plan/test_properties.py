"""Plans built at random: they compile, they survive every way of writing them, and nothing but BadPlan is raised."""

import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from longtask.core import graph as core
from longtask.core.errors import BadPlan
from longtask.plan import Plan, compile_plan, from_values, load
from tests.plan.texts import said

words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=12).filter(
    lambda t: t.strip() and "$" not in t
)
durations = st.sampled_from(["500ms", "30s", "15m", "1h30m", "2d"])
variables = st.dictionaries(
    st.sampled_from(["A", "B_1", "ON"]), st.one_of(words, st.just("${{ task.name }}")), max_size=2
)
values = st.recursive(
    st.one_of(st.booleans(), st.integers(-9, 9), words, st.floats(0, 9)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


def some(**fields):
    """A mapping with some of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


common = {
    "env": variables,
    "secrets": st.lists(st.sampled_from(["S", "T"]), unique=True),
    "retry": st.integers(0, 3).map(lambda n: {"max": n}),
    "timeout": durations,
    "silence": durations,
    "losses_max": st.integers(0, 9),
    "repeatable": st.booleans(),
    "commit": st.booleans(),
}
agents = st.fixed_dictionaries({"prompt": words}, optional={"model": words, "tools": st.just(["read", "edit"])})
kinds = st.one_of(
    st.fixed_dictionaries(
        {"run": st.one_of(words, st.lists(words, min_size=1, max_size=3))}, optional={"progress": st.just("pytest")}
    ),
    st.fixed_dictionaries(
        {"function": st.just("pkg.mod:f")}, optional={"args": st.dictionaries(words, values, max_size=2)}
    ),
    st.fixed_dictionaries({"agent": agents}),
)
works = st.tuples(kinds, some(**common)).map(lambda pair: pair[0] | pair[1])
fixes = st.fixed_dictionaries({"fix": works}, optional={"rounds_max": st.integers(1, 9)})
worked = st.tuples(
    works,
    some(
        on_failure=fixes,
        outputs=st.dictionaries(st.sampled_from(["n", "m"]), st.sampled_from(["list", "any"]), max_size=2),
    ),
    some(for_each=st.lists(values, max_size=3), parallel_max=st.none()),
).map(lambda three: three[0] | three[1] | {k: v for k, v in three[2].items() if v is not None})
approvals = st.fixed_dictionaries(
    {"ask": words},
    optional={"show": st.just(["diff"]), "expires": durations, "on_reject": works.map(lambda work: {"revise": work})},
)
waits = st.one_of(
    durations.map(lambda duration: {"timer": duration}),
    st.just({"signal": "ci.done", "match": {"sha": "${{ task.head }}"}}),
)
artifacts = st.sampled_from([{"patch": {"name": "p"}}, {"report": {"title": "t"}}, {"files": {"paths": ["*.md"]}}])
others = st.one_of(
    approvals.map(lambda made: {"approval": made}),
    waits.map(lambda made: {"wait": made}),
    artifacts.map(lambda made: {"artifact": made}),
)


@st.composite
def plans(draw):
    ids = draw(st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True), min_size=1, max_size=8, unique=True))
    stages: list[dict] = [{"name": "one", "steps": []}]
    for n, id in enumerate(ids):
        step = {"id": id, **draw(st.one_of(worked, others))}
        if draw(st.booleans()) and n:
            step["needs"] = draw(st.lists(st.sampled_from(ids[:n]), unique=True, max_size=3))
        if draw(st.integers(0, 3)) == 0:
            step["if"] = "size(task.name) > 1"
        step |= draw(some(when_failed=st.sampled_from(["ask", "stop", "continue"]), run_when=st.just("always"),
                          weight=st.integers(0, 500)))  # fmt: skip
        if draw(st.booleans()):
            stages.append({"name": f"stage {n}", "steps": []})
        stages[-1]["steps"].append(step)
    limits = some(parallel=st.integers(1, 9), active=durations)
    head = draw(some(goal=words, fail_fast=st.booleans(), priority=st.integers(-5, 5), limits=limits))
    return {"longtask": 1, "name": "random", "workspace": {"repo": "."}, "stages": stages, **head,
            "defaults": {"agent": {"runtime": "recorded", "recording": "r.yaml"}}}  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(plans(), st.booleans())
def test_a_random_plan_compiles_and_survives_every_way_of_writing_it(values, attended):
    plan = from_values(values)
    graph = compile_plan(plan, attended=attended)
    rows, edges = core.build(graph)
    assert len(rows) == len(graph.planned) + len(values["stages"])
    assert {edge.step for edge in edges} <= {row.key for row in rows}
    numbers = range(len(graph.specs))
    for spec in graph.specs:
        for other in (spec.fix, spec.revise, spec.item, spec.conflict):
            assert other is None or other in numbers
        json.dumps([spec.body, spec.items])
    dumped = plan.dump()
    written = io.StringIO()
    emitter = YAML(typ="safe", pure=True)
    emitter.default_flow_style = False  # in flow style it writes `{a: :b}`, which it cannot read itself
    emitter.dump(dumped, written)
    text = json.dumps(dumped, ensure_ascii=False)
    texts = (written.getvalue(), text, f"# read as YAML\n{text}")
    for again in (*(load(text, "p.yaml") for text in texts), Plan.model_validate(dumped)):
        assert again == plan
        assert again.dump() == dumped
        assert compile_plan(again, attended=attended) == graph


@settings(max_examples=30, deadline=None)
@given(plans(), st.data())
def test_a_plan_with_a_part_replaced_is_fine_or_says_what_is_wrong(values, data):
    holder, key = values, data.draw(st.sampled_from(sorted(values)))
    for _ in range(data.draw(st.integers(0, 6))):
        inner = holder[key]
        if isinstance(inner, dict) and inner:
            holder, key = inner, data.draw(st.sampled_from(sorted(inner)))
        elif isinstance(inner, list) and inner:
            holder, key = inner, data.draw(st.integers(0, len(inner) - 1))
    holder[key] = data.draw(st.sampled_from([None, 5, "x", [], {}, [1], {"x": 1}, True, "${{ item }}", -1.5]))
    try:
        compile_plan(from_values(values))
    except BadPlan as error:
        assert all(p.message and "\n" not in p.message for p in error.problems)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60), st.text(alphabet="{}[]:,-?&*!|>%@`#'\" \n\tab1", max_size=60), st.binary(max_size=60)
    )
)
def test_any_bytes_are_a_plan_or_a_bad_plan(text):
    assert said(text) or text
