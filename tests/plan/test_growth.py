"""Parts of plans: what planners hand over and people add, and words that are said anew."""

from dataclasses import replace
from pathlib import Path

import pytest

from longtask.core import codec
from longtask.core.errors import BadPlan
from longtask.core.graph import Graph
from longtask.core.model import Above, Kind, StepSpec, Task, TaskOptions
from longtask.plan import compile_plan, load
from longtask.plan.compile import placed
from longtask.plan.edit import edited
from longtask.plan.growth import growth_from, growth_of, with_plans, words_of

BARE = Task("t", "t", TaskOptions(stages=("build", "test")))
TASK = BARE._replace(options=replace(BARE.options, defaults={"timeout": "5m", "agent": {"runtime": "codex"}}))
CODE = TASK._replace(options=TaskOptions(stages=("build",), workspace={"repo": "."}))


def problems(text: str) -> str:
    with pytest.raises(BadPlan) as caught:
        growth_of(text, "more.yaml", TASK)
    return str(caught.value)


def test_the_defaults_of_the_task_s_plan_hold_for_what_is_added():
    growth = growth_of("stage: test\nsteps: [{id: x, agent: {prompt: p}}, {id: y, run: b, needs: [x]}]", "f", TASK)
    assert (growth.stage, growth.before, [step.key for step in growth.planned]) == ("test", None, ["x", "y"])
    agent = growth.specs[growth.planned[0].spec]
    assert (agent.body["runtime"], agent.timeout_ms) == ("codex", 300_000)
    assert growth.planned[1].needs == ("x",)


def test_a_whole_plan_that_is_added_keeps_its_order_by_needs():
    text = """
longtask: 1
name: more
limits: {parallel: 2}
stages:
- {name: one, steps: [{id: a1, run: x}, {id: a2, run: x, needs: []}]}
- {name: none, steps: []}
- {name: two, steps: [{id: b1, run: x}]}
"""
    growth = growth_of(text, "f", TASK, after="a")
    assert {step.key: step.needs for step in growth.planned} == {"a1": ("a",), "a2": (), "b1": ("a1", "a2")}


def test_what_is_wrong_is_told_with_its_line_and_all_of_it():
    found = problems("steps:\n  - {id: x, runn: y}\n  - {id: Z, run: y}\n")
    assert "more.yaml:2" in found and "runn" in found
    assert "more.yaml:2:10" in problems("steps:\n  - {id: Z, run: y}\n") and "[a-z]" in problems(
        "steps:\n  - {id: Z, run: y}\n"
    )
    assert "`steps`" in problems("[1, 2]")
    assert "stagee" in problems("stagee: x\nsteps: []")


def test_values_are_read_like_text():
    growth = growth_from([{"id": "x", "run": "y"}], CODE)
    assert growth.planned[0].key == "x"
    with pytest.raises(BadPlan, match="looks like"):
        growth_from([{"id": "x", "run": "y", "env": {"A": "sk-ant-" + "a" * 40}}], BARE)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("{id: a, run: x, grow: {stage: tst}}", "grow.stage 'tst' is no stage; did you mean 'test'?"),
        ("{id: a, run: x, grow: {steps_max: 900}}", "grow.steps_max is 900, the limit is 200"),
        ("{id: a, run: x, commit: true, grow: {}}", "commit does not fit a planner"),
        ("{id: a, run: x, outputs: {steps: string}, grow: {}}", "output 'steps' of a planner is a list"),
        ("{id: a, run: x, for_each: [1], grow: {}}", "an item of a for_each cannot be a planner"),
        ("{id: a, approval: {ask: x}, grow: {}}", "grow does not apply to approval steps"),
    ],
)
def test_a_planner_is_checked_with_its_plan(step: str, said: str):
    with pytest.raises(BadPlan) as caught:
        load(f"longtask: 1\nname: t\nworkspace: .\nstages:\n- {{name: test, steps: [{step}]}}\n")
    assert said in str(caught.value)


def test_a_planner_hands_over_a_list_and_is_tried_again():
    graph = compile_plan(
        load("longtask: 1\nname: t\nworkspace: .\nsteps: [{id: a, agent: {prompt: x, runtime: codex}, grow: {}}]")
    )
    spec = graph.specs[0]
    assert (spec.outputs, spec.failures_max, spec.commits, spec.body["grow"]) == ({"steps": "list"}, 2, False, {})


def test_words_take_the_place_of_what_a_step_had_and_the_rest_stays():
    old = StepSpec(Kind.RUN, {"command": "x", "env": {"A": "1"}}, timeout_ms=1_000, failures_max=3, fix=7, reads=("b",))
    found = edited("a", old, {"run": "y ", "retry": 1, "env": {"B": "${{ steps.c.outputs.n }}"}}, TASK)
    own = found.specs[found.own]
    assert own.body == {"command": "y ", "env": {"B": "${{ steps.c.outputs.n }}"}}
    assert (own.timeout_ms, own.failures_max, own.reads) == (1_000, 1, ("b", "c"))
    assert "fix" in found.kept


def test_a_planner_whose_outputs_are_said_anew_is_a_planner_still():
    grow = {"stage": "test", "steps_max": 3}
    old = StepSpec(Kind.AGENT, {"prompt": "p", "grow": grow}, outputs={"steps": "list", "n": "integer"}, failures_max=2)
    for words in ({"outputs": {"why": "string"}}, {"agent": {"outputs": {"why": "string"}}}):
        found = edited("a", old, words, TASK)
        own = found.specs[found.own]
        assert own.outputs == {"why": "string", "steps": "list"} and own.body["grow"] == grow
        assert (own.failures_max, own.commits) == (2, False)
    with pytest.raises(BadPlan, match="output 'steps' of a planner is a list"):
        edited("a", old, {"outputs": {"steps": "string"}}, TASK)


@pytest.mark.parametrize(("said", "runtime"), [("", "codex"), ("defaults: {agent: {runtime: opencode}}, ", "opencode")])
def test_what_is_added_to_a_task_in_a_task_takes_what_its_own_steps_take(said: str, runtime: str):
    child = f"{{{said}steps: [{{id: x, agent: {{prompt: p}}}}]}}"
    head = "longtask: 1\nname: t\nworkspace: {repo: .}\n"
    text = f"{head}defaults: {{agent: {{runtime: codex}}}}\nsteps: [{{id: a, task: {{plan: {child}}}}}]"
    (spec,) = [spec for spec in compile_plan(load(text), attended=False).specs if spec.kind is Kind.TASK]
    options = child_of(spec).options
    growth = growth_from([{"id": "y", "agent": {"prompt": "q"}}], Task("c", "c", options, ancestors=(Above("t", "a"),)))
    assert {spec.body["runtime"] for spec in growth.specs} == {runtime}


def test_a_recording_that_is_the_default_is_the_plan_s_wherever_the_steps_come_from(tmp_path: Path):
    words = "defaults: {agent: {runtime: recorded, recording: r.yaml}}"
    text = f"longtask: 1\nname: t\nworkspace: {{repo: .}}\n{words}\nsteps: [{{id: a, agent: {{prompt: p}}}}]"
    graph = placed(compile_plan(load(text), attended=False), tmp_path)
    growth = growth_of(
        "steps: [{id: x, agent: {prompt: p}}]", "f", Task("t", "t", graph.options), folder=tmp_path / "x"
    )
    assert growth.specs[0].body["recording"] == graph.specs[0].body["recording"] == str(tmp_path / "r.yaml")


def test_a_new_fix_comes_with_its_spec():
    found = edited("a", StepSpec(Kind.RUN, {"command": "x"}, fix=7), {"on_failure": {"fix": {"run": "mend"}}}, TASK)
    own = found.specs[found.own]
    assert own.fix is not None and found.specs[own.fix].body["command"] == "mend"
    assert "fix" not in found.kept


def test_words_that_are_given_empty_are_taken_away_and_limits_are_said_as_a_whole():
    body = {"prompt": "p", "runtime": "codex", "env": {"A": "1"}, "limits": {"micros": 5}, "requests_max": 9}
    found = edited("a", StepSpec(Kind.AGENT, body), {"env": {}, "agent": {"limits": {"requests": 3}}}, BARE)
    assert found.specs[found.own].body == {"prompt": "p", "runtime": "codex", "requests_max": 3}


def test_what_a_whole_plan_says_for_all_its_steps_is_not_dropped_in_silence():
    assert "unknown key 'env'" in problems("longtask: 1\nenv: {A: '1'}\nsteps: [{id: x, run: y}]")
    assert "put limits on its agents" in problems("stages: [{name: s, limits: {tokens: 5}, steps: [{id: x, run: y}]}]")


# --- tasks in tasks -----------------------------------------------------------------------------------------------

ONE = "inputs: {module: string}\nsteps:\n- {id: move, run: x, env: {M: '${{ inputs.module }}'}}\n"
EACH = """\
steps:
- id: each
  for_each: [a, b]
  task: {inputs: {module: "${{ item }}"}, plan: plans/one.yaml}
"""


def child_of(spec: StepSpec) -> Graph:
    return codec.load(Graph, spec.body["graph"])


def test_what_a_person_adds_may_name_plans_beside_it(tmp_path: Path):
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "one.yaml").write_text(ONE)
    task = TASK._replace(options=replace(TASK.options, environment={"A": "a"}, secrets=("TOKEN",)))
    growth = growth_of(EACH, "more.yaml", task, folder=tmp_path)
    (item,) = [spec for spec in growth.specs if spec.kind is Kind.TASK]
    child = child_of(item)
    assert growth.planned[0].kind is Kind.FOR_EACH and item.body["inputs"] == {"module": "${{ item }}"}
    assert [step.key for step in child.planned] == ["move"] and child.specs[0].timeout_ms == 300_000
    assert (child.options.environment, child.options.secrets) == ({"A": "a"}, ("TOKEN",)), "as its parent's"
    assert words_of(EACH, "more.yaml", tmp_path)["steps"][0]["task"]["plan"]["inputs"] == {"module": "string"}


def test_what_is_wrong_in_a_plan_beside_it_is_told_by_its_own_lines(tmp_path: Path):
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "one.yaml").write_text(ONE.replace("run: x", "runn: x"))
    staged = "stages:\n- name: s\n" + "".join(f"  {line}\n" for line in EACH.splitlines())
    for text in (EACH, staged):
        with pytest.raises(BadPlan) as found:
            growth_of(text, "more.yaml", TASK, folder=tmp_path)
        (problem,) = found.value.problems
        assert (problem.file, problem.line) == (str(tmp_path / "plans" / "one.yaml"), 3), str(problem)
        assert "unknown key 'runn'" in problem.message


def test_recordings_of_what_is_added_are_named_from_its_folder(tmp_path: Path):
    text = "steps: [{id: b, agent: {prompt: p, runtime: recorded, recording: r.yaml}}]"
    assert growth_of(text, "f", TASK, folder=tmp_path).specs[0].body["recording"] == str(tmp_path / "r.yaml")


def test_a_planner_names_files_of_its_own_folder_or_writes_the_plan_itself(tmp_path: Path):
    (tmp_path / "one.yaml").write_text(ONE)
    steps = [
        {"id": "a", "task": {"inputs": {"module": "m"}, "plan": "one.yaml"}},
        {"id": "b", "task": {"plan": {"steps": [{"id": "c", "task": {"plan": "two.yaml"}}]}}},
    ]
    (tmp_path / "two.yaml").write_text("steps: [{id: d, run: x}]")
    whole = with_plans(steps, tmp_path)
    assert steps[0]["task"]["plan"] == "one.yaml", "what was handed in is left as it is"  # type: ignore[index]
    growth = growth_from(whole, TASK)
    first, second = (spec for spec in growth.specs if spec.kind is Kind.TASK)
    assert [step.key for step in child_of(first).planned] == ["move"]
    (inner,) = [spec for spec in child_of(second).specs if spec.kind is Kind.TASK]
    assert [step.key for step in child_of(inner).planned] == ["d"]
    (tmp_path / "two.yaml").unlink()
    (tmp_path / "one.yaml").unlink()
    with pytest.raises(BadPlan) as found:
        with_plans(steps, tmp_path)
    assert [problem.message for problem in found.value.problems] == [
        "step 'a': its plan: cannot read 'one.yaml': no such file or directory",
        "step 'c': its plan: cannot read 'two.yaml': no such file or directory",
    ]
    (tmp_path / "one.yaml").symlink_to("/etc/hostname")
    with pytest.raises(BadPlan, match="is a symbolic link"):
        with_plans(steps[:1], tmp_path)
    with pytest.raises(BadPlan, match="leads out of the tree"):
        with_plans([{"id": "a", "task": {"plan": "../one.yaml"}}], tmp_path)
    with pytest.raises(BadPlan, match="cannot read"):
        with_plans([{"id": "a", "task": {"plan": "a\0b"}}], tmp_path)
    deep: list = []
    for _ in range(900):
        deep = [deep]
    with pytest.raises(BadPlan, match="nested deeper than 50 levels"):
        with_plans([{"id": "a", "run": "x", "args": deep}], tmp_path)
    for odd in (None, 3, "x", [3], [{"id": 7, "task": {"plan": 3}}], [{"task": "x"}]):
        assert with_plans(odd, tmp_path) == odd, "judged later"


def test_steps_of_a_child_may_name_what_it_was_handed_and_go_four_deep():
    child = TASK._replace(options=TaskOptions(inputs={"module": "m"}), ancestors=(Above("p", "x"),))
    growth_from([{"id": "x", "run": "y", "env": {"M": "${{ inputs.module }}"}}], child)
    with pytest.raises(BadPlan, match="no input 'modul'; did you mean 'module'"):
        growth_from([{"id": "x", "run": "y", "env": {"M": "${{ inputs.modul }}"}}], child)
    deep = child._replace(ancestors=(Above("p", "x"),) * 4)
    with pytest.raises(BadPlan, match="4 deep at most"):
        growth_from([{"id": "x", "task": {"plan": {"steps": [{"id": "y", "run": "z"}]}}}], deep)
