"""Tasks and steps as documents: maps of plain values, of the shapes that docs/json.md tells."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from longtask.core.machine import status
from longtask.core.model import Json, JsonMap, Question, Step, StepState, Task
from longtask.core.policy import BATCH_MAX
from longtask.store.contract import Store
from longtask.views.picture import Picture
from longtask.views.reasons import answers
from longtask.views.words import handle, percent, question_text, stage, stage_word, stages


def picture_map(picture: Picture) -> dict[str, Any]:
    """The shape of `show --json`."""
    task = picture.task
    own: dict[int, list[Step]] = defaultdict(list)
    for step in picture.steps:
        if step.owner is None:
            own[step.stage].append(step)
    return {
        **task_map(task),
        "state": str(task.state),
        "workspace": task.workspace_id or None,
        "base": task.base,
        "head": task.head,
        "cost_limit_micros": task.budget_micros,
        "tokens_limit": task.budget_tokens,
        "forked_from": None if task.options.forked is None else task.options.forked._asdict(),
        "stages": [{"name": name, "status": stage_word(task, own[n], n)} for n, name in enumerate(stages(task), 1)],
        "counts": task.counts._asdict(),
        "steps": [step_map(picture, step) for step in picture.steps],
        "steps_left_out": picture.left_out,
    }


def task_map(task: Task) -> dict[str, Any]:
    """The shape of an entry of `ls --json`."""
    return {
        "id": task.id,
        "handle": handle(task),
        "name": task.name,
        "goal": task.options.goal,
        "status": status(task),
        "percent": percent(task),
        "stage": stage(task),
        "cost_micros": task.spent_micros,
        "tokens": task.spent_tokens,
        "created_at": task.created_at,
        "ended_at": task.ended_at or None,
        "created_by": task.created_by,
        "parent": task.parent,
        "parent_step": task.parent_step,
    }


def step_map(picture: Picture, step: Step) -> dict[str, Any]:
    progress = picture.progress_of(step)
    return {
        "key": step.key,
        "kind": str(step.kind),
        "stage": step.stage,
        "state": str(step.state),
        "owner": step.owner,
        "attempt": step.attempt,
        "taken_by": step.taken_by if step.state is StepState.RUNNING else None,
        "run": step.run,
        "rounds": step.rounds,
        "began_at": step.began_at or None,
        "ended_at": step.ended_at or None,
        "due_at": step.due_at or None,
        "reason": step.reason,
        "because": step.because,
        "benign": step.benign,
        "tolerated": step.tolerated,
        "waived": step.waived,
        "waiting_for": str(step.waiting_for) or None,
        "question": step.question,
        "ask": step.ask or None,
        "commit": step.commit,
        "result": step.result,
        "child": None if (child := picture.children.get(step.key)) is None else child._asdict(),
        "items": None if (items := picture.items_of(step)) is None else items._asdict(),
        "progress": None
        if progress is None
        else {"done": progress.done, "total": progress.total, "text": progress.text},
    }


def acted_map(task: Task, **more: Json) -> dict[str, Any]:
    """What whoever has acted on a task is answered."""
    return {"task": task.id, "handle": handle(task), "status": status(task), **more}


def graph_map(store: Store, picture: Picture) -> dict[str, Any]:
    """What waits for what.  `edges`: [need, step] of the steps that are shown, so that ends of stages are left out."""
    task = picture.task
    shown = {step.key for step in picture.steps}
    edges: list[tuple[str, str]] = []
    after = ("", "")
    while shown:
        page = store.edges(task.id, after, BATCH_MAX)
        edges += [edge for edge in page if shown.issuperset(edge)]
        if len(page) < BATCH_MAX:
            break
        after = page[-1]
    return {
        "task": task.id,
        "name": task.name,
        "stages": list(stages(task)),
        "steps": [
            {"key": s.key, "kind": str(s.kind), "stage": s.stage, "state": str(s.state), "owner": s.owner}
            for s in picture.steps
        ],
        "edges": edges,
        "steps_left_out": picture.left_out,
    }


def approval_map(task: Task, step: Step) -> dict[str, Any]:
    """What a step asks a person.  `version` changes with what is asked and with what is shown."""
    question: JsonMap = step.question or {}
    return {
        "task": task.id,
        "handle": handle(task),
        "step": step.key,
        "ask": step.ask,
        "version": version(step),
        "kind": str(question.get("kind") or Question.APPROVAL),
        "text": question_text(step),
        "who": list(question.get("who") or ()),
        "answers": list(answers(step)),
        "since": step.began_at or None,
        "expires_at": step.due_at or None,
        "question": question,
    }


def version(step: Step) -> str:
    """Of what a step asks: whoever has seen this version has seen what is asked."""
    return f"{step.ask}.{(step.question or {}).get('digest') or ''}"
