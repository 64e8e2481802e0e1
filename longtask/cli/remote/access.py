"""Tokens and the audit, at a server."""

from __future__ import annotations

from longtask.cli import tokens as local
from longtask.cli.pictured import now_ms
from longtask.cli.session import Session
from longtask.client.client import Client
from longtask.config import retention_ms


def create_token(
    session: Session, client: Client, name: str, role: list[str], workspace: list[str] | None, expires: str
) -> int:
    session.outside_only("token create")
    expires_ms = retention_ms(expires, "--expires")
    return local.say_new(session, client.create_token(name, role, workspaces=workspace, expires_ms=expires_ms))


def rotate_token(session: Session, client: Client, token: str, grace: str, expires: str) -> int:
    session.outside_only("token rotate")
    grace_ms, expires_ms = retention_ms(grace, "--grace") or 0, retention_ms(expires, "--expires")
    return local.say_new(session, client.rotate_token(token, grace_ms=grace_ms, expires_ms=expires_ms))


def revoke_token(session: Session, client: Client, token: str) -> int:
    session.outside_only("token revoke")
    return local.say_revoked(session, client.revoke_token(token))


def list_tokens(session: Session, client: Client, all_: bool) -> int:
    return local.say_tokens(session, client.tokens(), now_ms(), all_)


def audit(session: Session, client: Client, task: str | None, who: str | None, count: int) -> int:
    task_id = None if task is None else client.task(task, steps=0)["id"]
    rows = list(client.audit(task=task_id, who=who, limit=count))
    return local.say_audit(session, rows, lambda id: client.task(id, steps=0)["handle"])
