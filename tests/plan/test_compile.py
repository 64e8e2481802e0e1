"""What a plan compiles to: steps of the graph, specs with all defaults filled in, options of the task."""

import json
import time
from pathlib import Path

import pytest

from longtask.core import graph as core
from longtask.core.errors import BadPlan
from longtask.core.graph import Graph
from longtask.core.model import Kind, RunWhen, StepSpec, WhenFailed
from longtask.plan import Plan, compile_plan, from_values, load, warnings
from longtask.plan.specs import CONFLICT_PROMPT
from tests.plan.texts import AGENT, HEAD, REPO, steps

EXAMPLE = """\
longtask: 1
name: session-to-jwt
goal: Move authentication from server sessions to JWT with refresh tokens.
workspace: {repo: ., base: main, setup: "npm ci", cache: [node_modules]}
defaults: {agent: {runtime: recorded, recording: recording.yaml, model: big}, timeout: 30m}
limits: {cost_usd: 20, tokens: 3_000_000, active: 12h, parallel: 3}
env: {CI: true, LEVEL: 3}
secrets: [NPM_TOKEN]
priority: 5
stages:
  - name: analyse
    steps:
      - {id: analysis, agent: {prompt: "List every module that touches the session.", outputs: {modules: list}}}
  - name: change
    steps:
      - {id: backend, agent: {prompt: "Do the back end.", model: small}}
      - {id: modules, for_each: "${{ steps.analysis.outputs.modules }}", agent: {prompt: "Migrate ${{ item }}"}}
  - name: test
    steps:
      - id: integration
        run: pytest -q
        progress: pytest
        on_failure: {fix: {agent: {prompt: "Make the failing tests pass; do not weaken a test."}, rounds_max: 2}}
  - name: release
    steps:
      - {id: ci, wait: {signal: ci.completed, match: {sha: "${{ task.head }}"}, timeout: 6h}}
      - id: migration
        approval:
          ask: Apply the migration to users and sessions?
          show: [diff, artifacts.migration, "files:sql/*.sql"]
          on_reject: {revise: {agent: {prompt: Revise it.}}, rounds_max: 4}
      - {id: patch, artifact: {patch: {}}}
"""


def compiled(text: str, **words) -> Graph:
    return compile_plan(load(text, "p.yaml"), **words)


def spec(graph: Graph, key: str) -> StepSpec:
    return next(graph.specs[p.spec] for p in graph.planned if p.key == key)


def planned(graph: Graph, key: str) -> core.Planned:
    return next(p for p in graph.planned if p.key == key)


def test_the_example_of_the_design_compiles_and_builds():
    graph = compiled(EXAMPLE)
    rows, edges = core.build(graph)
    assert [row.key for row in rows] == [
        "analysis", "backend", "modules", "integration", "ci", "migration", "patch",
        "gate.1", "gate.2", "gate.3", "gate.4",
    ]  # fmt: skip
    assert ("gate.1", "backend") in edges
    assert (graph.name, graph.parallel, graph.priority) == ("session-to-jwt", 3, 5)


def test_options_of_the_task_are_as_written():
    options = compiled(EXAMPLE).options
    assert options.goal.startswith("Move authentication")
    assert options.workspace == {"repo": ".", "base": "main", "setup": "npm ci", "cache": ["node_modules"]}
    assert options.stages == ("analyse", "change", "test", "release")
    assert (options.budget_micros, options.budget_tokens, options.active_max_ms) == (20_000_000, 3_000_000, 43_200_000)
    assert options.environment == {"CI": "true", "LEVEL": "3"}
    assert options.secrets == ("NPM_TOKEN",)
    assert not options.fail_fast
    assert len(options.plan_digest or "") == 64
    assert compiled(EXAMPLE).options.plan_digest == options.plan_digest
    assert compiled(EXAMPLE + "\n# a comment changes nothing\n").options.plan_digest == options.plan_digest


def test_money_is_exact():
    assert compiled(steps("{id: a, run: x}", head=HEAD + "limits: {cost_usd: 0.07}\n")).options.budget_micros == 70_000


def test_a_plan_without_a_workspace_has_none_and_a_path_is_enough():
    assert compiled(steps("{id: a, run: x}")).options.workspace is None
    assert compiled(steps("{id: a, run: x}", head=HEAD + "workspace: code\n")).options.workspace == {"repo": "code"}


def test_an_agent_step_takes_runtime_and_recording_from_the_defaults():
    graph = compiled(EXAMPLE)
    analysis = spec(graph, "analysis")
    assert analysis.kind is Kind.AGENT
    assert analysis.body == {
        "prompt": "List every module that touches the session.",
        "runtime": "recorded",
        "recording": "recording.yaml",
        "model": "big",
    }
    assert (analysis.outputs, analysis.commits, analysis.timeout_ms) == ({"modules": "list"}, True, 1_800_000)
    assert spec(graph, "backend").body["model"] == "small"


def test_what_commits_has_a_conflict_spec_with_its_own_agent():
    graph = compiled(EXAMPLE)
    for key, model in (("analysis", "big"), ("backend", "small")):
        number = spec(graph, key).conflict
        assert number is not None
        conflict = graph.specs[number]
        assert conflict.kind is Kind.AGENT
        assert conflict.commits
        assert conflict.body["prompt"] == CONFLICT_PROMPT
        assert conflict.body["model"] == model
        assert conflict.conflict == number  # its merge may conflict as well
    assert spec(graph, "integration").conflict is None


def test_without_any_agent_nobody_resolves_conflicts():
    graph = compiled(steps("{id: a, run: x, commit: true}", head=HEAD + REPO))
    assert spec(graph, "a").commits
    assert spec(graph, "a").conflict is None
    graph = compiled(steps("{id: a, run: x, commit: true}", head=HEAD + REPO + AGENT))
    assert spec(graph, "a").conflict is not None


def test_a_command_is_a_text_or_a_list_of_words():
    graph = compiled(steps("{id: a, run: true}", "{id: b, run: [sleep, 5]}"))
    assert spec(graph, "a").body == {"command": "true"}
    assert spec(graph, "b").body == {"command": ["sleep", "5"]}
    assert not spec(graph, "a").commits


def test_environments_of_defaults_and_step_are_joined():
    text = steps(
        "{id: a, run: x, env: {B: 2, PORT: 080}, secrets: [C], silence: 90s}",
        "{id: b, run: x}",
        head=HEAD + "defaults: {env: {A: '${{ task.name }}', B: 1}, silence: 5m}\n",
    )
    graph = compiled(text)
    body = {"env": {"A": "${{ task.name }}", "B": "2", "PORT": "080"}, "secrets": ["C"], "silence_ms": 90_000}
    assert spec(graph, "a").body == {"command": "x", **body}
    assert spec(graph, "b").body == {
        "command": "x",
        "env": {"A": "${{ task.name }}", "B": "1"},
        "silence_ms": 300_000,
    }


def test_a_fix_is_a_spec_of_its_own():
    graph = compiled(EXAMPLE)
    integration = spec(graph, "integration")
    assert integration.body == {"command": "pytest -q", "progress": "pytest"}
    assert integration.fix is not None
    assert integration.fix_rounds_max == 2
    fix = graph.specs[integration.fix]
    assert (fix.kind, fix.commits, fix.timeout_ms) == (Kind.AGENT, True, 1_800_000)
    text = steps("{id: a, run: x, on_failure: {fix: {run: y, on_failure: {fix: {run: z}, rounds_max: 5}}}}")
    first = spec(compiled(text), "a")
    assert first.fix is not None
    second = compiled(text).specs[first.fix]
    assert (first.fix_rounds_max, second.fix_rounds_max) == (3, 5)
    assert second.fix is not None
    assert compiled(text).specs[second.fix].body == {"command": "z"}


def test_an_approval_freezes_what_it_shows_and_may_ask_for_a_revision():
    graph = compiled(EXAMPLE)
    migration = spec(graph, "migration")
    assert migration.body == {
        "ask": "Apply the migration to users and sessions?",
        "show": ["diff", "artifacts.migration", "sql/*.sql"],
        "bind": "frozen",
    }
    assert migration.revise is not None
    assert migration.revise_rounds_max == 4
    assert graph.specs[migration.revise].body["prompt"] == "Revise it."
    assert (migration.failures_max, migration.timeout_ms) == (0, None)
    text = steps("{id: a, approval: {ask: x, who: ann, expires: 2d, bind: head}}")
    assert spec(compiled(text), "a").body == {
        "ask": "x", "show": [], "bind": "head", "who": ["ann"], "expires_ms": 172_800_000,
    }  # fmt: skip


def test_a_wait_is_for_a_signal_or_for_a_time():
    graph = compiled(EXAMPLE)
    assert spec(graph, "ci").body == {
        "signal": "ci.completed", "match": {"sha": "${{ task.head }}"}, "timeout_ms": 21_600_000,
    }  # fmt: skip
    assert spec(compiled(steps("{id: a, wait: {timer: 2h}}")), "a").body == {"timer_ms": 7_200_000}


def test_an_artifact_is_named_after_its_step():
    assert spec(compiled(EXAMPLE), "patch").body == {"kind": "patch", "name": "patch"}
    graph = compiled(
        steps(
            "{id: a, artifact: {report: {title: T}}}",
            "{id: b, artifact: {files: {paths: '*.md', name: docs}}, retry: 1, timeout: 1m}",
            head=HEAD + REPO,
        )
    )
    assert spec(graph, "a").body == {"kind": "report", "name": "a", "title": "T"}
    assert spec(graph, "b").body == {"kind": "files", "name": "docs", "paths": ["*.md"]}
    assert (spec(graph, "b").failures_max, spec(graph, "b").timeout_ms) == (1, 60_000)


def test_a_function_has_arguments():
    graph = compiled(steps("{id: a, function: 'pkg.mod:f', args: {n: 1, t: '${{ task.id }}'}, inline: true}"))
    assert spec(graph, "a").body == {
        "function": "pkg.mod:f", "args": {"n": 1, "t": "${{ task.id }}"}, "inline": True,
    }  # fmt: skip


def test_a_mutex_belongs_to_the_work_and_not_to_what_waits_for_it():
    graph = compiled(
        f"{HEAD}steps:\n"
        "  - {id: deploy, run: x, mutex: staging, on_failure: {fix: {run: y, mutex: repo}}}\n"
        "  - {id: each, for_each: [1, 2], run: z, mutex: staging}\n"
    )
    deploy, each = spec(graph, "deploy"), spec(graph, "each")
    assert (deploy.mutex, each.mutex) == ("staging", None)
    assert deploy.fix is not None and graph.specs[deploy.fix].mutex == "repo"
    assert each.item is not None and graph.specs[each.item].mutex == "staging"


def test_a_for_each_holds_its_list_and_the_spec_of_its_work():
    graph = compiled(EXAMPLE)
    modules = spec(graph, "modules")
    assert planned(graph, "modules").pool == "system"
    assert (modules.kind, modules.items) == (Kind.FOR_EACH, "steps.analysis.outputs.modules")
    assert (modules.reads, modules.parallel_max, modules.failures_max) == (("analysis",), 16, 0)
    assert modules.item is not None
    work = graph.specs[modules.item]
    assert (work.kind, work.body["prompt"], work.reads) == (Kind.AGENT, "Migrate ${{ item }}", ())
    text = steps(
        "{id: s, run: x}",
        "{id: a, run: x, needs: [s], for_each: [1, '${{ steps.s.state }}'], parallel_max: 2, pool: gpu, retry: 2, "
        "if: steps.s.state == 'completed', env: {I: '${{ item }}', J: '${{ index }}'}, "
        "on_failure: {fix: {run: fix, env: {I: '${{ item }}'}}}}",
    )
    graph = compiled(text)
    outer = spec(graph, "a")
    assert (outer.items, outer.parallel_max, outer.reads) == ([1, "${{ steps.s.state }}"], 2, ("s",))
    assert outer.condition == "steps.s.state == 'completed'"
    assert planned(graph, "a").conditional
    assert outer.item is not None
    inner = graph.specs[outer.item]
    assert (inner.pool, inner.failures_max, inner.condition) == ("gpu", 2, None)
    assert inner.fix is not None
    assert graph.specs[inner.fix].pool == "gpu"


def test_budgets_come_from_the_step_then_from_the_defaults():
    text = steps(
        "{id: a, run: x, retry: {max: 1, delay: 5s}, losses_max: 0, timeout: 1m, repeatable: false}",
        "{id: b, run: x}",
        "{id: c, wait: {timer: 1s}}",
        head=HEAD + "defaults: {retry: 4, losses_max: 9, timeout: 2m, pool: big}\n",
    )
    graph = compiled(text)
    a, b, c = (spec(graph, key) for key in "abc")
    assert (a.failures_max, a.retry_delay_ms, a.losses_max, a.timeout_ms, a.repeatable) == (1, 5_000, 0, 60_000, False)
    assert (b.failures_max, b.retry_delay_ms, b.losses_max, b.timeout_ms, b.repeatable) == (4, 1_000, 9, 120_000, True)
    assert (c.failures_max, c.losses_max, c.timeout_ms) == (0, 9, None)
    assert [p.pool for p in graph.planned] == ["big", "big", "system"]


def test_rows_carry_what_decisions_need():
    text = steps(
        "{id: a, run: x}",
        "{id: b, run: x, needs: a, if: \"${{ steps.a.state == 'completed' }}\", run_when: always, "
        "when_failed: continue, weight: 7}",
        "{id: c, run: x, needs: [], if: false}",
    )
    graph = compiled(text)
    b, c = planned(graph, "b"), planned(graph, "c")
    assert (b.needs, b.run_when, b.when_failed, b.weight) == (("a",), RunWhen.ALWAYS, WhenFailed.CONTINUE, 7)
    assert (b.conditional, b.path) == (True, "steps[1]")
    assert (c.needs, planned(graph, "a").needs) == ((), None)
    assert (spec(graph, "b").condition, spec(graph, "b").reads) == ("steps.a.state == 'completed'", ("a",))
    assert spec(graph, "c").condition == "false"


def test_when_failed_is_ask_when_somebody_watches():
    text = steps("{id: a, run: x}", "{id: b, run: x, when_failed: stop}")
    assert [p.when_failed for p in compiled(text, attended=True).planned] == [WhenFailed.ASK, WhenFailed.STOP]
    assert [p.when_failed for p in compiled(text).planned] == [WhenFailed.STOP, WhenFailed.STOP]
    text = steps("{id: a, run: x}", head=HEAD + "defaults: {when_failed: continue}\n")
    assert [p.when_failed for p in compiled(text, attended=True).planned] == [WhenFailed.CONTINUE]
    assert compiled(text, attended=True).options.attended


def test_equal_steps_share_a_spec():
    graph = compiled(
        steps(
            "{id: a, run: x}",
            "{id: b, run: x, needs: [a], weight: 5}",
            "{id: c, run: y}",
            "{id: d, run: x, env: {A: '${{ task.id }}'}}",
            "{id: e, run: x, env: {A: '${{ task.id }}'}}",
        )
    )
    assert [p.spec for p in graph.planned] == [0, 0, 1, 2, 2]


def test_a_hundred_thousand_equal_steps_compile_in_seconds():
    plan = Plan(name="wide")
    stage = plan.stage("all")
    for n in range(20_000):
        stage.function(f"f{n}", "m:f", inline=True)
    began = time.process_time()
    graph = compile_plan(plan)
    assert time.process_time() - began < 3  # 0.6 s here; five times this plan took 3.2 s
    assert (len(graph.specs), len(graph.planned)) == (1, 20_000)


@pytest.mark.parametrize("far", [False, True])
def test_a_long_chain_that_reads_is_checked_in_seconds(far):
    plan = Plan(name="chain")
    ids = [f"s{n}" for n in range(3_000)]
    for n, id in enumerate(ids):
        reads = {"A": f"${{{{ steps.{ids[0 if far else n - 2]}.state }}}}"} if n > 1 else {}
        plan.run(id, "x", needs=ids[n - 1 : n], env=reads)
    plan.run("apart", "x", env={"A": "${{ steps.s0.state }}"}, needs=[])
    began = time.process_time()
    with pytest.raises(BadPlan) as caught:
        compile_plan(plan)
    assert [p.message for p in caught.value.problems] == [
        "step 'apart': reads steps.s0, but does not wait for it; add `needs: [s0]`"
    ]
    assert time.process_time() - began < 5  # 1 s here; searching back from every step took minutes


def test_a_repository_plan_of_the_examples_holds():
    path = Path(__file__).parents[2] / "examples" / "modernise-vobject" / "longtask.yaml"
    plan = load(path.read_bytes(), "longtask.yaml")
    assert core.build(compile_plan(plan))[0]
    assert warnings(plan) == []


def test_code_beside_an_approval_is_a_warning():
    text = (
        HEAD
        + REPO
        + AGENT
        + (
            "steps:\n"
            "  - {id: before, agent: {prompt: x}}\n"
            "  - {id: look, needs: [before], approval: {ask: x, show: diff}}\n"
            "  - {id: after, needs: [look], agent: {prompt: x}}\n"
            "  - {id: beside, needs: [before], agent: {prompt: x}}\n"
            "  - {id: each, for_each: [1, 2], agent: {prompt: x}}\n"
            "  - {id: harmless, run: x}\n"
            "  - {id: last, run: x, run_when: always, needs: [after]}\n"
        )
    )
    assert [str(w) for w in warnings(load(text, "p.yaml"))] == [
        "p.yaml:7:5: step 'look': 'beside', 'each' may change the code while it is asked; the answer counts for what "
        "was shown. Use `needs` or stages to order them, or `bind: head` to ask anew",
        "p.yaml:12:34: step 'last' has `run_when: always`, but it does not run in a task that is cancelled",
    ]
    assert warnings(load(EXAMPLE, "p.yaml")) == []


def test_plain_values_make_the_same_plan_as_their_text():
    plan = load(EXAMPLE, "p.yaml")
    assert from_values(plan.dump()) == plan
    assert load(json.dumps(plan.dump()), "p.json") == plan
    with pytest.raises(BadPlan, match="name is missing"):
        from_values({"longtask": 1, "steps": [{"id": "a", "run": "x"}]})
    with pytest.raises(BadPlan, match="a plan is a mapping"):
        from_values([1])


def test_an_editors_schema_line_is_taken():
    plan = load('{"$schema": "schema.json", "longtask": 1, "name": "a", "steps": [{"id": "a", "run": "x"}]}', "p.json")
    assert "$schema" not in plan.dump()
