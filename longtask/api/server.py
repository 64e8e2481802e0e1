"""What every route may use: the parts of LongTask, the settings, who may do what, and what runs beside the routes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from longtask import boot
from longtask.api.access.shared import Access, make_access
from longtask.api.callbacks.service import Outgoing
from longtask.api.following import follows
from longtask.api.settings import Settings
from longtask.api.streams.hub import Hub
from longtask.api.workers.waiting import Waiting
from longtask.engine.loop import Pulse

Service = Callable[[], AbstractAsyncContextManager[None]]


@dataclass
class Server:
    """`services`: what runs as long as the server does, begun in this order and ended in the other.  `pulse`: of the
    loop that works in this process; None: none does."""

    parts: boot.Parts
    settings: Settings
    hub: Hub
    access: Access
    outgoing: Outgoing
    waiting: Waiting
    services: list[Service] = field(default_factory=list)
    pulse: Callable[[], Pulse] | None = None


def make_server(parts: boot.Parts, settings: Settings) -> Server:
    hub, outgoing = Hub(parts.store), Outgoing(parts)
    access, waiting = make_access(parts.store, settings), Waiting(parts.store)
    services = [follows(parts), hub.serve, outgoing.serve, waiting.serve]
    return Server(parts, settings, hub, access, outgoing, waiting, services)
