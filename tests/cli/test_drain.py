"""A clean SIGTERM: what runs is given back and goes on at another worker at once; the last resort is a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longtask.core.events import StepClaimed, StepCompleted, StepLost, StepReleased
from longtask.store.sqlite import SqliteStore
from tests.cli.shell import Shell, until

GOAL_S, BOUND_S = 2.0, 10.0  # what is promised on a machine that is not busy, and what no machine may need
INSIDE = {"LONGTASK_STEP": "x"}  # no worker is started from inside a step

# The agent is in the midst of a tool, one command ends on SIGTERM, the other does not.
PLAN = """
longtask: 1
name: drained
workspace: {repo: .}
defaults: {agent: {runtime: recorded, recording: RECORDING}}
stages:
  - name: work
    steps:
      - {id: agent, agent: {prompt: "Change a.txt."}}
      - {id: obeys, run: "echo begun; while ! test -e GO; do sleep 0.05; done"}
      - {id: stubborn, run: "trap '' TERM; echo begun; while ! test -e GO; do sleep 0.05; done"}
"""
WORDS = """
recording: 1
runs:
  - step: agent
    turns:
      - text: First.
        tools:
          - {tool: edit, path: a.txt, old: one, new: changed}
          - {tool: shell, command: "echo begun >> BEGUN; while ! test -e GO; do sleep 0.05; done; cat a.txt"}
        usage: {tokens_in: 10, price: 0.001}
      - {text: Done.}
"""
STEPS = ("agent", "obeys", "stubborn")


def submit(shell: Shell, folder: Path) -> tuple[Path, Path]:
    go, begun = folder / "go", folder / "begun"
    recording = folder / "recording.yaml"
    recording.write_text(WORDS.replace("GO", str(go)).replace("BEGUN", str(begun)))
    shell.plan(PLAN.replace("GO", str(go)).replace("RECORDING", str(recording)))
    shell.here("run", "--detach", env=INSIDE)
    return go, begun


@contextmanager
def store_of(shell: Shell) -> Iterator[SqliteStore]:
    store = SqliteStore(shell.home / "longtask.db")
    try:
        yield store
    finally:
        store.close()


def facts(shell: Shell, kind: type[Any]) -> dict[tuple[str, int], int]:
    """When it was told, by step and attempt."""
    with store_of(shell) as store:
        events = store.events(store.get_task("@last").id, 0, 500)
    return {(e.fact.step, getattr(e.fact, "attempt", 0)): e.at for e in events if isinstance(e.fact, kind)}


def all_begun(shell: Shell, begun: Path) -> bool:
    outputs = [shell.here("logs", "@last", key, code=None).out for key in ("obeys", "stubborn")]
    return begun.exists() and all("begun" in output for output in outputs)


def workers(shell: Shell) -> dict[int, str]:
    """Their ids by pid."""
    return {row["pid"]: row["id"] for row in shell.here("fleet", "--json").json["workers"]}


def ended(worker: subprocess.Popen[bytes]) -> str:
    out, _ = worker.communicate()
    return out.decode()


def test_what_a_drained_worker_ran_goes_on_at_another_one_at_once(shell: Shell, tmp_path: Path):
    go, begun = submit(shell, tmp_path)
    first = shell.start("worker")
    until(lambda: all_begun(shell, begun))
    second = shell.start("worker")
    until(lambda: len(workers(shell)) == 2)
    names = workers(shell)
    asked_at = time.time_ns() // 1_000_000
    first.send_signal(signal.SIGTERM)
    said = ended(first)
    assert first.returncode == 0, said
    # the steps wait for `go` for ever: that they go on is due to nothing but the drain
    until(lambda: len([key for key in facts(shell, StepClaimed) if key[1] == 2]) == len(STEPS))
    released, claimed = facts(shell, StepReleased), facts(shell, StepClaimed)
    assert set(released) == {(key, 1) for key in STEPS}
    assert facts(shell, StepLost) == {}
    took_s = {key: (claimed[key, 2] - asked_at) / 1000 for key in STEPS}
    print(f"from SIGTERM to the claim by another worker, in seconds: {took_s}")
    assert max(took_s.values()) < BOUND_S, took_s
    with store_of(shell) as store:
        rows = {row.key: row for row in store.steps(store.get_task("@last").id, "", 100) if row.key in STEPS}
    assert {row.worker for row in rows.values()} == {names[second.pid]}
    assert {(row.failures, row.losses, row.run) for row in rows.values()} == {(0, 0, 1)}
    go.touch()
    shell.here("watch")
    assert facts(shell, StepCompleted).keys() >= {(key, 2) for key in ("obeys", "stubborn")}
    assert shell.here("show", "--json").json["status"] == "completed"
    # the agent went on behind its edit, and the tool that was cut off ran again
    assert begun.read_text() == "begun\nbegun\n"
    second.send_signal(signal.SIGTERM)
    said = ended(second)
    assert second.returncode == 0 and "Traceback" not in said
    assert not shell.processes()


def test_a_second_signal_ends_it_at_once_and_nothing_of_it_lives_on(shell: Shell, tmp_path: Path):
    _, begun = submit(shell, tmp_path)
    worker = shell.start("worker", "--grace", "10m")
    until(lambda: all_begun(shell, begun))
    worker.send_signal(signal.SIGTERM)
    until(lambda: ("obeys", 1) in facts(shell, StepReleased))  # it drains, and `stubborn` has its ten minutes
    worker.send_signal(signal.SIGINT)
    said = ended(worker)
    assert worker.returncode == 128 + signal.SIGINT, said
    until(lambda: not shell.processes())
    assert ("stubborn", 1) not in facts(shell, StepReleased)


def test_a_step_that_is_frozen_is_given_back_all_the_same(shell: Shell, tmp_path: Path):
    go = tmp_path / "go"
    shell.plan(
        f'{{"longtask": 1, "name": "p", "steps": [{{"id": "a", "run": "echo $$ > {tmp_path}/pid; kill -STOP $$; '
        f'while ! test -e {go}; do sleep 0.05; done"}}]}}'
    )
    shell.here("run", "--detach", env=INSIDE)
    worker = shell.start("worker")
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and pid.read_text().strip())
    until(lambda: b") T " in Path(f"/proc/{pid.read_text().strip()}/stat").read_bytes())
    worker.send_signal(signal.SIGTERM)
    said = ended(worker)
    assert worker.returncode == 0, said
    assert list(facts(shell, StepReleased)) == [("a", 1)]
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")
