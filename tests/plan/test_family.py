"""Plans in plans: checked with the whole, told where they stand, and what becomes of them."""

import json
import os
from pathlib import Path

import pytest

from longtask import plan
from longtask.core import codec
from longtask.core.errors import BadPlan
from longtask.core.graph import Graph
from longtask.core.model import Kind
from longtask.plan.compile import parsed
from longtask.plan.family import Files
from longtask.plan.problems import Findings, Places

WHOLE = """\
longtask: 1
name: migrate
workspace: {repo: .}
defaults: {timeout: 10m, env: {B: b}}
env: {A: a}
secrets: [TOKEN]
steps:
  - {id: list, run: ls, outputs: {modules: list}}
  - id: each
    needs: [list]
    for_each: "${{ steps.list.outputs.modules }}"
    task:
      inputs: {module: "${{ item }}"}
      plan: %s
  - {id: end, needs: [each], run: x, env: {N: "${{ steps.each.outputs[0].count }}"}}
"""
ONE = """\
inputs: {module: string}
env: {A: own}
limits: {cost_usd: 0.5, parallel: 2}
steps:
  - {id: move, run: move, env: {M: "${{ inputs.module }}"}, commit: true, outputs: {n: integer}}
outputs: {count: "${{ steps.move.outputs.n }}"}
"""


def written(folder: Path, one: str = ONE, whole: str = WHOLE % "modules/one.yaml") -> Path:
    (folder / "modules").mkdir()
    (folder / "modules" / "one.yaml").write_text(one)
    (folder / "plan.yaml").write_text(whole)
    return folder / "plan.yaml"


def child_of(graph: Graph) -> Graph:
    (spec,) = [spec for spec in graph.specs if spec.kind is Kind.TASK]
    return codec.load(Graph, codec.load_json(codec.dump_json(spec.body["graph"])))


def problems(text: str) -> list[str]:
    with pytest.raises(BadPlan) as found:
        plan.load(text)
    return [str(problem) for problem in found.value.problems]


def one_step(task: str) -> str:
    return f"longtask: 1\nname: x\nsteps:\n  - {{id: a, task: {task}}}\n"


def test_a_default_that_the_child_s_plan_says_takes_the_place_of_that_one_alone(tmp_path: Path):
    graph = plan.compile_plan(plan.load_file(written(tmp_path, "defaults: {retry: 2, env: {C: c}}\n" + ONE)))
    child = child_of(graph)
    assert (child.specs[0].timeout_ms, child.specs[0].failures_max) == (600_000, 2)
    assert child.specs[0].body["env"] == {"C": "c", "M": "${{ inputs.module }}"}
    assert child.options.defaults == {"timeout": "10m", "retry": {"max": 2}, "env": {"C": "c"}}


def test_a_plan_in_a_plan_stands_on_what_its_parent_says(tmp_path: Path):
    graph = plan.compile_plan(plan.load_file(written(tmp_path)))
    (spec,) = [spec for spec in graph.specs if spec.kind is Kind.TASK]
    assert spec.body["inputs"] == {"module": "${{ item }}"} and spec.outputs == {"count": "any"}
    assert spec.body["results"] == {"count": "${{ steps.move.outputs.n }}"} and spec.body["sources"] == ["move"]
    child = child_of(graph)
    assert child.name == "each" and child.parallel == 2 and child.options.budget_micros == 500_000
    assert child.options.workspace == {"repo": "."}
    assert child.options.environment == {"A": "own"} and child.options.secrets == ("TOKEN",)
    assert child.specs[0].timeout_ms == 600_000 and child.specs[0].body["env"] == {
        "B": "b",
        "M": "${{ inputs.module }}",
    }


def test_a_file_is_kept_as_a_part_of_the_whole(tmp_path: Path):
    file = written(tmp_path)
    loaded = plan.load_file(file)
    text = plan.whole_text(loaded, file.read_text())
    assert plan.compile_plan(plan.load(text)) == plan.compile_plan(loaded)
    assert plan.whole_text(plan.load(text), text) == text


def test_problems_are_told_in_the_file_in_which_they_stand(tmp_path: Path):
    file = written(tmp_path, ONE.replace("inputs.module", "inputs.modul"))
    with pytest.raises(BadPlan) as found:
        plan.load_file(file)
    (problem,) = found.value.problems
    assert (problem.file, problem.line) == (str(tmp_path / "modules" / "one.yaml"), 5)
    assert "the plan has no input 'modul'; did you mean 'module'?" in str(problem)


def test_a_file_that_is_not_there_is_told_where_it_is_named(tmp_path: Path):
    file = written(tmp_path, whole=WHOLE % "modules/two.yaml")
    with pytest.raises(BadPlan, match=r"plan\.yaml:14:13: .*cannot read .*two\.yaml"):
        plan.load_file(file)


def test_a_plan_that_names_itself_is_refused(tmp_path: Path):
    (tmp_path / "plan.yaml").write_text(one_step("{plan: plan.yaml}"))
    with pytest.raises(BadPlan, match="4 deep at most"):
        plan.load_file(tmp_path / "plan.yaml")


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("{plan: one.yaml}", "is a file, and this plan was not read from one"),
        ("{plan: {}}", "its plan: the plan has no steps"),
        ("{plan: {workspace: ., steps: [{id: b, run: x}]}}", "works on its parent's code"),
        ("{plan: {steps: [{id: b, runs: x}]}}", "its plan: step 'b': unknown key 'runs'"),
        ("{plan: {steps: [{id: b, run: x, needs: [c]}]}}", "its plan: step 'b' needs ['c']: no such step"),
        ("{plan: {steps: [{id: b, run: x}], inputs: {n: string}}}", "has an input 'n'; hand it down"),
        ("{inputs: {n: 1}, plan: {steps: [{id: b, run: x}]}}", "has no input 'n'; it has none"),
        ("{plan: {steps: [{id: b, run: x}], outputs: {o: '${{ steps.c.outputs.x }}'}}}", "steps.c: no such step"),
        ("{inputs: {n: '${{ steps.c.state }}'}, plan: {inputs: {n: any}, steps: [{id: b, run: x}]}}", "no such step"),
        ("{plan: {steps: [{id: b, run: x, env: {V: '${{ steps.a.outputs.x }}'}}]}}", "steps.a: no such step"),
        ("{plan: {steps: [{id: b, run: x}]}}, retry: 2", "retry does not apply to task steps"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plan_in_a_plan(task: str, told: str):
    text = (
        one_step(task)
        if "retry" not in task
        else one_step(task.removesuffix(", retry: 2")).replace("}}\n", "}, retry: 2}\n")
    )
    assert any(told in problem for problem in problems(text)), problems(text)


def test_nobody_hands_inputs_to_a_plan_that_stands_by_itself():
    text = "longtask: 1\nname: x\ninputs: {n: string}\nsteps:\n  - {id: a, run: x, env: {N: '${{ inputs.n }}'}}\n"
    told = problems(text)
    assert any("nobody hands them" in one for one in told) and any("'inputs' is not known here" in one for one in told)


def test_recordings_of_a_plan_in_a_plan_are_named_from_the_folder_of_the_whole(tmp_path: Path):
    inner = "{steps: [{id: b, agent: {prompt: p, runtime: recorded, recording: r.yaml}}]}"
    graph = plan.placed(plan.compile_plan(plan.load(one_step(f"{{plan: {inner}}}"))), tmp_path)
    assert [s.body["recording"] for s in plan.all_specs(graph) if s.kind is Kind.AGENT] == [str(tmp_path / "r.yaml")]


# --- files --------------------------------------------------------------------------------------------------------


def naming(name: str) -> str:
    return one_step(f"{{plan: {name}}}")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("/etc/hostname", "'/etc/hostname' leads out of the tree that it is named in; name a file inside it"),
        ("../other.yaml", "'../other.yaml' leads out of the tree"),
        ("sub/../../other.yaml", "leads out of the tree"),
        ("link.yaml", "'link.yaml' is a symbolic link, and none is followed"),
        ("linked/one.yaml", "'linked' is a symbolic link, and none is followed"),
        ("sub", "'sub' is no file"),
        ("pipe", "'pipe' is no file"),
        ("sub/none.yaml", "cannot read"),
    ],
)
def test_a_plan_names_files_of_its_own_tree_and_no_links(tmp_path: Path, name: str, told: str):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    for file in (tmp_path / "other.yaml", tree / "sub" / "one.yaml"):
        file.write_text("steps: [{id: b, run: x}]")
    (tree / "link.yaml").symlink_to(tree / "sub" / "one.yaml")
    (tree / "linked").symlink_to(tree / "sub")
    os.mkfifo(tree / "pipe")
    (tree / "plan.yaml").write_text(naming(name))
    with pytest.raises(BadPlan) as found:
        plan.load_file(tree / "plan.yaml")
    (problem,) = found.value.problems
    assert f"step 'a': its plan: {told}" in problem.message or told in problem.message
    assert (problem.file, problem.line) == (str(tree / "plan.yaml"), 4)


def test_the_tree_of_a_plan_is_its_repository(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "plans").mkdir()
    (tmp_path / "one.yaml").write_text("steps: [{id: b, run: x}]")
    (tmp_path / "plans" / "plan.yaml").write_text(naming("../one.yaml"))
    assert plan.load_file(tmp_path / "plans" / "plan.yaml").steps[0].id == "a"


def test_all_files_that_cannot_be_read_are_told_with_what_else_is_wrong(tmp_path: Path):
    steps = [{"id": f"s{n}", "task": {"plan": f"no{n}.yaml"}} for n in range(2)] + [{"id": "x", "runn": "y"}]
    (tmp_path / "bad.yaml").write_text("steps: [{id: b, run: 'x}]")
    steps.append({"id": "s3", "task": {"plan": "bad.yaml"}})
    for name in ("plan.json", "plan.yaml"):
        text = json.dumps({"longtask": 1, "name": "x", "steps": steps})
        (tmp_path / name).write_text(text if name == "plan.json" else f"# not JSON\n{text}")
        with pytest.raises(BadPlan) as found:
            plan.load_file(tmp_path / name)
        told = str(found.value)
        assert "no0.yaml" in told and "no1.yaml" in told and "unknown key 'runn'" in told and "not valid YAML" in told


def test_files_are_not_read_beyond_the_limit_of_all_of_them(tmp_path: Path):
    (tmp_path / "one.yaml").write_text("steps: [{id: b, run: x}]" + " " * 100)
    steps = [{"id": f"s{n}", "task": {"plan": "one.yaml"}} for n in range(4)]
    findings = Findings(Places(""))
    raw = {"steps": steps}
    Files(tmp_path, parsed, findings, base=tmp_path, bytes_max=400).put_in(raw, Path())
    (problem,) = [found.message for found in findings.found.values()]
    assert problem.startswith("step 's3': its plan: the plans that are named as files have more than 400 bytes")
    assert steps[2]["task"]["plan"] == {"steps": [{"id": "b", "run": "x"}]}  # type: ignore[index]
