"""A whole task in sandboxes: git, artifacts, functions and an agent's shell work inside, and what leaves is refused."""

from __future__ import annotations

from tests.cli.shell import Shell
from tests.cli.test_run import git
from tests.steps.test_sandbox import needs_bubblewrap

PLAN = """
longtask: 1
name: boxed
workspace: {repo: .}
defaults: {sandbox: bubblewrap, network: false}
stages:
  - name: make
    steps:
      - id: work
        agent: {prompt: "Do it.", runtime: recorded, recording: recording.yaml}
  - name: keep
    steps:
      - {id: notes, artifact: {files: {name: notes.txt, paths: [b.txt]}}}
  - name: use
    steps:
      - id: use
        run: |
          git log --format=%s -1
          cat $LONGTASK_ARTIFACTS/notes.txt
          echo answer=42 >> $LONGTASK_OUTPUT
          echo three >> c.txt
          ! touch ~/outside
        commit: true
      - {id: call, function: "platform:python_version"}
"""
RECORDING = """
recording: 1
runs:
  - step: work
    turns:
      - tools:
          - {tool: shell, command: "git status --short && echo two > b.txt"}
          - {tool: shell, command: "touch ~/outside", fails: true}
      - text: Done.
"""


@needs_bubblewrap
def test_a_task_is_carried_out_in_its_sandboxes(shell: Shell):
    shell.plan(PLAN)
    (shell.cwd / "recording.yaml").write_text(RECORDING)
    done = shell("run", "--foreground", "--dirty", "ignore")
    assert "boxed-1 completed" in done.out
    assert git(shell, "show", "longtask/boxed-1:b.txt") == "two"
    assert git(shell, "show", "longtask/boxed-1:c.txt") == "three"
    said = shell.here("logs", "@last", "use").out
    assert "boxed: work" in said and "two" in said and "Read-only file system" in said
    assert not (shell.home / "outside").exists()


def test_a_network_without_a_sandbox_is_no_promise(shell: Shell):
    shell.plan('{"longtask": 1, "name": "odd", "steps": [{"id": "a", "run": "true", "network": false}]}')
    assert "write `sandbox: bubblewrap`" in shell("run", code=2).err
