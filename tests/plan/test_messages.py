"""Every way to write a bad plan, with the words and the place of its message."""

import pytest

from longtask.agents.catalog import RUNTIMES
from longtask.core.errors import BadPlan
from longtask.plan import Plan, compile_plan, load
from tests.plan.texts import AGENT, HEAD, REPO, problems, said, steps

ONE = "steps: [{id: a, run: x}]\n"
KNOWN = ", ".join(RUNTIMES)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("name: x\n" + ONE, ["1:1: the version of the language is missing; begin with `longtask: 1`"]),
        (
            "longtask: 2\nname: x\nfrom_the_future: 1\n",
            ["1:11: longtask: 2 is newer than this version reads (1); update longtask"],
        ),
        ("longtask: '1'\nname: x\n" + ONE, ["1:11: longtask must be 1, the version of the language; found '1'"]),
        (
            '{"longtask": "1", "name": "x", "steps": [{"id": "a", "run": "x"}]}',
            ["1:14: longtask must be 1, the version of the language; found '1'"],
        ),
        ("longtask: true\nname: x\n" + ONE, ["1:11: longtask must be 1, the version of the language; found true"]),
        (HEAD, ["1:1: the plan has no steps; give it `stages`, or `steps` for a single stage"]),
        (HEAD + "stages: []\n", ["1:1: the plan has no steps; give it `stages`, or `steps` for a single stage"]),
        (HEAD + "steps:\n", ["3:1: steps has no value; give it one, or leave it out"]),
        ("longtask: 1\n" + ONE, ["1:1: name is missing"]),
        (
            "longtask: 1\nname: My Plan!\n" + ONE,
            [
                "2:7: name 'My Plan!': letters, digits, dots, dashes and underscores, at most 80; write 'my-plan'",
            ],
        ),
        (
            HEAD + "stages: [{name: s, steps: [{id: a, run: x}]}]\nsteps: [{id: b, run: x}]\n",
            ["4:1: the plan has both `stages` and `steps`; move the steps into a stage"],
        ),
        (
            HEAD + "stages: [{name: a}, {name: a, steps: [{id: a, run: x}]}, {steps: []}, {name: ''}, text]\n",
            [
                "3:28: stage 'a' is there twice; stage 1 has the same name",
                "3:58: stage 3: name is missing",
                "3:78: stage '': name is empty",
                "3:83: stage 5: it must be a mapping of names to values, found 'text'",
            ],
        ),
        (
            HEAD + "gaol: x\ntimeout: 3m\nparallel: 4\nrepo: .\n" + ONE,
            [
                "3:1: unknown key 'gaol'; did you mean 'goal'?",
                "4:1: unknown key 'timeout'; it belongs into defaults",
                "5:1: unknown key 'parallel'; it belongs into limits",
                "6:1: unknown key 'repo'; it belongs into workspace",
            ],
        ),
        (
            HEAD + "limits: {cost_usd: 0, tokens: -1, active: 0s, parallel: many, wall: 3h}\n" + ONE,
            [
                "3:20: limits.cost_usd must be above 0, found 0",
                "3:31: limits.tokens must be at least 1, found -1",
                "3:43: limits.active must be longer than nothing; leave it out for no limit",
                "3:57: limits.parallel must be a whole number, found 'many'",
                "3:63: unknown key 'wall' in limits; known here: cost_usd, tokens, active, parallel",
            ],
        ),
        (
            HEAD + "workspace: {repo: '', dirty: maybe, bse: x}\n" + ONE,
            [
                "3:19: workspace.repo is empty",
                "3:30: workspace.dirty must be one of ignore, include; found 'maybe'",
                "3:37: unknown key 'bse' in workspace; did you mean 'base'?",
            ],
        ),
        (
            HEAD + "defaults: {env: {A: '${{ steps.x }}'}, timeout: 0s, silence: 5, agent: {runtime: gpt}}\n" + ONE,
            [
                "3:21: defaults.env.A: 'steps' is not known here; only `task.` is",
                "3:49: defaults.timeout must be longer than nothing; leave it out for no limit",
                "3:62: defaults.silence 5 has no unit; write 5s, 5m or 5h",
                f"3:82: defaults.agent.runtime 'gpt' is not known; this version knows {KNOWN}",
            ],
        ),
        (
            HEAD + "env: {A: '${{ task.id }}', b-c: x}\nsecrets: [A]\ngoal: '${{ task.id }}'\n" + ONE,
            [
                "3:10: env.A: no expression is evaluated here; write the value",
                "3:28: env name 'b-c' is no name of a variable; write letters, digits and underscores",
                "4:10: secrets and env both set 'A'; one name, one value",
                "5:7: goal: no expression is evaluated here; write the value",
            ],
        ),
        (
            HEAD + "fail_fast: yes\npriority: high\n" + ONE,
            [
                "3:12: fail_fast must be true or false, found 'yes'; write true or false",
                "4:11: priority must be a whole number, found 'high'",
            ],
        ),
    ],
)
def test_what_stands_above_the_steps(text, messages):
    assert problems(text) == messages


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("{run: x}", "step number 1: id is missing"),
        ("{id: 5, run: x}", "step number 1: id must be text, found 5"),
        ("{id: my-step, run: x}", "step id 'my-step': ids are [a-z][a-z0-9_]*; write 'my_step'"),
        ("{id: MyStep, run: x}", "step id 'MyStep': ids are [a-z][a-z0-9_]*; write 'my_step'"),
        ("{id: 1st, run: x}", "step id '1st': ids are [a-z][a-z0-9_]*; write 'step_1st'"),
        ("{id: über, run: x}", "step id 'über': ids are [a-z][a-z0-9_]*; write 'ber'"),
        ("{id: '', run: x}", "step id '': ids are [a-z][a-z0-9_]*; write 'step'"),
        (
            "{id: " + "a" * 65 + ", run: x}",
            "step id 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…' has 65 characters, the limit is 64",
        ),
        ("just text", "step number 1: it must be a mapping of names to values, found 'just text'"),
        (
            "{id: a}",
            "step 'a': the step does nothing; give it one of run, function, agent, approval, wait, artifact, "
            "call or task",
        ),
        (
            "{id: a, run: x, function: 'm:f'}",
            "step 'a': it names run and function; a step does one thing, make it 2 steps",
        ),
        ("{id: a, run: x, timout: 3m}", "step 'a': unknown key 'timout'; did you mean 'timeout'?"),
        ("{id: a, run: x, run-when: always}", "step 'a': unknown key 'run-when'; did you mean 'run_when'?"),
        ("{id: a, run: x, zzz: 1}", "step 'a': unknown key 'zzz'"),
        ("{id: a, prompt: x}", "step 'a': unknown key 'prompt'; it belongs into agent"),
        ("{id: a, run: x, rounds_max: 3}", "step 'a': unknown key 'rounds_max'; it belongs into on_failure"),
        ("{id: a, run: x, needs: }", "step 'a': needs has no value; give it one, or leave it out"),
        (
            "{id: a, run: []}",
            "step 'a': run must be a shell command, or a list of words without a shell; found a list",
        ),
        (
            "{id: a, run: {b: c}}",
            "step 'a': run must be a shell command, or a list of words without a shell; found a mapping",
        ),
        ("{id: a, function: foo}", "step 'a': function must be `package.module:name`, found 'foo'"),
        ("{id: a, run: x, args: {b: 1}}", "step 'a': args does not apply to run steps; leave it out"),
        ("{id: a, run: x, inline: true}", "step 'a': inline does not apply to run steps; leave it out"),
        (
            "{id: a, run: x, progress: lines}",
            "step 'a': progress must be one of pytest, unittest, jest, vitest, cargo, go, maven, gradle, tap, n/m; "
            "found 'lines'",
        ),
        ("{id: a, run: x, junit: /r.xml}", "step 'a': junit '/r.xml' is no path below the top of the repository"),
        ("{id: a, run: x, junit: [a, ../b]}", "step 'a': junit '../b' is no path below the top of the repository"),
        ("{id: a, function: 'a:b', junit: a}", "step 'a': junit does not apply to function steps; leave it out"),
        ("{id: a, run: x, retry: -1}", "step 'a': retry.max must be at least 0, found -1"),
        ("{id: a, run: x, retry: {delay: 3s}}", "step 'a': retry.max is missing"),
        (
            "{id: a, run: x, retry: twice}",
            "step 'a': retry must be a number of further attempts, or `{max, delay}`; found 'twice'",
        ),
        ("{id: a, run: x, timeout: 30}", "step 'a': timeout 30 has no unit; write 30s, 30m or 30h"),
        (
            "{id: a, run: x, timeout: 3 m}",
            "step 'a': timeout '3 m' is not a duration; write whole numbers with d, h, m, s or ms, "
            "such as 30m or 1h30m",
        ),
        ("{id: a, run: x, timeout: 0s}", "step 'a': timeout must be longer than nothing; leave it out for no limit"),
        ("{id: a, run: x, timeout: 9999d}", "step 'a': timeout '9999d' is longer than ten years; is the unit right?"),
        ("{id: a, run: x, weight: 1.5}", "step 'a': weight must be a whole number, found 1.5"),
        (
            "{id: a, run: x, when_failed: contine}",
            "step 'a': when_failed must be one of ask, stop, continue; found 'contine'; did you mean 'continue'?",
        ),
        (
            "{id: a, run: x, run_when: on_failure}",
            "step 'a': run_when must be one of success, failure, always; found 'on_failure'; did you mean 'failure'?",
        ),
        ("{id: a, run: x, needs: [{b: c}]}", "step 'a': needs[0] must be text, found a mapping"),
        (
            "{id: a, run: x, outputs: {n: str}}",
            "step 'a': outputs.n must be one of string, number, integer, boolean, list, map, any; found 'str'; "
            "did you mean 'string'?",
        ),
        (
            "{id: a, run: x, outputs: {b-c: string}}",
            "step 'a': output 'b-c' is no name; write letters, digits and underscores",
        ),
        (
            "{id: a, run: x, pool: system}",
            "step 'a': pool 'system' is for schedulers; write another word, such as 'default'",
        ),
        (
            "{id: a, run: x, pool: a b}",
            "step 'a': pool 'a b' is no name of a pool; write another word, such as 'default'",
        ),
        (
            "{id: a, run: x, commit: true}",
            "step 'a': commit needs code to commit, and the plan has no `workspace`; add `workspace: {repo: .}`",
        ),
        ("{id: a, run: x, env: {B: [1]}}", "step 'a': env.B must be text, found a list"),
        ("{id: a, run: x, env: {B: }}", "step 'a': env.B has no value; give it one, or leave it out"),
        (
            "{id: a, run: x, secrets: [b c]}",
            "step 'a': secret 'b c' is no name of a variable; write letters, digits and underscores",
        ),
        ("{id: a, run: x, env: {B: 1}, secrets: [B]}", "step 'a': secrets and env both set 'B'; one name, one value"),
        (
            "{id: a, run: x, for_each: 5}",
            "step 'a': for_each must be an expression such as ${{ steps.ID.outputs.NAME }}, or a list; found 5",
        ),
        (
            "{id: a, run: x, for_each: [1], parallel_max: 300}",
            "step 'a': parallel_max is 300, the limit is 256",
        ),
        (
            "{id: a, run: x, parallel_max: 3}",
            "step 'a': parallel_max is for steps with `for_each`; `limits.parallel` bounds the whole task",
        ),
        ("{id: a, run: x, needs: [a]}", "step 'a' needs itself"),
        ("{id: a, task: {}}", "step 'a': task.plan is missing"),
        ("{id: a, run: x, mutex: a b}", "step 'a': mutex 'a b' is no name; write a word such as 'staging'"),
        (
            "{id: a, approval: {ask: x}, mutex: y}",
            "step 'a': mutex does not apply to approval steps; whoever waits holds none; put it on the steps that "
            "need it",
        ),
        ("{id: a, artifact: {report: {}}, mutex: y}", "step 'a': mutex does not apply to artifact steps; leave it out"),
        # agent
        (
            "{id: a, agent: {prompt: x}}",
            "step 'a': no agent runtime is named; write `runtime` here or in `defaults.agent` "
            f"(this version knows {KNOWN})",
        ),
        (
            "{id: a, agent: {prompt: x, runtime: langgraph, ask: [pay]}}",
            "step 'a': agent.ask would not hold: a graph calls its tools itself; ask by `interrupt` in it",
        ),
        (
            "{id: a, agent: {prompt: x, runtime: openai-agents}, sandbox: bubblewrap, network: false}",
            "step 'a': network runtime `openai-agents` asks its model from inside of the sandbox: true",
        ),
        (
            "{id: a, agent: {prompt: x, runtime: recoded}}",
            "step 'a': agent.runtime 'recoded' is not known; did you mean 'recorded'?",
        ),
        (
            "{id: a, agent: {prompt: x, runtime: gpt}}",
            f"step 'a': agent.runtime 'gpt' is not known; this version knows {KNOWN}",
        ),
        (
            "{id: a, agent: {prompt: x, runtime: recorded}}",
            "step 'a': runtime `recorded` replays a recording; name its file: `recording: PATH`",
        ),
        ("{id: a, agent: {runtime: recorded, recording: r}}", "step 'a': agent.prompt is missing"),
        ("{id: a, agent: do it}", "step 'a': agent must be a mapping of names to values, found 'do it'"),
        (
            "{id: a, agent: {prompt: x, runtime: recorded, recording: r, tools: [reed]}}",
            "step 'a': tool 'reed' is not known; did you mean 'read'?",
        ),
        (
            "{id: a, agent: {prompt: x, runtime: recorded, recording: r, tools: [bash]}}",
            "step 'a': tool 'bash' is not known; there are read, write, edit, shell, search, ask_person, spawn, note",
        ),
        (
            "{id: a, agent: {prompt: x, runtime: recorded, recording: r, outputs: {n: list}}, outputs: {n: list}}",
            "step 'a': output 'n' is declared twice, in the step and in its agent",
        ),
        (
            "{id: a, agent: {prompt: x, runtime: recorded, recording: r, timeout: 3m}}",
            "step 'a': unknown key 'timeout' in agent; it belongs into the step",
        ),
        *(
            (
                f"{{id: a, agent: {{prompt: x, runtime: recorded, recording: r, {word}: x}}}}",
                f"step 'a': `{word}` comes with a later version of the language; leave it out",
            )
            for word in ("mcp", "skills", "memory")
        ),
        # approval
        ("{id: a, approval: {}}", "step 'a': approval.ask is missing"),
        ("{id: a, approval: {ask: x, show: [dif]}}", "step 'a': cannot show 'dif'; did you mean 'diff'?"),
        (
            "{id: a, approval: {ask: x, show: [other]}}",
            "step 'a': cannot show 'other'; write `diff`, `artifacts.NAME` or `files:GLOB`",
        ),
        ("{id: a, approval: {ask: x, show: diff}}", "step 'a': cannot show a diff: the plan has no `workspace`"),
        (
            "{id: a, approval: {ask: x, bind: hard}}",
            "step 'a': approval.bind must be one of frozen, head; found 'hard'; did you mean 'head'?",
        ),
        (
            "{id: a, approval: {ask: x, expires: 0s}}",
            "step 'a': approval.expires must be longer than nothing; leave it out for no limit",
        ),
        (
            "{id: a, approval: {ask: x, timeout: 3h}}",
            "step 'a': unknown key 'timeout' in approval; write `expires`",
        ),
        (
            "{id: a, approval: {ask: x}, timeout: 3h}",
            "step 'a': timeout does not apply to approval steps; write `expires` inside the approval",
        ),
        ("{id: a, approval: {ask: x}, retry: 2}", "step 'a': retry does not apply to approval steps; leave it out"),
        ("{id: a, approval: {ask: x}, pool: y}", "step 'a': pool does not apply to approval steps; leave it out"),
        (
            "{id: a, approval: {ask: x, on_reject: {revise: {prompt: y}}}}",
            "step 'a': unknown key 'prompt' in approval.on_reject.revise; it belongs into agent",
        ),
        # wait
        ("{id: a, wait: {}}", "step 'a': a wait has either `signal` or `timer`"),
        ("{id: a, wait: {signal: b, timer: 3s}}", "step 'a': a wait has either `signal` or `timer`"),
        (
            "{id: a, wait: {timer: 3s, timeout: 1m}}",
            "step 'a': wait.timeout belongs to a `signal`; a timer has only its time",
        ),
        (
            "{id: a, wait: {signal: b c}}",
            "step 'a': wait.signal 'b c' is no name; write a word such as 'ci.completed'",
        ),
        (
            "{id: a, wait: {signal: b}, timeout: 3h}",
            "step 'a': timeout does not apply to wait steps; write `timeout` inside the wait",
        ),
        ("{id: a, wait: {poll: x}}", "step 'a': `poll` comes with a later version of the language; leave it out"),
        # call
        ("{id: a, call: {}}", "step 'a': call.url is missing"),
        ("{id: a, call: {url: x}}", "step 'a': call.url 'x' is no address; write https://HOST/PATH"),
        ("{id: a, call: {url: 'ftp://x/y'}}", "step 'a': call.url 'ftp://x/y' is no address; write https://HOST/PATH"),
        (
            "{id: a, call: {url: 'https://me:pw@x/'}}",
            "step 'a': call.url holds a name or a password; write them as `secret_headers`",
        ),
        (
            "{id: a, call: {url: 'https://x', headers: {'a b': c}}}",
            "step 'a': call.headers 'a b' is no name of a header; write letters, digits and dashes",
        ),
        (
            "{id: a, call: {url: 'https://x', headers: {Idempotency-Key: c}}}",
            "step 'a': call.headers 'Idempotency-Key' is set by longtask itself; leave it out",
        ),
        (
            "{id: a, call: {url: 'https://x', headers: {A: c}, secret_headers: {a: B}}}",
            "step 'a': call.secret_headers and headers both set 'a'; one name, one value",
        ),
        (
            "{id: a, call: {url: 'https://x', secret_headers: {A: 'Bearer x y'}}}",
            "step 'a': call.secret_headers must name variables of the worker's environment, which hold the values; one "
            "of them is no name",
        ),
        (
            "{id: a, call: {url: 'https://x', timeout: 0s}}",
            "step 'a': call.timeout must be longer than nothing; leave it out for no limit",
        ),
        (
            "{id: a, call: {url: 'https://x'}, timeout: 3m}",
            "step 'a': timeout does not apply to call steps; write `timeout` inside the call",
        ),
        (
            "{id: a, call: {url: 'https://x'}, secrets: [B]}",
            "step 'a': secrets does not apply to call steps; write `secret_headers` inside the call",
        ),
        (
            "{id: a, run: x, env: {A: '${{ callback.url }}'}}",
            "step 'a': env.A: 'callback' is not known here; only what a `call` sends may name it",
        ),
        (
            "{id: a, call: {url: 'https://x', body: {a: ['${{ callback.token }}']}}}",
            "step 'a': call.body.a[0]: unknown name 'callback.token'; a call has callback.url and callback.key",
        ),
        # artifact
        ("{id: a, artifact: {}}", "step 'a': an artifact is one of patch, report, files; found none"),
        (
            "{id: a, artifact: {report: {}, files: {paths: [x]}}}",
            "step 'a': an artifact is one of patch, report, files; found report and files",
        ),
        (
            "{id: a, artifact: {patch: {}}}",
            "step 'a': a patch artifact is made of the code, and the plan has no `workspace`",
        ),
        ("{id: a, artifact: patch}", "step 'a': artifact must be a mapping of names to values, found 'patch'"),
        ("{id: a, artifact: {files: {}}}", "step 'a': artifact.files.paths is missing"),
        (
            "{id: a, artifact: {report: {name: b c}}}",
            "step 'a': artifact.report.name 'b c' is no name; write letters, digits, dots and dashes",
        ),
        (
            "{id: a, artifact: {pull_request: {}}}",
            "step 'a': `pull_request` comes with a later version of the language; leave it out",
        ),
        # fixes
        (
            "{id: a, run: x, on_failure: {fix: {run: y}, other: 1}}",
            "step 'a': unknown key 'other' in on_failure; known here: fix, rounds_max",
        ),
        (
            "{id: a, run: x, on_failure: {fix: {run: y, rounds_max: 2}, rounds_max: 3}}",
            "step 'a': on_failure.fix.rounds_max says 2, beside it stands 3; write one of them",
        ),
        (
            "{id: a, run: x, on_failure: {fix: {run: y, rounds_max: 0}}}",
            "step 'a': on_failure.fix.rounds_max must be at least 1, found 0",
        ),
        (
            "{id: a, run: x, on_failure: {fix: {}}}",
            "step 'a': fix does nothing; give it one of run, function or agent",
        ),
        (
            "{id: a, run: x, on_failure: {fix: {approval: {ask: y}}}}",
            "step 'a': unknown key 'approval' in on_failure.fix; it belongs into a step of its own",
        ),
        (
            "{id: a, wait: {timer: 3s}, on_failure: {fix: {run: y}}}",
            "step 'a': on_failure does not apply to wait steps; leave it out",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_step(step, message):
    assert said(steps(step)) == [message]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../b"])
def test_files_stay_within_the_repository(path):
    text = steps(f"{{id: a, artifact: {{files: {{paths: [{path}]}}}}}}", head=HEAD + REPO)
    assert said(text) == [f"step 'a': path '{path}' leaves the repository; write it from its top"]


def test_fixes_of_fixes_go_four_deep():
    fix = "run: y"
    for _ in range(4):
        fix = f"run: y, on_failure: {{fix: {{{fix}}}}}"
    assert said(steps(f"{{id: a, {fix}}}")) == []
    assert said(steps(f"{{id: a, run: y, on_failure: {{fix: {{{fix}}}}}}}")) == [
        "step 'a': fixes of fixes go 4 deep at most"
    ]
    assert said(steps(f"{{id: a, for_each: [1], {fix}}}")) == ["step 'a': fixes of fixes go 4 deep at most"]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            "{id: a, run: 'echo ${{ task.id }}'}",
            "step 'a': run holds `${{ … }}`; what it yields would be read by the shell. Pass the value by `env` "
            'and use it as "$NAME"',
        ),
        (
            "{id: a, run: [echo, '${{ task.id }}']}",
            "step 'a': run holds `${{ … }}`; what it yields would be read by the shell. Pass the value by `env` "
            'and use it as "$NAME"',
        ),
        (
            "{id: a, run: x, env: {A: '${{ item }}'}}",
            "step 'a': env.A: 'item' is not known here; only a step with `for_each` has items",
        ),
        (
            "{id: a, run: x, env: {A: '${{ foo }}'}}",
            "step 'a': env.A: unknown name 'foo'; an expression knows steps, item, index, task, inputs, callback",
        ),
        (
            "{id: a, run: x, env: {A: '${{ stesp.b.outputs.c }}'}}",
            "step 'a': env.A: unknown name 'stesp'; did you mean 'steps'?",
        ),
        (
            "{id: a, run: x, env: {A: '${{ 1 + }}'}}",
            "step 'a': env.A: the expression ends too early at column 4",
        ),
        (
            "{id: a, run: x, env: {A: '${{ 1'}}",
            "step 'a': env.A: an expression that begins with `${{` is not closed with `}}`",
        ),
        (
            "{id: a, run: x, env: {A: '${{ steps.b.result }}'}}",
            "step 'a': env.A: a step has no 'result', only outputs and state; write steps.b.outputs.result",
        ),
        (
            "{id: a, run: x, env: {A: '${{ steps }}'}}",
            "step 'a': env.A: 'steps' must name a step: steps.ID.outputs.NAME",
        ),
        ("{id: a, run: x, env: {A: '${{ steps.zz.state }}'}}", "step 'a': steps.zz: no such step"),
        ("{id: a, run: x, env: {A: '${{ steps.a.state }}'}}", "step 'a': a step cannot read its own outputs"),
        (
            "{id: a, run: x, if: item == 1, for_each: [1]}",
            "step 'a': if: 'item' is not known here; an `if` is decided once, before a for_each is expanded",
        ),
        (
            "{id: a, run: x, for_each: item}",
            "step 'a': for_each: 'item' is not known here; the list cannot depend on its own items",
        ),
        ("{id: a, run: x, if: '${{ true }} yes'}", "step 'a': if: must be one expression, with nothing around it"),
        ("{id: a, run: x, if: lower('A') == 'a'}", "step 'a': if: unknown function 'lower'"),
        (
            "{id: a, function: 'm:f', args: {deep: [{x: '${{ task.foo }}'}]}}",
            "step 'a': args.deep[0].x: unknown name 'task.foo'; a task has task.id, task.name, task.goal, task.base, "
            "task.head",
        ),
        ("{id: a, run: x, silence: '${{ 1 }}'}", "step 'a': silence '${{ 1 }}' is not a duration; write whole numbers "
         "with d, h, m, s or ms, such as 30m or 1h30m"),
        ("{id: a, run: x, needs: [], outputs: {}, secrets: [A], on_failure: {fix: {run: 'y ${{ 1 }}'}}}",
         "step 'a': on_failure.fix.run holds `${{ … }}`; what it yields would be read by the shell. Pass the value by "
         '`env` and use it as "$NAME"'),
    ],
)  # fmt: skip
def test_expressions_are_checked_when_the_plan_is_loaded(step, message):
    assert said(steps(step)) == [message]


def test_all_problems_are_told_at_once_in_the_order_of_the_text():
    text = """\
longtask: 1
name: My Plan
gaol: x
defaults: {agent: {runtime: gpt}, timeout: 30, retries: 2}
stages:
  - name: a
    steps:
      - {id: my-step, run: "echo ${{ item }}", needs: [tset], timout: 3m}
      - {id: test, agent: {prompt: "x ${{ steps.foo.outputs.x"}, on_failure: {fix: {agent: {prompt: 3}}}}
      - {id: pr, artifact: {pull_request: {}}}
      - just text
      - {id: w, wait: {}, if: "1 +"}
      - {id: k, run: , needs: k}
      - {id: k, run: x, needs: [absent, absent]}
    foo: 1
  - nonsense
limits: {parallel: 0}
"""
    assert problems(text) == [
        "2:7: name 'My Plan': letters, digits, dots, dashes and underscores, at most 80; write 'my-plan'",
        "3:1: unknown key 'gaol'; did you mean 'goal'?",
        f"4:29: defaults.agent.runtime 'gpt' is not known; this version knows {KNOWN}",
        "4:44: defaults.timeout 30 has no unit; write 30s, 30m or 30h",
        "4:48: unknown key 'retries' in defaults; did you mean 'retry'?",
        "8:14: step id 'my-step': ids are [a-z][a-z0-9_]*; write 'my_step'",
        "8:28: step 'my-step': run holds `${{ … }}`; what it yields would be read by the shell. Pass the value by "
        '`env` and use it as "$NAME"',
        "8:55: step 'my-step' needs ['tset']: no such step; did you mean 'test'?",
        "8:63: step 'my-step': unknown key 'timout'; did you mean 'timeout'?",
        "9:36: step 'test': agent.prompt: an expression that begins with `${{` is not closed with `}}`",
        "9:101: step 'test': on_failure.fix.agent.prompt must be text, found 3",
        "10:29: step 'pr': `pull_request` comes with a later version of the language; leave it out",
        "11:9: step number 4 of stage 1: it must be a mapping of names to values, found 'just text'",
        "12:23: step 'w': a wait has either `signal` or `timer`",
        "12:31: step 'w': if: the expression ends too early at column 4",
        "13:17: step 'k': run has no value; give it one, or leave it out",
        "13:31: step 'k' needs itself",
        "14:14: step 'k' is there twice; ids are unique within a plan",
        "14:32: step 'k' needs ['absent']: no such step",
        "15:5: stage 'a': unknown key 'foo'; known here: name, limits, steps",
        "16:5: stage 2: it must be a mapping of names to values, found 'nonsense'",
        "17:20: limits.parallel must be at least 1, found 0",
    ]


def test_after_fifty_problems_the_rest_is_counted():
    messages = said(steps(*[f"{{id: s{n}, run: x, retry: -1}}" for n in range(200)]))
    assert len(messages) == 51
    assert messages[-1] == "and 150 more"


def test_cycles_are_drawn_through_needs_and_stages():
    assert problems(steps("{id: a, run: x, needs: [c]}", "{id: b, run: x, needs: a}", "{id: c, run: x, needs: b}")) == [
        "4:5: steps wait for each other: a → b → c → a"
    ]
    text = HEAD + (
        "stages:\n  - {name: s, steps: [{id: a, run: x, needs: [b]}]}\n  - {name: t, steps: [{id: b, run: x}]}\n"
    )
    assert said(text) == ["steps wait for each other: a → stage 1 → b → a"]


def test_reading_a_step_needs_waiting_for_it():
    text = steps(
        "{id: a, run: x, outputs: {n: list}}",
        "{id: b, run: x, env: {A: '${{ steps.a.outputs.n }}'}}",
        "{id: c, run: x, needs: [d], env: {A: '${{ steps.a.outputs.n }}'}}",
        "{id: d, run: x, needs: [a], env: {A: '${{ steps.a.outputs.m }}'}}",
        "{id: e, run: x, needs: [d], if: size(steps.aa.outputs.n) > 1}",
    )
    assert problems(text) == [
        "5:30: step 'b': reads steps.a, but does not wait for it; add `needs: [a]`",
        "7:42: step 'd': step 'a' has no output 'm'; it declares n",
        "8:37: step 'e': steps.aa: no such step; did you mean 'a'?",
    ]
    text = steps("{id: a, run: x}", "{id: b, run: x}", "{id: c, run: x, needs: [b], if: size(steps.a.outputs) > 1}")
    assert said(text) == ["step 'c': reads steps.a, but does not wait for it; add 'a' to its needs"]


def test_a_step_without_needs_may_read_all_earlier_stages_and_no_later_one():
    text = HEAD + (
        "stages:\n  - {name: s, steps: [{id: a, run: x, if: steps.c.state == 'x'}]}\n"
        "  - {name: t, steps: [{id: b, run: x}]}\n"
        "  - {name: u, steps: [{id: c, run: x, if: steps.a.state == 'completed'}]}\n"
    )
    assert said(text) == ["step 'a': reads steps.c, but does not wait for it; add `needs: [c]`"]


def test_outputs_of_a_for_each_are_a_list():
    text = steps(
        "{id: e, run: x, for_each: [1], outputs: {n: string}}",
        "{id: f, run: x, needs: [e], env: {A: '${{ steps.e.outputs.n }}'}}",
        "{id: g, run: x, needs: [e], env: {A: '${{ steps.e.outputs.map(o, o.n) }}', B: '${{ steps.e.outputs[0].n }}'}}",
    )
    assert said(text) == [
        "step 'f': steps.e.outputs is a list, one entry for each item; write steps.e.outputs[0].n, "
        "or steps.e.outputs.map(o, o.n) for all"
    ]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("AKIAIOSFODNN7EXAMPLE", "an AWS access key"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "a GitHub token"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuv", "a GitHub token"),
        ("sk-ant-api03-abcdefghijklmnopqrstuvwxyz", "an Anthropic key"),
        ("sk-proj-a1bcdefghijklmnopqrstuvwxyz01234567", "an OpenAI key"),
        ("xoxb-123456789012-abcdefGHIJ", "a Slack token"),
        ("glpat-abcdefghij0123456789", "a GitLab token"),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "a Google API key"),
        ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "an npm token"),
        ("-----BEGIN RSA PRIVATE KEY-----", "a private key"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.abcdefghijkl", "a signed web token"),
    ],
)
def test_a_literal_key_is_refused_and_never_repeated(key, kind):
    message = (
        f"holds what looks like {kind}; a plan is stored and shown: put its name under `secrets:` and the value into "
        "the worker's environment"
    )
    assert said(steps(f"{{id: a, run: 'x {key}'}}")) == [f"step 'a': run {message}"]
    assert said(steps(f"{{id: a, agent: {{prompt: 'use {key}'}}}}", head=HEAD + AGENT)) == [
        f"step 'a': agent.prompt {message}"
    ]
    assert said(HEAD + f"goal: '{key}'\n" + ONE) == [f"goal {message}"]
    for text in (
        f"{{id: a, run: x, progress: '{key}'}}",
        f"{{id: a, run: x, if: \"'{key}' + 1 +\"}}",
        f"{{id: '{key}'}}",
    ):
        told = "\n".join(said(steps(text)))
        assert told and key not in told


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        ("API_KEY", "abcd1234efgh5678ijkl", True),
        ("DEPLOY_TOKEN", "9f86d081884c7d659a2feaa0c55ad015", True),
        ("DB_PASSWORD", "Tr0ub4dor-and-3-horses", True),
        ("MONKEY", "abcd1234efgh5678ijkl", False),
        ("KEY_FILE", "/etc/keys/abcd1234efgh5678", False),
        ("API_KEY", "${{ task.id }}", False),
        ("PASSWORD", "hunter2", False),
        ("CACHE_KEY", "node-modules-and-pip", False),
        ("TOKEN_URL", "https://example.org/oauth2/token/12345", False),
    ],
)
def test_a_value_under_a_telling_name_is_refused_if_it_looks_drawn_by_chance(name, value, refused):
    told = said(steps(f"{{id: a, run: x, env: {{{name}: '{value}'}}}}"))
    assert [f"step 'a': env.{name} holds what looks like a key" in m for m in told] == [True] * refused
    assert value not in "".join(told)


def test_ordinary_words_are_no_keys():
    text = "task-list risk-based sk-learn desk-top sketch ghp_ AKIA -----BEGIN CERTIFICATE----- " + "sk-" * 1000
    assert said(steps(f"{{id: a, run: '{text}'}}")) == []


def test_a_plan_made_in_python_names_the_path():
    plan = Plan(name="demo")
    plan.stage("s").run("a-b", "x ${{ 1 }}", needs=["c"])
    with pytest.raises(BadPlan) as caught:
        compile_plan(plan)
    assert [str(p) for p in caught.value.problems] == [
        "stages[0].steps[0].id: step id 'a-b': ids are [a-z][a-z0-9_]*; write 'a_b'",
        "stages[0].steps[0].run: step 'a-b': run holds `${{ … }}`; what it yields would be read by the shell. Pass the "
        'value by `env` and use it as "$NAME"',
        "stages[0].steps[0].needs: step 'a-b' needs ['c']: no such step",
    ]


def test_a_loaded_plan_keeps_its_places_for_the_compiler():
    plan = load(steps("{id: a, run: x}", "{id: b, run: x}"), "p.yaml")
    plan.steps[1].needs = ["zzz"]
    with pytest.raises(BadPlan, match=r"p.yaml:5:5: step 'b' needs \['zzz'\]: no such step"):
        compile_plan(plan)


def test_tools_of_the_users_own_code_have_any_name():
    agent = (
        '{prompt: x, runtime: openai-agents, options: {agent: "desk:agent"}, ask: [refund, "pay(A-*)"], deny: [web]}'
    )
    spec = compile_plan(load(HEAD + f"steps: [{{id: a, agent: {agent}}}]\n")).specs[0]
    assert spec.body["ask"] == ["refund", "pay(A-*)"]
