"""The opening of a run: what the plan says, and what the run must know beside it.  The same input gives the same text.

Parts that are empty are left out; what comes from elsewhere (a failure, a reviewer) is bounded and marked as such.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from longtask.agents.outputs import TYPES
from longtask.core.model import JsonMap

FAILURE_CHARS_MAX = 6_000  # a failing test's last lines; more of it is in the output that the agent can make again
NEWS_CHARS_MAX = 8_000
PATHS_MAX = 100


def compose(
    prompt: str,
    *,
    outputs: Mapping[str, str],
    failure: str | None = None,
    news: str | None = None,
    conflict: JsonMap | None = None,
    plans: JsonMap | None = None,
) -> str:
    """`plans`: it is a planner, and may add steps so: {stage, before, steps_max}."""
    parts = [prompt.strip()]
    if conflict:
        parts.append(_conflict(conflict))
    if failure:
        parts.append(f"What went wrong before:\n{_quoted(_tail(failure, FAILURE_CHARS_MAX))}")
    if news:
        parts.append(news)
    if outputs:
        wanted = "\n".join(f"- {name}: {TYPES[word][0]}" for name, word in outputs.items())
        parts.append(f"When the work is done, answer with these outputs:\n{wanted}")
    if plans is not None:
        parts.append(_planning(plans))
    return "\n\n".join(part for part in parts if part)


def _planning(plans: JsonMap) -> str:
    """The language of plans, as far as a planner needs it."""
    most = f"at most {plans['steps_max']} of them; " if "steps_max" in plans else ""
    return f"""\
`steps` is a list of steps that are added to this task and then run, {most}an empty list if nothing is left to do. A
step is an object with

- id: unique, small letters, digits and underscores, such as migrate_billing
- exactly one of: run (a shell command), agent ({{"prompt": "what a coding agent is to do"}}), approval ({{"ask": "…"}})
- needs (optional): ids of steps that must have completed; only of steps that stand before it in the list, and of steps
  of the task; without it a step waits for the stages before its own
- timeout (optional): such as "30m"; retry (optional): how often to try again

Much of one kind is one step with for_each and task, a plan of its own for each item:

{{"id": "each", "needs": ["list"], "for_each": "${{{{ steps.list.outputs.modules }}}}", "task": {{
  "inputs": {{"module": "${{{{ item }}}}"}},
  "plan": {{"inputs": {{"module": "string"}}, "steps": [
    {{"id": "move", "agent": {{"prompt": "Move ${{{{ inputs.module }}}}."}}}}]}}}}}}

for_each may be a list, too, and "plan" the path of a file in the repository that holds it, also one that you have
written.

Agents see the repository, not this conversation: write into each prompt all that it has to know. What is wrong with the
list comes back to you."""


def news_of(cause: JsonMap | None) -> str | None:
    """What woke the attempt, in words for the agent; None when there is nothing that it could use."""
    if not cause:
        return None
    lines = []
    for key in ("text", "comment", "because"):
        if isinstance(cause.get(key), str) and cause[key].strip():
            lines.append(_quoted(_head(cause[key].strip(), NEWS_CHARS_MAX)))
    payload = cause.get("payload")
    if payload:
        lines.append(_quoted(_head(json.dumps(payload, sort_keys=True, ensure_ascii=False), NEWS_CHARS_MAX)))
    if not lines:
        return None
    answer = cause.get("answer") or cause.get("decision") or cause.get("signal")
    who = f"{cause['by']} " if cause.get("by") else ""
    title = f"{who}answered: {answer}" if answer else f"{who}says" if who else "What has come since"
    return "\n".join([f"{title}:", *lines])


def _conflict(conflict: JsonMap) -> str:
    lines = [f"To be joined: {conflict.get('head')}, which is already merged, and {conflict.get('commit')}."]
    if conflict.get("reason"):
        lines.append(_quoted(_head(str(conflict["reason"]), NEWS_CHARS_MAX)))
    paths = [str(path) for path in conflict.get("paths", ())]
    if paths:
        lines.append("Files in conflict:")
        lines += [f"- {path}" for path in paths[:PATHS_MAX]]
        lines += [f"- and {len(paths) - PATHS_MAX} more"] if len(paths) > PATHS_MAX else []
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" if line else ">" for line in text.splitlines())


def _head(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[:chars_max]}\n… ({len(text) - chars_max} characters left out)"


def _tail(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"({len(text) - chars_max} characters left out) …\n{text[-chars_max:]}"
