"""Roles, and a caller that has some.  Of plain Python: commands import it without the libraries of the server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    VIEWER = "viewer"  # looks at tasks
    OPERATOR = "operator"  # submits, pauses, cancels, retries, sends signals
    APPROVER = "approver"  # decides what steps ask
    WORKER = "worker"  # carries out steps: the calls of a worker, for its own attempts
    ADMIN = "admin"  # everything; tokens and the audit are for this role only


IMPLIED = {
    Role.ADMIN: frozenset(Role),
    Role.OPERATOR: frozenset({Role.OPERATOR, Role.VIEWER}),
    Role.APPROVER: frozenset({Role.APPROVER, Role.VIEWER}),
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.WORKER: frozenset({Role.WORKER}),  # what it needs of a task comes with its claim
}


@dataclass(frozen=True, slots=True)
class Caller:
    """`workspaces` None: all.  `token`: its public id, None in local mode.  `address`: where the call comes from."""

    name: str
    roles: frozenset[Role]
    workspaces: frozenset[str] | None = None
    token: str | None = None
    address: str = ""

    def may(self, role: Role) -> bool:
        return any(role in IMPLIED[held] for held in self.roles)

    def sees(self, workspace_id: str) -> bool:
        return self.workspaces is None or workspace_id in self.workspaces

    @property
    def shown(self) -> str:
        return f"{self.name!r} ({', '.join(sorted(self.roles)) or 'no role'})"
