"""The runtime `recorded`: a scripted model behind the real loop and the real tools.  Needs no key; for demos and tests.

A recording says, for each run of a step, what the model says and which tools it calls, turn by turn:

    recording: 1
    runs:
      - step: core                 # key of a step, or a pattern of fnmatch
        run: 1                     # number of the run; left out: any
        turns:
          - text: First the imports.
            tools: [{tool: shell, command: "ruff check ."}, {tool: edit, path: a.py, old: x, new: y}]
            usage: {tokens_in: 1200, tokens_out: 300, price: 0.012}   # price in dollars; left out: not known
            delay_ms: 500          # so that it can be watched
          - text: Done.            # the last turn calls no tool
            outputs: {files: [a.py]}

The script that fits best is taken: the exact key before a pattern, a longer pattern before a shorter one, with a run
number before without, the earlier before the later.  What a step spawns (`{tool: spawn, tasks: [{prompt: …}]}`) has
keys such as `core[0]`, the second time `core[0]~2`, and a script of its own, which ends with `outputs: {answer: …}`.
A tool call that fails ends the run, because what the script says next would be a lie; `fails: true` beside a call says
that it is to fail.  An exit code is a result, no failure.  It always says that the model's words are a recording.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from longtask.agents import loop
from longtask.agents.contract import AgentOutcome, Brief
from longtask.agents.journal import Line, Seams
from longtask.agents.loop import Reply, ToolCall
from longtask.agents.policy import parse
from longtask.agents.spawning import SPAWN, tasks_of
from longtask.agents.tools import JSON_TYPES, TOOLS, Toolbox
from longtask.agents.witness import VARIABLE
from longtask.core.errors import BadPlan, NotFound, Problem
from longtask.core.model import Failed, Json, JsonMap
from longtask.core.policy import SPAWNED_MAX

BANNER = "the model's words are a recording; all else is real"
DELAY_MAX_MS = 600_000
MICROS = 1_000_000

_TOP = {"recording", "runs", "about"}
_RUN = {"step", "run", "turns", "about"}
_TURN = {"text", "tools", "outputs", "usage", "delay_ms"}
_USAGE = {"tokens_in", "tokens_out", "price"}


class ScriptBroken(Exception):
    """The recording does not fit what really happened."""


class Recorded:
    name = "recorded"
    version = "1"

    def run(self, brief: Brief, seams: Seams, line: Line) -> AgentOutcome:
        line.send("output", stream="out", text=f"{BANNER}\n")
        env = {name: value for name, value in os.environ.items() if name != VARIABLE}
        toolbox = Toolbox(
            Path(os.path.realpath(brief.cwd)),
            env,
            lambda text: line.send("output", stream="out", text=text),
            tuple(parse(rule)[0] for rule in brief.policy.tools or ()),
            inside=brief.inside,
        )
        try:
            return loop.run(Script(brief.options["script"], brief.run), brief, seams, toolbox, line)
        except ScriptBroken as broken:
            return Failed(str(broken), retryable=False)


class Script:
    """The model.  It is told the results like any other, and looks only whether they are what it was recorded with."""

    name = "recording"
    teachable = False

    def __init__(self, script: JsonMap, run: int) -> None:
        self._turns: Sequence[JsonMap] = script["turns"]
        self._title = f"recording '{script['source']}', run {run} of step '{script['step']}'"
        text = json.dumps(script["turns"], sort_keys=True)
        self._digest = hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def request(self) -> Json:
        return {"script": self._digest}  # another recording makes the run diverge, and the next begins anew

    def reply(self, turn: int, messages: Sequence[JsonMap]) -> Reply:
        if turn > len(self._turns):
            raise ScriptBroken(f"{self._title}: turn {turn} was asked for, the recording ends with {len(self._turns)}")
        self._check_results(turn - 1, messages)
        said = self._turns[turn - 1]
        if said.get("delay_ms"):
            time.sleep(said["delay_ms"] / 1000)
        usage = said.get("usage", {})
        price = usage.get("price", None if usage else 0)
        return Reply(
            text=said.get("text", ""),
            calls=tuple(ToolCall(*_call(tool)) for tool in said.get("tools", ())),
            outputs=said.get("outputs", {}),
            tokens_in=usage.get("tokens_in", 0),
            tokens_out=usage.get("tokens_out", 0),
            micros=None if price is None else round(price * MICROS),
        )

    def _check_results(self, turn: int, messages: Sequence[JsonMap]) -> None:
        tools = self._turns[turn - 1].get("tools", ()) if turn else ()
        results = [message for message in messages if message["role"] == "tool"][-len(tools) :] if tools else []
        for number, (tool, result) in enumerate(zip(tools, results, strict=True), 1):
            if tool["tool"] == "shell" or result["failed"] == tool.get("fails", False):
                continue
            what = f"failed: {result['text']}" if result["failed"] else "was to fail and did not"
            raise ScriptBroken(f"{self._title}, turn {turn}, tool {number} ({tool['tool']}) {what}")


def _call(tool: JsonMap) -> tuple[str, JsonMap]:
    return tool["tool"], {name: value for name, value in tool.items() if name not in ("tool", "fails")}


def choose(recording: JsonMap, source: str, step: str, run: int) -> JsonMap:
    """The script {source, step, turns} of a checked recording for a run.  Raises NotFound naming what there is."""
    best: tuple[tuple[bool, int, bool], JsonMap] | None = None
    for entry in recording["runs"]:
        pattern = entry["step"]
        exact = pattern == step
        if entry.get("run", run) != run or not (exact or fnmatch.fnmatchcase(step, pattern)):
            continue
        rank = (exact, sum(char not in "*?[]!" for char in pattern), "run" in entry)
        if best is None or rank > best[0]:
            best = rank, entry
    if best is None:
        there = ", ".join(f"'{e['step']}'" + (f" run {e['run']}" if "run" in e else "") for e in recording["runs"])
        raise NotFound(f"recording '{source}': nothing for run {run} of step '{step}'; there is {there or 'nothing'}")
    return {"source": source, "step": step, "turns": best[1]["turns"]}


def check(recording: Json, source: str) -> JsonMap:
    """The recording, when it is well formed.  Raises BadPlan with every problem, each naming file, run and turn."""
    problems = [Problem(f"recording '{source}': {text}") for text in _problems(recording)]
    if problems:
        raise BadPlan(problems)
    checked: JsonMap = recording
    return checked


def _problems(recording: Json) -> Iterator[str]:
    if not isinstance(recording, Mapping):
        yield f"is to be a map with 'recording: 1' and 'runs', found {_kind(recording)}"
        return
    if recording.get("recording") != 1 or isinstance(recording.get("recording"), bool):
        yield f"'recording' is the version of its form and to be 1, found {recording.get('recording')!r}"
    yield from _unknown(recording, _TOP)
    runs = recording.get("runs")
    if not isinstance(runs, list):
        yield f"'runs' is to be a list, found {_kind(runs)}"
        return
    for number, entry in enumerate(runs, 1):
        where = f"run {number}"
        if not isinstance(entry, Mapping):
            yield f"{where}: is to be a map, found {_kind(entry)}"
            continue
        step = entry.get("step")
        if isinstance(step, str) and step:
            where = f"run {number} (step '{step}')"
        else:
            yield f"{where}: 'step' is to be the key of a step or a pattern, found {step!r}"
        yield from (f"{where}: {text}" for text in _run_problems(entry))


def _run_problems(entry: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown(entry, _RUN)
    if "run" in entry and not _count(entry["run"], 1):
        yield f"'run' is the number of a run, from 1, found {entry['run']!r}"
    turns = entry.get("turns")
    if not isinstance(turns, list) or not turns:
        yield f"'turns' is to be a list of at least one turn, found {_kind(turns)}"
        return
    for number, turn in enumerate(turns, 1):
        last = number == len(turns)
        if not isinstance(turn, Mapping):
            yield f"turn {number}: is to be a map, found {_kind(turn)}"
        else:
            yield from (f"turn {number}: {text}" for text in _turn_problems(turn, last))


def _turn_problems(turn: Mapping[str, Any], last: bool) -> Iterator[str]:
    yield from _unknown(turn, _TURN)
    if not isinstance(turn.get("text", ""), str):
        yield f"'text' is to be text, found {_kind(turn['text'])}"
    if "delay_ms" in turn and not (_count(turn["delay_ms"], 0) and turn["delay_ms"] <= DELAY_MAX_MS):
        yield f"'delay_ms' is to be 0 to {DELAY_MAX_MS}, found {turn['delay_ms']!r}"
    tools = turn.get("tools", [])
    if not isinstance(tools, list):
        yield f"'tools' is to be a list, found {_kind(tools)}"
        return
    if last and tools:
        yield "it is the last one and calls tools; add a turn without tools that ends the run"
    elif not last and not tools:
        yield "it calls no tool, which ends the run, and is not the last one"
    if "outputs" in turn and (tools or not isinstance(turn["outputs"], Mapping)):
        yield f"'outputs' is to be a map in the last turn, found {_kind(turn['outputs'])}"
    for number, tool in enumerate(tools, 1):
        yield from (f"tool {number}: {text}" for text in _tool_problems(tool))
    yield from _usage_problems(turn.get("usage", {}))


def _usage_problems(usage: Json) -> Iterator[str]:
    if not isinstance(usage, Mapping):
        yield f"'usage' is to be a map, found {_kind(usage)}"
        return
    yield from _unknown(usage, _USAGE)
    for name in ("tokens_in", "tokens_out"):
        if not _count(usage.get(name, 0), 0):
            yield f"'{name}' is to be a whole number from 0, found {usage[name]!r}"
    price = usage.get("price", 0)
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < float("inf"):
        yield f"'price' is to be a number of dollars, found {price!r}"


def _tool_problems(tool: Json) -> Iterator[str]:
    found = tool.get("tool") if isinstance(tool, Mapping) else tool
    if isinstance(tool, Mapping) and found == SPAWN:
        tasks = tasks_of(tool, SPAWNED_MAX)
        yield from [tasks] if isinstance(tasks, str) else ()
        yield from (f"{SPAWN}: {text}" for text in _unknown(tool, {"tasks", "tool", "fails"}))
        return
    known = TOOLS.get(found) if isinstance(found, str) else None
    if known is None or not isinstance(tool, Mapping):
        yield f"no tool {found!r}; there is {', '.join(map(repr, TOOLS))}"
        return
    if not isinstance(tool.get("fails", False), bool):
        yield f"'fails' is to be true or false, found {tool['fails']!r}"
    for name, param in known.params.items():
        if name not in tool:
            if param.required:
                yield f"{known.name}: '{name}' is missing ({param.about})"
        elif not isinstance(tool[name], param.type) or isinstance(tool[name], bool):
            yield f"{known.name}: '{name}' is to be {JSON_TYPES[param.type]}, found {_kind(tool[name])}"
    yield from (f"{known.name}: {text}" for text in _unknown(tool, {*known.params, "tool", "fails"}))


def _unknown(given: Mapping[str, Any], known: set[str]) -> Iterator[str]:
    for name in given:
        if name not in known:
            yield f"unknown key {name!r}; there is {', '.join(sorted(map(repr, known)))}"


def _count(value: Json, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _kind(value: Json) -> str:
    return "nothing" if value is None else type(value).__name__
