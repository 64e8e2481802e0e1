"""One run of Codex: a thread of its app-server, resumed as often as it takes.

Measured with 0.171.0, and what is built on it:

- With the approval policy `untrusted` it asks before each command, even `cat`, and before each patch: so a plan's
  rules hold for all of them, a turn is written down before its first tool runs, and a tool, with the worktree, before
  the next turn's tools run.
- Its rollout file holds each answer of the model with its tokens before it asks about that answer's tools
  (`rollout.py`).  The stream tells the tokens later, and a resumed thread's does not tell calls whole.
- A thread goes on in another folder, on another machine, from its rollout file alone; the model is told of the folder.
- A program that is killed keeps all that was whole; a call that was under way, or asked about, is "aborted" for the
  model.  So what a person has decided is told, the model makes the call again, and that one call is let through, once.
- A refusal cannot be given a reason; what is to be said of it is added to the turn (`turn/steer`).
- The key is kept out of the model's shell by its own setting.
- Its sandbox needs a home outside of /tmp, and ours, which ends with the attempt, often is not; see option `sandbox`.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import longtask
from longtask.agents.contract import AgentOutcome, Brief
from longtask.agents.journal import TOOL, TURN, Answer, Line, Seams
from longtask.agents.native.again import ALLOWED, PRINT, Again, print_of
from longtask.agents.native.decisions import DEFERRED
from longtask.agents.native.going_on import GO_ON, STALL_S, TOOL_S, Attempt, Deferred, OverBudget, Stalled
from longtask.agents.native.outputs import schema_of
from longtask.agents.native.program import Launch, ProgramError
from longtask.agents.native.rpc import Question
from longtask.agents.native.shown import Shown
from longtask.agents.outputs import mismatches
from longtask.agents.policy import Verdict
from longtask.agents.witness import VARIABLE
from longtask.core.errors import BadPlan, LongTaskError
from longtask.core.model import JsonMap

from .items import READS, abouts_of, args_of, end_of, tool_of
from .outcome import NAME, failure
from .rollout import Rollout, Turn
from .server import Server

SESSION = "session"
READ = "read"  # in the body of a turn's row: how much of the rollout file was told with it
KEY = "OPENAI_API_KEY"
API = "https://api.openai.com/v1"
PROVIDER = "longtask"
SANDBOXES = ("danger-full-access", "workspace-write", "read-only")
OPTIONS = ("stall_s", "retries", "sandbox")


class Codex:
    name = NAME
    version = ""  # its program's, which whoever has found it knows

    def run(self, brief: Brief, seams: Seams, line: Line) -> AgentOutcome:
        if brief.program is None:
            raise BadPlan(f"agent runtime '{NAME}': its program is not on this machine")
        for name in brief.options:
            if name not in OPTIONS:
                known = ", ".join(f"'{option}'" for option in OPTIONS)
                raise BadPlan(f"agent runtime '{NAME}': option {name!r}: there is {known}")
        if brief.options.get("sandbox", SANDBOXES[0]) not in SANDBOXES:
            raise BadPlan(f"agent runtime '{NAME}': option 'sandbox' is one of {', '.join(SANDBOXES)}")
        with contextlib.ExitStack() as ends:
            return _Run(brief, seams, line, brief.program, ends).carry_out()


class _Run(Attempt):
    def __init__(self, brief: Brief, seams: Seams, line: Line, program: Path, ends: contextlib.ExitStack) -> None:
        again = Again(seams, lambda args: ", ".join(abouts_of(args)), repeatable=brief.repeatable)
        super().__init__(NAME, brief, seams, Shown(line), again)
        self._program = program
        self._line = line
        self._ends = ends  # of what is running
        self._cwd = Path(os.path.realpath(brief.cwd))
        self._stall_s = float(brief.options.get("stall_s", STALL_S))
        self._folder = self._cwd
        self._server: Server | None = None
        self._thread = ""
        self._model = ""
        self._told = Rollout(self._rollout, 0)
        # of the turn of Codex
        self._items: dict[str, JsonMap] = {}  # of tools: {tool, args}
        self._at_work: set[str] = set()
        self._last_words = ""
        self._completed: JsonMap | None = None
        self._error: JsonMap | None = None
        self._limits: JsonMap = {}
        self._heard_at = time.monotonic()

    def carry_out(self) -> AgentOutcome:
        place = self._line.call("session.restore")
        self._folder = Path(place["folder"])
        words = self._seams.told(self._brief.prompt)
        self._seams.tool(SESSION, {}, self._first_thread, repeatable=True, writes=False)
        rows = self._seams.pass_over()
        if place["restored"]:
            words = self._decided.go_on(rows) or self._seams.told(self._brief.news or GO_ON)
            self.turns = sum(row["kind"] == TURN for row in rows)
            self._told = Rollout(self._rollout, max((int(row.get(READ) or 0) for row in rows), default=0))
            self._resume()
        elif not self._thread:
            self._start()
        return self.until_ended(words or GO_ON)

    def put_off(self, call: JsonMap) -> None:
        self._ends.close()
        self._keep({DEFERRED: call})

    def failure(self) -> AgentOutcome | None:
        completed = self._completed or {}
        if completed.get("status") == "completed":
            return None
        return failure(completed.get("error") or self._error, self._limits, time.time_ns() // 1_000_000)

    def outputs(self) -> tuple[JsonMap, list[str]]:
        if not self._brief.outputs:
            return {}, []
        try:
            outputs = json.loads(self._last_words)
        except ValueError:
            return {}, ["to be JSON"]
        wrong = mismatches(outputs, self._brief.outputs)
        return (outputs if not wrong else {}), wrong

    # the program

    def _launch(self) -> Server:
        (self._folder / "config.toml").write_text(self._config())
        env = {name: value for name, value in os.environ.items() if name != VARIABLE}
        env |= {"CODEX_HOME": str(self._folder)}
        launch = Launch([*self._brief.inside, str(self._program), "app-server"], cwd=self._cwd, env=env, feed=None)
        self._server = Server(self._ends.enter_context(launch))
        self._server.begin(longtask.__version__)
        return self._server

    def _first_thread(self) -> Answer:
        self._start()
        return Answer({"id": self._thread})

    def _start(self) -> None:
        started = self._launch().call("thread/start", **self._settings())
        self._began(started)

    def _resume(self) -> None:
        rollout = self._rollout()
        if rollout is None:
            raise LongTaskError(f"the session of {NAME} was kept without its rollout file")
        id = rollout.stem[-36:]
        self._began(self._launch().call("thread/resume", threadId=id, excludeTurns=True, **self._settings()))

    def start_again(self) -> bool:
        self._ends.close()
        self._at_work.clear()
        if self._rollout() is None:
            self._start()
            return False
        self._resume()
        return True

    def _began(self, started: JsonMap) -> None:
        self._thread = str(started["thread"]["id"])
        self._model = str(started.get("model") or started["thread"].get("model") or "")

    def _settings(self) -> dict[str, Any]:
        sandbox = self._brief.options.get("sandbox", SANDBOXES[0])
        model = {"model": self._brief.model} if self._brief.model else {}
        return {"cwd": str(self._cwd), "approvalPolicy": "untrusted", "sandbox": sandbox, **model}

    def _config(self) -> str:
        retries = self._brief.options.get("retries")
        lines = [
            "check_for_update_on_startup = false",
            *([f'model_provider = "{PROVIDER}"'] if os.environ.get(KEY) else []),
            *(['web_search = "disabled"'] if not self._brief.policy.offers("web_search") else []),
            "[analytics]", "enabled = false",
            "[feedback]", "enabled = false",
            "[features]", "plugins = false", "apps = false",
            "[shell_environment_policy]", "ignore_default_excludes = false",
        ]  # fmt: skip
        if os.environ.get(KEY):
            lines += [
                f"[model_providers.{PROVIDER}]",
                'name = "OpenAI"',
                f"base_url = {json.dumps(os.environ.get('OPENAI_BASE_URL') or API)}",
                f'env_key = "{KEY}"',
                'wire_api = "responses"',
                f"stream_idle_timeout_ms = {round(self._stall_s * 1000)}",
            ]
            if retries is not None:
                lines += [f"request_max_retries = {int(retries)}", f"stream_max_retries = {int(retries)}"]
        return "\n".join(lines) + "\n"

    # a turn of Codex, which may have many of the model

    def say(self, words: str) -> None:
        server = self._server
        assert server is not None
        self._completed = self._error = None
        self._heard_at = time.monotonic()
        schema = {"outputSchema": schema_of(self._brief.outputs)} if self._brief.outputs else {}
        server.call("turn/start", threadId=self._thread, input=[{"type": "text", "text": words}], **schema)
        while not self._served(server):
            if server.ended:
                raise ProgramError(f"the program has ended in the middle of a turn: {server.said or 'it says nothing'}")
            if server.hear():
                self._heard_at = time.monotonic()
            limit_s = TOOL_S if self._at_work else self._stall_s
            if time.monotonic() - self._heard_at > limit_s:
                raise Stalled(f"the model was silent for more than {limit_s:.0f} s")

    def _served(self, server: Server) -> bool:
        """What has come is dealt with; True: the turn has ended."""
        while server.notices:
            self._hear(*server.notices.popleft())
        while server.questions:
            self._answer(server, server.questions.popleft())
        return self._completed is not None

    def _hear(self, method: str, params: JsonMap) -> None:
        match method:
            case "item/started" | "item/completed":
                self._hear_item(params["item"], method.endswith("completed"))
            case "account/rateLimits/updated":
                told = {name: value for name, value in params["rateLimits"].items() if value is not None}
                self._limits = {**self._limits, **told}
            case "error":
                self._error = params["error"]
            case "turn/completed":
                self._tell(self._told.turns_of(str(params["turn"]["id"])))
                self._completed = params["turn"]

    def _hear_item(self, item: JsonMap, over: bool) -> None:
        if item["type"] == "agentMessage" and over:
            self._last_words = str(item.get("text") or "")
        tool = tool_of(item)
        if tool is None:
            return
        id, args = str(item["id"]), args_of(item, self._cwd)
        self._items[id] = {"tool": tool, "args": args}
        if not over:
            if item["type"] not in ("commandExecution", "fileChange"):  # these begin when they are allowed
                self._at_work.add(id)
            return
        self._tell(self._told.turns())
        self._at_work.discard(id)
        text, failed = end_of(item)
        body = {"id": id, "text": text, "failed": failed, PRINT: print_of(tool, args)}
        self._seams.saw(TOOL, tool, Answer(body), writes=tool not in READS, session=self._files())
        self._shown.ended(tool, text, failed)

    def _tell(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            self.turns += 1
            body = {"text": turn.text, "calls": turn.calls, READ: turn.read}
            answer = Answer(body, turn.tokens_in, turn.tokens_out, None)
            self._seams.saw(TURN, self._model, answer, writes=bool(self._at_work), session=self._files())
            self._shown.words(turn.text)

    # what it asks

    def _answer(self, server: Server, question: Question) -> None:
        match question.method:
            case "item/commandExecution/requestApproval" | "item/fileChange/requestApproval":
                self._answer_call(server, question)
            case "mcpServer/elicitation/request":
                question.answer({"action": "decline", "content": None})
            case "item/permissions/requestApproval":
                question.answer({"permissions": {}})
            case "item/tool/requestUserInput":
                question.answer({"answers": {}})
            case method:
                question.refuse(f"{method} is not answered here")

    def _answer_call(self, server: Server, question: Question) -> None:
        self._tell(self._told.turns_before_call())
        if self.turns >= self._brief.requests_max:
            raise OverBudget
        id = str(question.params["itemId"])
        item = self._items.get(id) or {"tool": "shell", "args": {"command": str(question.params.get("command") or "")}}
        tool, args = str(item["tool"]), item["args"]
        mark = self._decided.lets(tool, args)
        if mark is not None:
            self._keep({ALLOWED: mark})
            self._let(question, id, tool, args)
            return
        match self._verdict(tool, args):
            case Verdict.ALLOW:
                self._let(question, id, tool, args)
            case Verdict.DENY:
                question.answer({"decision": "decline"})
                self._say(server, question, f"The plan does not allow {tool} {', '.join(abouts_of(args))}.")
            case Verdict.ASK:
                raise Deferred({"id": id, "tool": tool, "args": args, "about": ", ".join(abouts_of(args))})

    def _let(self, question: Question, id: str, tool: str, args: JsonMap) -> None:
        self._shown.call(tool, ", ".join(abouts_of(args)))
        self._at_work.add(id)
        question.answer({"decision": "accept"})

    def _verdict(self, tool: str, args: JsonMap) -> Verdict:
        policy = self._brief.policy
        if "changes" in args:
            verdicts = {policy.of("write" if c["kind"] == "add" else "edit", c["path"]) for c in args["changes"]}
        else:
            verdicts = {policy.of(tool, about) for about in abouts_of(args)}
        return next((word for word in (Verdict.DENY, Verdict.ASK) if word in verdicts), Verdict.ALLOW)

    def _say(self, server: Server, question: Question, text: str) -> None:
        turn = question.params.get("turnId")
        server.ask("turn/steer", threadId=self._thread, expectedTurnId=turn, input=[{"type": "text", "text": text}])

    # rows and files

    def _keep(self, body: JsonMap) -> None:
        self._seams.saw(TOOL, SESSION, Answer(body), writes=bool(self._at_work), session=self._files())

    def _rollout(self) -> Path | None:
        found = sorted(self._folder.glob("sessions/*/*/*/rollout-*.jsonl"))
        return found[-1] if found else None

    def _files(self) -> list[str]:
        rollout = self._rollout()
        return [] if rollout is None else [str(rollout.relative_to(self._folder))]
