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
) -> str:
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
    return "\n\n".join(part for part in parts if part)


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
