"""On a terminal: the live tree, questions asked in place, Ctrl-C that only detaches."""

from __future__ import annotations

import re

from tests.cli.shell import Shell, Terminal, until

ASK = """
longtask: 1
name: ask
workspace: {repo: .}
stages:
  - name: change
    steps:
      - {id: edit, run: "echo two >> a.txt", commit: true}
  - name: review
    steps:
      - id: review
        approval:
          ask: Good enough?
          show: [diff]
          on_reject: {revise: {run: "echo three >> a.txt", commit: true}}
"""
WAIT = """
longtask: 1
name: wait
goal: A goal that is much longer than the terminal is wide, so that it has to be cut off somewhere before its end.
stages:
  - name: first
    steps:
      - id: counted
        run: "echo 1/3; echo 2/3; while ! test -e $GO; do sleep 0.05; done; echo 3/3"
        progress: n/m
        env: {GO: %s}
"""


def test_a_question_is_asked_in_place_with_the_diff_at_hand(shell: Shell):
    shell.plan(ASK)
    terminal = Terminal(shell, "run", PAGER="cat")
    terminal.wait_for("review asks")
    terminal.wait_for("Good enough?")
    terminal.wait_for("1 files, +1 -0")
    terminal.wait_for("[a]pprove  [r]eject  [d]iff  [q] leave it open >")
    terminal.type("d\n")
    terminal.wait_for("+two")
    terminal.type("what?\nr\n")
    terminal.wait_for("why?")
    terminal.type("\n")
    terminal.wait_for("rejecting takes a reason")
    terminal.type("r\nthree is missing\n")
    terminal.wait_for("+2 -0")  # asked anew, on the revised change
    terminal.type("approve\n")
    terminal.wait_for("ask-1 completed after")
    assert terminal.end() == 0
    told = shell.here("events").out
    assert "three is missing" in told and "approve by ann" in told


COSTLY = """
longtask: 1
name: costly
stages:
  - name: change
    limits: {tokens: 1000}
    steps:
      - {id: one, agent: {prompt: "Do it.", runtime: recorded, recording: recording.yaml}}
      - {id: two, needs: [one], agent: {prompt: "Do it.", runtime: recorded, recording: recording.yaml}}
"""
RECORDING = """
recording: 1
runs:
  - {step: one, turns: [{text: Done., usage: {tokens_in: 1100}}]}
  - {step: two, turns: [{text: Done.}]}
"""


def test_a_limit_is_raised_in_place(shell: Shell):
    shell.plan(COSTLY)
    (shell.cwd / "recording.yaml").write_text(RECORDING)
    terminal = Terminal(shell, "run")
    terminal.wait_for("[r]aise the limit  raise it for the whole [s]tage  [g]ive up  [q] leave it open >")
    terminal.type("s\n")
    terminal.wait_for("costly-1 completed after")
    assert terminal.end() == 0
    assert "longtask.raised" in [event["type"] for event in shell.here("events", "--json").lines]


def test_a_question_that_is_left_open_ends_with_3_and_the_commands(shell: Shell):
    shell.plan(ASK)
    terminal = Terminal(shell, "run")
    terminal.wait_for("[q] leave it open >")
    terminal.type("q\n")
    terminal.wait_for("longtask approve ask-1 review")
    assert terminal.end() == 3
    watching = Terminal(shell, "watch")
    watching.wait_for("[q] leave it open >")
    shell.here("approve", "ask-1")  # somebody else is faster
    watching.wait_for("it is answered")
    assert watching.end() == 0


def test_ctrl_c_detaches_and_the_work_goes_on(shell: Shell):
    go = shell.home / "go"
    shell.plan(WAIT % go)
    terminal = Terminal(shell, "run", columns=60)
    terminal.wait_for("2/3")
    drawn = [line for line in terminal.screen.splitlines() if line.startswith("  A goal")]
    assert drawn and all(len(line) <= 60 and line.endswith("…") for line in drawn)
    assert b"\x1b[?25l" in terminal.raw  # no cursor while it is drawn
    terminal.type("\x03")
    terminal.wait_for("detached; the work goes on; come back with: longtask watch wait-1")
    assert terminal.end() == 130
    assert terminal.raw.rindex(b"\x1b[?25h") > terminal.raw.rindex(b"\x1b[?25l")
    assert shell.here("show", "--json").json["status"] == "running"
    go.touch()
    shell.here("watch")


def test_a_closed_terminal_ends_the_view_and_not_the_work(shell: Shell):
    go = shell.home / "go"
    shell.plan(WAIT % go)
    terminal = Terminal(shell, "run")
    terminal.wait_for("2/3")
    terminal.hang_up()
    assert len(shell.workers()) == 1
    go.touch()
    shell.here("watch")


def test_colours_are_for_terminals_that_want_them(shell: Shell):
    shell.plan('{"longtask": 1, "name": "p", "steps": [{"id": "a", "run": "true"}]}')
    shell.here("run", "-d", env={"LONGTASK_STEP": "x"})
    coloured = Terminal(shell, "show")
    assert coloured.end() == 0 and b"\x1b[" in coloured.raw
    for plain in (Terminal(shell, "show", NO_COLOR="1"), Terminal(shell, "show", TERM="dumb")):
        assert plain.end() == 0
        assert b"\x1b" not in plain.raw and "p-1  queued" in plain.screen
    assert "\x1b" not in shell.here("show").out
    narrow = Terminal(shell, "show", columns=24)
    assert narrow.end() == 0 and all(len(line) <= 24 for line in narrow.screen.splitlines()[:3])


def test_a_dumb_terminal_gets_lines(shell: Shell):
    shell.plan('{"longtask": 1, "name": "p", "steps": [{"id": "a", "run": "true"}]}')
    terminal = Terminal(shell, "run", TERM="dumb")
    terminal.wait_for("p-1 completed after")
    assert terminal.end() == 0
    assert re.search(r"s  step\.completed     a", terminal.screen) and b"\x1b" not in terminal.raw


def test_ctrl_c_in_the_foreground_gives_back_what_runs(shell: Shell):
    shell.plan(WAIT % (shell.home / "go"))
    terminal = Terminal(shell, "run", "--foreground")
    terminal.wait_for("2/3")
    terminal.type("\x03")
    terminal.wait_for("nothing works on it now")
    assert terminal.end() == 130
    step = shell.here("show", "--json").json["steps"][0]
    assert step["state"] == "ready" and step["attempt"] == 1
    assert until(lambda: not shell.processes())
