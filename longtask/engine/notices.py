"""A signal to a whole workspace: stored once, then copied into the inbox of each of its open tasks.

One transaction a task; how far it has come stands in the notice's row, so that whoever looks next goes on with it.  Two
that copy the same notice do no harm: an inbox keeps a delivery once.
"""

from __future__ import annotations

from longtask.core.errors import NotFound, Refused
from longtask.core.model import JsonMap
from longtask.core.policy import BATCH_MAX
from longtask.store.contract import Notice, Store

from .desk import Desk, keepable

EVERYWHERE = ""  # the workspace id that stands for all
OPEN_MAX = 20  # notices looked at in one round


class Notices:
    def __init__(self, store: Store, desk: Desk) -> None:
        self._store = store
        self._desk = desk

    def put(
        self, workspace_id: str, name: str, payload: JsonMap, *, delivery: str, sender: str = ""
    ) -> tuple[Notice, bool]:
        """Durable when this returns; a second delivery is answered with the first.  Raises BadPlan."""
        keepable(name, payload, delivery, sender)
        return self._store.add_notice(Notice(0, workspace_id, delivery, name, sender, 0, 0, payload))

    def tick(self, tasks_max: int = BATCH_MAX) -> int:
        """Copies; how many tasks have got one."""
        copied = 0
        for notice in self._store.open_notices(OPEN_MAX):
            if copied >= tasks_max:
                break
            copied += self.copy(notice, tasks_max - copied)
        return copied

    def copy(self, notice: Notice, tasks_max: int) -> int:
        """To the next tasks that have yet to get it; how many."""
        if notice.copied is None:
            return 0
        page = self._store.notice_tasks(notice, tasks_max)
        at = notice.copied
        try:
            for task in page:
                self._tell(notice, task.id)
                at = task.n
        finally:
            done = len(page) < tasks_max and (not page or at == page[-1].n)
            if done or at != notice.copied:
                self._store.move_notice(notice.n, None if done else at)
        return len(page)

    def _tell(self, notice: Notice, task_id: str) -> None:
        try:
            self._desk.signal(task_id, notice.name, notice.payload, delivery=notice.delivery, sender=notice.sender)
        except (Refused, NotFound):
            return  # it has ended, or is gone
