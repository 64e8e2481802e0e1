"""From a task's events to its spans: a pure function of the journal and of the run journal.

    task  →  stage  →  step  →  attempt  →  run  →  turn, tool
                            →  wait

- A step's span goes from the moment when it could first be claimed to its end, so the gap before an attempt is the time
  in the queue.  A step that stands before another one (a fix, an item of a list) hangs under that one.
- Spans of turns and tools come from the run journal, when their attempt has ended, and not from the worker: a row there
  is durable before its answer is used, so nothing is lost when a worker is killed in the middle, and remote workers and
  other machines need no way of their own.  What was begun and not finished ends with its attempt, as `unknown`.
- Whoever folds the same events again gets the same spans.
- A span holds no reason, prompt, output or argument: reasons quote output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from longtask.core import events as e
from longtask.core.events import Event, NewStep
from longtask.core.model import Kind
from longtask.redaction import redact
from longtask.telemetry import genai
from longtask.telemetry.ids import attempt_span, call_span, run_span, span_id, stage_span, step_span, task_span
from longtask.telemetry.source import ERROR, OK, Call, Span, SpanKind

CALLS_MAX = 2_000  # of one attempt
UNKNOWN = "unknown"
MERGE = "merge"
STAGE_KEY = "gate."

Calls = Callable[[str, str, int], list[Call]]  # (task, step, attempt)


class Spans(Protocol):
    def find(self, id: str) -> Span | None: ...
    def add(self, span: Span) -> bool:
        """A new one.  False: the task has too many."""

    def put(self, span: Span) -> None:
        """One that was found or added, and has changed."""


class Fold:
    """`content`: answers of models and tools are told too."""

    def __init__(self, spans: Spans, calls: Calls, *, content: bool = False) -> None:
        self._spans = spans
        self._calls = calls
        self._content = content

    def add(self, event: Event) -> None:
        """The events of a task in their order, each once."""
        act = _ACTS.get(type(event.fact))
        if act is not None:
            act(self, event, event.fact)

    # --- the task and its stages ----------------------------------------------------------------------------------

    def _submitted(self, event: Event, fact: e.TaskSubmitted) -> None:
        about = {
            "longtask.task.name": fact.name,
            "longtask.task.number": fact.number,
            "longtask.workspace.id": fact.workspace_id,
            "longtask.created_by": fact.created_by,
            "longtask.parent.task": fact.parent,
            "longtask.parent.step": fact.parent_step,
        }
        stages = fact.options.stages
        id_ = task_span(event.task_id)
        span = Span(id_, event.task_id, "", SpanKind.TASK, f"task {fact.name}", started_at=event.at)
        span.attributes = {name: value for name, value in about.items() if value}
        span.state = {"stages": len(stages)}
        self._spans.add(span)
        for number, name in enumerate(stages, 1):
            stage = stage_span(event.task_id, number)
            self._spans.add(Span(stage, event.task_id, id_, SpanKind.STAGE, f"stage {name}"))
        self._new_steps(event, fact.steps)

    def _added(self, event: Event, fact: e.StepsAdded) -> None:
        self._new_steps(event, fact.steps)

    def _new_steps(self, event: Event, steps: tuple[NewStep, ...]) -> None:
        task_id = event.task_id
        root = self._spans.find(task_span(task_id))
        stages = root.state["stages"] if root is not None else 0
        for new in steps:
            if new.kind is Kind.GATE:
                continue
            if new.owner is not None:
                parent = step_span(task_id, new.owner)
            else:
                parent = stage_span(task_id, new.stage) if new.stage <= stages else task_span(task_id)
            span = Span(step_span(task_id, new.key), task_id, parent, SpanKind.STEP, f"step {new.key}", new.key)
            span.attributes = {"longtask.step.kind": str(new.kind)}
            if new.role:
                span.attributes["longtask.step.role"] = str(new.role)
            if new.item is not None:
                span.attributes["longtask.step.item"] = new.item
            span.state = {"stage": new.stage}
            if self._spans.add(span) and new.ready:
                self._ready(span, event.at, event.at)

    def _ended(self, event: Event, fact: e.TaskCompleted | e.TaskFailed | e.TaskCancelled) -> None:
        root = self._spans.find(task_span(event.task_id))
        if root is None:
            return
        state = type(fact).__name__.removeprefix("Task").lower()
        status = {"completed": OK, "failed": ERROR}.get(state, "")
        self._end(root, event.at, status, **{"longtask.state": state})
        for number in range(1, root.state["stages"] + 1):
            stage = self._spans.find(stage_span(event.task_id, number))
            if stage is not None and stage.started_at and not stage.ended_at:
                self._end(stage, event.at, status)

    def _reopened(self, event: Event, fact: e.TaskReopened) -> None:
        self._reopen(self._spans.find(task_span(event.task_id)))

    def _gate(self, event: Event, fact: e.GateOpened) -> None:
        stage = self._stage_of_gate(event, fact.step)
        if stage is not None:
            self._begin(stage, event.at)
            self._end(stage, event.at, OK)

    def _stage_of_gate(self, event: Event, key: str) -> Span | None:
        number = key.removeprefix(STAGE_KEY)
        return self._spans.find(stage_span(event.task_id, int(number))) if number.isdigit() else None

    # --- a step becomes ready, waits, ends ------------------------------------------------------------------------

    def _step(self, event: Event) -> Span | None:
        return self._spans.find(step_span(event.task_id, event.fact.step))  # type: ignore[union-attr]

    def _ready(self, step: Span, at: int, due_at: int) -> None:
        """`due_at`: when it may be claimed; before that it is in nobody's queue."""
        step.state["ready_at"] = max(at, due_at)
        if not step.started_at:
            stage = self._spans.find(stage_span(step.task_id, step.state.get("stage", 0)))
            if stage is not None:
                self._begin(stage, at)
        self._begin(step, at)

    def _unblocked(self, event: Event, fact: e.StepUnblocked) -> None:
        if (step := self._step(event)) is not None:
            self._ready(step, event.at, fact.due_at)

    def _woken(self, event: Event, fact: e.StepWoken) -> None:
        if (step := self._step(event)) is not None:
            self._stop_waiting(step, event.at)
            self._ready(step, event.at, fact.due_at)

    def _parked(self, event: Event, fact: e.StepParked) -> None:
        if (step := self._step(event)) is not None:
            self._end_attempt(step, event.at, "parked", OK)
            self._wait(step, event, str(fact.waiting_for))

    def _asked(self, event: Event, fact: e.HelpAsked) -> None:
        if (step := self._step(event)) is not None:
            kind = str(fact.question.get("kind", UNKNOWN))
            self._stop_waiting(step, event.at)
            self._end_attempt(step, event.at, f"asked:{kind}", ERROR, kind)
            self._wait(step, event, "user")

    def _queues(self, event: Event, fact: e.MutexAwaited) -> None:
        if (step := self._step(event)) is not None:
            self._wait(step, event, "mutex")

    def _wait(self, step: Span, event: Event, what: str) -> None:
        """One step may wait often: a wait is named by the event that began it."""
        self._begin(step, event.at)
        id_ = span_id(step.task_id, "wait", step.step, event.seq)
        name = what if what == MERGE else f"wait {what}"
        wait = Span(id_, step.task_id, step.id, SpanKind.WAIT, name, step.step, started_at=event.at)
        wait.attributes = {"longtask.waiting_for": what}
        if self._spans.add(wait):
            step.state["wait"] = id_
            self._spans.put(step)

    def _stop_waiting(self, step: Span, at: int) -> None:
        wait = self._spans.find(step.state.pop("wait", ""))
        if wait is None:
            return
        if wait.name == MERGE and wait.started_at == at:
            wait.started_at = 0  # nothing was to be merged: it was delivered on the head
        self._end(wait, at, OK)

    def _merging(self, event: Event, fact: e.StepDelivered | e.MergeResumed) -> None:
        if (step := self._step(event)) is not None:
            self._stop_waiting(step, event.at)
            self._end_attempt(step, event.at, "delivered", OK)
            self._wait(step, event, MERGE)

    def _conflicted(self, event: Event, fact: e.MergeConflicted) -> None:
        if (step := self._step(event)) is not None:
            self._stop_waiting(step, event.at)
            self._spans.put(step)

    def _step_ended(self, event: Event, fact: Any) -> None:
        step = self._step(event)
        if step is None:
            return
        state, status = _ENDS[type(fact)]
        self._stop_waiting(step, event.at)
        self._end_attempt(step, event.at, state, status, state if status == ERROR else "")
        if step.started_at:
            self._end(step, event.at, status, **{"longtask.state": state})

    def _restored(self, event: Event, fact: e.StepRestored) -> None:
        step = self._step(event)
        self._reopen(step)
        self._reopen(self._stage_of_gate(event, fact.step))
        if step is not None:
            self._reopen(self._spans.find(stage_span(event.task_id, step.state.get("stage", 0))))

    # --- attempts -------------------------------------------------------------------------------------------------

    def _claimed(self, event: Event, fact: e.StepClaimed) -> None:
        step = self._step(event)
        if step is None:
            return
        ready_at = step.state.pop("ready_at", event.at)
        self._begin(step, event.at)
        id_ = attempt_span(step.task_id, step.step, fact.attempt)
        name = f"attempt {step.step}.{fact.attempt}"
        span = Span(id_, step.task_id, step.id, SpanKind.ATTEMPT, name, step.step, fact.attempt, event.at)
        span.attributes = {
            "longtask.worker": fact.worker,
            "longtask.queued_ms": max(event.at - ready_at, 0),
            "longtask.step.kind": step.attributes["longtask.step.kind"],
        }
        if fact.runtime:
            span.attributes["longtask.runtime"] = fact.runtime
        if self._spans.add(span):
            step.state["attempt"] = fact.attempt
        self._spans.put(step)

    def _again(self, event: Event, fact: e.StepRetried | e.StepLost | e.StepReleased) -> None:
        if (step := self._step(event)) is not None:
            outcome, status = _AGAIN[type(fact)]
            self._end_attempt(step, event.at, outcome, status, outcome if status == ERROR else "")
            self._ready(step, event.at, fact.due_at)

    def _fix(self, event: Event, fact: e.FixRequested) -> None:
        if (step := self._step(event)) is not None:
            self._end_attempt(step, event.at, "rejected" if fact.revise else "failed", ERROR, "failed")

    def _expanded(self, event: Event, fact: e.StepExpanded) -> None:
        if (step := self._step(event)) is not None:
            self._end_attempt(step, event.at, "expanded", OK)

    def _end_attempt(self, step: Span, at: int, outcome: str, status: str, error: str = "") -> None:
        """Nothing, if none runs."""
        number = step.state.pop("attempt", 0)
        self._spans.put(step)
        attempt = self._spans.find(attempt_span(step.task_id, step.step, number)) if number else None
        if attempt is None:
            return
        more: dict[str, Any] = {"longtask.outcome": outcome}
        if error:
            more[genai.ERROR_TYPE] = error
        self._end(attempt, at, status, **more)
        if attempt.attributes.get("longtask.step.kind") == Kind.AGENT:
            self.calls(attempt, at)

    # --- runs, turns, tools ---------------------------------------------------------------------------------------

    def calls(self, attempt: Span, at: int) -> None:
        """What the run journal holds of it.  `at`: its end, or now if it goes on."""
        runtime = str(attempt.attributes.get("longtask.runtime", "agent"))
        runs: dict[int, Span] = {}
        for call in self._calls(attempt.task_id, attempt.step, attempt.attempt):
            run = runs.get(call.run)
            if run is None:
                run = runs[call.run] = self._run(attempt, call.run, runtime)
            if call.kind in ("turn", "tool"):
                self._call(run, call, runtime, at, open_=not attempt.ended_at)
        for run in runs.values():
            self._spans.add(run)

    def _run(self, attempt: Span, number: int, runtime: str) -> Span:
        name, attributes = genai.invoke_agent(runtime, _conversation(attempt, number))
        id_ = run_span(attempt.task_id, attempt.step, attempt.attempt, number)
        span = Span(id_, attempt.task_id, attempt.id, SpanKind.RUN, name, attempt.step, attempt.attempt)
        span.started_at, span.ended_at, span.status = attempt.started_at, attempt.ended_at, attempt.status
        span.attributes = {**attributes, "longtask.run": number, genai.TOKENS_IN: 0, genai.TOKENS_OUT: 0}
        if error := attempt.attributes.get(genai.ERROR_TYPE):
            span.attributes[genai.ERROR_TYPE] = error
        return span

    def _call(self, run: Span, call: Call, runtime: str, at: int, open_: bool) -> None:
        turn = call.kind == "turn"
        call = call._replace(name=redact(call.name))  # a program's own words
        conversation = _conversation(run, call.run)
        name, attributes = genai.chat(call, runtime, conversation) if turn else genai.execute_tool(call, conversation)
        id_ = call_span(run.task_id, run.step, run.attempt, call.run, call.n)
        kind = SpanKind.TURN if turn else SpanKind.TOOL
        span = Span(id_, run.task_id, run.id, kind, name, run.step, run.attempt, call.started_at, attributes=attributes)
        if call.done_at:
            span.ended_at, span.status = max(call.done_at, call.started_at), OK
            run.attributes[genai.TOKENS_IN] += call.tokens_in
            run.attributes[genai.TOKENS_OUT] += call.tokens_out
        elif not open_:
            span.ended_at, span.status = max(at, call.started_at), ERROR
            span.attributes[genai.ERROR_TYPE] = UNKNOWN
        if self._content:
            span.attributes |= genai.content(call)
        self._spans.add(span)

    # --- spans ----------------------------------------------------------------------------------------------------

    def _begin(self, span: Span, at: int) -> None:
        if not span.started_at:
            span.started_at = at
        self._spans.put(span)

    def _end(self, span: Span, at: int, status: str, **attributes: Any) -> None:
        span.ended_at, span.status = at, status
        span.attributes |= attributes
        self._spans.put(span)

    def _reopen(self, span: Span | None) -> None:
        if span is not None and span.ended_at:
            span.ended_at, span.status = 0, ""
            span.attributes.pop("longtask.state", None)
            self._spans.put(span)


def _conversation(span: Span, run: int) -> str:
    """The same for all attempts that carry a run."""
    return f"{span.task_id}/{span.step}/{run}"


_ENDS = {
    e.StepCompleted: ("completed", OK),
    e.StepMerged: ("completed", OK),
    e.StepFailed: ("failed", ERROR),
    e.StepCancelled: ("cancelled", ""),
    e.StepSkipped: ("skipped", ""),
    e.StepRetired: ("skipped", ""),
}
_AGAIN = {e.StepRetried: ("failed", ERROR), e.StepLost: ("lost", ERROR), e.StepReleased: ("released", "")}
_ACTS: dict[type[Any], Callable[[Fold, Event, Any], None]] = {
    e.TaskSubmitted: Fold._submitted,
    e.StepsAdded: Fold._added,
    e.TaskCompleted: Fold._ended,
    e.TaskFailed: Fold._ended,
    e.TaskCancelled: Fold._ended,
    e.TaskReopened: Fold._reopened,
    e.GateOpened: Fold._gate,
    e.StepUnblocked: Fold._unblocked,
    e.StepWoken: Fold._woken,
    e.StepParked: Fold._parked,
    e.HelpAsked: Fold._asked,
    e.MutexAwaited: Fold._queues,
    e.StepDelivered: Fold._merging,
    e.MergeResumed: Fold._merging,
    e.MergeConflicted: Fold._conflicted,
    e.StepClaimed: Fold._claimed,
    e.StepRetried: Fold._again,
    e.StepLost: Fold._again,
    e.StepReleased: Fold._again,
    e.FixRequested: Fold._fix,
    e.StepExpanded: Fold._expanded,
    e.StepRestored: Fold._restored,
    **dict.fromkeys(_ENDS, Fold._step_ended),
}
