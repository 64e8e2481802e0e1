"""The worker's side of a child program that speaks frames: start it, pass on what it says, end it, read its outcome.

- An outcome is what the program has sent, told only after its whole tree is dead.  Without one it has failed: an exit
  code alone is never believed.
- `cancel` and `timeout` end it at once.  Any other stop gives it back at its next journaled call, so that a turn that
  is being paid for, or a tool at work, is finished and kept if it ends within the grace.
- A call that the store cannot take just now (`StoreBusy`) waits for the next poll; the child waits for its answer.
- What waiting may mend is tried again for a while (`wait_for`); then the program is ended, and the step given back.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longtask.core.decide import STOP_CANCEL
from longtask.core.errors import LeaseLost, StoreBusy
from longtask.core.model import Failed, Json, JsonMap, Outcome, Released, Stopped
from longtask.core.patience import AGAIN_MS, Patience
from longtask.steps.child import command, outcome_of
from longtask.steps.contract import Assignment, Desk, Render
from longtask.steps.frames import Frame, FrameError, refusal
from longtask.steps.output import tail
from longtask.steps.planning import ReadPlans, whole
from longtask.steps.process import Exit, Process
from longtask.steps.reading.reader import Reader
from longtask.steps.surroundings import Surroundings, mark_of, surround

TAIL_BYTES = 16_000
CALLS_MAX = 100  # each of its threads waits for its own
AT_ONCE = frozenset({STOP_CANCEL, "timeout"})
LAST_GRACE_MS = 500  # for what has not given back in time
STREAMS = {"stdout": "out", "stderr": "err"}


class Serving:
    """The handle of a child program.  Subclasses answer its calls and look at its outcome."""

    what = "the program"

    def __init__(self, assignment: Assignment, desk: Desk, launched: Launched, read_plans: ReadPlans) -> None:
        self._read_plans = read_plans
        self.assignment = assignment
        self.desk = desk
        self.process = launched.process
        self._launched = launched
        body = assignment.spec.body
        self._reader = Reader(body["progress"]) if body.get("progress") else None
        self._silence_ms: int | None = body.get("silence_ms")
        self._calls: deque[Frame] = deque()
        self._said: Outcome | None = None  # by its last frame
        self._outcome: Outcome | None = None
        self._stop_reason: str | None = None
        self._kill_at: float | None = None
        self._lost = False
        self._wrong: Failed | Released | None = None  # why we have ended it
        self._patience = Patience()
        self._again_at = 0  # by the monotonic clock
        self._tail = b""

    def poll(self) -> Outcome | None:
        if self._outcome is None:
            exit = self.process.poll()
            heard = self._listen()
            self._serve()
            if exit is not None and not heard and not self._calls and self._quiet():
                self._outcome = self._ended(exit)
                if self._outcome is not None:
                    self._launched.remove()
            elif exit is None and self._silence_ms is not None and self.process.silent_ms() > self._silence_ms:
                self.fail(f"silent for more than {self._silence_ms} ms, and stopped", digest="silent")
            elif self._kill_at is not None and time.monotonic() >= self._kill_at:
                self.process.stop(LAST_GRACE_MS)
                self._kill_at = None
        return self._outcome

    def stop(self, reason: str, grace_ms: int) -> None:
        self._stop_reason = reason
        if reason in AT_ONCE or not self._gives_back():
            self.process.stop(grace_ms)
        else:
            self._kill_at = time.monotonic() + grace_ms / 1000

    def hold(self, until_ms: int) -> None:
        self.process.hold(until_ms)

    def kill(self) -> None:
        self._lost = True
        self.process.kill()

    # for subclasses

    @property
    def stopping(self) -> str | None:
        return self._stop_reason

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def give_back(self, reason: str | None) -> None:
        """It ends by itself at its next call, which is refused.  None: it goes on."""
        self._stop_reason = self._stop_reason or reason

    def fail(self, reason: str, digest: str | None = None) -> None:
        """Ends the program: the outcome is this failure."""
        self._wrong = self._wrong or Failed(reason, digest=digest)
        self.process.kill()

    def wait_for(self, error: BaseException) -> bool:
        """True: ask again later, at a poll for which `waits` is over.  False: the program is being ended."""
        now = time.monotonic_ns() // 1_000_000
        if self._patience.since is None:
            limit_s = self._patience.limit_ms // 1000
            self.desk.output("note", f"waits up to {limit_s} s: {error}\n".encode())
        if self._stop_reason is None and self._patience.left(now):
            self._again_at = now + AGAIN_MS
            return True
        self._wrong = self._wrong or Released(str(error))
        self.process.kill()
        return False

    @property
    def waits(self) -> bool:
        return self._stop_reason is None and time.monotonic_ns() // 1_000_000 < self._again_at

    def at_ease(self) -> None:
        """What was waited for is there."""
        waited_ms = self._patience.ease(time.monotonic_ns() // 1_000_000) if self._patience.since is not None else None
        if waited_ms is not None:
            self.desk.output("note", f"goes on after {waited_ms / 1000:.1f} s\n".encode())

    def _gives_back(self) -> bool:
        """It makes calls that can be refused."""
        return False

    def _call(self, call: Frame) -> bool:
        """Answers a call of the child; False: not yet, ask again at the next poll."""
        self.process.send_frame(refusal(call, f"no call '{call.get('frame')}' is known here"))
        return True

    def _quiet(self) -> bool:
        """Nothing of the subclass is under way any more."""
        return True

    def _finish(self, said: Outcome) -> Outcome | None:
        """What becomes of the outcome that the child has sent.  None: ask again at the next poll."""
        return said

    def _kept(self, failed: Failed) -> Failed:
        """A failure with what is to be kept of it."""
        return failed

    def _spoke_wrongly(self, error: Exception) -> None:
        said = str(error) if isinstance(error, FrameError) else repr(error)
        self.fail(f"{self.what} does not speak as agreed: {said}")

    # what comes

    def _listen(self) -> bool:
        """False: nothing came."""
        chunks = self.process.read()
        for chunk in chunks:
            self.desk.output(STREAMS[chunk.stream], chunk.content)
            self._tail = (self._tail + chunk.content)[-TAIL_BYTES:]
            seen = self._reader.feed(chunk.content) if self._reader else None
            if seen is not None:
                self.desk.progress(seen.done, seen.total or 0, seen.text)
        try:
            frames = self.process.frames()
            for frame in frames:
                self._hear(frame)
        except (FrameError, KeyError, TypeError, ValueError) as error:
            self._spoke_wrongly(error)
            return True
        return bool(chunks or frames)

    def _hear(self, frame: Frame) -> None:
        match frame.get("frame"):
            case "output":
                self.desk.output(str(frame["stream"]), _bytes(frame["text"]))
            case "note":
                self.desk.output("note", _bytes(frame["text"]))
            case "progress":
                self.desk.progress(int(frame["done"]), int(frame["total"]), str(frame["text"]))
            case "outcome":
                if self._said is not None:
                    raise FrameError("it has sent an outcome before")
                self._said = outcome_of(frame)
            case _ if "id" in frame:
                if len(self._calls) == CALLS_MAX:
                    raise FrameError(f"more than {CALLS_MAX} of its calls wait for their answers")
                self._calls.append(frame)
            case other:
                raise FrameError(f"frame '{other}' is not known here")

    def _serve(self) -> None:
        while self._calls and not self._lost:
            try:
                if not self._call(self._calls[0]):
                    return
            except StoreBusy:
                return
            except LeaseLost:
                self.kill()
            except (FrameError, KeyError, TypeError, ValueError) as error:
                self._spoke_wrongly(error)
            self._calls.popleft()
        if self._lost:
            self._calls.clear()

    # the end

    def _ended(self, exit: Exit) -> Outcome | None:
        try:
            return self._judge(exit)
        except StoreBusy:
            return None
        except LeaseLost:
            return Stopped()

    def _judge(self, exit: Exit) -> Outcome | None:
        if self._lost:
            return Stopped()
        if isinstance(self._wrong, Failed):
            return self._kept(self._wrong)
        if self._wrong is not None and exit.tree_dead:
            return Stopped() if self._stop_reason is not None else self._wrong
        if not exit.tree_dead:
            return self._kept(Failed(f"{self.what} has left a process that cannot be killed"))
        if self._said is not None:
            ended, folder = self._finish(self._said), self._launched.around.folder
            return None if ended is None else whole(ended, self.assignment, folder, self._read_plans)
        if self._stop_reason is not None or exit.stopped:  # by whoever asked, or by its warden, at the end of its lease
            return Stopped()
        return self._kept(Failed(self._how(exit)))

    def _how(self, exit: Exit) -> str:
        if exit.start_failed is not None:
            return exit.start_failed
        how = f"exit code {exit.code}" if exit.code is not None else f"killed by signal {exit.signal}"
        if exit.warden_lost:
            how = "its warden was killed"
        last = tail(self._tail)
        return f"{self.what} ended without an outcome ({how})" + (f"; its last lines:\n{last}" if last else "")


def as_written(template: Json, scope: JsonMap) -> Json:
    """For plans without `${{ … }}`."""
    return template


@dataclass(frozen=True, slots=True)
class Launched:
    process: Process
    around: Surroundings

    def remove(self) -> None:
        self.process.close()
        self.around.remove()


def launch(
    assignment: Assignment,
    module: str,
    place: Path | None,
    render: Render,
    *,
    bare: bool,
    readable: Sequence[Path] = (),
) -> Launched:
    """Starts `longtask.steps.MODULE` for the attempt, in its sandbox unless that is for what an agent runs (`bare`).

    Raises NotFound for a secret, or a sandbox, that this worker does not have."""
    around = surround(assignment, place, render, readable)
    process = Process.start(
        command(module, bare=bare),
        cwd=around.folder,
        env=around.env,
        mark=mark_of(assignment),
        frames=True,
        secrets=assignment.secrets,
        inside=() if bare else around.inside,
    )
    return Launched(process, around)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
