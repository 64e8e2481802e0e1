"""Agent steps with real children under real wardens: killed anywhere, they go on elsewhere and repeat nothing."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from longtask.agents.recorded import BANNER
from longtask.agents.witness import count
from longtask.core.errors import HubUnreachable, Refused, StoreBusy
from longtask.core.model import Done, Failed, Parked, Released, Stopped, WaitingFor
from longtask.steps import serving
from longtask.steps.agent import AgentExecutor, AgentHandle
from tests.agents.worker import FileDesk, Story, assignment, git, save_tree, until_ended

ROOT = Path(__file__).parents[2]

TURNS: list[dict[str, Any]] = [
    {
        "text": "First.",
        "tools": [
            {"tool": "shell", "command": '[ -z "$DIE" ] || { kill -9 $(cat "$DIE"); sleep 60; }; echo one >> log.txt'},
            {"tool": "edit", "path": "a.py", "old": "six", "new": "io"},
        ],
        "usage": {"tokens_in": 10, "tokens_out": 2},
    },
    {
        "text": "Then.",
        "tools": [
            {"tool": "write", "path": "new/b.txt", "content": "b\n"},
            {"tool": "shell", "command": "echo two >> log.txt; cat log.txt"},
        ],
    },
    {"text": "Done.", "outputs": {"files": ["a.py", "new/b.txt"]}},
]
# 1 told, 2 turn, 3 shell, 4 edit, 5 turn, 6 write, 7 shell, 8 turn
OUTPUTS = {"files": "list"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub with one file, and the recording."""
    git("init", "--quiet", "--bare", str(tmp_path / "hub"))
    start = tmp_path / "start"
    start.mkdir()
    (start / "a.py").write_text("import six\n")
    (tmp_path / "base").write_text(save_tree(tmp_path / "hub", start))
    record(tmp_path, TURNS)
    monkeypatch.setenv("LONGTASK_WITNESS", str(tmp_path / "witness"))
    return tmp_path


def record(folder: Path, turns: list[dict[str, Any]], step: str = "core") -> None:
    (folder / "recording.json").write_text(json.dumps({"recording": 1, "runs": [{"step": step, "turns": turns}]}))


def story(folder: Path, attempt: int = 1, **more: Any) -> Story:
    place = folder / f"attempt {attempt}"
    place.mkdir()
    body = {
        "prompt": "Do it.",
        "runtime": "recorded",
        "recording": str(folder / "recording.json"),
        **more.pop("body", {}),
    }
    return Story(str(folder), str(place), attempt, body=body, **({"outputs": OUTPUTS} | more))


Attempt = Callable[[Story], dict[str, Any] | None]


@pytest.fixture(scope="module")
def attempt() -> Iterator[Attempt]:
    """Carries out an attempt in a worker process: its outcome, None if the worker was killed."""
    command = [sys.executable, "-m", "tests.agents.worker"]
    workers = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert workers.stdin is not None and workers.stdout is not None

    def carry_out(told: Story) -> dict[str, Any] | None:
        path = Path(told.folder) / f"story-{told.attempt}.json"
        path.write_text(json.dumps(asdict(told)))
        print(path, file=workers.stdin, flush=True)
        return json.loads(workers.stdout.readline())  # type: ignore[union-attr]

    yield carry_out
    workers.communicate()


class Here:
    """The attempt in this process."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.desk = FileDesk(folder / "journal.db")
        self.executor = AgentExecutor(save_tree=lambda place: save_tree(folder / "hub", place))
        told = story(folder, **more)
        (Path(told.place) / "a.py").write_text("import six\n")
        self.handle = self.executor.start(assignment(told, self.desk), self.desk, Path(told.place))

    def end(self) -> Any:
        outcome = until_ended(self.handle)
        self.executor.close()
        return outcome

    @property
    def shown(self) -> str:
        return b"".join(body for _, body in self.desk.said).decode()

    def until_row(self, n: int) -> None:
        end = time.monotonic() + 20
        while all(row["n"] != n for row in self.desk.rows()):
            assert time.monotonic() < end and self.handle.poll() is None


@pytest.fixture
def here(folder: Path) -> Iterator[Any]:
    made: list[Here] = []

    def start(**more: Any) -> Here:
        made.append(Here(folder, **more))
        return made[-1]

    yield start
    for one in made:
        one.executor.close()


def witnessed(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "witness").read_text().splitlines()]


def test_a_recorded_run_is_carried_to_its_end(here, folder):
    run = here()
    outcome = run.end()
    assert outcome == Done({"files": ["a.py", "new/b.txt"]}, artifacts=outcome.artifacts)
    assert (folder / "attempt 1" / "a.py").read_text() == "import io\n"
    assert run.shown.startswith(f"{BANNER}\n» First.\n$ [") and run.shown.endswith("one\ntwo\n» Done.\n")
    assert run.desk.told[-1] == (4, 0, "shell")
    assert [(row["n"], row["kind"], row["name"]) for row in run.desk.rows()] == [
        (1, "told", ""), (2, "turn", "recording"), (3, "tool", "shell"), (4, "tool", "edit"),
        (5, "turn", "recording"), (6, "tool", "write"), (7, "tool", "shell"), (8, "turn", "recording"),
    ]  # fmt: skip
    assert run.desk.newest() == (7, run.desk.rows()[6]["body"]["tree"])


def test_the_transcript_is_an_artifact_and_says_that_it_is_a_recording(here):
    run = here()
    outcome = run.end()
    (artifact,) = outcome.artifacts
    assert artifact["name"] == "transcript/core.1.jsonl"
    head, *lines = map(json.loads, run.desk.artifacts[artifact["name"]].splitlines())
    assert head["note"] == BANNER
    assert lines[0]["body"] == {"text": "Do it.\n\nWhen the work is done, answer with these outputs:\n- files: a list"}
    assert (lines[1]["tokens_in"], lines[1]["micros"]) == (10, None)
    assert [line["n"] for line in lines] == list(range(1, 9))


def test_the_worker_killed_at_every_point_the_run_goes_on_elsewhere_and_repeats_nothing(folder, attempt):
    """One run, and at each point of each kind of call its worker is killed once; each attempt has its own folder."""
    deaths = [
        "started:1", "done:2", "started:3", "saving:3", "saved:3", "done:3", "saving:4", "saved:4", "done:4",
        "started:5", "checkpoint:6", "saved:7", "done:7", "done:8",
    ]  # fmt: skip
    for number, die in enumerate(deaths, 1):
        assert attempt(story(folder, number, die=die)) is None, die
    last = len(deaths) + 1
    outcome = attempt(story(folder, last))
    assert outcome is not None and (outcome["kind"], outcome["result"]) == ("Done", {"files": ["a.py", "new/b.txt"]})
    place = folder / f"attempt {last}"
    assert (place / "log.txt").read_text() == "one\ntwo\n"
    assert (place / "a.py").read_text() == "import io\n" and (place / "new/b.txt").read_text() == "b\n"
    again = {n: sum(line["n"] == n for line in witnessed(folder) if line["kind"] != "end") - 1 for n in range(2, 9)}
    # Done again is only what had been begun: where the worker died between the call and its row.
    assert again == {2: 0, 3: 2, 4: 2, 5: 0, 6: 0, 7: 1, 8: 0}
    assert count(witnessed(folder))[1:] == (7, 0)


def test_a_killed_run_that_had_seen_a_secret_goes_on(folder, attempt, monkeypatch):
    """It was shown the masked text the first time too, so that its next request is the one on record."""
    with monkeypatch.context() as patch:
        patch.setenv("SECRET", "sesame-4711")
        turns: list[dict[str, Any]] = [
            {"tools": [{"tool": "shell", "command": "echo key=$SECRET"}]},
            {"tools": [{"tool": "shell", "command": "echo two >> log.txt"}]},
            {"text": "Done."},
        ]
        record(folder, turns)
        more = {"outputs": {}, "secrets": ["SECRET"], "environment": {"SECRET": "sesame-4711"}}
        assert attempt(story(folder, 1, die="started:5", **more)) is None
        outcome = attempt(story(folder, 2, **more))
    assert outcome is not None and outcome["kind"] == "Done", outcome
    assert FileDesk(folder / "journal.db").rows()[2]["body"]["text"].startswith("key=***")


def test_killed_inside_a_tool_the_tool_runs_again_on_the_tree_before_it(folder, attempt):
    assert attempt(story(folder, 1, environment={"DIE": str(folder / "pid")})) is None
    outcome = attempt(story(folder, 2))
    assert outcome is not None and outcome["kind"] == "Done"
    assert (folder / "attempt 2" / "log.txt").read_text() == "one\ntwo\n"
    assert count(witnessed(folder)) == (7, 7, 0)


def test_a_child_that_is_killed_has_failed_and_says_how(here):
    run = here(body={"prompt": "x"})
    run.until_row(2)
    os.kill(run.handle.process.pid, signal.SIGKILL)
    outcome = run.end()
    assert isinstance(outcome, Failed) and outcome.retryable
    assert outcome.reason.startswith("the agent ended without an outcome (killed by signal 9)")
    assert [artifact["name"] for artifact in outcome.artifacts] == ["transcript/core.1.jsonl"]


def test_killed_by_its_warden_at_the_end_of_its_lease_it_has_not_failed(here, folder):
    record(folder, [{"tools": [{"tool": "shell", "command": "sleep 60"}]}, {"text": "Done."}])
    run = here()
    run.until_row(3)
    run.handle.hold(time.monotonic_ns() // 1_000_000)
    assert run.end() == Stopped()


def test_a_begun_shell_of_a_step_that_is_not_repeatable_is_unknown(here, folder, attempt):
    desk = FileDesk(folder / "journal.db")
    assert attempt(story(folder, 1, die="saving:3", repeatable=False)) is None
    assert desk.rows()[-1]["body"] is None
    outcome = here(attempt=2, repeatable=False).end()
    assert isinstance(outcome, Failed) and not outcome.retryable
    assert outcome.reason.startswith("outcome unknown: tool 'shell' was begun as call 3 of this run")


def test_another_recording_makes_the_run_diverge_and_the_failure_may_be_retried(here, folder, attempt):
    assert attempt(story(folder, 1, die="done:4")) is None
    record(folder, [{"text": "Else.", "tools": [{"tool": "list"}]}, {"text": "Done."}])
    outcome = here(attempt=2).end()
    assert isinstance(outcome, Failed) and outcome.retryable
    assert outcome.reason.startswith(
        "the run diverged at call 2: its journal has turn 'recording' with another request"
    )


def test_given_back_it_stops_at_the_next_call_and_keeps_what_was_at_work(here, folder):
    record(folder, [{"tools": [{"tool": "shell", "command": "echo begun; sleep 0.3; echo x > x"}]}, *TURNS[1:]])
    run = here()
    run.until_row(3)
    run.handle.stop("pause", 10_000)
    assert run.end() == Stopped()
    assert [(row["n"], row["body"] is None) for row in run.desk.rows()] == [(1, False), (2, False), (3, False)]
    assert (folder / "attempt 1" / "x").exists()


@pytest.mark.parametrize(("reason", "grace_ms"), [("cancel", 1_000), ("pause", 50)])
def test_cancelled_or_out_of_grace_it_is_ended_in_the_middle_of_a_tool(here, folder, reason, grace_ms):
    record(folder, [{"tools": [{"tool": "shell", "command": "sleep 60"}]}, {"text": "Done."}])
    run = here()
    run.until_row(3)
    begun = time.monotonic()
    run.handle.stop(reason, grace_ms)
    assert run.end() == Stopped()
    assert time.monotonic() - begun < 5
    assert run.desk.rows()[-1]["body"] is None


def test_a_lost_lease_ends_it_at_once_and_nothing_more_is_written(here):
    run = here()
    run.until_row(3)
    run.desk.lost = True
    assert run.end() == Stopped()
    assert run.desk.artifacts == {}


def test_a_tool_whose_row_is_refused_does_not_begin(here, folder):
    run = here()
    run.desk.refused_from = 4
    assert run.end() == Stopped()
    assert (folder / "attempt 1" / "a.py").read_text() == "import six\n"
    assert [line["n"] for line in witnessed(folder)] == [2, 3]


def test_a_turn_that_may_not_begin_gives_the_step_back_and_asks_no_model(here, folder, monkeypatch):
    run = here()
    real = run.desk.journal_started

    def started(n: int, *more: Any) -> bool:
        if n == 5:
            raise Refused("limit")
        return real(n, *more)

    monkeypatch.setattr(run.desk, "journal_started", started)
    assert run.end() == Stopped()
    assert [line["n"] for line in witnessed(folder)] == [2, 3, 4]


def test_a_busy_store_makes_it_wait_and_nothing_is_lost(here, monkeypatch):
    run = here()
    real, busy = run.desk.journal_started, [True] * 5

    def started(*args: Any) -> bool:
        if busy:
            busy.pop()
            raise StoreBusy("try again")
        return real(*args)

    monkeypatch.setattr(run.desk, "journal_started", started)
    assert isinstance(run.end(), Done) and not busy


def test_a_worktree_that_cannot_be_saved_fails_the_attempt(folder):
    def save(place: Path) -> str:
        raise OSError("no space left")

    desk, executor = FileDesk(folder / "journal.db"), AgentExecutor(save_tree=save)
    told = story(folder)
    outcome = until_ended(executor.start(assignment(told, desk), desk, Path(told.place)))
    executor.close()
    assert isinstance(outcome, Failed) and outcome.reason == "the worktree cannot be saved: no space left"
    assert desk.rows()[-1]["body"] is None


class Hub:
    """Cannot be reached for so many calls."""

    def __init__(self, folder: Path, down: int) -> None:
        self.folder, self.down = folder, down

    def save(self, place: Path) -> str:
        if self.down:
            self.down -= 1
            raise HubUnreachable("hub 'x' does not answer")
        return save_tree(self.folder / "hub", place)


def begun_at(folder: Path, hub: Hub) -> tuple[FileDesk, AgentExecutor, AgentHandle]:
    desk, executor = FileDesk(folder / "journal.db"), AgentExecutor(save_tree=hub.save)
    told = story(folder)
    (Path(told.place) / "a.py").write_text("import six\n")
    handle = executor.start(assignment(told, desk), desk, Path(told.place))
    assert isinstance(handle, AgentHandle)
    return desk, executor, handle


def noted(desk: FileDesk) -> list[str]:
    return [text.decode() for stream, text in desk.said if stream == "note"]


def test_a_hub_that_cannot_be_reached_for_a_while_is_waited_for(folder, monkeypatch):
    monkeypatch.setattr(serving, "AGAIN_MS", 20)
    hub = Hub(folder, down=3)
    desk, executor, handle = begun_at(folder, hub)
    assert isinstance(until_ended(handle), Done)
    executor.close()
    assert hub.down == 0 and all(row["body"] is not None for row in desk.rows())
    assert [text.split(":")[0].split(" after")[0] for text in noted(desk)] == ["waits up to 60 s", "goes on"]


def test_a_hub_that_cannot_be_reached_for_long_gives_the_run_back(folder, monkeypatch):
    """Its tree is dead then, and the next attempt goes on from the last call that was kept."""
    monkeypatch.setattr(serving, "AGAIN_MS", 20)
    desk, executor, handle = begun_at(folder, Hub(folder, down=10_000))
    handle._patience.limit_ms = 200
    assert until_ended(handle) == Released("hub 'x' does not answer")
    executor.close()
    assert not Path(f"/proc/{handle.process.pid}").exists()
    assert [row["n"] for row in desk.rows() if row["body"] is None] == [3]
    assert len(noted(desk)) == 1


def test_a_stop_does_not_wait_for_the_hub(folder, monkeypatch):
    desk, executor, handle = begun_at(folder, Hub(folder, down=10_000))
    while not noted(desk):
        assert handle.poll() is None
        select.select(handle.process.filenos(), [], [], 0.005)
    handle.stop("drain", 60_000)
    assert until_ended(handle) == Stopped()
    executor.close()


def test_silence_ends_it(here, folder):
    record(folder, [{"tools": [{"tool": "shell", "command": "sleep 60"}]}, {"text": "Done."}])
    outcome = here(body={"silence_ms": 300}).end()
    assert isinstance(outcome, Failed) and outcome.reason.startswith("silent for more than 300 ms")
    assert outcome.digest == "silent"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"recording": ""}, "agent runtime 'recorded': which recording?"),
        ({"recording": "/no/such.json"}, "recording '/no/such.json': cannot be read: no such file or directory"),
        ({"runtime": "nobody"}, "agent runtime 'nobody': no such runtime; there is 'recorded'"),
    ],
)
def test_what_cannot_be_started_fails_for_good_and_says_why(here, body, reason):
    outcome = here(body=body).end()
    assert isinstance(outcome, Failed) and not outcome.retryable and outcome.reason.startswith(reason)


def test_a_step_that_is_not_recorded_fails_naming_what_there_is(here, folder):
    record(folder, TURNS, step="other")
    outcome = here().end()
    assert outcome == Failed(
        "recording 'recording.json': nothing for run 1 of step 'core'; there is 'other'", retryable=False
    )


def test_without_a_workspace_it_works_in_an_empty_folder(folder):
    record(folder, [{"tools": [{"tool": "shell", "command": "ls; pwd"}]}, {"text": "Done."}])
    desk, executor = FileDesk(folder / "journal.db"), AgentExecutor()
    outcome = until_ended(executor.start(assignment(story(folder, outputs={}), desk), desk, None))
    assert isinstance(outcome, Done)
    was = Path(desk.rows()[2]["body"]["text"].splitlines()[0])
    assert was.is_absolute() and not was.exists()


class Asking:
    """A runtime of somebody else: asks a person, after it has changed a file."""

    name = "asking"
    version = "1"

    def run(self, brief: Any, seams: Any, line: Any) -> Any:
        (brief.cwd / "a.py").write_text("asked\n")
        seams.told(brief.prompt)
        return Parked(WaitingFor.USER, {"kind": "approval", "text": "May I?", "bound": "call-1"}, 17)


class Raising(Asking):
    def run(self, brief: Any, seams: Any, line: Any) -> Any:
        raise KeyError("oops")


class Lying(Asking):
    def run(self, brief: Any, seams: Any, line: Any) -> Any:
        return Done({"files": "none"})


class Leaving(Asking):
    def run(self, brief: Any, seams: Any, line: Any) -> Any:
        print("no model today", file=sys.stderr, flush=True)
        os._exit(0)


class Forging(Asking):
    """Speaks with the worker past the seams: frame after frame, as EVIL says."""

    def run(self, brief: Any, seams: Any, line: Any) -> Any:
        for frame in json.loads(brief.prompt):
            name = frame.pop("frame")
            send = line.call if name.startswith("journal") else line.send
            send(name, **frame)
        return Done({})


BEGUN = {"frame": "journal.started", "n": 1, "kind": "turn", "name": "m", "fingerprint": "f"}
ENDED = {**BEGUN, "frame": "journal.done", "body": {}, "tokens_in": 0, "tokens_out": 0, "micros": 0, "changed": False}
PARKED = {"frame": "outcome", "outcome": "parked", "waiting_for": "user", "question": {"kind": "approval"}, "due_at": 0}


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([{**BEGUN, "n": "one"}], "n is a whole number from 0, found 'one'"),
        ([{**BEGUN, "n": 10**30}], "n is a whole number"),
        ([{**BEGUN, "n": 2}], "call 2 is begun, though 0 is the last that has finished"),
        ([BEGUN, ENDED, BEGUN], "call 1 is begun, though 1 is the last that has finished"),
        ([ENDED], "call 1 has ended, though none is under way"),
        ([{**BEGUN, "kind": None}], "kind is a short text"),
        ([{**BEGUN, "name": "x" * 501}], "name is a short text"),
        ([BEGUN, {**ENDED, "tokens_in": -1_000_000}], "tokens_in is a whole number from 0, found '-1000000'"),
        ([BEGUN, {**ENDED, "micros": 0.5}], "micros is a whole number"),
        ([BEGUN, {**ENDED, "body": ["x"]}], "ValueError"),
        ([{**PARKED, "question": {}}], "frame 'outcome': 'kind' is missing"),
        ([{**PARKED, "question": ["x"]}], "frame 'outcome'"),
        ([{**PARKED, "due_at": 10**30}], "due_at is an instant in ms"),
        ([{**PARKED, "waiting_for": "task"}], "nothing would end a wait for 'task'"),
        ([{**PARKED, "waiting_for": "timer"}], "nothing would end a wait for 'timer'"),
        ([{**PARKED, "waiting_for": "event"}], "'name' is missing"),
        ([PARKED, PARKED], "it has sent an outcome before"),
    ],
    ids=range(17),
)
def test_frames_that_no_row_can_hold_are_the_failure_of_their_attempt_alone(here, frames, reason):
    run = here(body={**other("Forging"), "prompt": json.dumps(frames)}, outputs={})
    outcome = run.end()
    assert isinstance(outcome, Failed) and outcome.reason.startswith("the agent does not speak as agreed")
    assert reason in outcome.reason


def test_a_checkpoint_is_named_by_the_worker_alone(here):
    frames = [BEGUN, {**ENDED, "body": {"tree": "somebody else's"}}]
    run = here(body={**other("Forging"), "prompt": json.dumps(frames)}, outputs={})
    assert isinstance(run.end(), Done)
    assert run.desk.rows()[-1]["body"] == {} and run.desk.newest() is None


def other(name: str) -> dict[str, Any]:
    return {"runtime": f"tests.steps.test_agent:{name}"}


def test_an_agent_that_asks_is_checkpointed_before_it_is_parked(here, folder):
    run = here(body=other("Asking"))
    assert run.end() == Parked(WaitingFor.USER, {"kind": "approval", "text": "May I?", "bound": "call-1"}, 17)
    position, tree = run.desk.newest()
    assert position == 1 and git(f"--git-dir={folder / 'hub'}", "show", f"{tree}:a.py") == "asked"


def test_an_exit_code_alone_is_never_believed(here):
    outcome = here(body=other("Leaving")).end()
    assert isinstance(outcome, Failed)
    assert outcome.reason == "the agent ended without an outcome (exit code 0); its last lines:\nno model today"


def test_what_a_runtime_raises_is_told_with_its_place(here):
    outcome = here(body=other("Raising")).end()
    assert isinstance(outcome, Failed) and outcome.reason.startswith(
        "agent runtime 'tests.steps.test_agent:Raising': KeyError: 'oops'\n  File"
    )


def test_outputs_are_checked_whatever_the_runtime_says(here):
    outcome = here(body=other("Lying")).end()
    assert isinstance(outcome, Failed) and outcome.reason.endswith("'files' is to be a list, found str")


def test_the_worktree_is_not_in_front_of_what_the_child_imports(here, folder):
    record(folder, [{"tools": [{"tool": "shell", "command": "echo ok"}]}, {"text": "Done."}])
    told = story(folder, 2, outputs={}, environment={"PYTHONPATH": "."})
    for name in ("json", "longtask", "selectors"):
        (Path(told.place) / f"{name}.py").write_text("raise SystemExit(3)\n")
    desk, executor = FileDesk(folder / "journal.db"), AgentExecutor()
    assert isinstance(until_ended(executor.start(assignment(told, desk), desk, Path(told.place))), Done)
