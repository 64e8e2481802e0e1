"""Work that an agent gives out: what a call of `spawn` says, and what the agent is told of how it has ended.

Each task becomes a step of its own, owned by the agent's (SEMANTICS 21).  It starts from the code as it is merged, and
what it changes is merged; the agent that spawned it goes on when all have ended, on code that holds their changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from longtask.core.model import JsonMap

SPAWN = "spawn"
OUTPUTS = {"answer": "string"}  # of a spawned step
NAME_CHARS_MAX = 80
PROMPT_CHARS_MAX = 20_000  # more belongs into a file
ANSWER_CHARS_MAX = 20_000  # of one answer; more belongs into a file
PATHS_SHOWN = 20

ABOUT = (
    "Give out work to other agents: each task is done by one of its own, side by side with the others, with the tools "
    "that you have but this one. You go on when all have ended, and are told what each has answered. A task sees the "
    "committed code, not what you have changed since, and knows nothing but its prompt. What it changes is merged, and "
    "you see it when you go on; so let no two of them change the same file. Good for parts that are large and apart."
)
OPENING = "Another agent has given you this task. All that it sees of you is your answer, and what you change."


def schema(most: int) -> JsonMap:
    task = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "a few words, for people"},
            "prompt": {"type": "string", "description": "all that is to be done and known"},
        },
        "required": ["prompt"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"tasks": {"type": "array", "items": task, "minItems": 1, "maxItems": most}},
        "required": ["tasks"],
        "additionalProperties": False,
    }


class Spawner(Protocol):
    """Of `journal.Seams`."""

    def spawn(
        self, tasks: Sequence[JsonMap], told: Callable[[Sequence[JsonMap], Sequence[str]], JsonMap]
    ) -> JsonMap: ...


def spawn(seams: Spawner, most: int, args: JsonMap) -> JsonMap:
    """A call of the tool: its result, {text, failed, …}."""
    tasks = tasks_of(args, most)
    if isinstance(tasks, str):
        return {"text": tasks, "failed": True}
    return seams.spawn(tasks, lambda ends, apart: told(tasks, ends, apart))


def tasks_of(args: JsonMap, most: int) -> list[JsonMap] | str:
    """[{name, prompt}] as the model wants them, or what is wrong with its call."""
    given = args.get("tasks")
    if not isinstance(given, list) or not given:
        return f"{SPAWN}: 'tasks' is to be a list of at least one task, each with a 'prompt'"
    if len(given) > most:
        return f"{SPAWN}: {len(given)} tasks, at most {most} at once; take fewer, and call it again for the rest"
    tasks: list[JsonMap] = []
    for number, task in enumerate(given, 1):
        prompt = task.get("prompt") if isinstance(task, dict) else task
        if not isinstance(prompt, str) or not prompt.strip():
            return f"{SPAWN}: task {number} has no 'prompt' (all that is to be done and known)"
        if len(prompt) > PROMPT_CHARS_MAX:
            return f"{SPAWN}: the prompt of task {number} has {len(prompt)} characters, at most {PROMPT_CHARS_MAX}"
        name = task.get("name") if isinstance(task, dict) else None
        tasks.append({"name": _plain(name if isinstance(name, str) else "")[:NAME_CHARS_MAX], "prompt": _plain(prompt)})
    return tasks


def _plain(text: str) -> str:
    """As every database keeps it."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def told(tasks: Sequence[JsonMap], ends: Sequence[JsonMap], apart: Sequence[str]) -> JsonMap:
    """The result of the call: {text, failed, ends}.

    `ends`: {step, state, answer or reason} of each task.  `apart`: files in which what was merged meanwhile cannot be
    joined with what the agent itself had changed."""
    failed = sum(end["state"] != "completed" for end in ends)
    done = "The task is done." if len(ends) == 1 else f"All {len(ends)} tasks are done."
    parts = [f"{failed} of {len(ends)} tasks failed." if failed else done]
    for number, (task, end) in enumerate(zip(tasks, ends, strict=True), 1):
        title = f"{number}. {task['name']}".rstrip(". ") if task["name"] else str(number)
        said = end.get("answer") if end["state"] == "completed" else end.get("reason")
        parts.append(f"[{title}: {end['state']}]\n{said or '(nothing was said)'}")
    if apart:
        more = f" and {len(apart) - PATHS_SHOWN} more" if len(apart) > PATHS_SHOWN else ""
        parts.append(
            f"Your worktree is as you left it, without what was merged meanwhile: that conflicts with your changes in "
            f"{', '.join(apart[:PATHS_SHOWN])}{more}. The two are joined when you have ended."
        )
    shown = [{key: end[key] for key in ("step", "state")} for end in ends]
    return {"text": "\n\n".join(parts), "failed": failed > 0, "ends": shown}


def _bounded(text: str) -> str:
    left = len(text) - ANSWER_CHARS_MAX
    return text if left <= 0 else f"{text[:ANSWER_CHARS_MAX]}\n… ({left} characters left out)"


def ended(given: JsonMap | None) -> JsonMap | None:
    """What an assignment tells of how it has all ended, as a run takes it: answers instead of results, bounded."""
    return None if given is None else {**given, "ends": [_end(end) for end in given["ends"]]}


def _end(end: JsonMap) -> JsonMap:
    known = {"step": end["step"], "state": end["state"]}
    if end["state"] != "completed":
        return known | {"reason": end["reason"] or ""}
    result = end["result"]
    answer = result.get("answer") if isinstance(result, dict) else result
    return known | {"answer": _bounded(str(answer or ""))}
