"""A step is completed only when its evidence bears it out; what was missing is told to the next run."""

from __future__ import annotations

from tests.cli.shell import Shell
from tests.cli.test_run import git

PLAN = """
longtask: 1
name: proof
workspace: {repo: .}
stages:
  - name: change
    steps:
      - id: work
        agent: {prompt: "Make it pass.", runtime: recorded, recording: recording.yaml}
        retry: {max: 2, delay: 1ms}
        evidence: {protect: ["*.txt"], change: true}
  - name: test
    steps:
      - id: test
        run: echo "==== 3 passed in 0.01s ===="
        progress: pytest
        evidence: {tests_min: 3}
  - name: deliver
    steps:
      - {id: report, artifact: {report: {name: report.md}}}
"""
RECORDING = """
recording: 1
runs:
  - step: work
    run: 1
    turns:
      - tools: [{tool: edit, path: a.txt, old: one, new: weaker}]
      - text: Done.
  - step: work
    run: 2
    turns:
      - text: Nothing to do.
  - step: work
    run: 3
    turns:
      - tools: [{tool: write, path: b.txt, content: "two\\n"}]
      - text: Done.
"""


def test_protected_files_stay_and_work_that_changes_nothing_is_none(shell: Shell):
    shell.plan(PLAN)
    (shell.cwd / "recording.yaml").write_text(RECORDING)
    done = shell("run", "--foreground", "--dirty", "ignore")
    assert "evidence: 'a.txt' may be neither changed nor deleted" in done.out
    assert "evidence: it has changed nothing" in done.out
    assert "proof-1 completed" in done.out
    assert git(shell, "show", "longtask/proof-1:a.txt") == "one"
    assert git(shell, "show", "longtask/proof-1:b.txt") == "two"
    report = shell.here("artifacts", "@last", "report.md").out
    head = git(shell, "rev-parse", "longtask/proof-1")[:12]
    assert f"3 tests passed on commit `{head}`" in report and "has changed since" not in report


def test_too_few_tests_fail_the_step_though_its_command_succeeded(shell: Shell):
    shell.plan(
        '{"longtask": 1, "name": "few", "steps": [{"id": "test", "run": "echo 2 passed in 0.01s", '
        '"progress": "pytest", "evidence": {"tests_min": 3}}]}'
    )
    failed = shell("run", "--foreground", code=1)
    assert "evidence: 2 tests have passed, at least 3 are to" in failed.out


def test_words_of_evidence_that_could_not_fail_are_refused(shell: Shell):
    shell.plan(
        '{"longtask": 1, "name": "odd", "steps": [{"id": "a", "run": "true", "evidence": {"protect": "x", '
        '"tests_min": 1}}]}'
    )
    said = shell("run", code=2).err
    assert (
        "write `progress: pytest` beside it, or another" in said and "what this step changes is not committed" in said
    )
