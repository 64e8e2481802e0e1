"""The application: routes under /v1, problems for errors, and what runs beside them.

A piece plugs in by a function `router(server)` in ROUTERS.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, FastAPI

from longtask import __version__
from longtask.api import health, metrics, page, problems, traces
from longtask.api.access.guard import Guard
from longtask.api.callbacks import routes as callbacks
from longtask.api.description import describe
from longtask.api.idempotency import Idempotency
from longtask.api.problems import Document
from longtask.api.routes import (
    access,
    approvals,
    archives,
    artifacts,
    code,
    events,
    forks,
    hands,
    installation,
    steps,
    tasks,
    turns,
    workspaces,
)
from longtask.api.server import Server
from longtask.api.shortway import ShortWay
from longtask.api.streams import routes as streams
from longtask.api.workers import routes as workers

ROUTERS: tuple[Callable[[Server], APIRouter], ...] = (
    tasks.router,
    steps.router,
    turns.router,
    hands.router,
    forks.router,
    approvals.router,
    artifacts.router,
    code.router,
    archives.router,
    events.router,
    workspaces.router,
    installation.router,
    access.router,
    streams.router,
    callbacks.router,
    traces.router,
    workers.router,
)
# Where people, and the programs that look after servers, expect them.
OUTSIDE = (page.router, health.router, metrics.router)

THREADS = 24  # routes that wait for the store at once; each has a connection to SQLite of its own


def create_app(server: Server) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        async with AsyncExitStack() as stack:
            for service in server.services:
                await stack.enter_async_context(service())
            yield

    app = FastAPI(
        title="LongTask",
        version=__version__,
        lifespan=lifespan,
        default_response_class=Document,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.server = server
    problems.install(app)
    app.add_middleware(ShortWay, ways=tasks.short_ways(server))
    app.add_middleware(Idempotency, store=server.parts.store)
    app.add_middleware(Guard, access=server.access)  # the last one stands in front
    for make in ROUTERS:
        app.include_router(make(server), prefix="/v1")
    for make in OUTSIDE:
        app.include_router(make(server))
    app.openapi = lambda: described(app)  # type: ignore[method-assign]
    return app


def described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = describe(app)
    return app.openapi_schema
