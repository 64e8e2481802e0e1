"""Taking away what nobody needs any more: tasks that ended long ago, and bytes that no task names.

A task goes in this order, and whatever is killed in between goes on later, in any process:

1. Its header, in one statement that looks again whether it has ended.  From then on nobody sees the task: every read
   begins at a header.  The same transaction writes a note in the place of its options.
2. Its other rows, some hundred in a transaction, and its output.
3. The note.

Numbers of tasks are never used again, so rows whose header is gone belong to nobody.  The task with the newest event of
an SQLite database stays until there is a newer one: SQLite would give that event's number out again.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from longtask.core.codec import dump_json, load_options
from longtask.core.model import Task
from longtask.store.base import SqlBlocks, below
from longtask.store.contract import BLOB_CONDEMNED_MS, Blob, Pruned
from longtask.store.rows import TASK_WIDTH, to_task

SLICE_ROWS = 50  # looked at the time after so many rows: some hold much text
PRUNED_TABLES = (
    "step", "event", "edge", "spec", "plan", "artifact", "run_journal", "checkpoint", "progress", "inbox", "wait",
    "lease", "offer", "mutex", "mutex_ticket",
)  # fmt: skip
SESSION = "$session"  # a key of a row of the run journal, see `steps/session.py`
VALUE = re.compile(r'"\$artifact": ?"([0-9a-f]{64})"')


class SqlUpkeep(SqlBlocks):
    """The part on upkeep of `contract.Store`."""

    def identity(self) -> str:
        if not (rows := self.select("identity", {})):
            self.single("identify", {"identity": str(uuid.uuid4()), "now": self.now()})
            rows = self.select("identity", {})
        name: str = rows[0][0]
        return name

    # bytes

    def use_blob(self, workspace_id: str, digest: str, size_bytes: int) -> bool:
        now = self.now()
        used = {"workspace_id": workspace_id, "digest": digest, "size_bytes": size_bytes, "now": now}
        return bool(self.single("use_blob", used | {"condemned": BLOB_CONDEMNED_MS - now}))

    def stale_blobs(self, before: int, limit: int) -> list[Blob]:
        return [Blob(*row) for row in self.select("stale_blobs", {"before": before, "limit": below(limit)})]

    def blob_named(self, workspace_id: str, digest: str) -> bool:
        return bool(self.select("blob_named", {"workspace_id": workspace_id, "digest": digest}))

    def stored_values(self, after: tuple[int, str], limit: int) -> tuple[list[tuple[str, str]], tuple[int, str] | None]:
        rows = self.select("stored_values", {"task_n": after[0], "key": after[1], "limit": below(limit)})
        found = [(workspace_id, digest) for workspace_id, _, _, rest in rows for digest in VALUE.findall(rest)]
        return found, (rows[-1][1], rows[-1][2]) if len(rows) == limit else None

    def kept_sessions(self, after: tuple[int, str], limit: int) -> tuple[list[tuple[str, str]], tuple[int, str] | None]:
        rows = self.select("kept_sessions", {"task_n": after[0], "key": after[1], "limit": below(limit)})
        kept = [(workspace_id, json.loads(body).get(SESSION) or {}) for workspace_id, _, _, body in rows if body]
        found = [
            (workspace_id, digest)
            for workspace_id, session in kept
            for digests in session.get("files", {}).values()
            for digest in digests
        ]
        return found, (rows[-1][1], rows[-1][2]) if len(rows) == limit else None

    def condemn_blob(self, blob: Blob, at: int) -> bool:
        key = {"workspace_id": blob.workspace_id, "digest": blob.digest}
        return bool(self.single("condemn_blob", key | {"used_at": blob.used_at, "stamp": -at}))

    def forget_blob(self, workspace_id: str, digest: str, condemned_at: int) -> bool:
        key = {"workspace_id": workspace_id, "digest": digest, "stamp": -condemned_at}
        return bool(self.single("forget_blob", key))

    # tasks

    def prunable(self, before: int, after: tuple[int, int], limit: int) -> list[Task]:
        params = {"before": before, "ended_at": after[0], "n": after[1], "limit": below(limit)}
        return [to_task(row, load_options(row[TASK_WIDTH])) for row in self.select("prunable", params)]

    def children(self, task_id: str, limit: int, after: int = 0) -> list[Task]:
        rows = self.select("children", {"parent": task_id, "limit": below(limit), "after": after})
        return [to_task(row, load_options(row[TASK_WIDTH])) for row in rows]

    def prune_task(self, task_id: str, before: int) -> bool:
        with self._batch():
            known = self.select("task_by_id", {"id": task_id})
            if not known or self.holds_newest_event(known[0][0]):
                return False
            rows = self.run("prune_task", {"id": task_id, "before": before})
            if rows:
                note = dump_json([task_id, to_task(known[0], load_options(known[0][TASK_WIDTH])).workspace_id])
                self.run("bury", {"task_n": rows[0][0], "body": note})
        return bool(rows)

    def holds_newest_event(self, task_n: int) -> bool:
        """Taking this task's events away would let the database give a number out again."""
        return False

    def half_pruned(self, after: int, limit: int) -> list[Pruned]:
        rows = self.select("half_pruned", {"after": after, "limit": below(limit)})
        return [Pruned(task_n, *json.loads(note)) for task_n, note in rows]

    def prune_rows(self, task_n: int, rows_max: int, lock_max_ms: int) -> int:
        until = time.monotonic() + lock_max_ms / 1000
        pruned = 0
        with self._batch():
            for table in PRUNED_TABLES:
                while pruned < below(rows_max) and (pruned == 0 or time.monotonic() < until):
                    limit = min(SLICE_ROWS, rows_max - pruned)
                    gone = len(self.run(f"prune_{table}", {"task_n": task_n, "limit": limit}))
                    pruned += gone
                    if gone < limit:
                        break
        return pruned

    def prune_output(self, task_id: str, chunks_max: int) -> int:
        return len(self.single("prune_output", {"task_id": task_id, "limit": below(chunks_max)}))

    def end_pruning(self, task_n: int) -> None:
        self.single("end_pruning", {"task_n": task_n})

    @contextmanager
    def _batch(self) -> Iterator[None]:
        """A transaction that locks no task: of rows that nobody else writes any more."""
        here = self.here
        assert not here.group and not here.block, "upkeep stands in no group and in no block"
        here.block = True
        try:
            self._lock(here)
            yield
            self.fault("written")
            self._commit(here)
        except BaseException:
            self._undo(here)
            raise
        finally:
            here.block = False
