"""Steps that an agent does: one attempt is one child process, and a run may span several attempts.

The child makes its calls through the run journal (`agents/journal.py` says which order is right and why); here is the
worker's side of it.  `journal.started` is answered when its row is durable.  For `journal.done` of a tool that may have
written, the worktree is first saved as a tree, by a thread, since that takes longer than a poll may; then the row is
written with the tree in its body, then the checkpoint, and then the child gets its answer.

An attempt that continues a run needs its rows, and a worktree at `journal.resume_tree`: whoever makes the worktree sees
to that.  Without a workspace an agent works in an empty folder, and its files do not outlive the attempt.

What the desk answers with True must be durable at that moment: do not poll inside a store's group.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from longtask.agents import notes, prompt, recorded, spawning
from longtask.agents.catalog import REQUESTS_MAX, RUNTIMES
from longtask.agents.journal import TREE, TURN
from longtask.agents.outputs import mismatches
from longtask.agents.programs import kind_of
from longtask.agents.witness import VARIABLE
from longtask.core.errors import BadPlan, LeaseLost, NotFound, Refused
from longtask.core.model import Done, Expanded, Failed, Json, JsonMap, Outcome, Parked, Released
from longtask.core.patience import mendable
from longtask.redaction import redact_value
from longtask.steps.contract import Assignment, Desk, Ended, Handle, Render
from longtask.steps.frames import Frame, FrameError, answer, refusal
from longtask.steps.planning import ReadPlans, as_handed_over
from longtask.steps.serving import Launched, Serving, as_written, launch
from longtask.steps.session import SESSION, Keeper, newest, without
from longtask.steps.surroundings import as_text

SaveTree = Callable[[Path], str]  # writes the worktree as a tree, pins it, and names it
ReadDocument = Callable[[Path], Json]  # a recording: YAML or JSON
FindProgram = Callable[[str], Path | None]  # by its name in `agents/programs.py`

RECORDED = "recorded"
SAVERS = 4  # trees that are written at once
TEXT_LENGTH_MAX = 500  # of the name of a model or a tool
ROWS_BYTES_MAX = 1_000_000  # of the run's journal in one frame
TRANSCRIPT, TRANSCRIPT_TYPE = "transcript", "application/x-ndjson"


def read_json(path: Path) -> Json:
    """Raises OSError, BadPlan."""
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise BadPlan(f"recording '{path}': is not JSON: {error}") from error


class AgentExecutor:
    """`save_tree` None: worktrees are not saved (tests of other things).  `read_document` reads recordings.
    `program` finds the program of an agent that is one of its own."""

    def __init__(
        self,
        *,
        save_tree: SaveTree | None = None,
        render: Render = as_written,
        read_document: ReadDocument = read_json,
        program: FindProgram = lambda name: None,
        read_plans: ReadPlans = as_handed_over,
    ) -> None:
        self._read_plans = read_plans
        self._save_tree = save_tree
        self._program = program
        self._render = render
        self._read_document = read_document
        self._recordings: dict[Path, tuple[tuple[int, int, int], JsonMap]] = {}
        self._savers = ThreadPoolExecutor(SAVERS, thread_name_prefix="save-tree")  # threads start when needed

    def close(self) -> None:
        self._savers.shutdown()

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        try:
            start = self._start_frame(assignment)
            program = start["brief"]["program"]
            readable = [] if program is None else [Path(program).parent]
            bare = not _own_code(start["runtime"])
            launched = launch(_equipped(assignment), "agent_child", place, self._render, bare=bare, readable=readable)
        except (BadPlan, NotFound) as error:
            return Ended(Failed(str(error), retryable=False))
        rows = [_for_child(row) for row in assignment.journal]
        start |= {"cwd": os.fspath(launched.around.folder), "rows": len(rows)}
        start["brief"]["inside"] = list(launched.around.inside)
        launched.process.send_frame({"frame": "start", **start})
        for part in _parts(rows):
            launched.process.send_frame({"frame": "rows", "rows": part})
        return AgentHandle(assignment, desk, launched, self._read_plans, lambda: self._save(place), self._savers)

    def _save(self, place: Path | None) -> Future[str] | None:
        if self._save_tree is None or place is None:
            return None
        return self._savers.submit(self._save_tree, place)

    def _start_frame(self, a: Assignment) -> dict[str, Json]:
        body = a.spec.body
        runtime = body.get("runtime", RECORDED)
        news = prompt.news_of(a.cause)
        opening = prompt.compose(
            self._work(a),
            outputs=a.spec.outputs,
            failure=a.failure,
            news=news,
            conflict=a.conflict,
            plans=body.get("grow"),
        )
        brief = {
            "step": a.step,
            "run": a.run,
            "attempt": a.attempt,
            "prompt": opening,
            "outputs": dict(a.spec.outputs),
            "policy": {"tools": body.get("tools"), "ask": body.get("ask", ()), "deny": body.get("deny", ())},
            "model": body.get("model"),
            "repeatable": a.spec.repeatable,
            "news": news,
            "cause": a.cause,
            "failure": a.failure,
            "requests_max": body.get("requests_max", REQUESTS_MAX),
            "notes": list(a.notes) if body.get("notes") else None,
            "spawned_max": 0 if a.spec.item is None else a.spec.parallel_max,
            "options": {"script": self._script(a)} if runtime == RECORDED else body.get("options", {}),
            "program": self._program_of(runtime),
        }
        beside = {"witness": os.environ.get(VARIABLE), "secrets": list(a.secrets), "ended": spawning.ended(a.ended)}
        return {"runtime": runtime, **beside, "brief": brief}

    def _work(self, a: Assignment) -> str:
        """What the plan says, or what an agent has given out, word for word."""
        given = a.spec.body.get("prompt")
        if given is None and "spawned" in a.scope:
            return f"{spawning.OPENING}\n\n{a.scope['spawned']['prompt']}"
        return as_text(self._render(given or "", a.scope))

    def _program_of(self, runtime: str) -> str | None:
        """Raises NotFound."""
        entry = RUNTIMES.get(runtime)
        if entry is None or entry.program is None:
            return None
        found = self._program(entry.program)
        if found is None:
            command = kind_of(entry.program).command
            raise NotFound(
                f"agent runtime '{runtime}': {command!r} is not on this machine; put it on the PATH of the worker, or "
                f"fetch the one that LongTask knows: `longtask dev fetch {entry.program}`"
            )
        return os.fspath(found)

    def _script(self, a: Assignment) -> JsonMap:
        """Of the recording, what is for this run; a file is read again when it has changed."""
        named = a.spec.body.get("recording")
        if not named:
            raise BadPlan(f"agent runtime '{RECORDED}': which recording? say `recording:`")
        path = Path(as_text(self._render(named, a.scope)))
        try:
            now = path.stat()
            seen = (now.st_mtime_ns, now.st_size, now.st_ino)
            if path not in self._recordings or self._recordings[path][0] != seen:
                self._recordings[path] = seen, recorded.check(self._read_document(path), path.name)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise NotFound(f"recording '{path}': cannot be read: {reason}") from error
        return recorded.choose(self._recordings[path][1], path.name, a.step, a.run)


class AgentHandle(Serving):
    what = "the agent"

    def __init__(
        self,
        assignment: Assignment,
        desk: Desk,
        launched: Launched,
        read_plans: ReadPlans,
        save: Callable[[], Future[str] | None],
        aside: ThreadPoolExecutor,
    ) -> None:
        super().__init__(assignment, desk, launched, read_plans)
        self._save = save
        self._aside = aside
        self._saving: Future[str] | None = None
        self._around = launched.around
        self._session = Keeper(launched.around.scratch / "session", desk.put_artifact, desk.read_artifact)
        self._keeping: Future[JsonMap | None] | None = None
        self._rows = [row for row in assignment.journal if row.get("body") is not None]
        self._finished = max((row["n"] for row in self._rows), default=0)
        self._begun = 0  # number of the call that is under way

    def _gives_back(self) -> bool:
        return True

    def _quiet(self) -> bool:
        return all(future is None or future.done() for future in (self._saving, self._keeping))

    def _call(self, call: Frame) -> bool:
        match call["frame"]:
            case "journal.started":
                return self._started(call)
            case "journal.done":
                return self._done(call)
            case "journal.saw":
                return self._saw(call)
            case "session.restore":
                return self._restore(call)
            case _:
                return super()._call(call)

    def _saw(self, call: Frame) -> bool:
        """A call that is over.  It is written down even if the attempt is to stop: it was paid for."""
        if not self._begun:
            if _count(call, "n") != self._finished + 1:
                raise FrameError(f"call {call['n']} was seen, though {self._finished} is the last that has finished")
            self._begun = call["n"]
        return self._done(call)

    def _started(self, call: Frame) -> bool:
        """Raises FrameError: calls are numbered from 1 without a gap and made one after another."""
        if _count(call, "n") != self._finished + 1:
            raise FrameError(f"call {call['n']} is begun, though {self._finished} is the last that has finished")
        _texts(call)
        if not self.alive:
            return True  # nobody is there who would begin
        if self.stopping is not None:
            self.process.send_frame(refusal(call, self.stopping))
            return True
        try:
            if not self.desk.journal_started(call["n"], call["kind"], call["name"], call["fingerprint"]):
                raise LeaseLost
        except Refused as stop:
            self.give_back(str(stop))
            self.process.send_frame(refusal(call, str(stop)))
            return True
        self._begun = call["n"]
        self.process.send_frame(answer(call))
        return True

    def _done(self, call: Frame) -> bool:
        if _count(call, "n") != self._begun:
            raise FrameError(f"call {call['n']} has ended, though {self._begun or 'none'} is under way")
        _texts(call)
        for name in ("tokens_in", "tokens_out", *(() if call["micros"] is None else ("micros",))):
            _count(call, name)
        body = dict(call["body"])
        for name in (TREE, SESSION):  # the worker alone says what it has saved
            body.pop(name, None)
        tree = self._tree() if call["changed"] else ""
        kept = self._kept_session(call["session"]) if call.get("session") else {}
        if tree is None or kept is None:
            return False
        if isinstance(tree, Failed):
            self.fail(tree.reason)
            return True
        if isinstance(tree, Released) or isinstance(kept, Released):
            return True
        body |= {name: saved for name, saved in ((TREE, tree), (SESSION, kept)) if saved}
        n, kind, name = call["n"], call["kind"], call["name"]
        usage = {key: call[key] for key in ("tokens_in", "tokens_out", "micros")}
        if not self.desk.journal_done(n, kind, name, call["fingerprint"], body, usage):
            raise LeaseLost
        if TREE in body and not self.desk.checkpoint(n, body[TREE]):
            raise LeaseLost
        self._saving = self._keeping = None
        self._finished, self._begun = n, 0
        self._rows.append(
            {"n": n, "kind": kind, "name": name, "attempt": self.assignment.attempt, **usage, "body": body}
        )
        if call["frame"] == "journal.saw" and kind == TURN and self.stopping is None:
            self.give_back(self.desk.asked_now())  # its program does not ask before the next turn
        seen = call["frame"] == "journal.saw" and self.stopping is not None
        self.process.send_frame(refusal(call, str(self.stopping)) if seen else answer(call))
        return True

    def _restore(self, call: Frame) -> bool:
        """{folder, restored, cwd}: where its session's files are, and where it worked when they were kept."""
        kept = newest(self._rows)
        if self._keeping is None and kept is not None:
            self._keeping = self._aside.submit(self._session.restore, kept)
        if self._keeping is not None:
            if not self._keeping.done():
                return False
            done, self._keeping = self._keeping, None
            if (error := done.exception()) is not None:
                self.fail(f"the session of the agent cannot be restored: {error}")
                return True
        self._session.folder.mkdir(parents=True, exist_ok=True)
        folder, cwd = os.fspath(self._session.folder), None if kept is None else kept["cwd"]
        self.process.send_frame(answer(call, folder=folder, restored=kept is not None, cwd=cwd))
        return True

    def _kept_session(self, paths: list[str]) -> JsonMap | Released | None:
        """None: it is still being kept.  Released: it could not be, and the program is being ended."""
        if self.waits:
            return None
        if self._keeping is None:
            self._keeping = self._aside.submit(self._session.keep, [str(path) for path in paths], self._around.folder)
        if not self._keeping.done():
            return None
        error = self._keeping.exception()
        if error is None:
            return self._keeping.result()
        self._keeping = None
        if mendable(error):
            return None if self.wait_for(error) else Released(str(error))
        self.fail(f"the session of the agent cannot be kept: {error}")
        return Released(str(error))

    def _tree(self) -> str | Failed | Released | None:
        """None: it is still being written.  Empty: nobody saves trees here.  Released: it could not be in time, and
        the program is being ended."""
        if self.waits:
            return None
        if self._saving is None:
            self._saving = self._save()
        if self._saving is None:
            return ""
        if not self._saving.done():
            return None
        error = self._saving.exception()
        if error is None:
            self.at_ease()
            return self._saving.result()
        if not mendable(error):
            return Failed(f"the worktree cannot be saved: {error}")
        self._saving = None
        return None if self.wait_for(error) else Released(str(error))

    def _finish(self, said: Outcome) -> Outcome | None:
        match said:
            case Done(result=result):
                wrong = mismatches(result, self.assignment.spec.outputs)
                if wrong:
                    return self._kept(Failed(f"{self.what}: its outputs are not the wanted ones: {'; '.join(wrong)}"))
                return Done(result or {}, artifacts=(self._transcript(), *self._notes()))
            case Failed():
                return self._kept(said)
            case Parked() | Expanded():
                tree = self._tree()
                if isinstance(tree, Failed):
                    return self._kept(tree)
                if not isinstance(tree, str):
                    return tree
                if tree and not self.desk.checkpoint(max((row["n"] for row in self._rows), default=0), tree):
                    raise LeaseLost
        if isinstance(said, Expanded):
            return replace(said, listing={"run": self.assignment.run, **said.listing})
        return said

    def _kept(self, failed: Failed) -> Failed:
        return Failed(failed.reason, failed.retryable, failed.digest, (self._transcript(), *self._notes()))

    def _notes(self) -> tuple[JsonMap, ...]:
        noted = notes.of_rows(self._rows) if self.assignment.spec.body.get("notes") else []
        if not noted:
            return ()
        name = f"{notes.FOLDER}{self.assignment.step}.{self.assignment.attempt}.json"
        kept = json.dumps(redact_value(noted), ensure_ascii=False).encode("utf-8", "replace")
        return (self.desk.put_artifact(name, kept, "application/json"),)

    def _transcript(self) -> JsonMap:
        """The run so far, its earlier attempts included: one line for each call."""
        # a view: the journal itself holds what was answered
        rows = [{**row, "body": without(row["body"])} for row in self._rows]
        shown = [redact_value({key: row[key] for key in row if key != "fingerprint"}) for row in rows]
        lines = [json.dumps(row) for row in shown]
        head = {"step": self.assignment.step, "run": self.assignment.run, "attempt": self.assignment.attempt}
        if self.assignment.spec.body.get("runtime", RECORDED) == RECORDED:
            head["note"] = recorded.BANNER
        text = "\n".join([json.dumps(head), *lines]) + "\n"
        name = f"{TRANSCRIPT}/{self.assignment.step}.{self.assignment.attempt}.jsonl"
        return self.desk.put_artifact(name, text.encode(), TRANSCRIPT_TYPE)


def _own_code(runtime: str) -> bool:
    return runtime in RUNTIMES and RUNTIMES[runtime].own_code


def _equipped(assignment: Assignment) -> Assignment:
    """With what its runtime takes from this worker's environment, if it is there."""
    entry = RUNTIMES.get(assignment.spec.body.get("runtime", RECORDED))
    if entry is None:
        return assignment
    given = {*assignment.environment, *(assignment.spec.body.get("env") or {}), *assignment.secrets}
    keys = tuple(name for name in entry.keys if name in os.environ and name not in given)
    settings = {name: os.environ[name] for name in entry.settings if name in os.environ and name not in given}
    return replace(
        assignment,
        environment={**assignment.environment, **settings},
        secrets=(*assignment.secrets, *keys),
    )


def _count(call: Frame, name: str) -> int:
    """Raises FrameError, KeyError: what is stored and added up comes from a program that may be anybody's."""
    number = call[name]
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**53:
        raise FrameError(f"frame {call['frame']!r}: {name} is a whole number from 0, found {str(number)[:40]!r}")
    return number


def _texts(call: Frame) -> None:
    for name in ("kind", "name", "fingerprint"):
        text = call[name]
        if not isinstance(text, str) or len(text) > TEXT_LENGTH_MAX:
            raise FrameError(f"frame {call['frame']!r}: {name} is a short text, found {str(text)[:40]!r}")


def _for_child(row: JsonMap) -> JsonMap:
    shown = {key: row.get(key) for key in ("n", "kind", "name", "fingerprint")}
    return {**shown, "body": without(row.get("body"))}


def _parts(rows: list[JsonMap]) -> Iterator[list[Mapping[str, object]]]:
    """In frames that are far from too large."""
    part: list[JsonMap] = []
    size = 0
    for row in rows:
        size += len(json.dumps(row))
        part.append(row)
        if size > ROWS_BYTES_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part
