"""A plan that comes over HTTP becomes a task, after the same checks as `longtask run` makes.

A plan names its repository from its own folder; over HTTP there is none.  So `repo` is the id of a workspace that this
installation knows, or the URL of one (`origins.py`), or, for whoever calls from this machine without a token, a path on
it; likewise for recordings.  Whoever sends a plan from a checkout says beside it which workspace that is.
"""

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field

from longtask import plan
from longtask.api import origins
from longtask.api.access.caller import Caller
from longtask.api.origins import at_home
from longtask.api.problems import Document, Problem
from longtask.api.server import Server
from longtask.api.sight import Name
from longtask.core.errors import BadPlan, NotFound
from longtask.core.graph import Graph
from longtask.core.model import Kind, Task
from longtask.core.policy import PLAN_BYTES_MAX
from longtask.views.documents import acted_map
from longtask.workspace import origin
from longtask.workspace.exchange import HubLacks
from longtask.workspace.repo import Dirty
from longtask.workspace.workspace import Workspace

COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
TYPES = ("application/json", "application/yaml", "text/yaml", "application/x-yaml", "text/plain")


async def raw(request: Request) -> bytes:
    """The body as it came, so that what is wrong with it can be told by line and column."""
    media_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media_type not in TYPES:
        raise Problem(
            415, "media-type", "the media type is not taken", f"a plan as {media_type!r}: send {', '.join(TYPES[:2])}"
        )
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > PLAN_BYTES_MAX:
            raise Problem(
                413, "too-large", "the plan is too large", f"the limit is {PLAN_BYTES_MAX:,} bytes; larger inputs "
                "belong into files of the repository",
            )  # fmt: skip
    return bytes(content)


Content = Annotated[bytes, Depends(raw)]


class Choices(BaseModel):
    """What `longtask run` takes as options."""

    name: Name | None = Field(default=None, description="Instead of the plan's.")
    base: Name | None = Field(default=None, description="Begin from this branch, tag or commit.")
    dirty: Dirty | None = Field(
        default=None,
        description="What to do with what is not committed: refuse it (the usual), ignore it, or include it.",
    )
    parallel: int | None = Field(default=None, ge=1, le=10_000, description="Steps at once.")
    attended: bool = Field(default=True, description="Ask a person when in doubt, or fail.")
    key: Name | None = Field(
        default=None, min_length=1, description="The same key returns the same task, for as long as it is kept."
    )
    secret: list[Name] = Field(default=[], description="A name of a secret beside the plan's own.")
    workspace: Name | None = Field(
        default=None, description="The id of a workspace, instead of the repository that the plan names."
    )
    folder: Name | None = Field(
        default=None,
        description="The plan's own, from which it names files; counts on the server's machine, without a token.",
    )


Chosen = Annotated[Choices, Query()]


def submit(server: Server, caller: Caller, content: bytes, chosen: Choices, request_key: str | None) -> Task:
    """Raises BadPlan, NotFound, Refused, WorkspaceError: then nothing was begun."""
    loaded, graph = plan.compiled(content, attended=chosen.attended, name=chosen.name, parallel=chosen.parallel)
    graph = with_secrets(graph, tuple(chosen.secret))
    folder = Path(chosen.folder) if chosen.folder and at_home(caller) else None
    if folder is not None and folder.is_absolute():
        graph = plan.placed(graph, folder)
    refuse_relative(graph, caller)
    workspace_id, commit = "", None
    if loaded.workspace is not None:
        workspace = found_workspace(server, caller, chosen.workspace or loaded.workspace.repo or ".", folder)
        workspace_id = workspace.id
        wanted = chosen.base or loaded.workspace.base
        commit = base_of(server, workspace, wanted, chosen.dirty or cast(Dirty, loaded.workspace.dirty or "refuse"))
    elif chosen.base or chosen.dirty or chosen.workspace:
        raise BadPlan("base, dirty and workspace need a plan with a workspace; add: workspace: {repo: ID}")
    if not caller.sees(workspace_id):
        raise Problem(
            403, "forbidden", "not allowed", "this token is for some workspaces only: submit a plan with one of them"
        )
    return server.parts.desk.submit(
        graph,
        by=caller.name,
        workspace_id=workspace_id,
        base=commit,
        idempotency_key=chosen.key or of_request(caller, request_key),
        plan_text=content.decode("utf-8", "replace"),
    )


def answered(
    server: Server, caller: Caller, request: Request, content: bytes, chosen: Choices, request_key: str | None
) -> Document:
    """`submit`, and what a request for it is answered."""
    task = submit(server, caller, content, chosen, request_key)
    request.state.task_id = task.id  # for the audit
    return Document(acted_map(task), 201, {"Location": f"/v1/tasks/{task.id}"})


def of_request(caller: Caller, key: str | None) -> str | None:
    """The key of a task that a request with this key has made: should the server die before its answer is kept, the
    repeated request still makes no second one."""
    if not key:
        return None
    return "request:" + hashlib.sha256(f"{caller.name}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()


def with_secrets(graph: Graph, more: tuple[str, ...]) -> Graph:
    names = tuple(dict.fromkeys((*graph.options.secrets, *more)))
    return replace(graph, options=replace(graph.options, secrets=names))


def refuse_relative(graph: Graph, caller: Caller) -> None:
    """Raises BadPlan for a recording that is named from the folder of the plan."""
    for spec in plan.all_specs(graph):
        given = str(spec.body.get("recording") or "") if spec.kind is Kind.AGENT else ""
        if given and "${{" not in given and not (Path(given).is_absolute() and at_home(caller)):
            raise BadPlan(
                f"recording {given!r}: over HTTP a plan has no folder; name it by its whole path, and call from the "
                "server's own machine"
            )


def found_workspace(server: Server, caller: Caller, repo: str, folder: Path | None = None) -> Workspace:
    """By its id, its URL, or a path on this machine.  Raises BadPlan, NotFound, WorkspaceError."""
    config = server.parts.config
    if is_id(repo):
        return known(server, caller, repo)
    if origin.is_url(repo):
        return origins.found(server, caller, repo)
    if not at_home(caller):
        raise BadPlan(f"repo {repo!r}: over HTTP it is the id or the URL of a workspace; list them: GET /v1/workspaces")
    place = Path(repo) if folder is None else folder / repo
    if not place.is_absolute():
        raise BadPlan(f"repo {repo!r}: over HTTP a plan has no folder; name the repository by its whole path or its id")
    if not place.is_dir():
        raise NotFound(f"repo {repo!r}: no such folder on the server's machine")
    return Workspace.open(config.home, place, config.hub)


def known(server: Server, caller: Caller, id: str) -> Workspace:
    """Raises NotFound."""
    config = server.parts.config
    if is_id(id) and caller.sees(id):
        try:
            return Workspace.at(config.home, id, config.hub)
        except (NotFound, HubLacks):
            pass
    raise NotFound(f"no workspace {id!r}; list them: GET /v1/workspaces")


def is_id(repo: str) -> bool:
    return len(repo) == 16 and not set(repo) - set("0123456789abcdef")


def base_of(server: Server, workspace: Workspace, ref: str | None, dirty: Dirty) -> str:
    """A commit that is named by its whole id is meant as it is, whatever a working tree holds; if it was pushed to the
    hub it is in no other place.  Else what a name means in the repository.  Raises BadPlan, NotFound, Refused, ..."""
    exact = ref is not None and COMMIT.fullmatch(ref) is not None
    if ref is not None and exact and workspace.take_brought(ref):
        return ref
    if workspace.hub.origin is not None:
        return origins.base_of(server, workspace, ref)
    if workspace.hub.host is None and workspace.hub.repository.exists():
        return workspace.base(ref, "ignore" if exact else dirty).commit
    if ref is None or not exact or not workspace.has_commit(ref):
        raise BadPlan(
            f"base {ref!r}: the repository of workspace {workspace.id!r} is on another machine; name a commit that was "
            "pushed to its hub"
        )
    return ref
