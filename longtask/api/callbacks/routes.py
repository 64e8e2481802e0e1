"""Signals, events of forges, and the callbacks of `call` steps."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Path, Request
from pydantic import Field

from longtask.api.callbacks import forges, links, shapes, webhooks
from longtask.api.callbacks.forges import Completed, Heard
from longtask.api.callbacks.secrets import SETTING, HookSecrets
from longtask.api.documents.shape import answers
from longtask.api.problems import Document, Problem
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, Body, Name, Operator, seen_task
from longtask.boot import new_id
from longtask.core.errors import NotFound
from longtask.core.events import StepWoken
from longtask.core.model import Json
from longtask.core.policy import BATCH_MAX
from longtask.core.seal import unseal
from longtask.steps import call
from longtask.store.contract import Ref
from longtask.views.documents import acted_map

HOOK_BYTES_MAX = 25_000_000  # GitHub sends no more
CALLBACK_BYTES_MAX = 200_000  # a signal holds less
COPIED_AT_ONCE = 50  # tasks that have a signal to their workspace when its sender is answered
REASON_MAX = 1_000

SIGNAL_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,79}$"
Workspace = Annotated[
    str, Path(pattern=r"^[!-~]+$", max_length=NAME_MAX, description="The workspace's id.", examples=["shop-1f3a"])
]
Token = Annotated[str, Path(max_length=2_000)]


class Signal(Body):
    task: Name | None = Field(default=None, description="The task that it is for: id, prefix of it, or NAME-n.")
    workspace: Name | None = Field(default=None, description="Or the workspace, for all its open tasks.")
    payload: dict[str, Any] = Field(default_factory=dict, examples=[{"sha": "4f2a91c…", "conclusion": "success"}])
    delivery: Name | None = Field(default=None, description="The same id counts once; else `Idempotency-Key`.")


def router(server: Server) -> APIRouter:
    whole, inwards, outwards = APIRouter(), APIRouter(tags=["callbacks"]), APIRouter(tags=["webhooks"])
    _signals(inwards, server)
    _calls(inwards, server)
    _forges(inwards, server)
    links.add_to(inwards, server)
    webhooks.add_to(outwards, server)
    whole.include_router(inwards)
    whole.include_router(outwards)
    return whole


def _signals(routes: APIRouter, server: Server) -> None:
    store, desk, outgoing = server.parts.store, server.parts.desk, server.outgoing

    @routes.post(
        "/signals/{name}",
        responses={**answers(shapes.Signalled), **answers(shapes.Noticed, status=202)},
    )
    def send_signal(
        caller: Operator,
        name: Annotated[str, Path(pattern=SIGNAL_NAME, description="Such as `ci.completed`.")],
        body: Signal,
        idempotency_key: Annotated[str | None, Header(max_length=NAME_MAX)] = None,
    ) -> Document:
        """Send a named message to a task, or to all open tasks of a workspace.

        What waits for it goes on; it is kept if nothing waits yet. The same delivery is answered with the first.
        """
        delivery = body.delivery or idempotency_key
        if (body.task is None) == (body.workspace is None):
            raise Problem(422, "bad-value", "a value breaks the rules", "give either 'task' or 'workspace'")
        if body.workspace is not None:
            if not caller.sees(body.workspace):
                raise NotFound(f"no workspace {body.workspace!r}")
            told = _to_workspace(server, body.workspace, name, body.payload, delivery, caller.name)
            return Document(told, status_code=202)
        assert body.task is not None
        task = seen_task(server, body.task, caller)
        kept = desk.signal(task.id, name, body.payload, delivery=delivery, sender=caller.name)
        events = store.events(task.id, task.seq, BATCH_MAX)
        woken = [e.fact.step for e in events if isinstance(e.fact, StepWoken) and e.fact.seen == kept.number]
        outgoing.wake()
        return Document({**acted_map(store.get_task(task.id)), "number": kept.number, "woken": woken})


def _to_workspace(
    server: Server, workspace_id: str, name: str, payload: dict[str, Json], delivery: str | None, sender: str
) -> dict[str, Json]:
    """Durable when it returns; most workspaces have few open tasks, and those have it by then."""
    notices = server.outgoing.notices
    notice, new = notices.put(workspace_id, name, payload, delivery=delivery or new_id(), sender=sender)
    copied = notices.copy(notice, COPIED_AT_ONCE)
    if copied == COPIED_AT_ONCE:
        server.outgoing.wake()  # for the rest
    return {"workspace": workspace_id or None, "delivery": notice.delivery, "new": new, "tasks": copied}


# --- call steps ---------------------------------------------------------------------------------------------------


def _calls(routes: APIRouter, server: Server) -> None:
    def taken(token: str, payload: dict[str, Json]) -> Document:
        store, desk = server.parts.store, server.parts.desk
        found = unseal(store.signing_key(call.PURPOSE), call.PURPOSE, token)
        if found is None:
            raise NotFound("no call has this address; it was cut, or is of another installation")
        task_id, step, run = found
        key = call.key_of(task_id, step, run)
        signal, new = desk.call_back(Ref(task_id, step), run, call.SIGNAL, {"key": key, **payload}, sender="callback")
        return Document({"task": task_id, "step": step, "run": run, "number": signal.number, "new": new})

    @routes.post("/callbacks/calls/{token}", responses=answers(shapes.CalledBack))
    async def call_back(request: Request, token: Token) -> Document:
        """The answer to a `call` step: any JSON; it becomes the step's result.

        The address is that of one run of one step. A second answer is told the first, with `new` false; one that comes
        when the run is over is refused with 409.
        """
        value = await _json(request)
        return await run_sync(taken, token, {"body": value})

    @routes.post("/callbacks/calls/{token}/failed", responses=answers(shapes.CalledBack))
    async def call_back_failed(request: Request, token: Token) -> Document:
        """The call came to nothing: the step fails with the `reason` of this JSON, or with its text."""
        value = await _json(request)
        reason = value.get("reason", value) if isinstance(value, dict) else value
        text = reason if isinstance(reason, str) else json.dumps(reason)
        return await run_sync(taken, token, {"failed": text[:REASON_MAX]})


async def _json(request: Request) -> Json:
    """Raises Problem."""
    body = await _body(request, CALLBACK_BYTES_MAX)
    if not body.strip():
        return None
    try:
        value = json.loads(body)
        json.dumps(value, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise Problem(422, "bad-json", "the body is no JSON", "send JSON in UTF-8, or nothing at all") from None
    return value


async def _body(request: Request, bytes_max: int) -> bytes:
    """As it came.  Raises Problem."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > bytes_max:
            raise Problem(413, "too-large", "the request is too large", f"at most {bytes_max:,} bytes are taken here")
        parts.append(part)
    return b"".join(parts)


# --- forges -------------------------------------------------------------------------------------------------------


def _forges(routes: APIRouter, server: Server) -> None:
    secrets = HookSecrets.read(os.environ.get(SETTING))

    def heard(source: str, workspace_id: str, delivery: str, told: Heard) -> Document:
        if not isinstance(told, Completed):
            return Document({"taken": False, "reason": told.why}, status_code=202)
        kept = _to_workspace(server, workspace_id, forges.SIGNAL, told.payload, f"{source}:{delivery}", source)
        return Document({"taken": True, "reason": None, **kept}, status_code=202)

    async def github(request: Request, workspace_id: str) -> Document:
        known = _known(secrets.of("github", workspace_id), "github")
        body = await _body(request, HOOK_BYTES_MAX)
        if not forges.signed_by_github(known, body, request.headers.get("x-hub-signature-256", "")):
            raise _not_signed("X-Hub-Signature-256", "the webhook's secret at GitHub")
        request.state.who = "github"  # for the audit
        delivery = _delivery(request, "x-github-delivery")
        value = _object(body, request)
        told = forges.of_github(request.headers.get("x-github-event", ""), value)
        return await run_sync(heard, "github", workspace_id, delivery, told)

    async def gitlab(request: Request, workspace_id: str) -> Document:
        tokens, signing = secrets.of("gitlab", workspace_id), secrets.of("gitlab-signing", workspace_id)
        _known(tokens or signing, "gitlab")
        body = await _body(request, HOOK_BYTES_MAX)
        if signing:  # it is the stronger one, so it is the one that counts
            if not forges.signed_by_gitlab(signing, body, request.headers):
                raise _not_signed("webhook-signature", "the webhook's signing token at GitLab")
        elif not forges.told_by_gitlab(tokens, request.headers.get("x-gitlab-token", "")):
            raise _not_signed("X-Gitlab-Token", "the webhook's secret token at GitLab")
        request.state.who = "gitlab"  # for the audit
        delivery = _delivery(request, "webhook-id", "idempotency-key", "x-gitlab-event-uuid")
        return await run_sync(heard, "gitlab", workspace_id, delivery, forges.of_gitlab(_object(body, request)))

    taken = answers(shapes.Hooked, status=202)
    for forge, act in (("github", github), ("gitlab", gitlab)):
        _hook(routes, forge, act, taken)


def _hook(routes: APIRouter, forge: str, act: Callable[[Request, str], Any], taken: dict[int | str, Any]) -> None:
    told = (
        "Events of a forge: what says that CI is done with a commit becomes the signal `ci.completed` for the open "
        "tasks of {}; all else is passed over. Signed with the secret that " + SETTING + " names."
    )

    async def of_workspace(request: Request, workspace: Workspace) -> Document:
        answer: Document = await act(request, workspace)
        return answer

    async def of_all(request: Request) -> Document:
        answer: Document = await act(request, "")
        return answer

    for path, endpoint, whose in (
        (f"/callbacks/{forge}/{{workspace}}", of_workspace, "a workspace"),
        (f"/callbacks/{forge}", of_all, "every workspace"),
    ):
        routes.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            status_code=202,
            responses=taken,
            name=f"{forge}_{endpoint.__name__}",
            operation_id=f"{forge}_{endpoint.__name__}",
            summary=f"Events of {forge}, for {whose}",
            description=told.format(whose),
        )


def _known(secrets: list[str], forge: str) -> list[str]:
    if not secrets:
        detail = f"this server knows no secret of {forge}: name the variable that holds it in {SETTING}"
        raise Problem(404, "not-found", "no such thing", detail)
    return secrets


def _not_signed(header: str, whose: str) -> Problem:
    detail = f"header {header} does not fit; is {whose} the one that this server knows?"
    return Problem(401, "bad-signature", "the signature does not fit", detail)


def _delivery(request: Request, *names: str) -> str:
    for name in names:
        given = request.headers.get(name, "")
        if forges.DELIVERY.fullmatch(given):
            return given
    raise Problem(400, "no-delivery", "the delivery has no id", f"send it in the header {names[0]}")


def _object(body: bytes, request: Request) -> dict[str, Any]:
    value = forges.parsed(body)
    if value is None:
        kind = request.headers.get("content-type", "none")[:60]
        detail = f"send a JSON object (content type application/json), found content type {kind!r}"
        raise Problem(422, "bad-json", "the body is no JSON", detail)
    return value
