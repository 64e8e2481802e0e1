"""The installation: who works, and whether a plan would be taken."""

from fastapi import APIRouter

from longtask import plan
from longtask.api import submitting
from longtask.api.documents.acts import Checked
from longtask.api.documents.installation import Fleet
from longtask.api.documents.shape import answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import Viewer
from longtask.views.fleet import fleet_map


def router(server: Server) -> APIRouter:
    routes = APIRouter()

    @routes.get("/fleet", responses=answers(Fleet), tags=["fleet"])
    def show_fleet(caller: Viewer) -> Document:
        """Show the workers, and the steps that wait for one, by pool."""
        return Document(fleet_map(server.parts.store))

    @routes.post("/plans/check", responses=answers(Checked), tags=["plans"])
    def check_plan(caller: Viewer, content: submitting.Content) -> Document:
        """Tell everything that is wrong with a plan, by line and column; submit nothing."""
        loaded, graph = plan.compiled(content)
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
