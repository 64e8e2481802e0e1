"""`longtask demo`: a real migration to its end, in a folder and a LONGTASK_HOME of its own.

Only the model's words are recorded.  `--crash` kills the worker with SIGKILL, inside an agent's edit and inside the
tests, and counts from a file outside the database what was executed, and whether anything finished ran again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from longtask.agents.witness import VARIABLE, count
from longtask.boot import branch_of, read_document
from longtask.cli.decide import shown_lines
from longtask.cli.demo_input import RECORDING, prepare
from longtask.cli.run import submit
from longtask.cli.session import COMPLETED, FAILED, Session, exit_code, handle
from longtask.cli.viewing import Cursor, plain_view, view
from longtask.core.errors import Refused
from longtask.core.model import Task
from longtask.store.contract import Ref

HONEST = "the model's words are a recording; all else is real"
EDITED = ("core", "calendar", "vcard")  # agent steps; the first edit of one of them is followed by a kill
TESTS = "tests"
COMMANDS_EXPECTED = 6  # baseline, analysis, the tests three times, the proof
LOOK_EVERY_S = 0.02
LIMIT_S = 600


@dataclass(slots=True)
class Crew:
    """The demo's worker processes; `kills` counts those that were killed with SIGKILL, not those that were drained."""

    session: Session
    log: Path
    lease: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kills: int = 0

    def hire(self) -> None:
        config = self.session.config
        command = [
            sys.executable,
            "-m",
            "longtask.cli.main",
            "--database",
            config.database,
            "worker",
            "--lease",
            self.lease,
        ]
        with open(self.log, "ab") as log:
            self.processes.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            )

    def kill_all(self, why: str, say: Callable[[str], None]) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self.kills += len(self.processes)
        count_now = len(self.processes)
        self.processes.clear()
        say(f"  *** killed the worker with SIGKILL: {why}; another one takes over when its lease ends")
        for _ in range(count_now):
            self.hire()

    def dismiss(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def alive(self) -> bool:
        return any(process.poll() is None for process in self.processes)


def witnessed(path: Path) -> list[dict[str, Any]]:
    """Whole lines; the last one may still be being written."""
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Killer(threading.Thread):
    """Kills inside an agent's step after an edit, then inside the tests."""

    def __init__(self, crew: Crew, witness: Path, say: Callable[[str], None]) -> None:
        super().__init__(name="killer", daemon=True)
        self._crew, self._witness, self._say = crew, witness, say
        self.over = threading.Event()

    def run(self) -> None:
        waiting = [
            ("an agent had just made an edit", lambda line: line["step"] in EDITED and line["name"] == "edit"),
            ("the tests were running", lambda line: line["step"] == TESTS and line["kind"] == "command"),
        ]
        while waiting and not self.over.wait(LOOK_EVERY_S):
            why, fits = waiting[0]
            if any(fits(line) for line in witnessed(self._witness)):
                waiting.pop(0)
                self._crew.kill_all(why, self._say)


def register(app: typer.Typer) -> None:
    @app.command(rich_help_panel="Run")
    def demo(
        ctx: typer.Context,
        crash: Annotated[bool, typer.Option("--crash", help="kill the worker twice, count what ran again")] = False,
        folder: Annotated[Path | None, typer.Option(help="where; default: a fresh temporary folder")] = None,
        workers: Annotated[int, typer.Option(help="worker processes", min=1, max=8)] = 1,
    ) -> int:
        """Bring a library of 2018 to Python 3.11: real code, real tests, real merges; recorded words of a model.

        Example: longtask demo --crash --json
        """
        session: Session = ctx.obj
        place = (folder or Path(tempfile.mkdtemp(prefix="longtask-demo-"))).absolute()
        place.mkdir(parents=True, exist_ok=True)
        return play(session, place, crash=crash, workers=workers)


def play(session: Session, place: Path, *, crash: bool, workers: int) -> int:
    say = session.say
    say(HONEST)
    repo = prepare(place, lambda text: say(f"  {text}"))
    witness = place / "witness.jsonl"
    witness.unlink(missing_ok=True)
    os.environ["LONGTASK_HOME"] = str(place / "home")
    os.environ[VARIABLE] = str(witness)
    session.database = session.database or str(place / "home" / "longtask.db")
    task = submit(session, repo.plan, attended=False)
    crew = Crew(session, place / "worker.log", "2s" if crash else "15s")
    killer = Killer(crew, witness, say)
    began = time.monotonic()
    try:
        for _ in range(workers):
            crew.hire()
        if crash:
            killer.start()
        code = follow(session, task, crew)
    finally:
        killer.over.set()
        if crash:
            killer.join()
        crew.dismiss()
    task = session.task(task.id)
    return finish(session, task, place, witness, crew, code, crash, time.monotonic() - began)


def follow(session: Session, task: Task, crew: Crew) -> int:
    """Watches to the end; without a terminal it answers the approval itself, and says so."""
    cursor, until = Cursor(), time.monotonic() + LIMIT_S

    def alive() -> bool:
        if time.monotonic() > until:
            raise Refused(f"demo: not at its end after {LIMIT_S} s; its folder tells more: {crew.log.parent}")
        return crew.alive or crew.kills > 0

    while True:
        if session.interactive:
            return view(session, task, alive=alive)
        code = plain_view(session, task.id, alive, cursor, quiet=session.json)
        asking = session.parts.store.asking(task_id=task.id, limit=1)
        if not asking:
            return code
        step = asking[0][1]
        for line in shown_lines(step.question or {}):
            session.say(f"    {line}")
        session.say("  no terminal: the demo approves")
        digest = (step.question or {}).get("digest")
        session.parts.desk.answer(Ref(task.id, step.key), "approve", "demo", ask=step.ask, digest=digest)


def finish(
    session: Session, task: Task, place: Path, witness: Path, crew: Crew, code: int, crash: bool, seconds: float
) -> int:
    made = {a["name"]: a for a in session.parts.records.artifacts(task.id)}
    kept: dict[str, str] = {}
    for name in ("vobject.patch", "report.md"):
        if name in made:
            target = place / name
            target.write_bytes(session.parts.artifacts.read(task.workspace_id, made[name]["digest"]))
            kept[name] = str(target)
    tests = last_line(session, task)
    counted: dict[str, Any] = {}
    if crash:
        lines = witnessed(witness)
        found = count(lines)
        counted = {
            "kills": crew.kills,
            "executed": found.executed,
            "expected": expected(place),
            "repeated": found.repeated,
        }
        if crew.kills < 2 or found.repeated or found.executed < counted["expected"]:
            code = FAILED
    if session.json:
        session.give(
            {
                **counted,
                "status": str(task.state),
                "tests": tests,
                "seconds": round(seconds, 1),
                "folder": str(place),
                "files": kept,
            }
        )
        return code
    if code != COMPLETED:
        session.say(f"the demo did not end well; what the worker said is in {crew.log}")
        return code or exit_code(task)
    if crash:
        session.say(json.dumps(counted))
    session.say(f"tests of the patched library, on a clean checkout: {tests}")
    for name, path in kept.items():
        session.say(f"  {name:<14} {path}")
    session.say(f"  branch         {branch_of(task)} in {place / 'vobject'}")
    look = f"LONGTASK_HOME={place / 'home'} longtask show {handle(task)}"
    session.say(f"it took {seconds:.0f} s; {HONEST}\nlook again: {look}")
    return code


def last_line(session: Session, task: Task) -> str:
    """What pytest said last of the patched library: `38 passed, 1 skipped`."""
    step = session.step(task, "proof")
    result = step.result if isinstance(step.result, dict) else {}
    return str(result.get("summary") or step.reason or step.state)


def expected(place: Path) -> int:
    """What an undisturbed run executes: every recorded turn and tool, and the commands of the plan."""
    recording = read_document(place / RECORDING)
    turns = [turn for run in recording["runs"] for turn in run["turns"]]
    return len(turns) + sum(len(turn.get("tools") or ()) for turn in turns) + COMMANDS_EXPECTED
