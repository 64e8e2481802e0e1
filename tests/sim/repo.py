"""Git as sets: a commit is its parents and the files that it touches; what it contains is its ancestry.

Two sides conflict when both have touched a file that the other has not seen.  Merging is a pure function of
(head, commit), as the engine may repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from longtask.core.model import Task
from longtask.engine.merging import MergeResult


@dataclass(slots=True)
class Repo:
    """`Merger` for the engine; `refs` are the branches that people see, one a task."""

    ancestors: dict[str, frozenset[str]] = field(default_factory=dict)
    files: dict[str, frozenset[str]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    merges: dict[tuple[str, str], str] = field(default_factory=dict)

    def commit(self, parents: Iterable[str], files: Iterable[str]) -> str:
        name = f"c{len(self.ancestors):012d}"
        self.ancestors[name] = frozenset({name}).union(*(self.ancestors[parent] for parent in parents))
        self.files[name] = frozenset(files)
        return name

    def contains(self, ancestor: str, commit: str) -> bool:
        return ancestor in self.ancestors[commit]

    def _touched(self, commit: str, beyond: str) -> set[str]:
        new = self.ancestors[commit] - self.ancestors[beyond]
        return {file for name in new for file in self.files[name]}

    def merge(self, workspace_id: str, head: str, commit: str, message: str) -> MergeResult:
        if self.contains(commit, head):
            return MergeResult(head)
        if self.contains(head, commit):
            return MergeResult(commit)
        both = self._touched(head, commit) & self._touched(commit, head)
        if both:
            return MergeResult(None, tuple(sorted(both)))
        if (head, commit) not in self.merges:
            self.merges[head, commit] = self.commit((head, commit), ())
        return MergeResult(self.merges[head, commit])

    def follow(self, task: Task) -> None:
        """Forwards only: a slow scheduler must not take the branch back."""
        if task.head is not None and self.contains(self.refs.get(task.id, task.head), task.head):
            self.refs[task.id] = task.head
