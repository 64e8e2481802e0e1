"""What a store promises about programs elsewhere: webhooks, links that answer questions, signals to a workspace.

1. A webhook is sent to by one process at a time: the one whom `hold_webhook` answered, until then.  Each of its writes
   (`move_webhook`, `fail_webhook`) names the version that it read, and writes nothing when it is another by now.
2. A cursor is written after the delivery: a crash between the two delivers once more, under the same id.
3. A notice is stored once, for each of its delivery ids, and stays open until every task that was open has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from longtask.core.model import JsonMap

REPLAY_SLACK_MS = 300_000  # so far the order of events may differ from that of their instants
NOTICE_KEPT_MS = 30 * 86_400_000  # a forge sends nothing again after so long
LINK_KEPT_MS = 90 * 86_400_000  # after it has expired: for whoever asks what became of it


@dataclass(frozen=True, slots=True)
class Webhook:
    """`types`: patterns such as `step.*`, none: all.  `workspace_id` None: of all.  See migration 0003."""

    id: str
    url: str = field(repr=False)  # its query may be a secret
    secret: str = field(repr=False)
    types: tuple[str, ...]
    workspace_id: str | None
    created_by: str
    created_at: int
    version: int
    cursor: str
    part: int
    since: int
    failures: int = 0
    due_at: int = 0
    delivered_at: int = 0
    disabled_at: int | None = None
    said: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    id: str
    task_id: str
    step: str
    ask: int
    digest: str | None
    who: str
    created_by: str
    created_at: int
    expires_at: int
    used_at: int | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """`workspace_id` "": of every workspace.  `copied` None: all tasks have it."""

    n: int
    workspace_id: str
    delivery: str
    name: str
    sender: str
    at: int
    copied: int | None
    payload: JsonMap


class OpenTask(NamedTuple):
    n: int
    id: str


class Outward(Protocol):
    # webhooks
    def add_webhook(self, webhook: Webhook) -> None: ...
    def webhook(self, id: str) -> Webhook:
        """Raises NotFound."""

    def webhooks(self, after: str, limit: int) -> list[Webhook]:
        """By id."""

    def hold_webhook(self, id: str, holder: str, held_until: int) -> Webhook | None:
        """As it is now.  None: another holds it, or it is disabled, or gone."""

    def let_webhook_go(self, id: str, holder: str) -> None: ...
    def move_webhook(self, webhook: Webhook, holder: str, cursor: str, part: int, delivered_at: int = 0) -> bool:
        """False: it was changed, or is held by another by now.  `delivered_at` 0: nothing was."""

    def fail_webhook(
        self, webhook: Webhook, holder: str, failures: int, due_at: int, said: str, disabled_at: int | None
    ) -> bool: ...
    def replay_webhook(self, id: str, since: int) -> None:
        """Delivers anew what has happened since, and takes up one that was disabled.  Raises NotFound."""

    def enable_webhook(self, id: str) -> None:
        """Goes on where it was.  Raises NotFound."""

    def remove_webhook(self, id: str) -> None:
        """Raises NotFound."""

    def feed_since(self, at: int) -> str:
        """A cursor before every event of that instant or later; some of REPLAY_SLACK_MS earlier may come too."""

    # links
    def add_link(self, link: Link) -> None: ...
    def link(self, id: str) -> Link:
        """Raises NotFound."""

    def use_link(self, id: str, answer: str) -> bool:
        """False: it was used before."""

    # signals to a workspace
    def add_notice(self, notice: Notice) -> tuple[Notice, bool]:
        """As it is kept, and whether it is new; its `n`, `at` and `copied` are the store's."""

    def open_notices(self, limit: int) -> list[Notice]: ...
    def notice_tasks(self, notice: Notice, limit: int) -> list[OpenTask]:
        """Open tasks that have yet to get it, by number."""

    def move_notice(self, n: int, copied: int | None) -> None: ...
    def forget_outward(self, limit: int) -> int:
        """Takes away notices and links that nobody asks for any more; answers how many."""

    def signing_key(self, name: str) -> bytes:
        """Made at its first use; the same for everybody who uses this database."""
