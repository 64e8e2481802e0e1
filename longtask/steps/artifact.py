"""`artifact` steps: a patch of all that the task changed, a report, or files; kept by the artifact store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from longtask.core.model import Done, Failed, JsonMap, Outcome
from longtask.steps.command import inner_name
from longtask.steps.contract import Assignment, Desk, Ended, Handle, Records, Render
from longtask.steps.surroundings import as_text

Diff = Callable[[str, str, str], bytes]  # (workspace id, base, head)
FILES_MAX = 1_000
FILE_BYTES_MAX = 100_000_000


class ArtifactExecutor:
    def __init__(self, render: Render, records: Records, diff: Diff) -> None:
        self._render = render
        self._records = records
        self._diff = diff

    def start(self, assignment: Assignment, desk: Desk, place: Path | None) -> Handle:
        body = dict(self._render(assignment.spec.body, assignment.scope))
        body["name"] = as_text(body["name"])
        try:
            inner_name(body["name"])  # the plan's name was checked; what an expression yields was not
        except ValueError as error:
            return Ended(Failed(str(error), retryable=False))
        match body["kind"]:
            case "patch":
                return Ended(self._patch(assignment, desk, body))
            case "report":
                text = self._records.report(assignment.task_id, body.get("title"), assignment.step)
                return Ended(_done([desk.put_artifact(body["name"], text.encode(), "text/markdown")]))
            case _:
                return Ended(self._files(desk, body, place))

    def _patch(self, assignment: Assignment, desk: Desk, body: JsonMap) -> Outcome:
        if assignment.first_commit is None or assignment.base is None:
            return Failed("a patch needs a workspace, and the task has none", retryable=False)
        patch = self._diff(assignment.workspace_id, assignment.first_commit, assignment.base)
        if not patch:
            desk.output("note", b"nothing was changed: the patch is empty\n")
        return _done([desk.put_artifact(body["name"], patch, "text/x-patch")])

    def _files(self, desk: Desk, body: JsonMap, place: Path | None) -> Outcome:
        if place is None:
            return Failed("files come from the workspace, and the task has none", retryable=False)
        root = place.resolve()
        found: list[Path] = []
        for pattern in body["paths"]:
            if PurePosixPath(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts:
                return Failed(f"path {pattern!r} leads out of the workspace", retryable=False)
            fit = [p for p in sorted(root.glob(pattern)) if p.is_file()]
            hits = [p for p in fit if _inside(root, p)]
            if not hits:
                why = "; what does is git's own, or a link that leads out of the workspace" if fit else ""
                return Failed(f"no file fits {pattern!r}{why}", retryable=False)
            found += hits
        if len(found) > FILES_MAX:
            return Failed(f"{len(found):,} files fit, the limit is {FILES_MAX:,}", retryable=False)
        too_big = [p for p in found if p.stat().st_size > FILE_BYTES_MAX]
        if too_big:
            return Failed(
                f"file {too_big[0].relative_to(root)} is larger than {FILE_BYTES_MAX:,} bytes", retryable=False
            )
        kept = []
        for path in dict.fromkeys(found):
            inner = path.relative_to(root).as_posix()
            name = body["name"] if len(found) == 1 else f"{body['name']}/{inner}"
            kept.append(desk.put_artifact(name, path.read_bytes(), "application/octet-stream"))
        return _done(kept)


def _inside(root: Path, path: Path) -> bool:
    """No link leads out of the workspace, nor into what belongs to git."""
    full = path.resolve()
    return full.is_relative_to(root) and not {".git"} & {*path.relative_to(root).parts, *full.relative_to(root).parts}


def _done(kept: list[JsonMap]) -> Done:
    first = kept[0]
    return Done({k: first[k] for k in ("name", "digest", "size_bytes")} | {"count": len(kept)}, artifacts=tuple(kept))
