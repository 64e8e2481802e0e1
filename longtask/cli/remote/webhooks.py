"""Where events are sent, at a server."""

from __future__ import annotations

from longtask.cli import webhooks as local
from longtask.cli.pictured import now_ms
from longtask.cli.session import Session
from longtask.client.client import Client


def add(
    session: Session,
    client: Client,
    url: str,
    type_: list[str] | None,
    workspace: str | None,
    secret_env: str | None,
) -> int:
    session.outside_only("webhook")
    made = client.add_webhook(url, types=type_ or (), workspace=workspace, secret_env=secret_env)
    return local.say_added(session, made)


def list_(session: Session, client: Client) -> int:
    return local.say_all(session, list(client.webhooks()), now_ms())


def remove(session: Session, client: Client, webhook: str) -> int:
    session.outside_only("webhook")
    return local.say_removed(session, client.remove_webhook(_whole(client, webhook)))


def replay(session: Session, client: Client, webhook: str, since: str) -> int:
    session.outside_only("webhook")
    at = local.instant(since, now_ms())
    return local.say_replayed(session, client.replay_webhook(_whole(client, webhook), at), at)


def enable(session: Session, client: Client, webhook: str) -> int:
    session.outside_only("webhook")
    return local.say_enabled(session, client.enable_webhook(_whole(client, webhook)))


def _whole(client: Client, id: str) -> str:
    return local.whole_id(id, (one["id"] for one in client.webhooks()))
