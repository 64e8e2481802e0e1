"""One run of Claude Code: a session whose id is chosen before its program starts, launched as often as it takes.

Measured with 2.1.332, and what is built on it:

- The id of a session may be chosen (`--session-id`), and a session goes on in another folder, on another machine, when
  its file lies where the program looks for it (`projects/<the folder's path, made a name>/<id>.jsonl`).  It tells the
  model itself that the folder is another one.
- Before each tool a hook asks (`gate.py`).  It asks after the turn is whole and stands in the session's file; so the
  turn is written down before its first tool runs, and each tool, with the worktree, before the next one runs.
- A hook may answer `defer`: the program ends, and a later `--resume` without a prompt asks again about the same call.
  The mark of it is written after the answer, so that session is kept after the program has ended.
- Of two calls of one turn that are deferred the first is lost.  With one deferred, the others of the turn may be
  allowed or denied in any order, and nothing is lost.  So the second that a person would be asked about is denied, and
  the model told to make it again.
- A program that is killed keeps all that was whole; the model is told that the outcome of a tool under way is unknown.
- A stream that stalls is never noticed by the program.  We do, kill it, and let the session go on.
- The key is handed over by a descriptor: what the model's shell runs does not find it in its environment.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from longtask.agents.contract import AgentOutcome, Brief
from longtask.agents.journal import TOOL, TURN, Answer, Line, Seams
from longtask.agents.native.decisions import DEFERRED, Decision, decide, pending
from longtask.agents.native.going_on import (
    AGAIN,
    CORRECTIONS_MAX,
    GO_ON,
    STALL_S,
    STALLS_MAX,
    TOOL_S,
    OverBudget,
    Stalled,
)
from longtask.agents.native.program import Launch
from longtask.agents.native.shown import Shown
from longtask.agents.native.waiting import until_written
from longtask.agents.outputs import mismatches
from longtask.agents.policy import Verdict
from longtask.core.errors import BadPlan, LongTaskError
from longtask.core.model import Done, Failed, JsonMap

from .command import command_of, environment_of, key_handed_over
from .gate import Gate, Question
from .names import OWN, READS, about, canonical
from .outcome import NAME, failure
from .stream import Event, Limit, Result, Said, Stream, ToolEnd, Turn

SESSION = "session"  # the name of the row that holds the session's id, and of those that keep it beside a turn or tool
START_S = 60.0  # of the program itself, on a busy machine
SEEN_S = 5.0  # a hook's call is in the stream well within that
LOOK_S = 1.0
KEY_LENGTH_MAX = 200  # of a folder made a name; the program shortens what is longer
OPTIONS = {"stall_s": (int, float), "retries": (int,)}

ONE_AT_A_TIME = "a person is asked about another call of this turn; make this call again when that one is decided"
NOT_BY_SUBAGENTS = "a person is to be asked about this call, and a subagent cannot wait; leave it to the main agent"


class ClaudeCode:
    name = NAME
    version = ""  # its program's, which whoever has found it knows

    def run(self, brief: Brief, seams: Seams, line: Line) -> AgentOutcome:
        if brief.program is None:
            raise BadPlan(f"agent runtime '{NAME}': its program is not on this machine")
        for name, value in brief.options.items():
            if name not in OPTIONS or not isinstance(value, OPTIONS[name]) or isinstance(value, bool):
                known = ", ".join(f"'{option}'" for option in OPTIONS)
                raise BadPlan(f"agent runtime '{NAME}': option {name!r}: there is {known}, each a number")
        return _Run(brief, seams, line, brief.program).carry_out()


class _Run:
    def __init__(self, brief: Brief, seams: Seams, line: Line, program: Path) -> None:
        self._brief = brief
        self._seams = seams
        self._line = line
        self._program = program
        self._shown = Shown(line)
        self._cwd = Path(os.path.realpath(brief.cwd))
        self._stall_s = float(brief.options.get("stall_s", STALL_S))
        self._id = ""
        self._folder = self._cwd  # of the session, when it is known
        self._turns = 0
        self._spent_usd = 0.0  # of the whole session, as the program has told it last
        self._unpriced = False  # turns of a launch that was cut off: what they have cost was never told
        self._decision: Decision | None = None

    def carry_out(self) -> AgentOutcome:
        opening = self._seams.told(self._brief.prompt)
        made = self._seams.tool(SESSION, {}, lambda: Answer({"id": str(uuid.uuid4())}), repeatable=True, writes=False)
        self._id = str(made["id"])
        rows = self._seams.pass_over()
        place = self._line.call("session.restore")
        self._folder = Path(place["folder"])
        words = opening
        if place["restored"]:
            self._remember(rows)
            call = pending(rows)
            if call is not None:
                self._decision = decide(self._seams, rows, call, repeatable=self._brief.repeatable)
                words = None
            else:
                words = self._seams.told(self._brief.news or GO_ON)
        return self._until_ended(words)

    def _remember(self, rows: Sequence[JsonMap]) -> None:
        """What earlier attempts have told; and the session's file goes where the program looks for it."""
        turns = [row for row in rows if row["kind"] == TURN]
        told = [n for n, row in enumerate(rows) if "spent_usd" in row]
        self._turns = len(turns)
        self._spent_usd = float(rows[told[-1]]["spent_usd"]) if told else 0.0
        self._unpriced = any(row["kind"] == TURN for row in rows[told[-1] + 1 if told else 0 :])
        file = self._session_file()
        name = re.sub(r"[^a-zA-Z0-9]", "-", str(self._cwd))
        if len(name) > KEY_LENGTH_MAX:
            raise LongTaskError(f"the path of the worktree is too long for {NAME}, more than {KEY_LENGTH_MAX}: {name}")
        if file is not None and file.parent.name != name:
            file.parent.rename(file.parent.with_name(name))

    def _until_ended(self, words: str | None) -> AgentOutcome:
        stalls = corrections = 0
        while True:
            turns = self._turns
            launch = _Launched(self)
            try:
                launch.carry_out(words)
                if not launch.result:
                    raise Stalled(f"the program ended without a result: {launch.stderr or 'it says nothing'}")
            except Stalled as stalled:
                stalls = stalls + 1 if self._turns == turns else 1
                if stalls > STALLS_MAX:
                    return Failed(f"{NAME}: {stalled}, and that {stalls} times", digest="stalled")
                self._shown.note(f"{stalled}; its program is started again")
                words = AGAIN if self._session_file() is not None else words
                continue
            except OverBudget:
                return Failed(f"request budget: {self._turns} model calls were made and the run has not ended")
            if launch.deferred is not None:
                self._keep({DEFERRED: launch.deferred, **self._told_cost()})
                self._decision = decide(self._seams, (), launch.deferred, repeatable=self._brief.repeatable)
                words = None
                continue
            now = time.time_ns() // 1_000_000
            outcome = failure(launch.result, launch.said, launch.limit, now)
            if outcome is not None:
                return outcome
            outputs = launch.result.get("structured_output") if self._brief.outputs else None
            wrong = mismatches(outputs, self._brief.outputs)
            if not wrong:
                return Done(dict(outputs or {}))
            corrections += 1
            if corrections > CORRECTIONS_MAX:
                return Failed(f"{NAME}: it did not answer with the wanted outputs: {'; '.join(wrong)}")
            words = self._seams.told(f"Your outputs are not the wanted ones: {'; '.join(wrong)}. Answer with all.")

    # rows

    def tell(self, turn: Turn, micros: int = 0) -> None:
        self._turns += 1
        price = None if self._unpriced else micros
        self._unpriced = False
        until_written(self._session_file, f'"{turn.calls[-1]["id"] if turn.calls else turn.id}"')
        body = {"text": turn.text, "calls": turn.calls, **(self._told_cost() if micros else {})}
        self._seams.saw(
            TURN, turn.model, Answer(body, turn.tokens_in, turn.tokens_out, price), writes=False, session=self._files()
        )
        self._shown.words(turn.text)

    def tell_end(self, tool: str, end: ToolEnd) -> None:
        until_written(self._session_file, f'"tool_use_id":"{end.id}"')
        body = {"id": end.id, "text": end.text, "failed": end.failed}
        self._seams.saw(TOOL, tool, Answer(body), writes=tool not in READS, session=self._files())
        self._shown.ended(tool, end.text, end.failed)

    def _keep(self, body: JsonMap, micros: int = 0) -> None:
        self._seams.saw(TOOL, SESSION, Answer(body, micros=micros), writes=False, session=self._files())

    def spend(self, result: JsonMap) -> int:
        """What this launch has cost, in micro-dollars.  Since some version the program tells the sum of the session,
        and its tokens beside it; before, that of the launch."""
        total = float(result.get("total_cost_usd") or 0)
        of_models = (result.get("modelUsage") or {}).values()
        names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
        all_tokens = sum(int(model.get(name) or 0) for model in of_models for name in names)
        usage = result.get("usage") or {}
        here = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        cumulative = all_tokens > sum(int(usage.get(name) or 0) for name in here)
        spent = total - self._spent_usd if cumulative else total
        self._spent_usd = total if cumulative else self._spent_usd + total
        return max(0, round(spent * 1_000_000))

    def _told_cost(self) -> JsonMap:
        return {"spent_usd": round(self._spent_usd, 6)}

    def keep_cost(self, micros: int) -> None:
        if micros:
            self._seams.saw(
                TOOL, SESSION, Answer(self._told_cost(), micros=micros), writes=False, session=self._files()
            )

    # files

    def _session_file(self) -> Path | None:
        return next(iter(self._folder.glob(f"projects/*/{self._id}.jsonl")), None)

    def _files(self) -> list[str]:
        file = self._session_file()
        if file is None:
            return []
        return [str(path.relative_to(self._folder)) for path in (file, file.with_suffix("")) if path.exists()]

    # for a launch

    @property
    def over_budget(self) -> bool:
        return self._turns >= self._brief.requests_max

    def command(self, gate: Gate) -> list[str]:
        settings = self._folder / "settings-of-the-run.json"
        settings.write_text(json.dumps(gate.settings))
        word = "--session-id" if self._session_file() is None else "--resume"
        return command_of(self._brief, self._program, self._cwd, f"{word}={self._id}", settings)

    def environment(self) -> dict[str, str]:
        return environment_of(self._brief, self._folder)

    @property
    def gate_path(self) -> Path:
        return self._folder.parent / "gate"

    @property
    def cwd(self) -> Path:
        return self._cwd

    @property
    def brief(self) -> Brief:
        return self._brief

    @property
    def shown(self) -> Shown:
        return self._shown

    @property
    def stall_s(self) -> float:
        return self._stall_s

    @property
    def decision(self) -> Decision | None:
        return self._decision


class _Launched:
    """One launch.  Afterwards: `result`, the last line; `deferred`: the call that a person is to be asked about."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._stream = Stream()
        self._calls: dict[str, JsonMap] = {}  # of turns that were told: {tool, about, args}
        self._at_work: set[str] = set()
        self._waiting: dict[str, float] = {}  # questions whose turn has not been seen yet, since when
        self._heard = False
        self._heard_at = time.monotonic()
        self.result: JsonMap = {}
        self.deferred: JsonMap | None = None
        self.said: Said | None = None
        self.limit: Limit | None = None
        self.stderr = ""

    def carry_out(self, words: str | None) -> None:
        run = self._run
        with Gate(run.gate_path) as gate, key_handed_over() as (env, descriptors):
            environment = {**run.environment(), **env}
            feed = (words or "").encode()
            with Launch(run.command(gate), cwd=run.cwd, env=environment, feed=feed, descriptors=descriptors) as program:
                program.watch(gate.fileno(), gate.open)
                while (line := program.next(LOOK_S)) is not None:
                    if line:
                        self._hear_all(self._stream.feed(line))
                        self._heard = True
                        self._heard_at = time.monotonic() if self._stream.alive else self._heard_at
                    gate.asked[:] = [question for question in gate.asked if not self._answer(question)]
                    limit_s = TOOL_S if self._at_work else run.stall_s if self._heard else max(run.stall_s, START_S)
                    if not gate.asked and time.monotonic() - self._heard_at > limit_s:
                        raise Stalled(f"the model was silent for more than {limit_s:.0f} s")
                program.wait()
                self.stderr = program.said

    def _hear_all(self, events: Sequence[Event]) -> None:
        results = [event for event in events if isinstance(event, Result)]
        turns = [event for event in events if isinstance(event, Turn)]
        micros = sum(self._run.spend(result.line) for result in results)
        for event in events:
            match event:
                case Turn():
                    self._tell(event, micros if event is turns[-1] else 0)
                case ToolEnd(id=id) if id in self._calls:
                    self._run.tell_end(str(self._calls[id]["tool"]), event)
                    self._at_work.discard(id)
                case Said():
                    self.said = event
                case Limit():
                    self.limit = event
                case Result(line=line):
                    self.result = line
        if results and not turns:
            self._run.keep_cost(micros)

    def _tell(self, turn: Turn, micros: int = 0) -> None:
        for call in turn.calls:
            if call["tool"] in OWN:
                continue
            self._calls[call["id"]] = {
                "tool": canonical(call["tool"]), "args": call["args"], "about": about(call["args"], self._run.cwd)
            }  # fmt: skip
        self._run.tell(turn, micros)

    def _answer(self, question: Question) -> bool:
        """False: not yet, its turn is still to come out of the stream."""
        if question.tool in OWN:
            question.allow()
            return True
        late = self._late(question)
        turn = self._stream.under_way(question.id, late=late)
        if turn is not None:
            self._tell(turn)
        elif question.id not in self._calls and not late:
            return False
        if self._run.over_budget:
            raise OverBudget
        tool, what = canonical(question.tool), about(question.args, self._run.cwd)
        call = {"id": question.id, "tool": tool, "args": question.args, "about": what}
        self._calls.setdefault(question.id, call)
        decision = self._run.decision
        if decision is not None and decision.id == question.id:
            self._let(question, tool, what, decision)
            return True
        match self._run.brief.policy.of(tool, what):
            case Verdict.ALLOW:
                self._run.shown.call(tool, what)
                self._at_work.add(question.id)
                question.allow()
            case Verdict.DENY:
                question.deny(f"the plan does not allow {tool} {what}".rstrip())
            case Verdict.ASK if question.agent:
                question.deny(NOT_BY_SUBAGENTS)
            case Verdict.ASK if self.deferred is not None:
                question.deny(ONE_AT_A_TIME)
            case Verdict.ASK:
                self.deferred = call
                question.defer()
        return True

    def _let(self, question: Question, tool: str, what: str, decision: Decision) -> None:
        if not decision.allowed:
            question.deny(decision.text)
            return
        self._run.shown.call(tool, about(decision.args, self._run.cwd))
        self._at_work.add(question.id)
        question.allow(decision.args if decision.edited else None, decision.remark)

    def _late(self, question: Question) -> bool:
        """It is of a turn of an earlier launch, or is not shown."""
        decision = self._run.decision
        since = self._waiting.setdefault(question.id, time.monotonic())
        return (decision is not None and decision.id == question.id) or time.monotonic() - since > SEEN_S
