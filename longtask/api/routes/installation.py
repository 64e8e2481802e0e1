"""The installation: who works, and whether a plan would be taken."""

from fastapi import APIRouter

from longtask import plan
from longtask.api import documents, submitting
from longtask.api.documents import answers
from longtask.api.problems import Document
from longtask.api.server import Server
from longtask.api.sight import Viewer
from longtask.views.fleet import fleet_map


def router(server: Server) -> APIRouter:
    routes = APIRouter()

    @routes.get("/fleet", responses=answers(documents.Fleet), tags=["fleet"])
    def show_fleet(caller: Viewer) -> Document:
        """Show the workers, and the steps that wait for one, by pool."""
        return Document(fleet_map(server.parts.store))

    @routes.post("/plans/check", responses=answers(documents.Checked), tags=["plans"])
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
