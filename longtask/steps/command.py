"""`run` steps: a command in the attempt's worktree, under a warden.

- The command gets an allow-listed environment, the plan's `env`, and LONGTASK_* (see `environment`).
- stdout and stderr are kept in their order, in chunks while it runs, and sealed into an artifact at the end.
- Exit code 0 is success.  Anything else is a failure: its reason names the tests that failed and holds the last lines.
- Progress and names come from the output, read as the plan's `progress` says, or as it shows itself whose it is; and
  from JUnit's XML that it has written, if the plan names it: that has seen each test, so it goes first.
- Lines `name=value` that it writes into the file $LONGTASK_OUTPUT become outputs; a value that is JSON keeps its type.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from longtask.agents.witness import VARIABLE, Witness
from longtask.core.errors import NotFound, StoreError
from longtask.core.model import Done, Failed, Json, JsonMap, Outcome, Stopped
from longtask.core.patience import mendable
from longtask.redaction import Mask, redact, redact_bytes
from longtask.steps import evidence
from longtask.steps.contract import Assignment, Desk, Ended, Handle, Render
from longtask.steps.failure import digest, reason
from longtask.steps.output import plain
from longtask.steps.planning import ReadPlans, as_handed_over, whole
from longtask.steps.process import Exit, Process
from longtask.steps.reading import junit
from longtask.steps.reading.contract import Failing, Progress
from longtask.steps.reading.reader import Reader
from longtask.steps.surroundings import Surroundings, mark_of, surround

OUTPUTS_BYTES_MAX = 1_000_000
SEALED_BYTES_MAX = 10_000_000
CLOCK_NS = 10_000_000  # so much may a file's time lie behind the clock's
PathOf = Callable[[str, str], Path]  # (workspace id, digest) -> the artifact's file


class CommandExecutor:
    def __init__(self, render: Render, path_of: PathOf, read_plans: ReadPlans = as_handed_over) -> None:
        self._render = render
        self._read_plans = read_plans
        self._path_of = path_of

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        command = assignment.spec.body["command"]
        try:
            around = surround(assignment, place, self._render)
        except NotFound as missing:
            return Ended(Failed(str(missing), retryable=False))
        try:
            self._hand_over_artifacts(assignment, desk, around)
            digest = hashlib.sha256(json.dumps(command).encode()).hexdigest()[:16]
            witness = Witness(assignment.step, assignment.run, os.environ.get(VARIABLE))
            witness.saw(1, "command", _shown(command), digest)
        except BaseException:
            around.remove()
            raise
        began_ns = time.time_ns()
        process = Process.start(
            command,
            cwd=around.folder,
            env=around.env,
            mark=mark_of(assignment),
            merge_stderr=True,
            secrets=assignment.secrets,
            inside=around.inside,
        )
        hidden = Mask(around.env[name] for name in assignment.secrets)
        return CommandHandle(assignment, desk, process, around, hidden, began_ns, self._read_plans)

    def _hand_over_artifacts(self, assignment: Assignment, desk: Desk, around: Surroundings) -> None:
        """$LONGTASK_ARTIFACTS: what the task has made so far, by name, as links.  $LONGTASK_OUTPUT: see above."""
        folder = around.scratch / "artifacts"
        folder.mkdir()
        for artifact in assignment.artifacts:
            name = artifact["name"]
            try:
                link = folder / inner_name(name)
                link.parent.mkdir(parents=True, exist_ok=True)
                kept = self._path_of(assignment.workspace_id, artifact["digest"])
                if around.inside:
                    shutil.copyfile(kept, link)  # where it is kept is not seen from inside
                else:
                    link.symlink_to(kept)
            except (OSError, ValueError, NotFound) as error:  # `a` and `a/b` cannot both be there; a lost file
                desk.output("note", f"artifact {name!r} is not in $LONGTASK_ARTIFACTS: {error}\n".encode())
        around.env["LONGTASK_ARTIFACTS"] = str(folder)
        around.env["LONGTASK_OUTPUT"] = str(around.scratch / "output")


class CommandHandle:
    def __init__(
        self,
        assignment: Assignment,
        desk: Desk,
        process: Process,
        around: Surroundings,
        hidden: Mask,
        began_ns: int,
        read_plans: ReadPlans,
    ) -> None:
        self._read_plans = read_plans
        self._hidden = hidden
        self._assignment = assignment
        self._desk = desk
        self._process = process
        self._around = around
        body = assignment.spec.body
        self._reader = Reader(body.get("progress"))
        self._reports: list[str] = body.get("junit", [])
        self._silence_ms: int | None = body.get("silence_ms")
        self._silent = False
        self._whole = bytearray()
        self._since_ns = began_ns - CLOCK_NS
        self._evidence: JsonMap = body.get("evidence", {})
        self._result: Outcome | None = None

    def poll(self) -> Outcome | None:
        if self._result is not None:
            return self._result
        ended = self._process.poll()
        self._drain()
        if ended is None:
            if self._silence_ms is not None and not self._silent and self._process.silent_ms() > self._silence_ms:
                self._silent = True
                self._process.stop(2_000)
            return None
        while self._drain():
            pass
        try:
            self._result = self._outcome(ended)
        except BaseException as error:
            if not isinstance(error, StoreError) and not mendable(error):
                self._clean()
            raise  # else asked again: what the command has left must still be there
        self._clean()
        return self._result

    def _clean(self) -> None:
        self._process.close()
        self._around.remove()

    def _drain(self) -> bool:
        chunks = self._process.read()
        for chunk in chunks:
            self._desk.output("out", chunk.content)
            self._whole += chunk.content
            if len(self._whole) > 2 * SEALED_BYTES_MAX:  # the first part of a flood is in the chunks already
                del self._whole[SEALED_BYTES_MAX : len(self._whole) - SEALED_BYTES_MAX // 2]
            if (seen := self._reader.feed(chunk.content)) is not None:
                self._desk.progress(seen.done, seen.total or 0, seen.text)
        return bool(chunks)

    def _outcome(self, ended: Exit) -> Outcome:
        if ended.start_failed:
            return Failed(ended.start_failed, retryable=False)
        text = bytes(self._whole)
        name = f"output/{self._assignment.step}.{self._assignment.attempt}.txt"
        sealed = (self._desk.put_artifact(name, redact_bytes(text), "text/plain"),) if text else ()
        if ended.stopped and not self._silent:
            return Stopped()
        seen, failing, unread = self._tests()
        if ended.code == 0 and not ended.stopped:
            try:
                outputs = self._outputs()
            except ValueError as error:
                return Failed(self._hidden.value(str(error)), retryable=False, artifacts=sealed)
            try:
                if unread and "tests_min" in self._evidence:
                    raise ValueError(f"evidence: {unread}")
                shown = evidence.numbers(self._evidence, seen, self._around.folder, self._assignment.base)
            except ValueError as missing:
                return Failed(self._hidden.value(str(missing)), digest="evidence", artifacts=sealed)
            summary = {"summary": seen.text} if seen is not None and seen.text else {}
            result = {"exit_code": 0, **summary, **shown, **outputs}
            done = Done(self._hidden.value(result), artifacts=sealed)
            return whole(done, self._assignment, self._around.folder, self._read_plans)
        how = f"exit code {ended.code}" if ended.code is not None else f"signal {ended.signal}"
        if ended.warden_lost:
            how = "its warden was killed"
        if ended.stopped:
            how = f"silent for more than {self._silence_ms} ms, and stopped"
        head = f"{how}: {_shown(self._assignment.spec.body['command'])}"
        why = reason(head, failing, seen.failed if seen is not None else None, text)
        found = "silent" if ended.stopped else digest(failing, text, ended.code or 0)
        return Failed(self._hidden.value(redact(why)), digest=found, artifacts=sealed)

    def _tests(self) -> tuple[Progress | None, Failing, str | None]:
        """What the reports tell, else what the output does; and why the reports do not."""
        seen, failing = self._reader.progress, self._reader.failing
        if not self._reports:
            return seen, failing, None
        try:
            reports = junit.read(self._around.folder, self._reports, self._since_ns)
        except (NotFound, ValueError) as error:
            self._desk.output("note", f"{error}\n".encode("utf-8", "backslashreplace"))
            return seen, failing, str(error)
        told = reports.progress
        self._desk.progress(told.done, told.done, told.text)
        return told, reports.failing or failing, None

    def _outputs(self) -> dict[str, Json]:
        file = self._around.scratch / "output"
        if not file.is_file():
            return {}
        if file.stat().st_size > OUTPUTS_BYTES_MAX:
            raise ValueError(f"its outputs are larger than {OUTPUTS_BYTES_MAX:,} bytes; make an artifact of them")
        outputs: dict[str, Json] = {}
        for line in file.read_text(errors="replace").splitlines():
            if not line.strip():
                continue
            name, equals, value = line.partition("=")
            if not equals or not name.strip().isidentifier():
                raise ValueError(f"$LONGTASK_OUTPUT has a line that is not name=value: {line[:80]!r}")
            try:
                outputs[name.strip()] = json.loads(value, parse_constant=_no_constant)
            except (ValueError, RecursionError):
                outputs[name.strip()] = value
        return outputs

    def stop(self, reason: str, grace_ms: int) -> None:
        self._process.stop(grace_ms)

    def hold(self, until_ms: int) -> None:
        self._process.hold(until_ms)

    def kill(self) -> None:
        self._process.kill()


def inner_name(name: str) -> PurePosixPath:
    """An artifact's name as a path below a folder.  Raises ValueError: names may come from an agent's outputs."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or any(not char.isprintable() for char in name):
        raise ValueError(f"artifact name {name[:100]!r} is no path below a folder; write letters, digits and dashes")
    return path


def _no_constant(word: str) -> Json:
    raise ValueError(f"{word} is no JSON")  # though Python reads NaN and Infinity, no database and no browser does


def _shown(command: str | list[str]) -> str:
    text = command if isinstance(command, str) else " ".join(command)
    first = (plain(text.strip().encode()).splitlines() or [""])[0]
    return first[:100] + (" …" if len(first) > 100 or "\n" in text.strip() else "")
