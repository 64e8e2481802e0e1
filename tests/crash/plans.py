"""Plans that are killed in the middle.  `HOME` and `RECORDING` are filled in by the scene."""

from pathlib import Path

from tests.crash.scene import Scene

# An agent whose tools edit, then a command that sees the edit, leaves a file behind and writes an output.
ONE = """
    longtask: 1
    name: one
    workspace: {repo: .}
    defaults: {agent: {runtime: recorded, recording: RECORDING}}
    stages:
      - name: change
        steps:
          - {id: edit, agent: {prompt: "Change a.txt."}}
      - name: check
        steps:
          - id: check
            run: |
              grep -qx changed a.txt && grep -qx more a.txt && grep -qx new c.txt
              echo left > leftover.txt
              echo "lines=$(wc -l < a.txt)" >> "$LONGTASK_OUTPUT"
              echo checked
"""
ONE_WORDS = """
    recording: 1
    runs:
      - step: edit
        turns:
          - text: I look first.
            tools: [{tool: read, path: a.txt}, {tool: edit, path: a.txt, old: one, new: changed}]
            usage: {tokens_in: 100, tokens_out: 10, price: 0.001}
          - text: More.
            tools: [{tool: shell, command: "echo more >> a.txt"}, {tool: write, path: c.txt, content: "new\\n"}]
            usage: {tokens_in: 200, tokens_out: 20, price: 0.002}
          - text: Done.
            usage: {tokens_in: 300, tokens_out: 30, price: 0.003}
"""

# Two agents change the same line, a third another file: a merge, and a conflict with its agent.  One that was lost
# begins again upon what the other has made of the line meanwhile.
CLASH = """
    longtask: 1
    name: clash
    workspace: {repo: .}
    defaults: {agent: {runtime: recorded, recording: RECORDING}}
    stages:
      - name: change
        steps:
          - {id: left, agent: {prompt: "Change a.txt."}}
          - {id: right, agent: {prompt: "Change a.txt."}}
          - {id: side, agent: {prompt: "Change b.txt."}}
      - name: check
        steps:
          - {id: check, run: "grep -q left a.txt && grep -q right a.txt && grep -qx side b.txt"}
"""
CLASH_WORDS = """
    recording: 1
    runs:
      - step: left
        turns:
          - {tools: [{tool: shell, command: "sed -i '1s/$/ left/' a.txt"}], usage: {tokens_in: 10, price: 0}}
          - {text: Done.}
      - step: right
        turns:
          - {tools: [{tool: shell, command: "sed -i '1s/$/ right/' a.txt"}], usage: {tokens_in: 10, price: 0}}
          - {text: Done.}
      - step: side
        turns:
          - {tools: [{tool: edit, path: b.txt, old: two, new: side}], usage: {tokens_in: 10, price: 0}}
          - {text: Done.}
      - step: "*.conflict.*"
        turns:
          - text: Both.
            tools: [{tool: write, path: a.txt, content: "left right\\n"}]
            usage: {tokens_in: 10, price: 0}
          - {text: Done.}
"""

# A command makes a file, a person approves, a patch and a report are made.
ASK = """
    longtask: 1
    name: ask
    workspace: {repo: .}
    defaults: {agent: {runtime: recorded, recording: RECORDING}}
    stages:
      - name: change
        steps:
          - {id: make, run: "echo made >> a.txt", commit: true}
      - name: ask
        steps:
          - {id: ok, approval: {ask: "May I?", show: [diff]}}
      - name: release
        steps:
          - {id: diff, artifact: {patch: {name: change.patch}}}
          - {id: report, needs: [diff], artifact: {report: {title: Told}}}
"""

# Tests that fail until an agent has fixed what they test.
FIX = """
    longtask: 1
    name: fix
    workspace: {repo: .}
    defaults: {agent: {runtime: recorded, recording: RECORDING}}
    steps:
      - id: test
        run: grep -qx fixed a.txt
        on_failure: {fix: {agent: {prompt: "Make it pass."}}}
"""
FIX_WORDS = """
    recording: 1
    runs:
      - step: test.fix.1
        turns:
          - {tools: [{tool: edit, path: a.txt, old: one, new: fixed}], usage: {tokens_in: 10, price: 0.01}}
          - {text: Done.}
"""

# A tool, and a command, that leave processes of their own sessions behind and go on for long: but only once.
LONG = """
    longtask: 1
    name: long
    workspace: {repo: .}
    defaults: {agent: {runtime: recorded, recording: RECORDING}}
    steps:
      - {id: agent, agent: {prompt: "Run it."}}
      - id: command
        needs: [agent]
        run: |
          if [ ! -e HOME/command ]; then
            setsid sleep 300 & nohup sleep 300 > /dev/null 2>&1 &
            (setsid sh -c 'sleep 300 & sleep 300' &)
            touch HOME/command; echo half > a.txt; sleep 300
          fi
          cat a.txt
"""
LONG_WORDS = """
    recording: 1
    runs:
      - step: agent
        turns:
          - text: First an edit.
            tools: [{tool: edit, path: a.txt, old: one, new: "1"}]
            usage: {tokens_in: 10, price: 0}
          - text: Now for long.
            tools:
              - tool: shell
                command: |
                  if [ ! -e HOME/tool ]; then
                    setsid sleep 300 & nohup sleep 300 > /dev/null 2>&1 &
                    echo half >> a.txt; touch HOME/tool; sleep 300
                  fi
                  echo whole >> a.txt
            usage: {tokens_in: 10, price: 0}
          - {text: Done.}
"""


# An agent that gives out work twice, with a change of its own that nobody else sees meanwhile.
SPAWN = """
    longtask: 1
    name: spawn
    workspace: {repo: .}
    defaults: {agent: {runtime: recorded, recording: RECORDING}}
    stages:
      - name: change
        steps:
          - {id: lead, agent: {prompt: "Lead it.", subagents: {max: 2}}}
      - name: check
        steps:
          - id: check
            run: |
              printf 'one\\nmore\\ntwo\\nmore\\nmine\\n' | cmp - sum.txt && [ "$(wc -l < a.txt)" = 3 ]
"""
SPAWN_WORDS = """
    recording: 1
    runs:
      - step: lead
        turns:
          - text: Mine first.
            tools:
              - {tool: write, path: mine.txt, content: "mine\\n"}
              - {tool: spawn, tasks: [{name: a, prompt: "More in a.txt."}, {prompt: "More in b.txt."}]}
            usage: {tokens_in: 10, price: 0.001}
          - text: All of it.
            tools: [{tool: shell, command: "cat a.txt b.txt mine.txt >> sum.txt"}]
            usage: {tokens_in: 10, price: 0.001}
          - text: And once more.
            tools: [{tool: spawn, tasks: [{prompt: "Still more in a.txt."}]}]
            usage: {tokens_in: 10, price: 0.001}
          - {text: Done.}
      - step: "lead[[]*"
        turns:
          - tools: [{tool: shell, command: "case $LONGTASK_STEP in *1]) f=b.txt;; *) f=a.txt;; esac; echo more >> $f"}]
            usage: {tokens_in: 10, price: 0.001}
          - {text: Done., outputs: {answer: "There is more."}}
"""


def one(folder: Path, database: str | None = None) -> Scene:
    return Scene(folder, database, ONE, ONE_WORDS)


def clash(folder: Path, database: str | None = None) -> Scene:
    return Scene(folder, database, CLASH, CLASH_WORDS)


def ask(folder: Path, database: str | None = None) -> Scene:
    return Scene(folder, database, ASK)


def fix(folder: Path, database: str | None = None) -> Scene:
    return Scene(folder, database, FIX, FIX_WORDS)


def long(folder: Path, database: str | None = None) -> Scene:
    return Scene(folder, database, LONG, LONG_WORDS)


def spawn(folder: Path, database: str | None = None) -> Scene:
    return Scene(folder, database, SPAWN, SPAWN_WORDS)


PLANS = {plan.__name__: plan for plan in (one, clash, ask, fix, long, spawn)}
