"""What the commands that look print, for people and for programs."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import LONGTASK, Shell

PLAN = """
longtask: 1
name: look
goal: Something to look at.
workspace: {repo: .}
stages:
  - name: first
    steps:
      - {id: edit, run: "echo two >> a.txt; echo 1/2; echo 2/2", commit: true, progress: n/m}
      - {id: tolerated, run: "echo oh no; exit 3", when_failed: continue}
      - {id: unwanted, run: "true", if: "false"}
      - {id: each, for_each: [a, b, c], run: "echo $ITEM", env: {ITEM: "${{ item }}"}}
  - name: second
    steps:
      - {id: broken, run: "printf 'red \\\\033[31mtext\\\\033[0m\\\\n'; echo name=value >> $LONGTASK_OUTPUT; exit 1"}
      - {id: after, run: "true", needs: [broken]}
      - {id: patch, needs: [edit], artifact: {patch: {name: change.patch}}}
  - name: third
    steps:
      - {id: never, run: "true"}
"""
DOCS = Path(__file__).parents[2] / "docs" / "json.md"


@pytest.fixture(scope="module")
def world(world: Shell) -> Iterator[Shell]:
    world.plan(PLAN)
    world("run", "--foreground", code=1)
    yield world


def documented(*keys: str) -> set[str]:
    """The keys of the map in docs/json.md that begins with these."""
    maps = [
        re.findall(r'"(\w+)"', re.sub(r': ?"[^"]*"', "", text)) for text in re.findall(r"\{[^{}]*\}", DOCS.read_text())
    ]
    return next(set(found) for found in maps if tuple(found[: len(keys)]) == keys)


def test_show_tells_every_step_and_why_it_is_so(world: Shell):
    shown = world.here("show").out
    assert shown.splitlines()[0].startswith("look-1  failed  100%  ")
    for text in (
        r"✓ edit +[\d.]+s  2/2",
        r"✗ tolerated +[\d.]+s  tolerated  exit code 3",
        r"– unwanted +not wanted",
        r"✓ each +3/3 items",
        r"  ✓ each\[2\]",
        r"✗ broken +[\d.]+s  exit code 1",
        r"– after +because of 'broken'",
        r"second  failed",
        r"third  skipped",
        r"– never +because of stage 'second'",
    ):
        assert re.search(text, shown), text
    starts = {line.index("s  ") for line in shown.splitlines() if re.search(r"\ds  ", line[20:])}
    assert len(starts) <= 2  # the head line, and one column of times


def test_show_as_json_has_the_documented_shape(world: Shell):
    shown = world.here("show", "--json").json
    assert set(shown) == documented("id", "handle") - {"asks"} | documented("state", "workspace")
    steps = {step["key"]: step for step in shown["steps"]}
    assert all(set(step) == documented("key", "kind") for step in steps.values())
    assert [stage["status"] for stage in shown["stages"]] == ["completed", "failed", "skipped"]
    assert set(shown["stages"][0]) == documented("name", "status")
    assert list(steps)[:3] == ["edit", "tolerated", "unwanted"]  # the plan's order
    assert steps["each[1]"]["owner"] == "each" and steps["unwanted"]["benign"]
    assert steps["edit"]["result"]["summary"] == "2/2"
    assert shown["status"] == "failed" and shown["head"] != shown["base"] and shown["steps_left_out"] == 0


def test_lists_have_the_documented_shapes(world: Shell):
    (task,) = world.here("--json", "ls").json
    assert set(task) == documented("id", "handle")
    assert all(set(reason) == documented("what", "since") for reason in world.here("why", "--json").json)
    assert set(world.here("artifacts", "--json").json[0]) == documented("name", "digest")
    assert set(world.here("diff", "--json").json) == documented("task", "base")
    assert set(world.here("diff", "--json").json["files"][0]) == documented("path", "insertions")
    assert world.here("diff", "@last", "edit", "--stat").out == "a.txt  +1 -0\n"
    assert set(world.here("files", "--json").json[0]) == documented("path", "kind")
    assert world.here("files", "@last", "a.txt").out == "one\ntwo\n"
    assert world.here("files", "@last", "a.txt", "--at", "base").out == "one\n"
    assert "no file fits" in world.here("files", "--match", "*.md").out
    assert "is not in commit" in world.here("files", "@last", "b.txt", code=2).err
    assert all(set(line) == documented("n", "at") for line in world.here("logs", "@last", "edit", "--json").lines)
    assert set(world.here("plan", "check", "--json").json) == documented("ok", "name")
    shown = world.here("plan", "show", "--json").json
    assert set(shown) == documented("name", "goal") and set(shown["steps"][0]) == documented("id", "kind")
    assert ["edit", "patch"] in shown["edges"]
    assert world.here("plan", "schema").json["$schema"]
    assert set(world.here("doctor", "--json", code=None).json) == documented("ok", "tasks")


def test_events_are_cloud_events_without_a_gap(world: Shell):
    events = world.here("events", "--json").lines
    assert all(set(event) == documented("specversion", "id") for event in events)
    numbers = list(dict.fromkeys(event["seq"] for event in events))
    assert numbers == sorted(numbers) and numbers[0] == 1
    assert events[0]["type"] == "longtask.started" and events[-1]["type"] == "longtask.failed"
    later = world.here("events", "--json", "--after", str(numbers[3])).lines
    assert later == [event for event in events if event["seq"] > numbers[3]]
    told = world.here("events").out
    assert re.search(r"^ +1  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  longtask\.started", told)
    assert "step.skipped       after  because of 'broken'" in told


def test_watching_as_json_ends_with_how_it_stands(world: Shell):
    lines = world.here("watch", "--json", code=1).lines
    assert all(set(line) == documented("specversion", "id") for line in lines[:-1])
    end = lines[-1]
    assert set(end) == documented("type", "task", "handle", "status", "exit_code")
    assert (end["type"], end["status"], end["exit_code"], end["waits"]) == ("view.ended", "failed", 1, [])


def test_logs_are_plain_and_of_the_attempt_that_is_named(world: Shell):
    assert world.here("logs", "@last", "broken").out == "red text\n"
    assert world.here("logs", "@last", "each[1]").out == "b\n"
    assert "has no attempt 2; the newest is 1" in world.here("logs", "@last", "broken", "--attempt", "2", code=2).err
    assert "it has not run yet; longtask why look-1 never" in world.here("logs", "@last", "never", code=1).err


def test_why_names_what_blocks_since_when_and_the_command_that_helps(world: Shell):
    told = world.here("why").out
    assert re.search(r"broken failed: exit code 1: .* \(since [\d.]+\w+\)", told)
    assert "  longtask retry look-1 broken\n" in told and "  longtask skip look-1 broken\n" in told
    assert "after was skipped: 'broken' did not succeed" in world.here("why", "@last", "after").out
    assert "never was skipped: stage 'second' did not succeed" in world.here("why", "@last", "never").out
    assert "unwanted was skipped: it was not wanted" in world.here("why", "@last", "unwanted").out


def test_names_that_fit_nothing_are_answered_with_the_nearest(world: Shell):
    assert "did you mean 'look-1'?" in world.here("show", "lok-1", code=2).err
    assert "did you mean 'look-1'?" in world.here("show", "look", code=2).err
    assert "list them: longtask ls" in world.here("show", "zzz", code=2).err
    assert (
        "task 'look-1' has no step 'brokn'; did you mean 'broken'?" in world.here("why", "@last", "brokn", code=2).err
    )
    assert "longtask show look-1" in world.here("why", "@last", "zzzzzz", code=2).err
    assert "list them: longtask artifacts look-1" in world.here("artifacts", "@last", "x", code=2).err
    error = world.here("show", "zzz", "--json", code=2).json
    assert error["error"] == "not_found" and error["exit_code"] == 2 and "zzz" in error["message"]
    task_id = world.here("show", "--json").json["id"]
    assert world.here("show", task_id[:13]).out == world.here("show", task_id).out


def test_a_prefix_that_fits_several_is_refused_with_both(shell: Shell):
    shell.plan('{"longtask": 1, "name": "p", "steps": [{"id": "a", "run": "true"}]}')
    ids = [shell.here("run", "-d", "--json", env={"LONGTASK_STEP": "x"}).json["task"] for _ in range(2)]
    refused = shell.here("show", ids[0][:8], code=None)
    assert refused.code != 0 and all(task_id in refused.err for task_id in ids) and "more characters" in refused.err


def test_a_database_named_on_the_command_line_stands_in_the_printed_commands(shell: Shell, tmp_path: Path):
    file = str(tmp_path / "other.db")
    shell.plan('{"longtask": 1, "name": "p", "steps": [{"id": "a", "approval": {"ask": "well?"}}]}')
    waits = shell("--database", file, "run", code=3)
    assert f"longtask --database {file} approve p-1 a" in waits.out
    assert shell.here("ls").out.startswith("no tasks yet")
    listed = [shell.here("ls", "--database", file).out, shell.here(f"--database={file}", "ls").out]
    assert listed[0].split()[:-1] == listed[1].split()[:-1] != [], "the same but for the age at the end"
    shell.here("approve", "p-1", "--database", file)
    shell.here("watch", "p-1", "--database", file)


def test_output_that_nobody_reads_any_more_is_no_error(world: Shell):
    command = f"{LONGTASK} events --json | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=world.environment(), capture_output=True, cwd=world.cwd
    )
    assert json.loads(done.stdout)["seq"] == 1 and done.stderr == b"" and done.returncode == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_marks_that_it_has(world: Shell, encoding: str):
    done = world("show", env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert "+ edit" in done.out and "x broken" in done.out and "- after" in done.out
    shown: Any = world("show", "--json", env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}).json
    assert shown["handle"] == "look-1"
