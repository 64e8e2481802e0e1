"""Endpoints: adding one, what it may be, and how it is looked at.  A secret is told once, when it is made."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Sequence
from fnmatch import fnmatchcase

from longtask.core.errors import BadPlan
from longtask.core.events import PUBLIC
from longtask.core.graph import did_you_mean
from longtask.core.model import JsonMap
from longtask.steps.posting import AddressRefused, check_url, shown
from longtask.store.contract import Store
from longtask.store.outward import Webhook

PREFIX = "whsec_"
FROM_ENVIRONMENT = "env:"  # before the name of a variable of the server, which holds the secret
SECRET_BYTES = 32
WEBHOOKS_MAX = 500
TYPES_MAX = 50
EVENT_TYPES = frozenset(PUBLIC.values()) | {
    "agent.run.started",
    "agent.run.completed",
    "approval.resolved",
    "artifact.created",
    "ci.waiting",
    "ci.completed",
    "stage.started",
}
_TYPE = re.compile(r"[a-z][a-z0-9_.]*(\*)?|\*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def add(
    store: Store,
    url: str,
    *,
    types: Sequence[str] = (),
    workspace_id: str | None = None,
    secret_env: str | None = None,
    by: str = "",
) -> tuple[Webhook, str | None]:
    """The endpoint, and its secret if one was made; it hears what happens from now on.  Raises BadPlan."""
    try:
        check_url(url)
    except AddressRefused as error:
        raise BadPlan(f"webhook: {error}") from None
    if len(types) > TYPES_MAX:
        raise BadPlan(f"webhook: {len(types)} event types, the limit is {TYPES_MAX}; write a pattern such as step.*")
    for type_ in types:
        if not _TYPE.fullmatch(type_) or not any(fnmatchcase(known, type_) for known in EVENT_TYPES):
            hint = did_you_mean(type_, sorted(EVENT_TYPES)) or "; write such as longtask.completed or step.*"
            raise BadPlan(f"webhook: no event is of type {type_[:80]!r}{hint}")
    if secret_env is not None and not _VARIABLE.fullmatch(secret_env):
        raise BadPlan("webhook: the secret is given by the name of a variable of the server; what was given is no name")
    if len(store.webhooks("", WEBHOOKS_MAX)) >= WEBHOOKS_MAX:
        raise BadPlan(f"webhook: there are {WEBHOOKS_MAX} already, which is the limit; remove one first")
    made = None if secret_env else PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    kept = made or f"{FROM_ENVIRONMENT}{secret_env}"
    now = store.now()
    id_ = f"wh-{secrets.token_hex(6)}"
    webhook = Webhook(id_, url, kept, tuple(types), workspace_id, by, now, 1, store.feed_end(), 0, 0)
    store.add_webhook(webhook)
    return webhook, made


def fits(webhook: Webhook, type_: str, workspace_id: str) -> bool:
    if webhook.workspace_id is not None and webhook.workspace_id != workspace_id:
        return False
    return not webhook.types or any(fnmatchcase(type_, pattern) for pattern in webhook.types)


def state(webhook: Webhook) -> str:
    return "disabled" if webhook.disabled_at is not None else "failing" if webhook.failures else "active"


def document(webhook: Webhook) -> JsonMap:
    """Without its secret, and without the query of its address, which may be one."""
    return {
        "id": webhook.id,
        "url": shown(webhook.url),
        "types": list(webhook.types),
        "workspace": webhook.workspace_id,
        "secret_env": webhook.secret.removeprefix(FROM_ENVIRONMENT)
        if webhook.secret.startswith(FROM_ENVIRONMENT)
        else None,
        "state": state(webhook),
        "failures": webhook.failures,
        "reason": webhook.said,
        "next_at": webhook.due_at or None,
        "delivered_at": webhook.delivered_at or None,
        "disabled_at": webhook.disabled_at,
        "created_by": webhook.created_by,
        "created_at": webhook.created_at,
    }
