"""What whoever starts a server may choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address

from longtask.api.access.policy import Policy

HOST, PORT = "127.0.0.1", 8700


@dataclass(frozen=True, slots=True)
class Settings:
    """`host`, `port`: where it listens; port 0: any that is free.  `public_url`: how the world outside reaches it, for
    links; None: as it listens."""

    host: str = HOST
    port: int = PORT
    public_url: str | None = None
    policy: Policy = field(default_factory=Policy)

    @property
    def local(self) -> bool:
        """Nobody but this machine can reach it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name: what it means may change
        return False
