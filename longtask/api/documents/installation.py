"""Who works, as OpenAPI tells it."""

from __future__ import annotations

from typing import Any

from longtask.api.documents.shape import Instant, Shape


class Worker(Shape):
    id: str
    host: str
    pid: int
    version: str | None
    pools: list[str]
    slots: int
    running: int
    started_at: Instant
    seen_at: Instant
    lag_ms: int
    alive: bool


class Pool(Shape):
    pool: str
    workers: int
    slots: int | None
    ready: int
    oldest_ready_ms: int | None


class Fleet(Shape):
    workers: list[Worker]
    pools: list[Pool]


EXAMPLES: dict[str, dict[str, Any]] = {
    "Fleet": {
        "workers": [
            {
                "id": "w3f9a1c",
                "host": "build-1",
                "pid": 4711,
                "version": "0.1.0",
                "pools": ["default"],
                "slots": 4,
                "running": 1,
                "started_at": 1_767_225_000_000,
                "seen_at": 1_767_225_680_000,
                "lag_ms": 1_000,
                "alive": True,
            }
        ],
        "pools": [{"pool": "default", "workers": 1, "slots": 4, "ready": 0, "oldest_ready_ms": None}],
    },
}
