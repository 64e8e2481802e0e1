"""Plans in Python: the same model, by methods."""

from datetime import timedelta

import pytest

from longtask.core.errors import BadPlan
from longtask.plan import AgentDefaults, Defaults, Limits, Plan, Workspace, compile_plan, fix, load
from tests.plan.test_compile import EXAMPLE


def test_the_builder_makes_the_same_plan_as_yaml():
    plan = Plan(
        name="session-to-jwt",
        goal="Move authentication from server sessions to JWT with refresh tokens.",
        workspace=Workspace(repo=".", base="main", setup="npm ci", cache=["node_modules"]),
        defaults=Defaults(
            agent=AgentDefaults(runtime="recorded", recording="recording.yaml", model="big"), timeout="30m"
        ),
        limits=Limits(cost_usd=20, tokens=3_000_000, active="12h", parallel=3),
        env={"CI": True, "LEVEL": 3},  # type: ignore[dict-item]
        secrets=["NPM_TOKEN"],
        priority=5,
    )
    analysis = plan.stage("analyse").agent(
        "analysis", "List every module that touches the session.", outputs={"modules": "list"}
    )
    change = plan.stage("change")
    change.agent("backend", "Do the back end.", model="small")
    change.agent("modules", "Migrate ${{ item }}", for_each=analysis.output("modules"))
    plan.stage("test").run(
        "integration",
        "pytest -q",
        progress="pytest",
        on_failure=fix(agent={"prompt": "Make the failing tests pass; do not weaken a test."}, rounds_max=2),
    )
    release = plan.stage("release")
    release.wait("ci", "ci.completed", match={"sha": "${{ task.head }}"}, deadline=timedelta(hours=6))
    release.approval(
        "migration",
        "Apply the migration to users and sessions?",
        show=["diff", "artifacts.migration", "files:sql/*.sql"],
        on_reject={"revise": {"agent": {"prompt": "Revise it."}}, "rounds_max": 4},
    )
    release.patch("patch")
    made, written = compile_plan(plan), compile_plan(load(EXAMPLE, "p.yaml"))
    assert [(p.key, p.kind, p.stage, p.needs) for p in made.planned] == [
        (p.key, p.kind, p.stage, p.needs) for p in written.planned
    ]
    for mine, theirs in zip(made.planned, written.planned, strict=True):
        assert made.specs[mine.spec].body == written.specs[theirs.spec].body, mine.key
    assert made.options.workspace == written.options.workspace


def test_a_step_can_be_needed_and_read():
    plan = Plan(name="a")
    first = plan.run("first", ["make", "list"], outputs={"n": "integer"})
    second = plan.function("second", "m:f", args={"n": first.output("n")}, needs=[first])
    plan.report("report", title="What was done", needs=second)
    graph = compile_plan(plan)
    assert [p.needs for p in graph.planned] == [None, ("first",), ("second",)]
    assert graph.specs[graph.planned[1].spec].reads == ("first",)
    assert load_dump(plan) == plan


def load_dump(plan: Plan) -> Plan:
    return Plan.model_validate(plan.dump())


def test_words_that_do_not_fit_are_told_when_they_are_written():
    stage = Plan(name="a").stage("s")
    with pytest.raises(BadPlan) as caught:
        stage.run("c", [], need=[1], retry={"max": -1, "x": 1}, timeout="30", commit="yes")  # type: ignore[call-arg,arg-type]
    assert [p.message for p in caught.value.problems] == [
        "step 'c': run must be a shell command, or a list of words without a shell; found a list",
        "step 'c': retry.max must be at least 0, found -1",
        "step 'c': unknown key 'x' in retry; known here: max, delay",
        "step 'c': timeout 30 has no unit; write 30s, 30m or 30h",
        "step 'c': commit must be true or false, found 'yes'; write true or false",
        "step 'c': unknown key 'need'; did you mean 'needs'?",
    ]
    with pytest.raises(BadPlan, match="stage '': name is empty"):
        Plan(name="a").stage("")
    with pytest.raises(BadPlan, match="on_failure: unknown key 'command' in fix"):
        fix(command="x")
    assert stage.steps == []


def test_every_kind_of_step_has_its_method():
    plan = Plan(name="a", workspace=Workspace())
    plan.run("a", "x")
    plan.function("b", "m:f", inline=True)
    plan.agent("c", "x", runtime="recorded", recording="r.yaml", tools=["read"])
    plan.approval("d", "x", bind="head", who=["ann"], expires="2d")
    plan.wait("e", timer=timedelta(minutes=5))
    plan.patch("f")
    plan.report("g")
    plan.files("h", ["*.md"], name="docs")
    assert [p.kind for p in compile_plan(plan).planned] == [
        "run", "function", "agent", "approval", "wait", "artifact", "artifact", "artifact",
    ]  # fmt: skip
    assert load_dump(plan) == plan
