"""Workspaces: the repositories that the installation knows, and how it comes to know one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter
from fastapi import Path as InPath
from pydantic import Field

from longtask.api import origins, submitting
from longtask.api.access.caller import Caller, Role
from longtask.api.documents import code
from longtask.api.documents.shape import answers
from longtask.api.origins import at_home
from longtask.api.problems import Document, Problem
from longtask.api.server import Server
from longtask.api.sight import NAME_MAX, Body, Name, Operator, Text, Viewer, page, whole
from longtask.core.errors import NotFound, Refused
from longtask.core.model import JsonMap
from longtask.views.workspaces import workspace_map
from longtask.workspace.workspace import Workspace

Id = Annotated[str, InPath(description="Its id.", max_length=NAME_MAX)]


class Registration(Body):
    repository: Text | None = Field(
        default=None, description="A folder of the repository, by its whole path.", examples=["/srv/git/shop"]
    )
    host: Name | None = Field(
        default=None, description="The machine on which the folder lies, if it is not the server's."
    )
    machine: str | None = Field(
        default=None, pattern="^[0-9a-f]{32}$", description="With `host`: what tells it from others of that name."
    )
    ignored: Text = Field(default="", description="With `host`: what git ignores there, beside the commits.")
    url: Name | None = Field(
        default=None,
        description="Or a URL that the server fetches from: https, ssh; file from the server's own machine.",
        examples=["https://git.example.com/shop.git"],
    )


def _map(workspace: Workspace, caller: Caller) -> JsonMap:
    shared = workspace.hub.remote is not None
    return workspace_map(workspace, pushed_to=caller.may(Role.OPERATOR) if shared else at_home(caller))


def router(server: Server) -> APIRouter:
    routes = APIRouter(tags=["workspaces"])
    config = server.parts.config

    @routes.get("/workspaces", responses=answers(code.WorkspacePage))
    def list_workspaces(caller: Viewer) -> Document:
        """List the repositories that this server knows: those that were registered, or that a task has begun from."""
        known = [one for one in Workspace.all(config.home, config.hub) if caller.sees(one.id)]
        return Document(page([_map(one, caller) for one in known], None))

    @routes.post("/workspaces", status_code=201, responses=answers(code.Workspace, status=201))
    def register_workspace(caller: Operator, body: Registration) -> Document:
        """Register a repository, so that plans can name it by its id.

        A folder of the server's machine, and a URL that the server fetches from, are registered by administrators; a
        folder of another machine, which pushes what tasks begin from to the hub that machines share, by operators too.
        What is registered already stays as it is.
        """
        made = _registered(server, whole(caller), body)
        made.announce()
        told = _map(made, caller)
        return Document(told, 201, {"Location": f"/v1/workspaces/{made.id}"})

    @routes.get("/workspaces/{workspace}", responses=answers(code.Workspace))
    def show_workspace(caller: Viewer, workspace: Id) -> Document:
        """Show one repository."""
        return Document(_map(submitting.known(server, caller, workspace), caller))

    return routes


def _registered(server: Server, caller: Caller, body: Registration) -> Workspace:
    """Raises Problem, LongTaskError."""
    config = server.parts.config
    if (body.url is None) == (body.repository is None):
        raise Problem(422, "bad-value", "a value breaks the rules", "give either 'repository' or 'url'")
    if (body.host is None) != (body.machine is None) or (body.host and body.url):
        raise Problem(422, "bad-value", "a value breaks the rules", "'host' comes with 'machine', and with a folder")
    if body.host is None and not caller.may(Role.ADMIN):
        told = f"caller {caller.shown} lacks the role 'admin', whose the server's folders and its fetching are"
        raise Problem(403, "forbidden", "the role for this is missing", told)
    if body.url is not None:
        return origins.register(server, caller, body.url)
    folder = Path(body.repository or "")
    if not folder.is_absolute():
        raise NotFound(f"repository {body.repository!r}: name its folder by the whole path")
    if body.host is not None and body.machine is not None:
        if config.hub is None:
            raise Refused(
                f"repository {body.repository!r} on {body.host!r}: this server has no hub to which that machine could "
                "push; set LONGTASK_HUB here, or register the URL of a repository that the server can fetch"
            )
        ignored = body.ignored.encode()
        return Workspace.elsewhere(config.home, folder, body.host, body.machine, config.hub, ignored)
    if not folder.is_dir():
        raise NotFound(f"repository {body.repository!r}: name a folder on the server's machine by its whole path")
    return Workspace.open(config.home, folder, config.hub)
