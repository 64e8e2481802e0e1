"""One event as a POST by Standard Webhooks: signed, and under an id that stays the same however often it is sent."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from longtask.core.events import Event
from longtask.webhooks.endpoints import FROM_ENVIRONMENT

MEDIA_TYPE = "application/cloudevents+json"


class NoSecret(Exception):
    """It cannot be signed."""


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    body: bytes

    def headers(self, secret: str, now: int) -> dict[str, str]:
        """Signed at `now`: a receiver refuses what was signed more than a few minutes ago.  Raises NoSecret."""
        import standardwebhooks  # by whoever sends only

        at = datetime.fromtimestamp(now // 1000, UTC)
        try:
            mark = standardwebhooks.Webhook(_value(secret)).sign(self.id, at, self.body.decode())
        except (ValueError, RuntimeError, standardwebhooks.webhooks.EmptyWebhookSecretError):
            raise NoSecret("its secret is none of Standard Webhooks: whsec_ and base64") from None
        return {
            "Content-Type": MEDIA_TYPE,
            "webhook-id": self.id,
            "webhook-timestamp": str(now // 1000),
            "webhook-signature": mark,
        }


def message(event: Event, part: int, told: Mapping[str, Any]) -> Message:
    """`told`: the CloudEvent number `part` of this event."""
    body = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Message(f"evt_{event.task_id.replace('-', '')}_{event.seq}_{part}", body)


def _value(secret: str) -> str:
    if not secret.startswith(FROM_ENVIRONMENT):
        return secret
    name = secret.removeprefix(FROM_ENVIRONMENT)
    if not os.environ.get(name):
        raise NoSecret(f"its secret is not there: variable {name!r} is not in the server's environment")
    return os.environ[name].strip()
