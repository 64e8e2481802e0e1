"""Expressions: what they may say, what they yield, and what they may cost."""

import contextlib
import json
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtask.core.errors import BadPlan
from longtask.core.policy import EXPRESSION_LENGTH_MAX
from longtask.plan import condition, evaluate, expand, names, render
from longtask.plan.expressions import bare, checked, split

SCOPE = {
    "steps": {
        "a": {
            "outputs": {"n": 3, "list": [1, 2, 3], "text": "hi", "map": {"k": [1]}, "no": None, "f": 1.5, "b": True},
            "state": "completed",
        },
        "import": {"outputs": {"x": 1}, "state": "completed"},
        "failed": {"outputs": None, "state": "failed"},
        "each": {"outputs": [{"x": 1}, None, {"x": 3}], "state": "completed"},
    },
    "item": {"name": "core", "size": 12},
    "index": 0,
    "task": {"id": "t1", "name": "demo", "goal": "g", "base": "b0", "head": "h1"},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("steps.a.outputs.n + 1", 4),
        ("steps['a'].outputs['n']", 3),
        ("steps.a.outputs.list.filter(i, i > 1)", [2, 3]),
        ("steps.a.outputs.list.map(i, i * 2)", [2, 4, 6]),
        ("steps.a.outputs.list.exists(i, i == 2)", True),
        ("steps.a.outputs.list.exists_one(i, i == 2)", True),
        ("steps.each.outputs.filter(o, o != null).map(o, o.x)", BadPlan),  # two of them
        ("steps.each.outputs[2].x", 3),
        ("size(steps.a.outputs.list)", 3),
        ("steps.a.outputs.map", {"k": [1]}),
        ("steps.a.outputs.no", None),
        ("steps.a.outputs.f * 2.0", 3.0),
        ("has(steps.a.outputs.absent) ? 1 : 0", 0),
        ("has(steps.failed.outputs.x)", False),
        ("steps.a.state == 'completed' && steps.failed.state == 'failed'", True),
        ("steps.import.outputs.x", 1),
        ("item.name + '-' + string(index)", "core-0"),
        ("task.head", "h1"),
        ("'steps.zz.outputs.x' + \"}}\"", "steps.zz.outputs.x}}"),
        ("'all' in ['all(', 'x.map(1)']", False),
        ("{'a': {'b': 1}}", {"a": {"b": 1}}),
        ("'abc'.startsWith('ab') && 'abc'.matches('b.$')", True),
        ("string(timestamp('2026-11-29T00:00:00Z'))", "2026-11-29T00:00:00+00:00"),
    ],
)
def test_an_expression_yields_its_value(text, value):
    if value is BadPlan:
        with pytest.raises(BadPlan, match="may use one of"):
            evaluate(text, SCOPE)
    else:
        assert evaluate(text, SCOPE) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "steps.a.outputs.maps",
            "step 'a' has no output 'maps'; it has b, f, list, map, n, no, text; did you mean 'map'?",
        ),
        ("steps.zz.outputs.m", "step 'zz' has no outputs yet, or there is no such step"),
        ("steps.failed.outputs.m + 1", "step 'failed' has no output 'm'; it has none, it is failed"),
        ("steps.each.outputs.x", "step 'each' has no output 'x'; its outputs are a list"),
        ("steps.a.outputs.list[7]", "index out of bounds: 7"),
        ("steps.a.outputs.map.zz", "there is no 'zz'"),
        ("1 / 0", "division by zero in CEL expression"),
        ("9223372036854775807 + index + 1", "arithmetic overflow"),
        ("steps.a.outputs.n + 'x'", "no such overload"),
        ("1.0 / 0.0", "yields inf, which is no number"),
        ("timestamp('2026-11-29T00:00:00Z')", "yields a timestamp; make it text with string(…)"),
        ("duration('3s')", "yields a duration"),
        ("b'x'", "yields a bytes"),
        ("'a'.matches('(')", "not a valid regex"),
    ],
)
def test_what_cannot_be_evaluated_says_why(text, message):
    with pytest.raises(BadPlan) as caught:
        evaluate(text, SCOPE)
    assert message in str(caught.value)
    assert str(caught.value).startswith("expression ")


def test_a_name_that_the_scope_has_not_is_an_error():
    with pytest.raises(BadPlan, match="'item' is not known here"):
        evaluate("item", {"task": {}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty"),
        ("1 +", "the expression ends too early at column 4"),
        ("(1", "the expression ends too early at column 3"),
        ("a b", "unexpected 'b' at column 3"),
        ("1\n+ + 2", "unexpected '+' at line 2, column 3"),
        ("'abc", "a quote at column 1 is not closed"),
        ("1 ; 2", "unexpected ';' at column 3"),
        ("foo", "unknown name 'foo'; an expression knows steps, item, index, task, inputs, callback"),
        ("env.HOME", "unknown name 'env'; an expression knows steps, item, index, task, inputs, callback"),
        ("secrets.X", "unknown name 'secrets'"),
        (".steps.a.outputs.x", "an expression does not begin with a dot"),
        ("task", "unknown name 'task'; a task has task.id"),
        ("task.owner", "unknown name 'task.owner'; a task has task.id"),
        ("steps[item].outputs.x", "'steps' must name a step: steps.ID.outputs.NAME"),
        ("steps.map(s, s)", "'steps' must name a step"),
        ("steps.a.output.x", "a step has no 'output', only outputs and state; did you mean 'outputs'?"),
        ("lower('A')", "unknown function 'lower'"),
        ("'a'.uppercase()", "unknown function 'uppercase'"),
        ("[1].map(steps, steps)", "'steps' has a meaning already; use another name in map"),
        ("[1].map(x, x) + [x]", "unknown name 'x'"),
        (
            "[1].map(x, [2].map(y, x))",
            "may use one of all, exists, existsOne, exists_one, filter, map, once; found map, map",
        ),
        ("[1].all(x, true) && [1].exists(y, true)", "found all, exists"),
        ("Foo{a: 1}", "unknown name 'Foo'"),
        ("{a: 1}", "unknown name 'a'"),
        ("a.`b`", "unexpected '`' at column 3"),
        ("'é'.size() == 1 // comment\n+ ", "the expression ends too early"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_before_anything_runs(text, message):
    with pytest.raises(BadPlan) as caught:
        checked(text)
    assert message in str(caught.value)


def test_an_expression_is_short():
    checked("'" + "a" * (EXPRESSION_LENGTH_MAX - 2) + "'")
    with pytest.raises(BadPlan, match="the expression has 1,025 bytes, the limit is 1,024"):
        checked("'" + "a" * (EXPRESSION_LENGTH_MAX - 1) + "'")
    with pytest.raises(BadPlan, match="has 1,026 bytes"):  # bytes, not characters
        checked("'" + "é" * 512 + "'")


@pytest.mark.parametrize(
    "text",
    ["(" * 500 + "1" + ")" * 500, "[" * 511 + "]" * 511, "!" * 1000 + "true", "-" * 1000 + "1",
     "{1:" * 250 + "1" + "}" * 250,
     "size(" * 170 + "'a'" + ")" * 170, "true?1:" * 140 + "1", "&&".join(["true"] * 170), "task.id" + ".a" * 400],
)  # fmt: skip
def test_a_deep_expression_is_answered_not_a_crash(text):
    with contextlib.suppress(BadPlan):
        evaluate(text, SCOPE)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("steps.a.outputs.x.map(i, i)", 20_000),
        ("steps.a.outputs.x.filter(i, true)", 20_000),
        ("steps.a.outputs.x.all(i, i in steps.a.outputs.x)", 20_000),
        ("steps.a.outputs.x.map(i, '" + "a" * 80 + "'" + " + steps.a.outputs.s" * 40 + ")", 2_000),
    ],
)
def test_too_much_work_is_refused_before_it_begins(text, n):
    scope = {"steps": {"a": {"outputs": {"x": list(range(n)), "s": "a" * 4_000}}}}
    began = time.process_time()
    with pytest.raises(BadPlan, match="too much work over"):
        evaluate(text, scope)
    assert time.process_time() - began < 0.5


def test_work_of_a_usual_size_is_done():
    scope = {"steps": {"a": {"outputs": {"x": [{"name": f"module-{n}", "size": n} for n in range(500)]}}}}
    assert len(evaluate("steps.a.outputs.x.filter(m, m.size > 10 && m.name.startsWith('module'))", scope)) == 489
    assert evaluate("steps.a.outputs.x", {"steps": {"a": {"outputs": {"x": list(range(100_000))}}}})[-1] == 99_999


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("${{ steps.a.outputs.list }}", [1, 2, 3]),
        ("${{steps.a.outputs.n}}", 3),
        ("  ${{ steps.a.outputs.n }}", "  3"),
        ("n=${{ steps.a.outputs.n }}, l=${{ steps.a.outputs.list }}", "n=3, l=[1, 2, 3]"),
        ("${{ steps.a.outputs.b }} ${{ steps.a.outputs.no }} ${{ steps.a.outputs.f }}", "true null 1.5"),
        ("${{ steps.a.outputs.text }}${{ steps.a.outputs.map }}", 'hi{"k": [1]}'),
        ("${{ {'a': {'b': 1}} }}", {"a": {"b": 1}}),
        ("${{ '}}' }}!", "}}!"),
        ("$${{ steps.a }} $5 {{ x }}", "${{ steps.a }} $5 {{ x }}"),
        ("plain", "plain"),
        ("", ""),
        (["${{ index }}", {"k": "${{ task.id }}"}, 5, None], [0, {"k": "t1"}, 5, None]),
    ],
)
def test_a_template_keeps_types_where_it_is_one_expression(template, value):
    assert render(template, SCOPE) == value


def test_a_condition_is_true_or_false_and_nothing_else():
    assert condition("index == 0", SCOPE) is True
    with pytest.raises(BadPlan, match="`if` must be true or false, found 0"):
        condition("index", SCOPE)


def test_a_for_each_yields_a_list():
    assert expand("steps.a.outputs.list", SCOPE) == [1, 2, 3]
    assert expand("${{ steps.a.outputs.list }}", SCOPE) == [1, 2, 3]
    assert expand(["a", "${{ task.name }}"], SCOPE) == ["a", "demo"]
    with pytest.raises(BadPlan, match="for_each must yield a list, found 3"):
        expand("steps.a.outputs.n", SCOPE)
    with pytest.raises(BadPlan, match="for_each has 100,001 items, the limit is 100,000"):
        expand([1] * 100_001, SCOPE)


def test_a_mapping_is_written_alike_every_time():
    """Else the prompt of an agent that reads one would change when its run goes on elsewhere."""
    scope = {"item": {letter: n for n, letter in enumerate("hgfedcba")}}
    wanted = "x " + json.dumps(dict(sorted(scope["item"].items())))
    assert {render("x ${{ item }}", scope) for _ in range(20)} == {wanted}


def test_names_are_the_steps_that_a_template_reads():
    assert names({"x": ["${{ steps.a.outputs.n + steps['b'].outputs.m }}"], "y": "steps.c ${{ 'steps.d' }}"}) == {
        "a",
        "b",
    }
    assert names("$${{ steps.a.outputs.n }}") == set()


def test_an_if_may_be_written_with_or_without_braces():
    assert bare("${{ 1 == 1 }}") == bare(" 1 == 1 ") == "1 == 1"
    with pytest.raises(BadPlan, match="must be one expression, with nothing around it"):
        bare("${{ 1 }} == 1")


def test_only_the_steps_that_are_read_cost_anything():
    scope = {"steps": {"a": {"outputs": {"n": 1}}, "b": {"outputs": object()}}}
    assert evaluate("steps.a.outputs.n", scope) == 1


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="steps.aoutn[](){}'\"1+-*&|<>=!?:, \\\n_`$/é\x00\ud800", max_size=40))
def test_any_text_is_an_expression_or_a_bad_plan(text):
    try:
        checked(text)
    except BadPlan as error:
        assert str(error)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="${} 'a1+\"\n", max_size=40))
def test_any_text_is_a_template_or_a_bad_plan(text):
    try:
        parts = split(text)
    except BadPlan:
        return
    if "${{" not in text:
        assert "".join(part.text for part in parts) == text


def test_the_library_is_loaded_with_the_first_expression_and_without_its_command_line():
    code = (
        "import sys, longtask.plan as p; assert 'cel.cel' not in sys.modules; assert p.evaluate('1 + 1', {}) == 2; "
        "assert 'cel.cel' in sys.modules and 'prompt_toolkit' not in sys.modules and 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
