"""What system steps and views read of a task, and its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from longtask.core.errors import NotFound
from longtask.core.machine import status
from longtask.core.model import Json, JsonMap, Kind, Role, Step, StepState, Task
from longtask.core.policy import BATCH_MAX
from longtask.store.contract import Ref, Store

from .scope import ARTIFACT, Scopes

ARTIFACTS_MAX = 10_000
NOTES = "notes/"  # artifacts of agents that have left notes (`agents/notes.py`)
NOTES_MAX = 100
NOTED_TASKS, NOTED_ARTIFACTS = 20, 1_000  # the newest tasks of the workspace, and so many artifacts of each
STEPS_REPORTED_MAX = 2_000
MARKS = {StepState.COMPLETED: "✓", StepState.FAILED: "✗", StepState.SKIPPED: "–", StepState.CANCELLED: "✗"}


class TaskRecords:
    """`steps.contract.Records`."""

    def __init__(self, store: Store, scopes: Scopes) -> None:
        self._store = store
        self._scopes = scopes

    def items(self, task_id: str, step: str) -> Iterator[Step]:
        after = -1
        while True:
            page = self._store.items(Ref(task_id, step), after, BATCH_MAX)
            yield from page
            if len(page) < BATCH_MAX:
                return
            assert page[-1].item is not None
            after = page[-1].item

    def scope(self, task_id: str, reads: Sequence[str]) -> JsonMap:
        return self._scopes.of_task(self._store.get_task(task_id), reads)

    def failures(self, task_id: str, limit: int) -> list[Step]:
        ended_badly = (StepState.FAILED, StepState.CANCELLED)
        rows = [row for row in self.steps(task_id) if row.state in ended_badly and row.role is Role.OWN]
        return sorted([row for row in rows if not row.tolerated], key=lambda r: r.state is not StepState.FAILED)[:limit]

    def value(self, workspace_id: str, stored: Json) -> Json:
        return self._scopes.fetch(workspace_id, stored)

    def artifacts(self, task_id: str, *, named: bool = False) -> list[JsonMap]:
        newest: dict[str, JsonMap] = {}
        for entry in self._store.artifacts(task_id, ARTIFACTS_MAX, named=named):
            newest[entry.name] = {
                "name": entry.name,
                "digest": entry.digest,
                "size_bytes": entry.size_bytes,
                "media_type": entry.media_type,
                "step": entry.step,
            }
        return list(newest.values())

    def notes(self, workspace_id: str) -> list[JsonMap]:
        """What agents have noted in tasks of the workspace, newest first: {step, text}, each text once."""
        found: dict[str, JsonMap] = {}
        for task in self._store.tasks(open_only=False, workspace_id=workspace_id, before=0, limit=NOTED_TASKS):
            kept = self._store.artifacts(task.id, NOTED_ARTIFACTS, named=True)
            for entry in reversed([entry for entry in kept if entry.name.startswith(NOTES)]):
                with suppress(NotFound):  # dropped to make room
                    for text in reversed(self._scopes.fetch(workspace_id, {ARTIFACT: entry.digest})):
                        found.setdefault(text, {"step": entry.step, "text": text})
            if len(found) >= NOTES_MAX:
                break
        return list(found.values())[:NOTES_MAX]

    def steps(self, task_id: str, limit: int = STEPS_REPORTED_MAX) -> list[Step]:
        """In the order of stages and of their beginning, gates left out; at most `limit`."""
        rows: list[Step] = []
        after = ""
        while len(rows) < limit:
            page = self._store.steps(task_id, after, BATCH_MAX)
            rows += [row for row in page if not row.gate]
            if len(page) < BATCH_MAX:
                break
            after = page[-1].key
        return sorted(rows[:limit], key=lambda r: (r.stage, r.began_at or 1 << 62, r.key))

    def report(self, task_id: str, title: str | None, writing: str) -> str:
        """`writing`: the step that writes it, which says nothing about itself."""
        task = self._store.get_task(task_id)
        return "\n".join(self._report(task, title, writing)) + "\n"

    def _report(self, task: Task, title: str | None, writing: str) -> Iterator[str]:
        steps = self.steps(task.id)
        yield f"# {title or task.name}"
        if task.options.goal:
            yield f"\n{task.options.goal}"
        yield f"\n- Task `{task.name}-{task.number}` ({task.id}), {status(task)} when this was written"
        if task.base:
            yield f"- From commit `{task.base[:12]}` to `{(task.head or task.base)[:12]}`"
        yield f"- Cost: {_cost(task)}, {task.spent_tokens:,} tokens"
        for number, stage in enumerate(task.options.stages or ("steps",), 1):
            mine = [s for s in steps if s.stage == number and s.key != writing]
            if not mine:
                continue
            yield f"\n## {stage}\n"
            yield "| | step | kind | attempts | time | outcome |\n|---|---|---|---|---|---|"
            for step in mine:
                yield self._line(task, step)
        kept = self.artifacts(task.id, named=True)
        if kept:
            yield "\n## Artifacts\n"
            for artifact in kept:
                name, digest = artifact["name"], artifact["digest"][:12]
                yield f"- `{name}` ({artifact['size_bytes']:,} bytes, sha256 `{digest}`) by `{artifact['step']}`"

    def _line(self, task: Task, step: Step) -> str:
        mark = MARKS.get(step.state, "…")
        took = f"{(step.ended_at - step.began_at) / 1000:.1f} s" if step.ended_at and step.began_at else ""
        return f"| {mark} | `{step.key}` | {step.kind} | {step.attempt} | {took} | {_cell(self._outcome(task, step))} |"

    def _outcome(self, task: Task, step: Step) -> str:
        if step.state is not StepState.COMPLETED:
            said = (step.reason or "").splitlines()
            ends = dict.fromkeys([*said[:1], *said[-1:]])  # what was run, and what it said last
            tolerated = " (tolerated)" if step.tolerated and not step.open else ""
            return f"{step.state}{tolerated}: {'; '.join(ends)}".rstrip(": ")
        result = self.value(task.workspace_id, step.result)
        parts: list[str] = []
        if isinstance(result, dict):
            for name in ("summary", "decision", "text", "by"):
                if result.get(name):
                    parts.append(f"{name} {result[name]}" if name != "summary" else str(result[name]))
            if result.get("tested"):
                parts.append(_tested(task, result))
            if not parts and step.kind is not Kind.ARTIFACT:
                parts = [f"{k} {v}" for k, v in result.items() if k != "exit_code" and len(str(v)) < 60]
        if step.commit:
            parts.append(f"commit `{step.commit[:12]}`")
        if step.rounds:
            parts.append(f"after {step.rounds} round(s) of fixing")
        return "; ".join(parts) or ("ok" if step.role is Role.OWN else "done")


def _tested(task: Task, result: JsonMap) -> str:
    """Evidence, and whether the code is still what it was taken from."""
    numbers = [f"{result['tests']} tests passed"] if "tests" in result else []
    numbers += [f"{result['coverage']} % of the lines covered"] if "coverage" in result else []
    since = "" if result["tested"] == task.head else "; the code has changed since"
    return f"{', '.join(numbers)} on commit `{str(result['tested'])[:12]}`{since}"


def _cost(task: Task) -> str:
    if not task.spent_micros:
        return "none that has a price" if task.unpriced else "0"
    return f"{task.spent_micros / 1_000_000:.2f} USD" + (" and usage without a price" if task.unpriced else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:300]
