"""What an executor promises, and how a child process talks to its worker.

An executor turns one attempt of a step into an outcome.  `start` returns at once with a handle; `poll` never blocks and
answers None until the outcome is there; `stop` asks for an early end and returns at once: the outcome is then `Stopped`
(or whatever had already happened) and comes only after the whole process tree is dead.  One thread uses a handle.

A child process never opens the store.  It speaks length-prefixed JSON frames with its worker over an inherited socket:

    child → worker (request, answered by {"id": …, "ok": true, …})
      journal.started  {n, kind, name, fingerprint}          a turn or tool starts only after this is answered
      journal.done     {n, kind, name, fingerprint, body, tokens_in, tokens_out, micros, changed}
                       `changed`: a tool that may have written; the worker saves the worktree before it answers
    child → worker (no answer)
      output   {stream, text}      progress {done, total, text}      note {text}
      outcome  {outcome: done|failed|parked|expanded, …}      the last frame
    worker → child (first frame)
      start    {spec, prompt, cwd, run, attempt, journal: [rows], cause, failure, …}

End of the socket means that the worker is gone: the child ends at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from longtask.core.model import Json, JsonMap, Outcome, Step, StepSpec, WhenFailed

Render = Callable[[Json, JsonMap], Json]  # (template, scope): the language of `${{ … }}`, handed in by `boot`


@dataclass(frozen=True, slots=True)
class Assignment:
    """One claimed attempt with all that its executor needs.  Values are resolved; nothing is looked up later."""

    task_id: str
    task_name: str
    step: str
    attempt: int
    run: int
    spec: StepSpec
    base: str | None  # commit of the claim; None without a workspace
    workspace_id: str
    timeout_at: int | None
    scope: JsonMap = field(default_factory=dict)  # what expressions may name
    cause: JsonMap | None = None  # what woke it: a decision, a signal
    failure: str | None = None  # why the run before failed, told to an agent
    owner: str | None = None  # of a fix or conflict: the step it stands before
    conflict: JsonMap | None = None  # of a conflict step: {head, commit, paths}
    checkpoint: tuple[int, str | None] | None = None  # (journal position, tree) of the newest of the run
    journal: tuple[JsonMap, ...] = ()  # begun and finished turns and tool calls of the run
    when_failed: WhenFailed = WhenFailed.STOP
    # of an agent's run that waits for what it has spawned last: {bound, ends: [{step, state, result, reason}], apart},
    # the last of them paths in which its worktree could not be joined with what was merged meanwhile
    ended: JsonMap | None = None
    notes: tuple[JsonMap, ...] = ()  # of earlier runs of agents in its workspace, if its plan says so: {step, text}
    items: int = 0  # of a for_each that has expanded: now it collects
    listing: Json = None  # of a for_each: the list of an earlier expansion
    workspace: JsonMap | None = None  # of the plan: base, setup, cache
    first_commit: str | None = None  # that the task began from
    environment: Mapping[str, str] = field(default_factory=dict)  # of the plan: literal values
    secrets: tuple[str, ...] = ()  # names; the worker finds the values in its own environment
    artifacts: tuple[JsonMap, ...] = ()  # of a command: what the task has made so far, as `Records.artifacts` tells it


class Desk(Protocol):
    """What a handle may ask of its worker while it runs.  False or LeaseLost means: stop, report nothing."""

    def journal_started(self, n: int, kind: str, name: str, fingerprint: str) -> bool:
        """Raises Refused, with the reason, for a turn of an attempt that is asked to stop."""

    def journal_done(self, n: int, kind: str, name: str, fingerprint: str, body: Json, usage: JsonMap) -> bool: ...
    def checkpoint(self, position: int, tree: str | None) -> bool: ...
    def output(self, stream: str, body: bytes) -> None:
        """Buffered; never blocks."""

    def progress(self, done: int, total: int, text: str) -> None: ...
    def put_artifact(self, name: str, body: bytes, media_type: str) -> JsonMap:
        """Stores the bytes; answers {name, digest, size_bytes, media_type} for the outcome."""

    def read_artifact(self, digest: str) -> bytes: ...
    def now(self) -> int: ...
    def asked_now(self) -> str | None:
        """What its lease asks for at this moment: the reason of a stop.  Raises LeaseLost."""

    def stopping(self) -> bool:
        """The attempt has been asked to stop, or its lease is lost."""


class Records(Protocol):
    """What a system step may read of its task; outside any lock."""

    def items(self, task_id: str, step: str) -> Iterator[Step]:
        """Of a for_each: the completed row of each index, else the newest, by index."""

    def value(self, workspace_id: str, stored: Json) -> Json:
        """The outputs of a row, fetched if they stand as an artifact."""

    def scope(self, task_id: str, reads: Sequence[str]) -> JsonMap:
        """What expressions about a task may name: the task, its inputs, and of its steps those named here."""

    def failures(self, task_id: str, limit: int) -> list[Step]:
        """Of the plan's own steps those whose end is why the task did not complete, as they began."""

    def artifacts(self, task_id: str, *, named: bool = False) -> list[JsonMap]:
        """{name, digest, size_bytes, media_type, step}; of one name the newest.  `named`: what steps mean to make."""

    def report(self, task_id: str, title: str | None, writing: str) -> str:
        """The task so far, as Markdown, without the step that writes it."""


class Handle(Protocol):
    def poll(self) -> Outcome | None: ...
    def stop(self, reason: str, grace_ms: int) -> None: ...
    def kill(self) -> None:
        """The lease is lost: end everything now, at once and without grace."""


class Executor(Protocol):
    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        """`place`: the worktree, None without a workspace.  Must not block for longer than a process start."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A handle whose outcome is there at once."""

    outcome: Outcome

    def poll(self) -> Outcome | None:
        return self.outcome

    def stop(self, reason: str, grace_ms: int) -> None:
        return

    def kill(self) -> None:
        return
