"""Plans for tests, as values."""

from __future__ import annotations

from typing import Any


def asking(name: str = "ask", **approval: Any) -> dict[str, Any]:
    """One step, which asks."""
    return {"longtask": 1, "name": name, "steps": [{"id": "ok", "approval": {"ask": "Fine?", **approval}}]}


def running(name: str = "work", command: str = "printf one; printf two >&2") -> dict[str, Any]:
    """A command, and then a report."""
    return {
        "longtask": 1,
        "name": name,
        "goal": "to see it",
        "stages": [
            {"name": "do", "steps": [{"id": "a", "run": command}, {"id": "b", "run": "true", "needs": ["a"]}]},
            {"name": "tell", "steps": [{"id": "report", "artifact": {"report": {"name": "report.md"}}}]},
        ],
    }


def failing(name: str = "broken") -> dict[str, Any]:
    return {
        "longtask": 1,
        "name": name,
        "steps": [
            {"id": "bad", "run": "exit 3", "when_failed": "stop"},
            {"id": "after", "run": "true", "needs": ["bad"]},
        ],
    }


def waiting(name: str = "wait") -> dict[str, Any]:
    return {"longtask": 1, "name": name, "steps": [{"id": "go", "wait": {"signal": "deploy.done"}}]}
