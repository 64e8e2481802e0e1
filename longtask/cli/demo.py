"""`longtask demo`: a real migration to its end, in a folder and a LONGTASK_HOME of its own.

Only the model's words are recorded.  `--crash` kills the worker with SIGKILL, inside an agent's edit and inside the
tests, and counts from a file outside the database what was executed, and whether anything finished ran again.
However the demo ends, no worker of its own outlives it.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtask.agents.witness import VARIABLE, count
from longtask.boot import branch_of, read_document
from longtask.cli.asking import ask_inline
from longtask.cli.browser import open_page, page_is_built
from longtask.cli.decide import shown_lines
from longtask.cli.demo_agent import AGENTS, MODELS, prepare_agent, script_of
from longtask.cli.demo_input import RECORDING, Repo, prepare, registry_settings
from longtask.cli.demo_page import DYING_S, server_beside, where_to_watch
from longtask.cli.help import commands
from longtask.cli.run import submit
from longtask.cli.session import COMPLETED, DETACHED, FAILED, WAITS, Session, exit_code
from longtask.cli.viewing import PlainView, end_lines, live_view
from longtask.config import DATABASE, HOME
from longtask.core.errors import BadPlan, StoreError
from longtask.core.model import Step, Task
from longtask.store.contract import Ref
from longtask.views.words import handle

if TYPE_CHECKING:
    from longtask.modelserver.server import ModelServer  # it loads the language of scripts

HONEST = "the model's words are a recording; all else is real"
EDITED = ("core", "calendar", "vcard")  # agent steps; the first edit of one of them is followed by a kill
TESTS, PROOF = "tests", "proof"
FILES = ("vobject.patch", "report.md")
COMMANDS_EXPECTED = 6  # baseline, analysis, the tests three times, the proof
LOOK_EVERY_S = 0.02
LIMIT_S = 1_800  # when no person is there to see that it hangs
LEASE, LEASE_CRASH = "15s", "2s"
HIRED_MAX = 5  # beyond those that were killed


@dataclass(slots=True)
class Crew:
    """The demo's worker processes; `kills` counts those that were killed with SIGKILL, not those that were drained."""

    session: Session
    place: Path
    workers: int
    lease: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kills: int = 0
    hired: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def log(self) -> Path:
        return self.place / "worker.log"

    def hire(self) -> None:
        """Up to the number of workers.  One that is left alone for long (the demo was killed) ends by itself."""
        command = [sys.executable, "-m", "longtask.cli.main", "worker", "--lease", self.lease, "--idle-exit", "5m"]
        tools = str(Path(sys.executable).parent)  # the plan's commands find the Python that has what the demo needs
        path = os.pathsep.join([tools, os.environ.get("PATH", os.defpath)])
        # not as an argument, which every user of the machine can read: a URL may hold a password
        environment = {**os.environ, "PATH": path, DATABASE: self.session.config.database}
        with open(self.log, "ab") as log:
            while len(self.processes) < self.workers:
                self.hired += 1
                self.processes.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                        env=environment,
                    )
                )

    def kill_all(self, why: str) -> None:
        with self.lock:
            for process in self.processes:
                process.kill()
            for process in self.processes:
                process.wait()
            self.kills += len(self.processes)
            self.processes.clear()
            self.session.say(f"  *** killed the worker with SIGKILL: {why}; another one takes over when its lease ends")
            self.hire()

    def keep(self, task: Task) -> bool:
        """For a view: somebody works on it."""
        with self.lock:
            self.processes[:] = [process for process in self.processes if process.poll() is None]
            if not self.processes and self.hired - self.kills > HIRED_MAX * self.workers:
                raise StoreError(f"the demo's workers end again and again; {self.log} tells why")
            self.hire()
        return True

    def dismiss(self) -> None:
        """They give back what runs, and end; whoever does not is killed, and its warden kills the rest."""
        with self.lock:
            for process in self.processes:
                process.send_signal(signal.SIGTERM)
            try:
                for process in self.processes:
                    process.wait(DYING_S)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                for process in self.processes:
                    process.kill()
                for process in self.processes:
                    process.wait()
            self.processes.clear()


@dataclass(slots=True)
class Agent:
    """Who does the work in place of the recording; `served`: its model's words are recorded all the same."""

    name: str
    model: str | None
    served: bool
    models: ModelServer | None = None

    def arrive(self, place: Path, home: Path, say: Callable[[str], None], running: ExitStack) -> None:
        """Raises BadPlan, NotFound, Refused."""
        prepare_agent(self.name, place, home, self.model or (MODELS.get(self.name) if self.served else None), say)
        if self.served:
            from longtask.modelserver.server import ModelServer

            self.models = running.enter_context(ModelServer(script_of(place, self.name)))
            os.environ |= self.models.environment()

    @property
    def journaled(self) -> bool:
        """It makes the recording's calls, one by one, as they stand there."""
        return self.served and self.name == "builtin"

    def asked(self) -> int | None:
        """How many requests its model has had; None: that is not known here."""
        return None if self.models is None else len(self.models.requests())


class Killer(threading.Thread):
    """Kills inside an agent's step after an edit, then inside the tests."""

    def __init__(self, crew: Crew, witness: Path, tool: str | None = None) -> None:
        """`tool`: of the agent, after which it is killed; None: an edit."""
        super().__init__(name="killer", daemon=True)
        self._crew, self._witness, self._tool = crew, witness, tool or "edit"
        self.over = threading.Event()

    def run(self) -> None:
        waiting: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
            ("an agent had just made an edit", lambda line: line["step"] in EDITED and line["name"] == self._tool),
            ("the tests were running", lambda line: line["step"] == TESTS and line["kind"] == "command"),
        ]
        while waiting and not self.over.wait(LOOK_EVERY_S):
            why, fits = waiting[0]
            if any(fits(line) for line in witnessed(self._witness)):
                waiting.pop(0)
                self._crew.kill_all(why)


def witnessed(path: Path) -> list[dict[str, Any]]:
    """Whole lines; the last one may still be being written."""
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def register(app: typer.Typer) -> None:
    command = commands(app, "Run")

    @command()
    def demo(
        ctx: typer.Context,
        crash: Annotated[bool, typer.Option("--crash", help="kill the worker twice, and count what ran again")] = False,
        folder: Annotated[
            Path | None, typer.Option(metavar="PATH", help="where; default: a fresh temporary folder")
        ] = None,
        workers: Annotated[int, typer.Option(metavar="N", help="worker processes; default: 1", min=1, max=8)] = 1,
        agent: Annotated[
            str | None, typer.Option(metavar="NAME", help=f"in place of the recording: {', '.join(AGENTS)}")
        ] = None,
        model: Annotated[str | None, typer.Option(metavar="NAME", help="with --agent: its model")] = None,
        model_server: Annotated[
            bool, typer.Option("--model-server", help="with --agent: the model's words are recorded all the same")
        ] = False,
    ) -> int:
        """Bring a library of 2018 to Python 3.11: real code, tests and merges, recorded words of a model.

        It fetches the library with pip, and keeps all it does in a folder of its own. On a terminal you are asked to
        approve the change, there and in the page, whose address it tells; elsewhere the demo approves, and says so.

        Examples:
            longtask demo
            longtask demo --crash --json
            longtask demo --agent claude-code --model-server
        """
        session: Session = ctx.obj
        if agent is None and (model or model_server):
            raise BadPlan("--model and --model-server are about an agent; name it: --agent NAME")
        chosen = None if agent is None else Agent(agent, model, model_server)
        place = (folder or Path(tempfile.mkdtemp(prefix="longtask-demo-"))).absolute()
        try:
            place.mkdir(parents=True, exist_ok=True)
            with _ended_politely():
                return play(session, place, crash=crash, workers=workers, agent=chosen)
        finally:
            if folder is None and not any(place.iterdir()):
                place.rmdir()


@contextmanager
def _ended_politely() -> Iterator[None]:
    """SIGTERM and a closed terminal end the demo as Ctrl-C does."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def play(session: Session, place: Path, *, crash: bool, workers: int, agent: Agent | None = None) -> int:
    with ExitStack() as running:
        session.say(HONEST if agent is None or agent.served else f"{agent.name} does the work, by its own model")
        repo = prepare(place, lambda text: session.say(f"  {text}"))
        if agent is not None:
            agent.arrive(place, session.config.home, lambda text: session.say(f"  {text}"), running)
        return carry(session, place, repo, crash=crash, workers=workers, agent=agent)


def carry(session: Session, place: Path, repo: Repo, *, crash: bool, workers: int, agent: Agent | None) -> int:
    witness = place / "witness.jsonl"
    witness.unlink(missing_ok=True)
    home = place / "home"
    os.environ |= {HOME: str(home), VARIABLE: str(witness)}
    os.environ.pop(DATABASE, None)
    session.environment[HOME] = str(home)
    if session.database is None:  # what an earlier demo in this folder has left undone would be done beside this one
        for old in session.parts.store.tasks(open_only=True, workspace_id=None, before=0, limit=100):
            session.parts.desk.cancel(old.id, session.me, "a new demo begins")
    task = submit(session, repo.plan, attended=False, secrets=tuple(registry_settings()))
    crew = Crew(session, place, workers, LEASE_CRASH if crash else LEASE)
    killer = Killer(crew, witness, None if agent is None else "shell") if crash else None
    began = time.monotonic()
    url = None
    with ExitStack() as beside:
        try:
            crew.hire()
            url = None if session.json else show_page(session, task, place, beside)
            if killer is not None:
                killer.start()
            code = follow(session, task, crew, plain=crash)
        except KeyboardInterrupt:
            code = DETACHED
        finally:
            if killer is not None:
                killer.over.set()
                killer.join()
            crew.dismiss()
        seconds = time.monotonic() - began
        code = finish(session, session.task(task.id), crew, witness, code, crash, seconds, agent)
        if url is not None and session.interactive and code != DETACHED and page_is_built():
            leave_open(session, f"{url}/tasks/{task.id}")
    return code


def show_page(session: Session, task: Task, place: Path, beside: ExitStack) -> str | None:
    url = beside.enter_context(server_beside(session.config.database, place))
    session.say(where_to_watch(url, task.id, place / "server.log"))
    if url is not None and session.interactive:
        open_page(f"{url}/tasks/{task.id}")
    return url


def leave_open(session: Session, address: str) -> None:
    """On a terminal the page outlives the job, until whoever looks at it has seen enough."""
    session.out.raw(f"the page goes on: {address}  Enter ends it ")
    try:
        sys.stdin.readline()
    except KeyboardInterrupt:
        session.say()


def follow(session: Session, task: Task, crew: Crew, *, plain: bool) -> int:
    """Watches to the end.  Without a terminal it answers the approval itself, and says so."""
    until = time.monotonic() + LIMIT_S

    def keep(now: Task) -> bool:
        if not session.interactive and time.monotonic() > until:
            raise StoreError(f"demo: not at its end after {LIMIT_S} s; its folder tells more: {crew.place}")
        return crew.keep(now)

    if session.live and not plain:
        return live_view(session, task, keep, ends=False)
    told = PlainView(session, task.id, silent=session.json, ends=False)
    while True:
        code = told.run(keep)
        asking = session.parts.store.asking(task_id=task.id, limit=1)
        if not asking:
            return code
        step = asking[0][1]
        if not session.interactive:
            _approve(session, task, step)
        elif not ask_inline(session, task, step):
            return WAITS


def _approve(session: Session, task: Task, step: Step) -> None:
    question = step.question or {}
    for line in shown_lines(session, task, step.key, {**question, "text": "no terminal: the demo approves"}):
        session.say(f"    {line}")
    digest = question.get("digest")
    session.parts.desk.answer(Ref(task.id, step.key), "approve", "demo", ask=step.ask, digest=digest)


def finish(
    session: Session,
    task: Task,
    crew: Crew,
    witness: Path,
    code: int,
    crash: bool,
    seconds: float,
    agent: Agent | None,
) -> int:
    kept = keep_files(session, task, crew.place)
    found = count(witnessed(witness))
    counted = {
        "kills": crew.kills,
        "executed": found.executed,
        # an agent of its own tells its calls as it counts them
        "expected": expected(crew.place) if agent is None or agent.journaled else COMMANDS_EXPECTED,
        "repeated": found.repeated,
    }
    if agent is not None and (asked := agent.asked()) is not None:
        counted["requests"] = asked
    if code == COMPLETED and (found.repeated or found.executed < counted["expected"] or (crash and crew.kills < 2)):
        code = FAILED
    tests = last_line(session, task)
    if session.json:
        more = {"handle": handle(task), "seconds": round(seconds, 1), "folder": str(crew.place), "files": kept}
        session.give({**counted, "status": str(task.state), "tests": tests, "task": task.id, **more})
        return code
    if code == DETACHED:
        session.environment.clear()
        again = session.command("demo", "--folder", str(crew.place))
        session.say(f"\nstopped, and its worker with it; begin again: {again}")
        return code
    if not task.ended or task.state != "completed":
        for line in end_lines(session, task):
            session.say(line)
        session.say(f"the demo did not come to its end; what the worker said is in {crew.log}")
        return code or exit_code(task)
    if crash:
        session.say("  ".join(f"{name} {n}" for name, n in counted.items()))
    session.say(f"tests of the patched library, on a clean checkout: {tests}")
    for name, path in kept.items():
        session.say(f"  {name:<14} {path}")
    session.say(f"  {'branch':<14} {branch_of(task)} in {crew.place / 'vobject'}")
    session.say(f"it took {seconds:.0f} s; look again: {session.command('show', handle(task))}")
    return code


def keep_files(session: Session, task: Task, place: Path) -> dict[str, str]:
    """Patch and report beside the repository."""
    made = {a["name"]: a for a in session.parts.records.artifacts(task.id)}
    kept: dict[str, str] = {}
    for name in FILES:
        if name in made:
            target = place / name
            target.write_bytes(session.parts.artifacts.read(task.workspace_id, made[name]["digest"]))
            kept[name] = str(target)
    return kept


def last_line(session: Session, task: Task) -> str | None:
    """What pytest said last of the patched library: `38 passed, 1 skipped in 0.6s`.  None: it did not come to that."""
    step = session.step(task, PROOF)
    result = step.result if isinstance(step.result, dict) else {}
    summary = result.get("summary") or step.reason
    return str(summary) if summary else None


def expected(place: Path) -> int:
    """What an undisturbed run executes: every recorded turn and tool, and the commands of the plan."""
    recording = read_document(place / RECORDING)
    turns = [turn for run in recording["runs"] for turn in run["turns"]]
    return len(turns) + sum(len(turn.get("tools") or ()) for turn in turns) + COMMANDS_EXPECTED
