"""One run of an agent that speaks the Agent Client Protocol: a session, resumed as often as it takes.

What holds of all of them, and what is built on it:

- An id of the session is there before the first request of the model; a turn is written down before its first tool
  runs, with the session as it is then, and each tool, with the worktree, before the next one runs: questions wait.
- Nothing is offered to the agent: it reads, writes and runs by itself, where it is put.
- A question lives no longer than its program.  So a call that a person is asked about ends it; what was decided is
  told, the model makes the call again, and that one call is let through, once (`native/again.py`).
- Some agents end their turn when a call is refused.  They are told why, and go on.
- `end_turn` is no proof of anything: errors of the model, calls that were refused and cut answers end so, too.
- A session that cannot be resumed begins anew, and the model is told so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from longtask.agents.contract import AgentOutcome, Brief
from longtask.agents.journal import TOOL, TURN, Answer, Seams
from longtask.agents.native.again import ALLOWED, PRINT, Again, print_of
from longtask.agents.native.decisions import DEFERRED
from longtask.agents.native.going_on import GO_ON, STALL_S, TOOL_S, Attempt, Deferred, OverBudget, Stalled
from longtask.agents.native.limits import until as parked_until
from longtask.agents.native.outputs import asked_for, outputs_in
from longtask.agents.native.program import ProgramError
from longtask.agents.native.rpc import Peer, Question
from longtask.agents.native.shown import Shown
from longtask.agents.outputs import mismatches
from longtask.agents.policy import Verdict
from longtask.core.model import Failed, JsonMap

from . import kept, outcome
from .agents import Agent, Broken, Own, Retried, Spent
from .aside import Aside
from .calls import ALONE, READS, about_of, abouts_of, args_of, tool_of
from .session import Session
from .updates import Call, Ended, Over, Turn, Updates

SESSION = "session"
BEGUN = "begun"  # in the body of a row: the number of a turn whose tools begin
NUMBER = "n"  # in the body of a turn's row: the same
COST = "spent_usd"  # in the same: of the session so far, as the agent has told it
READ_TOKENS = ("inputTokens", "cachedReadTokens", "cachedWriteTokens")
INFORMED_S = 2.0  # what a call is about comes well within that
PAUSE_MAX_S = 120.0  # that is waited for in the program; a longer one is with nothing running
ANEW = (
    "This was begun before and cut off, and what was said then is lost. Files are as they were after the last tool "
    "that had ended. Look at what is done, then go on."
)


class Run(Attempt):
    def __init__(
        self,
        name: str,
        agent: Agent,
        own: Own,
        session: Session,
        folder: Path,
        cwd: Path,
        brief: Brief,
        seams: Seams,
        shown: Shown,
    ) -> None:
        super().__init__(name, brief, seams, shown, Again(seams, about_of, repeatable=brief.repeatable))
        self._agent = agent
        self._own = own
        self._aside = Aside(own)
        self._session = session
        self._folder = folder
        self._cwd = cwd
        self._stall_s = float(brief.options.get("stall_s", STALL_S))
        self._mcp: Sequence[str] = brief.options.get("mcp", ())
        self._opening = brief.prompt
        self._forgotten = False  # the session begins anew though there were turns before
        self._each_told = False  # what each turn has used, not what all have used together
        # of a launch
        self._updates = Updates()
        self._at_work: dict[str, str] = {}  # calls that were let through, and their tools
        self._held: list[Question] = []
        self._held_since: dict[str, float] = {}
        self._refused: set[str] = set()
        # of what was said last
        self._ended: JsonMap | None = None
        self._given_up: AgentOutcome | None = None
        self._refusals: list[str] = []
        self._words = ""  # of the last turn, if it has called nothing more
        self._cut = ""  # why the last turn is not whole
        self._heard_at = time.monotonic()
        # of the session, in dollars
        self._cost = 0.0
        self._cost_told = 0.0

    def carry_out(self) -> AgentOutcome:
        opening = self._seams.told(self._brief.prompt) or self._brief.prompt
        self._opening = opening + asked_for(self._brief.outputs)
        self._seams.tool(SESSION, {}, self._first, repeatable=True, writes=False)
        rows = self._seams.pass_over()
        self.turns = max((int(row.get(BEGUN) or row.get(NUMBER) or 0) for row in rows), default=0)
        words = self._opening
        if self.turns:
            words = self._decided.go_on(rows) or self._seams.told(self._brief.news or GO_ON) or GO_ON
            self._session.id = [str(row["id"]) for row in rows if row["name"] == SESSION and "id" in row][-1]
            self._cost_told = max((float(row.get(COST) or 0) for row in rows), default=0.0)
            self._go_on()
        elif not self._session.id:
            self._begin_anew()
        return self.until_ended(words)

    # the session

    def _first(self) -> Answer:
        self._session.begin()
        return Answer({"id": self._session.id})

    def _go_on(self) -> bool:
        """False: it begins anew, which the model is going to be told."""
        if self._session.go_on():
            return True
        self._shown.note("its session is not there any more; it begins anew")
        self._begin_anew()
        self._forgotten = True
        return False

    def _begin_anew(self) -> None:
        self._cost = self._cost_told = 0.0
        self._session.begin()
        self._seams.saw(TOOL, SESSION, Answer({"id": self._session.id}), writes=False)

    def start_again(self) -> bool:
        self._end_program()
        if self.turns:
            return self._go_on()
        self._begin_anew()
        return False

    def put_off(self, call: JsonMap) -> None:
        self._end_program()
        self._keep({DEFERRED: call})

    def _end_program(self) -> None:
        self._session.end()
        self._updates = Updates()
        self._at_work.clear()
        self._held.clear()
        self._held_since.clear()

    # what is said to it

    def say(self, words: str) -> None:
        if self._forgotten:
            parts = (self._opening, ANEW, *([] if words == self._opening else [words]))
            words, self._forgotten = "\n\n".join(parts), False
        self._given_up = self._aside.broken = None
        self._words = self._cut = ""
        self._refusals.clear()
        while True:
            self._say(words)
            if not self._refusals:
                return
            words = f"{' '.join(self._refusals)} Go on without."
            self._refusals.clear()

    def _say(self, words: str) -> None:
        peer = self._session.peer
        self._ended = None
        self._heard_at = time.monotonic()
        prompt = [{"type": "text", "text": words}]
        number = peer.ask("session/prompt", sessionId=self._session.id, prompt=prompt)

        def answered(message: JsonMap) -> None:
            if message["id"] == number:
                self._ended = message

        while not self._served(peer):
            if peer.ended:
                raise ProgramError(f"the program has ended in the middle of a turn: {peer.said or 'it says nothing'}")
            peer.hear(answered)
            limit_s = TOOL_S if self._at_work else self._stall_s
            if time.monotonic() - self._heard_at > limit_s:
                raise Stalled(f"the model was silent for more than {limit_s:.0f} s")
        if self._given_up is not None:
            self._end_program()
            return
        for over in self._updates.close():
            self._hear_over(over, last=True)
        if self._refusal() is not None:
            self._aside.learn_why()

    def _served(self, peer: Peer) -> bool:
        """What has come is dealt with; True: it has ended."""
        self._learn()
        while peer.notices:
            method, params = peer.notices.popleft()
            if method == "session/update" and params.get("sessionId") == self._session.id:
                self._hear(params.get("update") or {})
        self._held += peer.questions
        peer.questions.clear()
        for question in tuple(self._held):
            if self._answer(question):
                self._held.remove(question)
        return self._ended is not None or self._given_up is not None

    def _learn(self) -> None:
        while (retried := self._aside.retried()) is not None:
            self._updates.forget()
            self._at_work.clear()  # calls of a turn that is asked for again have been given up
            self._hear_retried(retried)
        if self._updates.turn.done and self._aside.ended(self._updates.turn):
            for over in self._updates.close():
                self._hear_over(over)

    def _hear_retried(self, retried: Retried) -> None:
        pause_s = (retried.next_at - _now()) / 1000
        self._shown.note(f"the model's API did not answer: {retried.text}; asked again in {max(0, pause_s):.0f} s")
        self._heard_at = time.monotonic() + max(0.0, pause_s)
        retries = self._brief.options.get("retries")
        if pause_s > PAUSE_MAX_S:
            reason = outcome.text(self._name, "the usage limit is reached", retried.text)
            self._given_up = parked_until(retried.next_at, reason)
        elif retries is not None and retried.number > int(retries):
            self._given_up = outcome.failure(self._name, Broken(retried.text), _now())

    def _hear(self, update: JsonMap) -> None:
        for event in self._updates.feed(update):
            match event:
                case Over():
                    self._hear_over(event)
                    if self.turns >= self._brief.requests_max:
                        raise OverBudget
                case Ended(call=call, turn=turn):
                    self._hear_end(call, turn)
        if self._updates.alive:
            self._heard_at = time.monotonic()
        cost = update.get("cost")
        if isinstance(cost, dict) and cost.get("currency") == "USD":
            self._cost = float(cost.get("amount") or 0)

    # turns and tools

    def _begin(self, turn: Turn) -> None:
        """Before its first tool runs."""
        if turn.begun:
            return
        self._count(turn)
        turn.begun = True
        self._keep({BEGUN: turn.number, **self._body(turn)})
        self._shown.words(turn.text)

    def _hear_over(self, over: Over | Ended, *, last: bool = False) -> None:
        turn = over.turn
        spent = self._aside.spent_by(turn) if self._own.tells_turns else self._spent(turn, last=last)
        self._words, self._cut = ("" if turn.calls else turn.text), spent.end
        if not turn.begun:
            self._count(turn)
            self._shown.words(turn.text)
        cost = {COST: self._cost_told} if self._cost_told and not self._own.tells_turns else {}
        body = {NUMBER: turn.number, **self._body(turn), **cost}
        answer = Answer(body, spent.tokens_in, spent.tokens_out, spent.micros)
        self._seams.saw(TURN, self._session.model, answer, writes=bool(self._at_work), session=self._files())

    def _count(self, turn: Turn) -> None:
        self.turns += 1
        turn.number = self.turns
        self._refusals.clear()  # it went on by itself

    def _body(self, turn: Turn) -> JsonMap:
        calls = [
            {"id": call.id, "tool": self._tool(call) or call.name, "args": args_of(call, self._cwd)}
            for call in turn.calls
        ]
        return {"text": turn.text, "calls": calls}

    def _spent(self, turn: Turn, *, last: bool) -> Spent:
        """Of all turns since something was said, with the last of them, as the protocol has it; or each turn's own."""
        if not turn.usage and not last:
            return Spent("", 0, 0, 0)
        self._each_told = self._each_told or bool(turn.usage)
        read: Sequence[str] = ("inputTokens",)  # those from a cache are among them
        usage = turn.usage
        if not self._each_told:
            read, usage = READ_TOKENS, ((self._ended or {}).get("result") or {}).get("usage") or {}
        micros = max(0, round((self._cost - self._cost_told) * 1_000_000)) or None
        self._cost_told = self._cost
        tokens_in = sum(int(usage.get(name) or 0) for name in read)
        return Spent("", tokens_in, int(usage.get("outputTokens") or 0), micros)

    def _hear_end(self, call: Call, turn: Turn) -> None:
        self._at_work.pop(call.id, None)
        tool = self._tool(call)
        if not tool:
            return
        self._begin(turn)
        mark = print_of(tool, args_of(call, self._cwd))
        body = {"id": call.id, "text": call.text, "failed": call.failed, PRINT: mark}
        writes = tool not in READS and call.id not in self._refused
        self._seams.saw(TOOL, tool, Answer(body), writes=writes, session=self._files())
        self._shown.ended(tool, call.text, call.failed)

    def _tool(self, call: Call) -> str:
        return tool_of(call, self._agent.tools, self._mcp)

    # what it asks

    def _answer(self, question: Question) -> bool:
        """False: later."""
        if question.method in self._agent.answers:
            question.answer(self._agent.answers[question.method])
        elif question.method == "session/request_permission":
            return self._answer_call(question)
        else:
            question.refuse(f"{question.method} is not offered")
        return True

    def _answer_call(self, question: Question) -> bool:
        call, turn = self._updates.call(question.params["toolCall"])
        since = self._held_since.setdefault(call.id, time.monotonic())
        if any(tool in ALONE for tool in self._at_work.values()):
            return False
        if not call.informed and time.monotonic() - since < INFORMED_S:
            return False
        tool, args = self._tool(call), args_of(call, self._cwd)
        if not tool:
            return self._choose(question, "allow")
        self._begin(turn)
        if self.turns >= self._brief.requests_max:
            raise OverBudget
        abouts = abouts_of(tool, args, call.paths, self._cwd)
        mark = self._decided.lets(tool, args)
        if mark is not None:
            self._keep({ALLOWED: mark})
            return self._let(question, call, tool, abouts)
        verdicts = {self._brief.policy.of(tool, about) for about in abouts}
        if Verdict.DENY in verdicts:
            self._refused.add(call.id)
            self._refusals.append(f"The plan does not allow {tool} {', '.join(abouts)}.")
            return self._choose(question, "reject")
        if Verdict.ASK in verdicts:
            raise Deferred({"id": call.id, "tool": tool, "args": args, "about": ", ".join(abouts)})
        return self._let(question, call, tool, abouts)

    def _let(self, question: Question, call: Call, tool: str, abouts: Sequence[str]) -> bool:
        self._shown.call(tool, ", ".join(abouts))
        self._at_work[call.id] = tool
        self._heard_at = time.monotonic()
        return self._choose(question, "allow")

    def _choose(self, question: Question, word: str) -> bool:
        """This one time, if that is offered."""
        options = question.params.get("options") or ()
        kinds = {str(option.get("kind")): option.get("optionId") for option in options}
        chosen = kinds.get(f"{word}_once", kinds.get(f"{word}_always"))
        answer = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
        question.answer({"outcome": answer})
        return True

    # how it has ended

    def failure(self) -> AgentOutcome | None:
        if self._given_up is not None:
            return self._given_up
        broken = self._aside.broken or self._refusal()
        if broken is not None:
            return outcome.failure(self._name, broken, _now())
        reason = str(((self._ended or {}).get("result") or {}).get("stopReason"))
        if reason != "end_turn":
            return outcome.stopped(self._name, reason)
        if self._cut:
            return outcome.cut(self._name, self._cut)
        if not self._words.strip():
            return Failed(f"{self._name}: it ended its turn without a last word")
        return None

    def _refusal(self) -> Broken | None:
        """An error in the place of an answer."""
        error = (self._ended or {}).get("error")
        return None if error is None else outcome.refused(error)

    def outputs(self) -> tuple[JsonMap, list[str]]:
        if not self._brief.outputs:
            return {}, []
        outputs = outputs_in(self._words)
        wrong = ["to be JSON"] if outputs is None else mismatches(outputs, self._brief.outputs)
        return (outputs or {}) if not wrong else {}, wrong

    # rows

    def _keep(self, body: JsonMap) -> None:
        self._seams.saw(TOOL, SESSION, Answer(body), writes=bool(self._at_work), session=self._files())

    def _files(self) -> list[str]:
        return kept.keep(self._folder, self._own.databases)


def _now() -> int:
    return time.time_ns() // 1_000_000
