"""`approval` steps: freeze what is shown, ask, and carry the decision on.

What is shown is frozen when the question is asked: the range base..head as commits, artifacts by digest, files by the
head.  Its digest names it, so that a decision on something else is refused.  After a revision the step asks anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from longtask.core.model import Done, Failed, JsonMap, Parked, Question, WaitingFor
from longtask.steps.contract import Assignment, Desk, Ended, Handle, Records, Render

Stat = Callable[[str, str, str], JsonMap]  # (workspace id, base, head) -> {files, insertions, deletions, paths}


class ApprovalExecutor:
    def __init__(self, render: Render, records: Records, stat: Stat) -> None:
        self._render = render
        self._records = records
        self._stat = stat

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        cause = assignment.cause or {}
        if cause.get("deadline"):
            return Ended(Failed("expired: nobody decided in time", retryable=False))
        if "decision" not in cause:  # the first time, after a revision, or superseded by a newer head
            return Ended(self._ask(assignment, desk))
        text = cause.get("text") or ""
        if cause["decision"] == "reject":
            return Ended(Failed(text or f"rejected by {cause['by']}", retryable=False, revise=True))
        result = {"decision": cause["decision"], "by": cause["by"], "text": text}
        if "edited" in cause:
            result["edited"] = cause["edited"]
        return Ended(Done(result))

    def _ask(self, assignment: Assignment, desk: Desk) -> Parked | Failed:
        body = assignment.spec.body
        shown: dict[str, object] = {}
        for item in body.get("show") or ():
            if item == "diff":
                if assignment.base is None or assignment.first_commit is None:
                    return Failed("it shows a diff, but the task has no workspace", retryable=False)
                stat = self._stat(assignment.workspace_id, assignment.first_commit, assignment.base)
                shown["diff"] = {"base": assignment.first_commit, "head": assignment.base, **stat}
            elif item.startswith("artifacts."):
                name = item.removeprefix("artifacts.")
                found = [a for a in self._records.artifacts(assignment.task_id, named=True) if a["name"] == name]
                if not found:
                    return Failed(f"it shows artifact {name!r}, which no step has made", retryable=False)
                shown.setdefault("artifacts", []).append(found[-1])  # type: ignore[attr-defined]
            else:
                shown.setdefault("files", []).append(item.removeprefix("files:"))  # type: ignore[attr-defined]
        question: dict[str, object] = {
            "kind": str(Question.APPROVAL),
            "text": self._render(body["ask"], assignment.scope),
            "show": shown,
            "bind": body.get("bind", "frozen"),
            "head": assignment.base,
        }
        question["digest"] = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:16]
        if body.get("who"):
            question["who"] = list(body["who"])
        expires_ms = body.get("expires_ms")
        return Parked(WaitingFor.USER, question, desk.now() + expires_ms if expires_ms else 0)
