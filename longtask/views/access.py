"""Tokens and the audit as documents: docs/json.md says what each key means."""

from __future__ import annotations

from longtask.core.model import JsonMap
from longtask.store.callers import Audit, Token


def token_map(token: Token, now: int) -> JsonMap:
    return {
        "id": token.id,
        "name": token.name,
        "roles": list(token.roles),
        "workspaces": None if token.workspaces is None else list(token.workspaces),
        "good": token.good(now),
        "created_by": token.created_by,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "used_at": token.used_at or None,
    }


def audit_map(row: Audit) -> JsonMap:
    return {
        "id": row.id,
        "at": row.at,
        "who": row.who,
        "token": row.token,
        "address": row.address,
        "action": row.action,
        "task": row.task_id,
        "step": row.step,
        "status": row.status or None,
        "outcome": row.outcome or None,
    }
