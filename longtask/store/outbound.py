"""The part on programs elsewhere of the contract (`outward.Outward`), in SQL."""

from __future__ import annotations

import base64
import json
import secrets
from abc import abstractmethod
from typing import Any

from longtask.core.codec import dump_json
from longtask.core.errors import NotFound
from longtask.store.base import SqlBlocks, below
from longtask.store.outward import (
    LINK_KEPT_MS,
    NOTICE_KEPT_MS,
    REPLAY_SLACK_MS,
    Link,
    Notice,
    OpenTask,
    Webhook,
)
from longtask.store.rows import Row

KEY_BYTES = 32
SAID_MAX = 1_000


def _webhook(row: Row) -> Webhook:
    id_, url, secret, types, *more = row
    return Webhook(id_, url, secret, tuple(json.loads(types)), *more)


def _notice(row: Row) -> Notice:
    n, workspace_id, delivery, name, sender, at, copied, payload = row
    return Notice(n, workspace_id, delivery, name, sender, at, copied, json.loads(payload))


def _sayable(text: str) -> str:
    """What came from outside, as any database can keep it."""
    return text[:SAID_MAX].encode("utf-8", "replace").decode().replace("\0", "?")


class SqlOutbound(SqlBlocks):
    """`outward.Outward`."""

    # webhooks

    def add_webhook(self, webhook: Webhook) -> None:
        self.single("insert_webhook", {
            "id": webhook.id, "url": webhook.url, "secret": webhook.secret, "types": dump_json(webhook.types),
            "workspace_id": webhook.workspace_id, "created_by": webhook.created_by, "now": self.now(),
            "cursor": webhook.cursor, "since": webhook.since,
        })  # fmt: skip

    def webhook(self, id: str) -> Webhook:
        rows = self.select("webhook", {"id": id})
        if not rows:
            raise _none(id)
        return _webhook(rows[0])

    def webhooks(self, after: str, limit: int) -> list[Webhook]:
        return [_webhook(row) for row in self.select("webhooks", {"after": after, "limit": below(limit)})]

    def hold_webhook(self, id: str, holder: str, held_until: int) -> Webhook | None:
        rows = self.single("hold_webhook", {"id": id, "holder": holder, "held_until": held_until, "now": self.now()})
        return _webhook(rows[0]) if rows else None

    def let_webhook_go(self, id: str, holder: str) -> None:
        self.single("let_webhook_go", {"id": id, "holder": holder})

    def move_webhook(self, webhook: Webhook, holder: str, cursor: str, part: int, delivered_at: int = 0) -> bool:
        moved = {"cursor": cursor, "part": part, "delivered_at": delivered_at}
        return bool(self.single("move_webhook", _held(webhook, holder) | moved))

    def fail_webhook(
        self, webhook: Webhook, holder: str, failures: int, due_at: int, said: str, disabled_at: int | None
    ) -> bool:
        told = {"failures": failures, "due_at": due_at, "said": _sayable(said), "disabled_at": disabled_at}
        return bool(self.single("fail_webhook", _held(webhook, holder) | told))

    def replay_webhook(self, id: str, since: int) -> None:
        if not self.single("replay_webhook", {"id": id, "since": since, "cursor": self.feed_since(since)}):
            raise _none(id)

    def enable_webhook(self, id: str) -> None:
        if not self.single("enable_webhook", {"id": id}):
            raise _none(id)

    def remove_webhook(self, id: str) -> None:
        if not self.single("remove_webhook", {"id": id}):
            raise _none(id)

    @abstractmethod
    def feed_end(self) -> str: ...

    def feed_since(self, at: int) -> str:
        """Looks for the place by halves: instants grow with the numbers of events, nearly."""
        first = self.select("feed_probe", {"number": 0})
        if not first or first[0][2] >= at - REPLAY_SLACK_MS:
            return ""
        low = int(first[0][0])  # too early
        high = low + 1
        cursor = self.feed_end()
        while (found := self.select("feed_probe", {"number": high})) and found[0][2] < at - REPLAY_SLACK_MS:
            low, high = int(found[0][0]), 2 * int(found[0][0]) - int(first[0][0]) + 1
        if found:
            cursor = str(found[0][1])
        while low + 1 < high:
            middle = (low + high) // 2
            found = self.select("feed_probe", {"number": middle})
            if found and found[0][2] < at - REPLAY_SLACK_MS:
                low = max(middle, int(found[0][0]))
            else:
                high = middle
                cursor = str(found[0][1]) if found else cursor
        return cursor

    # links

    def add_link(self, link: Link) -> None:
        self.single("insert_link", {
            "id": link.id, "task_id": link.task_id, "step": link.step, "ask": link.ask, "digest": link.digest,
            "who": link.who, "created_by": link.created_by, "expires_at": link.expires_at, "now": self.now(),
        })  # fmt: skip

    def link(self, id: str) -> Link:
        rows = self.select("link", {"id": id})
        if not rows:
            raise NotFound("no such link")
        return Link(*rows[0])

    def use_link(self, id: str, answer: str) -> bool:
        return bool(self.single("use_link", {"id": id, "answer": answer, "now": self.now()}))

    # signals to a workspace

    def add_notice(self, notice: Notice) -> tuple[Notice, bool]:
        key = {"delivery": notice.delivery, "workspace_id": notice.workspace_id}
        new = self.single("insert_notice", key | {
            "name": notice.name, "sender": notice.sender, "payload": dump_json(notice.payload), "now": self.now(),
        })  # fmt: skip
        return _notice(self.select("notice", key)[0]), bool(new)

    def open_notices(self, limit: int) -> list[Notice]:
        return [_notice(row) for row in self.select("open_notices", {"limit": below(limit)})]

    def notice_tasks(self, notice: Notice, limit: int) -> list[OpenTask]:
        params: dict[str, Any] = {"after": notice.copied or 0, "limit": below(limit)}
        if not notice.workspace_id:
            return [OpenTask(*row) for row in self.select("open_tasks", params)]
        params["workspace_id"] = notice.workspace_id
        return [OpenTask(*row) for row in self.select("open_tasks_of_workspace", params)]

    def move_notice(self, n: int, copied: int | None) -> None:
        self.single("move_notice", {"n": n, "copied": copied})

    def forget_outward(self, limit: int) -> int:
        now = self.now()
        gone = len(self.single("forget_notices", {"before": now - NOTICE_KEPT_MS, "limit": below(limit)}))
        return gone + len(self.single("forget_links", {"before": now - LINK_KEPT_MS, "limit": below(limit)}))

    def signing_key(self, name: str) -> bytes:
        if not (rows := self.select("signing_key", {"name": name})):
            fresh = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
            self.single("insert_signing_key", {"name": name, "body": fresh, "now": self.now()})
            rows = self.select("signing_key", {"name": name})
        return base64.b64decode(rows[0][0])


def _held(webhook: Webhook, holder: str) -> dict[str, Any]:
    return {"id": webhook.id, "holder": holder, "version": webhook.version}


def _none(id: str) -> NotFound:
    return NotFound(f"no webhook {id!r}; list them: longtask webhook list")
