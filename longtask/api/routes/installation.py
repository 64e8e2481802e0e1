"""The installation: workspaces, who works, and who asks."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from longtask import plan
from longtask.api import documents, submitting
from longtask.api.documents import answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import Admin, Body, Text, Viewer, page
from longtask.core.errors import NotFound
from longtask.views.fleet import fleet_map
from longtask.workspace.hub import Hub, find_hub
from longtask.workspace.names import HUBS
from longtask.workspace.workspace import Workspace


class Registration(Body):
    repository: Text = Field(description="A folder of the repository, by its whole path.", examples=["/srv/git/shop"])


def workspace_map(hub: Hub) -> dict[str, Any]:
    return {"id": hub.id, "repository": str(hub.folder), "host": hub.host}


def router(server: Server) -> APIRouter:
    routes = APIRouter()
    config = server.parts.config

    @routes.get("/workspaces", responses=answers(documents.WorkspacePage), tags=["workspaces"])
    def list_workspaces(caller: Viewer) -> Document:
        """List the repositories that this installation knows: those that a task has begun from."""
        names = sorted(path.stem for path in (config.home / HUBS).glob("*.git"))
        seen = [name for name in names if submitting.is_id(name) and caller.sees(name)]
        return Document(page([workspace_map(find_hub(config.home, name)) for name in seen], None))

    @routes.post(
        "/workspaces", status_code=201, responses=answers(documents.Workspace, status=201), tags=["workspaces"]
    )
    def register_workspace(caller: Admin, body: Registration) -> Document:
        """Register a repository that lies on the server's machine, so that plans can name it by its id."""
        folder = Path(body.repository)
        if not folder.is_absolute() or not folder.is_dir():
            raise NotFound(f"repository {body.repository!r}: name a folder on the server's machine by its whole path")
        found = workspace_map(Workspace.open(config.home, folder, config.hub).hub)
        return Document(found, 201, {"Location": f"/v1/workspaces/{found['id']}"})

    @routes.get("/workspaces/{workspace}", responses=answers(documents.Workspace), tags=["workspaces"])
    def show_workspace(caller: Viewer, workspace: str) -> Document:
        """Show one repository."""
        if not submitting.is_id(workspace) or not caller.sees(workspace):
            raise NotFound(f"no workspace {workspace!r}; list them: GET /v1/workspaces")
        return Document(workspace_map(Workspace.at(config.home, workspace, config.hub).hub))

    @routes.get("/fleet", responses=answers(documents.Fleet), tags=["fleet"])
    def show_fleet(caller: Viewer) -> Document:
        """Show the workers, and the steps that wait for one, by pool."""
        return Document(fleet_map(server.parts.store))

    @routes.post("/plans/check", responses=answers(documents.Checked), tags=["plans"])
    def check_plan(caller: Viewer, content: submitting.Content) -> Document:
        """Tell everything that is wrong with a plan, by line and column; submit nothing."""
        loaded = submitting.checked(content)
        graph = plan.compile_plan(loaded)
        return Document(
            {
                "ok": True,
                "name": graph.name,
                "steps": len(graph.planned),
                "stages": list(graph.options.stages),
                "notes": [str(warning) for warning in plan.warnings(loaded)],
            }
        )

    return routes
