"""The run journal at its two seams, the model call and the tool call: what has finished is never done again.

A run numbers its calls from 1.  A call whose number has a finished row is answered from the row: neither the model nor
the tool hears of it.  Everything between two seams runs again, as plain code that comes by the same calls.

1. A call starts only after its `started` row is durable, and its answer is used only after its `done` row is.
2. A row with another kind, name or fingerprint at that number means that the run has left its own path (`Diverged`).
   The attempt fails, and the next run begins anew: never a silent reuse, never a silent repeat.
3. Begun, end unknown: a model call is made again (it may be paid twice, its answer was seen by nobody); a tool is
   called again if it is `repeatable`, since the worktree stands as it did before the tool; else `OutcomeUnknown`.
4. What is told to a run (its opening prompt, later a decision) is an input of its replay and has a row, too: kind
   `told`.  A prompt that is worded otherwise today does not make the run of yesterday diverge.
5. Calls are made one after another.  Usage stands in the row, so a replay costs nothing.
6. A person's decision about one call has a row, too, kind `asked`.  Begun and undecided, the run parks with nothing
   running; it goes on in another attempt, and the row takes the decision before anything acts on it, once.
7. Work that the run gives out to other steps has one row for each time, kind `spawned`.  Begun and not answered, the
   run stops with nothing running (`Spawns`), and its step is blocked until all of them have ended; the row takes their
   ends, once.  They are bound to the row: what became of an earlier call never answers a later one.
8. An agent that keeps its own session is not replayed: it tells its calls when they are over (`saw`), and a run that
   goes on passes over what was told before (`pass_over`).

The worktree belongs to it: *(journal position, tree)* is a checkpoint, and it is taken after every tool that may write.
The order on the worker's side:

    a. the tool has run       b. the tree is written and pinned     c. `done` row n, with the tree in its body
    d. checkpoint (n, tree)   e. the child gets its answer

The `done` row is the commit point of both, because one row is written whole or not at all.  Killed before c: row n is
only begun, the run goes on from the tree before n and the tool runs again on that; the tree of b is an orphan.
Killed between c and d: n is finished, and the checkpoint row is one behind; `resume_tree` then takes the tree from the
row.  Killed later: nothing is lost.  The order d, c would be wrong: killed in between, the newest checkpoint would hold
the effect of a tool that is called again on top of it; c without the tree in it would lose the edit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from longtask.agents.witness import Witness
from longtask.core.errors import LongTaskError, Refused
from longtask.core.model import Json, JsonMap

TURN, TOOL, TOLD, ASKED, SPAWNED = "turn", "tool", "told", "asked", "spawned"
BOUND = "bound"  # in what is asked or given out, and in what comes back: of which call of the run it is
NOTHING_NEW = "go on"  # for a row that was begun with something that is no longer there
TREE = "tree"  # the key that a worker adds to the body of a tool's row


class Diverged(LongTaskError):
    """A replay asks for something else than the journal holds at that number."""


class OutcomeUnknown(LongTaskError):
    """A tool that must not run twice was begun, and nobody knows how it ended."""


class Halted(BaseException):
    """The worker does not want another call: stop at once.  No handler of a runtime or a tool may survive it."""


class Asks(BaseException):
    """A person is asked, and nothing runs meanwhile.  No handler of a runtime or a tool may survive it."""

    def __init__(self, question: JsonMap) -> None:
        super().__init__(question.get("text"))
        self.question = question


class Spawns(BaseException):
    """Others are to work, and nothing of the run runs meanwhile.  No handler of a runtime or a tool may survive it."""

    def __init__(self, bound: str, tasks: Sequence[JsonMap]) -> None:
        super().__init__(f"{len(tasks)} tasks")
        self.bound = bound
        self.tasks = tasks


class Line(Protocol):
    """The way to the worker."""

    def call(self, name: str, /, **fields: Any) -> JsonMap:
        """Waits for the answer.  Raises Refused when the worker says no."""

    def send(self, name: str, /, **fields: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call brought.  `body` is all that a replay will know of it.  `micros` None: no price is known."""

    body: JsonMap
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int | None = 0


def fingerprint(kind: str, name: str, request: Json) -> str:
    text = json.dumps([kind, name, request], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Seams:
    """Used by one run in one process, by one thread.

    `hide` takes the values of secrets out of an answer before anybody reads it: the run must see now what a replay will
    show it, else its next request would be another one.  `cause`: what woke the attempt, maybe a decision.  `ended`:
    what has become of the work that the run has given out, if it waits for that: {bound, ends, apart}."""

    def __init__(
        self,
        rows: Iterable[JsonMap],
        line: Line,
        witness: Witness,
        hide: Callable[[JsonMap], JsonMap] = dict,
        cause: JsonMap | None = None,
        ended: JsonMap | None = None,
    ) -> None:
        self._rows = {int(row["n"]): row for row in rows}
        self._finished = max((n for n, row in self._rows.items() if row.get("body") is not None), default=0)
        self._line = line
        self._witness = witness
        self._hide = hide
        self._cause = cause or {}
        self._ended = ended or {}
        self.position = 0  # number of the last finished call

    @property
    def replaying(self) -> bool:
        """The next call will be answered from the journal."""
        return self.position < self._finished

    def model(self, name: str, request: Json, call: Callable[[], Answer]) -> JsonMap:
        return self._run(TURN, name, request, call, repeatable=True, writes=False)

    def tool(self, name: str, args: JsonMap, call: Callable[[], Answer], *, repeatable: bool, writes: bool) -> JsonMap:
        """`writes`: it may change the worktree, so a checkpoint is taken before it answers."""
        return self._run(TOOL, name, args, call, repeatable=repeatable, writes=writes)

    def told(self, text: str | None) -> str | None:
        """The next thing that is told to the run: what the journal holds, else `text`, written down first."""
        row = self._rows.get(self.position + 1)
        told_before = row is not None and row["kind"] == TOLD
        if row is not None and told_before and row.get("body") is not None:
            text = str(row["body"]["text"])
        elif not told_before and (row is not None or text is None):  # another call has the next number
            return None
        said = text if text is not None else NOTHING_NEW
        # Its fingerprint is no digest of the text: a row that was begun may be finished with another wording.
        self._run(TOLD, "", None, lambda: Answer({"text": said}), repeatable=True, writes=False)
        return said

    def ask(self, name: str, request: JsonMap, text: str) -> JsonMap:
        """What a person has decided about this call: {decision: approve|reject|edit|respond, by, text, edited?}.

        Raises Asks as long as nobody has.  `request`: what the call would do, shown with the question; the decision is
        bound to it, so that it never counts for another call."""
        n, key = self.position + 1, fingerprint(ASKED, name, request)
        bound = bound_to(n, key)

        def decided() -> Answer:
            if self._cause.get(BOUND) != bound or "decision" not in self._cause:
                show = {"call": {"name": name, **request}}
                raise Asks({"kind": "approval", "text": text, "show": show, BOUND: bound, "digest": key[:16]})
            return Answer({k: self._cause[k] for k in ("decision", "by", "text", "edited") if k in self._cause})

        return self._run(ASKED, name, request, decided, repeatable=True, writes=False)

    def spawn(self, tasks: Sequence[JsonMap], told: Callable[[Sequence[JsonMap], Sequence[str]], JsonMap]) -> JsonMap:
        """What has become of these tasks, in words of `told` (`spawning.told`): of their ends, in their order, and of
        the paths that could not be joined.

        Raises Spawns as long as they have not ended.  The worktree may be another one when they have: it is saved."""
        key = fingerprint(SPAWNED, "", list(tasks))
        bound = bound_to(self.position + 1, key)

        def ended() -> Answer:
            if self._ended.get(BOUND) != bound:
                raise Spawns(bound, tasks)
            return Answer(told(self._ended["ends"], self._ended.get("apart", ())))

        return self._run(SPAWNED, "", list(tasks), ended, repeatable=True, writes=True)

    def pass_over(self) -> list[JsonMap]:
        """The finished rows of a run whose agent keeps its own session: their bodies, each with its kind and name."""
        self.position = max(self.position, self._finished)
        rows = [self._rows[n] for n in sorted(self._rows) if n <= self._finished]
        return [
            {**row["body"], "kind": row["kind"], "name": row["name"]} for row in rows if row.get("body") is not None
        ]

    def saw(self, kind: str, name: str, answer: Answer, *, writes: bool, session: Sequence[str] = ()) -> None:
        """A call that an agent's own program has made and ended: written down with what it cost.

        `session`: files and folders, relative to the run's session folder, that the program needs to go on elsewhere;
        they are kept with the row (`steps/session.py`)."""
        n = self.position + 1
        key = fingerprint(kind, name, n)
        self._witness.saw(n, kind, name, key)
        self._finish("journal.saw", n, kind, name, key, answer, self._hide(answer.body), writes, session=list(session))

    def end(self) -> None:
        """The run is over, its outcome will be told."""
        self._witness.saw(self.position + 1, "end", "", "")

    def _run(
        self, kind: str, name: str, request: Json, call: Callable[[], Answer], *, repeatable: bool, writes: bool
    ) -> JsonMap:
        n = self.position + 1
        key = fingerprint(kind, name, request)
        row = self._rows.get(n)
        if row is not None:
            self._check(row, n, kind, name, key)
            if row.get("body") is not None:
                self.position = n
                return {field: value for field, value in row["body"].items() if field != TREE}
            if not repeatable:
                raise OutcomeUnknown(
                    f"outcome unknown: {_called(kind, name)} was begun as call {n} of this run and its end is not "
                    f"known; it is not repeatable: look at what it has done, then answer"
                )
        self._ask("journal.started", n=n, kind=kind, name=name, fingerprint=key)
        answer = call()
        body = self._hide(answer.body)
        if kind not in (TOLD, ASKED, SPAWNED):
            self._witness.saw(n, kind, name, key)
        self._finish("journal.done", n, kind, name, key, answer, body, writes)
        return body

    def _finish(
        self,
        frame: str,
        n: int,
        kind: str,
        name: str,
        key: str,
        answer: Answer,
        body: JsonMap,
        writes: bool,
        **more: Any,
    ) -> None:
        self._ask(
            frame,
            n=n,
            kind=kind,
            name=name,
            fingerprint=key,
            body=body,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
            micros=answer.micros,
            changed=writes,
            **more,
        )
        self.position = n

    def _ask(self, name: str, /, **fields: Any) -> None:
        try:
            self._line.call(name, **fields)
        except Refused as refused:
            raise Halted(str(refused)) from refused

    def _check(self, row: JsonMap, n: int, kind: str, name: str, key: str) -> None:
        found = (row["kind"], row["name"], row["fingerprint"])
        if found == (kind, name, key):
            return
        other = "" if found[:2] != (kind, name) else " with another request"
        raise Diverged(
            f"the run diverged at call {n}: its journal has {_called(found[0], found[1])}{other}, "
            f"asked was {_called(kind, name)}; the next run begins anew"
        )


def bound_to(n: int, fingerprint: str) -> str:
    """Names one call of a run."""
    return f"{n}.{fingerprint}"


def waits_for(rows: Sequence[JsonMap], ended: JsonMap | None) -> bool:
    """The call that was begun last is the one of which `ended` tells."""
    last = rows[-1] if rows else None
    if ended is None or last is None or last.get("body") is not None:
        return False
    return bool(ended[BOUND] == bound_to(last["n"], last["fingerprint"]))


def _called(kind: str, name: str) -> str:
    return f"{kind} '{name}'" if name else f"'{kind}'"


def resume_tree(rows: Sequence[JsonMap], checkpoint: tuple[int, str | None] | None) -> str | None:
    """The tree that an attempt goes on from; None: the base.  `checkpoint`: the run's newest, as (position, tree)."""
    position, tree = checkpoint or (0, None)
    for row in rows:
        body = row.get("body")
        if body is not None and row["n"] > position and body.get(TREE) is not None:
            position, tree = row["n"], body[TREE]
    return tree
