"""A run of the user's graph: imported, given our checkpointer, streamed to its end, to an interrupt or to a stop.

`options` of a plan:

    graph             import path of a graph, of a `StateGraph`, or of a function that makes one
    input             what it begins with, beside the prompt
    prompt            the key of the state that holds the prompt; else `messages` or `prompt`, if the state has it
    resume            `value` or `decision`: what `interrupt` returns (`asking.py`)
    context           import path of the graph's context, or of a function that makes one
    recursion_limit   steps at most

Whatever checkpointer a graph was compiled with, it gets ours: its checkpoints travel with the step.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.errors import GraphDrained
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot
from langsmith.run_helpers import tracing_context
from pydantic import TypeAdapter, ValidationError

from longtask.agents import own_code, provider
from longtask.agents.contract import AgentOutcome, Brief, library_version
from longtask.agents.journal import TOOL, Answer, Diverged, Line, Seams
from longtask.agents.langgraph import asking
from longtask.agents.langgraph.rows import Rows, Watch
from longtask.agents.langgraph.saver import FOLDER, INTERRUPTS, THREAD, KeptSaver
from longtask.agents.outputs import mismatches
from longtask.core.errors import BadPlan
from longtask.core.model import Done, Failed, Json, JsonMap, Parked, WaitingFor

OPTIONS = ("context", "graph", "input", "prompt", "recursion_limit", "resume")
RECURSION_MAX = 10_000
STRICT = "__pregel_strict_resume"  # a decision that is delivered twice is an error, not an end
ANY: TypeAdapter[Any] = TypeAdapter(Any)


class LangGraph:
    name = "langgraph"
    version = library_version(name) or ""

    def run(self, brief: Brief, seams: Seams, line: Line) -> AgentOutcome:
        _check(brief)
        with tracing_context(enabled=False):
            return asyncio.run(Run(brief, seams, line).to_its_end())


class Run:
    def __init__(self, brief: Brief, seams: Seams, line: Line) -> None:
        self._brief = brief
        self._seams = seams
        self._line = line
        self._root = Path(os.path.realpath(brief.cwd))
        self._path = str(brief.options["graph"])
        self._steps = 0

    async def to_its_end(self) -> AgentOutcome:
        prompt = self._seams.told(self._brief.prompt) or ""
        control = RunControl()
        rows = Rows(self._seams, control)
        watch = Watch(rows, self._brief.requests_max, self._show)
        session = Path(self._line.call("session.restore")["folder"])
        saver = KeptSaver(session, partial(_keep, rows), watch.names.get)
        graph = await self._graph(saver)
        context = await self._own("context")
        self._compare(rows, graph)
        config: RunnableConfig = {
            "callbacks": [watch],
            "configurable": {"thread_id": THREAD, STRICT: True, "model": self._brief.model},
            "recursion_limit": self._brief.options.get("recursion_limit", RECURSION_MAX),
        }
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, control.request_drain, "terminated")
        snapshot = await graph.aget_state(config)
        given: Any = None if snapshot.created_at else self._input(graph, prompt)
        while given is not None or snapshot.next:
            waits = [one.id for task in snapshot.tasks for one in task.interrupts]
            if waits:
                whole = self._brief.options.get("resume") == "decision"
                given = Command(resume=asking.answers(rows, snapshot, whole=whole))
            try:
                await self._stream(graph, given, config, control, context)
            except GraphDrained:
                if rows.halted is None:
                    return _goes_on_elsewhere()
            except ValidationError as error:
                if not any(one.response_schema for task in snapshot.tasks for one in task.interrupts):
                    raise
                words = f"the answer did not fit: {_first_line(error)}"
                rows.tell(TOOL, asking.MISFIT, Answer({"text": words, "failed": True, INTERRUPTS: waits}))
            except Exception as error:
                if watch.over:
                    return Failed(watch.over)
                if rows.halted is not None:
                    raise rows.halted from None
                if (refused := _refused(error)) is not None:
                    return refused
                raise
            if rows.halted is not None:
                raise rows.halted
            given, snapshot = None, await graph.aget_state(config)
        return self._done(snapshot)

    async def _stream(self, graph: Any, given: Any, config: RunnableConfig, control: RunControl, context: Any) -> None:
        more = {} if context is None else {"context": context}
        told = graph.astream(
            given, config, stream_mode=["updates", "custom"], durability="sync", control=control, **more
        )
        async for mode, chunk in told:
            if mode == "custom":
                self._show(f"{chunk}\n" if isinstance(chunk, str) else "")
                continue
            for node in chunk:
                if not node.startswith("__"):
                    self._steps += 1
                    self._show(f"{node}\n")
                    self._line.send("progress", done=self._steps, total=0, text=node)

    async def _graph(self, saver: KeptSaver) -> Any:
        graph = await self._own("graph")
        if isinstance(graph, StateGraph):
            graph = graph.compile(checkpointer=saver)
        if not isinstance(graph, Pregel):
            raise BadPlan(f"option 'graph': '{self._path}' is no graph but a {type(graph).__name__}")
        if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
            raise BadPlan(f"graph '{self._path}': breakpoints are for debugging; ask a person by `interrupt` in a node")
        saver.keeps_all = any(isinstance(channel, DeltaChannel) for channel in graph.channels.values())
        graph.checkpointer = saver
        return graph

    async def _own(self, option: str) -> Any:
        path = self._brief.options.get(option)
        return None if path is None else await own_code.made(own_code.find(path, option, self._root))

    def _compare(self, rows: Rows, graph: Any) -> None:
        """Raises Diverged for a graph that has other nodes than the one that the run began with."""
        nodes = sorted(graph.nodes)
        began = next((row for row in rows.seen if row["kind"] == TOOL and row["name"] == "import"), None)
        if began is None:
            body = {"text": self._path, "failed": False, "library": LangGraph.version, "nodes": nodes}
            rows.tell(TOOL, "import", Answer({**body, own_code.CODE: own_code.code_of(self._root)}))
            return
        if began["nodes"] != nodes:
            other = ", ".join(sorted(set(began["nodes"]) ^ set(nodes)))
            why = own_code.why_diverged(began, LangGraph.version, self._root)
            raise Diverged(
                f"graph '{self._path}' is not the one that the run began with (other nodes: {other}; {why}); the next "
                f"run begins anew"
            )

    def _input(self, graph: Any, prompt: str) -> Any:
        """Raises BadPlan."""
        given, key = self._brief.options.get("input"), self._brief.options.get("prompt")
        names = [name for name in graph.channels if not name.startswith(("__", "branch:"))]
        if not isinstance(given, Mapping | None) or not names:  # a function's: whatever it takes
            return prompt if given is None else given
        state: dict[str, Any] = dict(given or {})
        key = key or next((name for name in ("messages", "prompt") if name in names), None)
        if key is not None and key not in names:
            raise BadPlan(f"option 'prompt': the state of '{self._path}' has no {key!r}; it has {', '.join(names)}")
        if key is None and not state:
            raise BadPlan(
                f"graph '{self._path}': where does the prompt go? its state has {', '.join(names)}; say "
                f"`options: {{prompt: NAME}}`, or give it an `input`"
            )
        if key == "messages":
            state[key] = [*state.get(key, ()), {"role": "user", "content": prompt}]
        elif key is not None:
            state[key] = prompt
        return state

    def _done(self, snapshot: StateSnapshot) -> AgentOutcome:
        wanted, values = self._brief.outputs, snapshot.values
        if isinstance(values, Mapping):
            values = {name: values[name] for name in wanted if name in values}
        elif len(wanted) == 1:
            values = {next(iter(wanted)): values}
        outputs: Json = ANY.dump_python(values if wanted else {}, mode="json", fallback=str)
        problems = mismatches(outputs, wanted)
        if problems:
            return Failed(f"graph '{self._path}': its state has not the wanted outputs: {'; '.join(problems)}")
        return Done(result=outputs)

    def _show(self, text: str) -> None:
        if text:
            self._line.send("output", stream="out", text=text)


def _keep(rows: Rows, name: str, body: JsonMap) -> None:
    rows.tell(TOOL, name, Answer(body), writes=True, session=[FOLDER])


def _goes_on_elsewhere() -> Parked:
    """Of a process that was told to end, by whomever: nothing is lost, another attempt takes it up."""
    due_at = time.time_ns() // 1_000_000
    return Parked(WaitingFor.TIMER, {"text": "its process was told to end", "reason": "terminated"}, due_at)


def _refused(error: BaseException | None) -> AgentOutcome | None:
    """What a provider's refusal means: when a limit says when it ends, the node is made again then; what would be
    refused again is not asked again.  The latter is read off errors as the clients of OpenAI and Anthropic raise them:
    other programs than models answer, too."""
    while error is not None:
        response, body = getattr(error, "response", None), getattr(error, "body", None)
        status = getattr(response, "status_code", None)
        if status == 429:
            headers = getattr(response, "headers", {})
            retry_after = str(headers.get("retry-after", ""))
            told = float(retry_after) if retry_after.replace(".", "", 1).isdigit() else None
            seconds = provider.seconds_to_reset(told, headers, body, time.time())
            return None if seconds is None else provider.limited(seconds, provider.detail(429, body, str(error)))
        if isinstance(status, int) and hasattr(error, "body"):
            advice = provider.advice(status)
            said = provider.detail(status, body, str(error))
            return None if advice is None else Failed(f"the model's API has refused: {said}; {advice}", retryable=False)
        error = error.__cause__ or error.__context__
    return None


def _check(brief: Brief) -> None:
    """Raises BadPlan."""
    of, options = "agent runtime 'langgraph'", brief.options
    for name in options:
        if name not in OPTIONS:
            raise BadPlan(f"{of}: no option '{name}'; there is {', '.join(map(repr, OPTIONS))}")
    if "graph" not in options:
        raise BadPlan(f"{of}: which graph? say `options: {{graph: package.module:name}}`")
    if options.get("resume", "value") not in ("value", "decision"):
        raise BadPlan(f"{of}: option 'resume' is to be value or decision, found {options['resume']!r}")
    steps_max = options.get("recursion_limit", 1)
    if not isinstance(steps_max, int) or isinstance(steps_max, bool) or steps_max < 1:
        raise BadPlan(f"{of}: option 'recursion_limit' is to be a number above 0, found {steps_max!r}")
    rules = brief.policy
    if rules.tools is not None or rules.ask or rules.deny:
        raise BadPlan(f"{of}: a graph calls its tools itself, so no rule would hold; ask by `interrupt` in the graph")


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
