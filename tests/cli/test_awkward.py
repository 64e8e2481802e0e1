"""Files that are not as one expects, from the command line: refused in words, or carried through to the end."""

from __future__ import annotations

from tests.cli.shell import Shell
from tests.cli.test_run import git

PLAN = """
longtask: 1
name: odd
workspace: {repo: .}
stages:
  - name: change
    steps:
      - id: work
        agent: {prompt: "Make it pass.", runtime: recorded, recording: recording.yaml}
        retry: {max: 1, delay: 1ms}
  - name: ask
    steps:
      - {id: ok, approval: {ask: "fine?", show: [diff]}}
  - name: deliver
    steps:
      - {id: names, artifact: {files: {name: names, paths: ["odd*"]}}}
      - {id: link, artifact: {files: {name: link, paths: [link]}}}
"""
RECORDING = r"""
recording: 1
runs:
  - step: work
    run: 1
    turns:
      - tools: [{tool: write, path: secret.key, content: "in clear text\n"}]
      - text: Done.
  - step: work
    run: 2
    turns:
      - tools: [{tool: shell, command: "printf x > \"$(printf 'odd\\351\\n.txt')\"; ln -s /etc/hostname link"}]
      - text: Done.
"""


def test_filters_odd_names_and_links_out_of_the_tree(shell: Shell):
    shell.plan(PLAN)
    (shell.cwd / "recording.yaml").write_text(RECORDING)
    (shell.cwd / ".gitattributes").write_text("*.key filter=crypt\n")
    git(shell, "add", "-A")
    git(shell, "-c", "user.name=ann", "-c", "user.email=ann@example.com", "commit", "-q", "-m", "odd")
    asked = shell("run", "--foreground", code=3)
    assert "'secret.key' would go through filter 'crypt'" in asked.out
    assert {file["path"] for file in shell.here("diff", "@last", "--json").json["files"]} == {"odd\udce9\n.txt", "link"}
    shell("approve", "@last", "ok")
    shell("watch", "@last", code=1)
    shown = shell.here("show", "@last").out
    assert "✓ names" in shown
    assert "no file fits 'link'; what does is git's own, or a link that leads out of the workspace" in shown
    assert git(shell, "cat-file", "-p", "longtask/odd-1:link") == "/etc/hostname"
