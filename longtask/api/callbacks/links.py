"""Links that answer one question: signed, single-use, and good for a while.

Whoever has the address may decide, in the name that the link was made for, and about nothing but what was asked when it
was made: a question that has changed since is told so.  Looking changes nothing, however often it is done: programs
that read mail follow every link.  Only a POST decides, and it uses the link up.
"""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import parse_qs

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import Field

from longtask import boot
from longtask.api.access.caller import Role
from longtask.api.callbacks import page, shapes
from longtask.api.documents.shape import answers
from longtask.api.problems import MEDIA_TYPE, Document, Problem
from longtask.api.server import Server
from longtask.api.sight import Approver, Body, Name, StepKey, TaskName, seen_step, seen_task
from longtask.core.errors import NotFound, Refused
from longtask.core.model import Question, Step, StepState, Task, WaitingFor
from longtask.core.seal import seal, unseal
from longtask.engine.desk import Superseded
from longtask.store.contract import Ref
from longtask.store.outward import Link
from longtask.views.documents import acted_map, approval_map

PURPOSE = "link"
MINUTE, DAY = 60_000, 86_400_000
LASTS_MS, LASTS_MAX_MS = 3 * DAY, 30 * DAY
BODY_BYTES_MAX = 100_000
TEXT_MAX = 20_000
BY_LINK = (
    "approve",
    "reject",
    "again",
    "accept",
    "give_up",
    "raise",
    "raise_stage",
)  # others take a commit, or an edited value

Token = Annotated[str, Path(max_length=2_000)]


class NewLink(Body):
    who: Name | None = Field(default=None, description="Decides in this name; the caller's if absent.  Others: admins.")
    lasts_ms: Annotated[int, Field(ge=MINUTE, le=LASTS_MAX_MS)] = Field(
        default=LASTS_MS, description="How long it is good; three days if absent, thirty at most."
    )


def add_to(routes: APIRouter, server: Server) -> None:
    store = server.parts.store

    @routes.post("/tasks/{task}/steps/{step}/links", status_code=201, responses=answers(shapes.NewLink, status=201))
    def make_link(caller: Approver, task: TaskName, step: StepKey, body: NewLink | None = None) -> Document:
        """Make a single-use link for what the step asks now.  Whoever has it may decide, without a token.

        The address is told in this answer and never again.
        """
        body = body or NewLink()
        who = body.who or caller.name
        if who != caller.name and not caller.may(Role.ADMIN):
            raise Problem(403, "forbidden", "not allowed", "a link in another name is made by admins only")
        found = seen_task(server, task, caller)
        row = seen_step(server, found, step)
        question = _asked(row)
        named = question.get("who")
        if named and who not in named:
            raise Refused(f"step {row.key!r} asks {', '.join(named)}; {who!r} may not decide it")
        now = store.now()
        link = Link(
            boot.new_id(),
            found.id,
            row.key,
            row.ask,
            question.get("digest"),
            who,
            caller.name,
            now,
            now + body.lasts_ms,
        )
        store.add_link(link)
        token = seal(store.signing_key(PURPOSE), PURPOSE, _sealed(link))
        told = {
            "id": link.id,
            "url": f"{base_url(server)}/v1/callbacks/links/{token}",
            "task": found.id,
            "step": row.key,
            "ask": row.ask,
            "digest": link.digest,
            "who": who,
            "expires_at": link.expires_at,
        }
        return Document(told, status_code=201)

    @routes.get("/callbacks/links/{token}", responses={**answers(str, "text/html"), **_refusals()})
    def show_link(request: Request, token: Token) -> Response:
        """What is asked, for people (HTML) or programs (`Accept: application/json`).  Changes nothing."""
        link = _link(server, token)
        task, step = _of(server, link)
        over = _over(server, link, step)
        if _wants_json(request):
            if over is not None:
                raise over
            return Document({**approval_map(task, step), "answers": _answers(step), "link_expires_at": link.expires_at})
        if over is not None:
            return _page(page.over(task, link, over.detail), over.status)
        return _page(page.question(approval_map(task, step), _answers(step), link))

    @routes.post(
        "/callbacks/links/{token}",
        responses={**answers(str, "text/html"), **_refusals()},
        openapi_extra={"requestBody": _BODY},
    )
    async def use_link(request: Request, token: Token) -> Response:
        """Decide: `answer`, and `text` for the record (a rejection takes one), as JSON or as a form."""
        body = await _small(request)
        form = _form_of(request)
        given = parse_form(body) if form else _parse_json(body)
        return await run_sync(_use, server, request, token, given, _wants_json(request) or not form)


def base_url(server: Server) -> str:
    told = server.settings.public_url or server.parts.config.public_url
    if told:
        return told.rstrip("/")
    host = server.settings.host
    return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{server.settings.port}"


def _use(server: Server, request: Request, token: str, given: dict[str, str], as_json: bool) -> Response:
    store, desk = server.parts.store, server.parts.desk
    link = _link(server, token)
    task, step = _of(server, link)
    request.state.who, request.state.task_id = link.who, task.id  # for the audit
    answer, text = given.get("answer", ""), given.get("text", "").strip()
    over = _over(server, link, step)
    if over is None and answer not in _answers(step):
        over = Problem(422, "bad-value", "a value breaks the rules", f"'answer' is one of {', '.join(_answers(step))}")
    if over is None and answer == "reject" and not text:
        over = Problem(422, "reason-needed", "A rejection takes a reason", "say in 'text' what is wrong")
    if over is None:
        try:
            desk.answer(Ref(task.id, step.key), answer, link.who, ask=link.ask, digest=link.digest, text=text)
        except Superseded as moved:
            over = Problem(412, "changed", "what is asked has changed", str(moved))
        except Refused as refused:  # another was faster
            over = Problem(409, "refused", "not now", str(refused))
    if over is not None:
        if as_json:
            raise over
        again = over.status == 422
        shown = page.question(approval_map(task, step), _answers(step), link, over.detail) if again else None
        return _page(shown or page.over(task, link, over.detail), over.status)
    store.use_link(link.id, answer)
    if as_json:
        return Document(acted_map(store.get_task(task.id), step=step.key, answer=answer, by=link.who))
    return _page(page.over(task, link, f"Recorded: {answer}, by {link.who}."))


# --- what a link is good for --------------------------------------------------------------------------------------


def _sealed(link: Link) -> list[Any]:
    return [link.id, link.digest, link.expires_at]


def _link(server: Server, token: str) -> Link:
    """Raises NotFound."""
    store = server.parts.store
    found = unseal(store.signing_key(PURPOSE), PURPOSE, token)
    if isinstance(found, list) and found:
        link = store.link(str(found[0]))
        if found == _sealed(link):
            return link
    raise NotFound("no such link; it was cut, or is of another installation")


def _of(server: Server, link: Link) -> tuple[Task, Step]:
    store = server.parts.store
    return store.get_task(link.task_id), store.get_step(Ref(link.task_id, link.step))


def _over(server: Server, link: Link, step: Step) -> Problem | None:
    """Why it is good for nothing any more; None: it is good."""
    if link.used_at is not None:
        return Problem(410, "link-used", "the link was used", f"it has answered {link.answer!r} already")
    if server.parts.store.now() >= link.expires_at:
        return Problem(410, "link-expired", "the link has expired", "ask for a new one")
    question = step.question or {}
    asks = step.state is StepState.WAITING and step.waiting_for is WaitingFor.USER
    if not asks or step.ask != link.ask or question.get("digest") != link.digest:
        what = "something else is asked now" if asks else "it is not asked any more"
        return Problem(409, "refused", "not now", f"what this link was made for has changed since: {what}")
    return None


def _asked(step: Step) -> dict[str, Any]:
    if step.state is not StepState.WAITING or step.waiting_for is not WaitingFor.USER or step.question is None:
        raise Refused(f"step {step.key!r} is {step.state}: it asks nothing now")
    return dict(step.question)


def _answers(step: Step) -> list[str]:
    question = step.question or {}
    if question.get("kind", Question.APPROVAL) == Question.APPROVAL:
        return ["approve", "reject"]
    return [word for word in question.get("answers") or () if word in BY_LINK]


# --- bodies -------------------------------------------------------------------------------------------------------

_BODY = {
    "required": True,
    "content": {
        kind: {
            "schema": {
                "type": "object",
                "required": ["answer"],
                "properties": {"answer": {"type": "string"}, "text": {"type": "string"}},
            }
        }
        for kind in ("application/json", "application/x-www-form-urlencoded")
    },
}


def _refusals() -> dict[int | str, dict[str, Any]]:
    """Of a link that is good for nothing any more: a page for people, a problem for programs."""
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    content = {"text/html": {"schema": {"type": "string"}}, MEDIA_TYPE: problem}
    told = {
        409: "What it was made for has changed.",
        410: "It was used, or has expired.",
        412: "The code has changed since, and it is asked anew.",
        422: "Not an answer to it.",
    }
    return {status: {"description": text, "content": content} for status, text in told.items()}


def _wants_json(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "json" in accepted and "text/html" not in accepted


def _form_of(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip() == "application/x-www-form-urlencoded"


async def _small(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise Problem(413, "too-large", "the request is too large", f"at most {BODY_BYTES_MAX:,} bytes")
        parts.append(part)
    return b"".join(parts)


def parse_form(body: bytes) -> dict[str, str]:
    try:
        found = parse_qs(body.decode(), max_num_fields=10, keep_blank_values=True)
    except ValueError:
        raise Problem(422, "bad-value", "a value breaks the rules", "the form cannot be read") from None
    return {name: values[-1][:TEXT_MAX].replace("\0", "") for name, values in found.items()}


def _parse_json(body: bytes) -> dict[str, str]:
    try:
        found = json.loads(body)
        text = {name: value for name, value in dict(found).items() if isinstance(value, str)}
        "".join(text.values()).encode()
    except (ValueError, TypeError, RecursionError):
        raise Problem(422, "bad-json", "the body is no JSON", "send {'answer': …, 'text': …}") from None
    return {name: value[:TEXT_MAX].replace("\0", "") for name, value in text.items()}


def _page(text: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(text, status, headers=page.HEADERS)
