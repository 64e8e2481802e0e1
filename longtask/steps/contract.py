"""What an executor promises, and how a child process talks to its worker.

An executor turns one attempt of a step into an outcome.  `start` returns at once with a handle; `poll` never blocks and
answers None until the outcome is there; `stop` asks for an early end and returns at once: the outcome is then `Stopped`
(or whatever had already happened) and comes only after the whole process tree is dead.  A handle is not thread-safe: one thread polls it.

A child process never opens the store.  It speaks length-prefixed JSON frames with its worker over an inherited socket:

    child → worker (request, answered by {"id": …, "ok": true, …})
      journal.started  {n, kind, name, fingerprint}          a turn or tool starts only after this is answered
      journal.done     {n, kind, name, fingerprint, body, tokens_in, tokens_out, micros, changed}
                       `changed`: a tool that may have written; the worker saves the worktree before it answers
    child → worker (no answer)
      output   {stream, text}      progress {done, total, text}      note {text}
      outcome  {outcome: done|failed|parked, …}               the last frame
    worker → child (first frame)
      start    {spec, prompt, cwd, run, attempt, journal: [rows], cause, failure, …}

End of the socket means that the worker is gone: the child ends at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from longtask.core.model import Json, JsonMap, Outcome, StepSpec


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
    tree: str | None = None  # checkpoint to start from
    journal: tuple[JsonMap, ...] = ()  # finished turns and tool calls of the run
    environment: Mapping[str, str] = field(default_factory=dict)


class Desk(Protocol):
    """What a handle may ask of its worker while it runs.  False or LeaseLost means: stop, report nothing."""

    def journal_started(self, n: int, kind: str, name: str, fingerprint: str) -> bool: ...
    def journal_done(self, n: int, kind: str, name: str, fingerprint: str, body: Json, usage: JsonMap) -> bool: ...
    def checkpoint(self, position: int, tree: str | None) -> bool: ...
    def output(self, stream: str, body: bytes) -> None:
        """Buffered; never blocks."""

    def progress(self, done: int, total: int, text: str) -> None: ...
    def put_artifact(self, name: str, body: bytes, media_type: str) -> JsonMap:
        """Stores the bytes; answers {name, digest, size_bytes, media_type} for the outcome."""

    def read_artifact(self, digest: str) -> bytes: ...
    def now(self) -> int: ...


class Handle(Protocol):
    def poll(self) -> Outcome | None: ...
    def stop(self, reason: str, grace_ms: int) -> None: ...
    def kill(self) -> None:
        """The lease is lost: end everything now, at once and without grace."""


class Executor(Protocol):
    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        """`place`: the worktree, None without a workspace.  Must not block for longer than a process start."""
