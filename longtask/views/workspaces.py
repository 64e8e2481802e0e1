"""A workspace as a document: docs/json.md says what each key means."""

from __future__ import annotations

from longtask.core.model import JsonMap
from longtask.workspace.workspace import Workspace


def workspace_map(workspace: Workspace, *, pushed_to: bool) -> JsonMap:
    """`pushed_to`: whoever asks may be told where a base is pushed to."""
    hub = workspace.hub
    url = None if hub.origin is None else hub.origin.url
    place = str(hub.path) if hub.remote is None else hub.remote.url
    return {
        "id": hub.id,
        "repository": url or str(hub.folder),
        "host": hub.host,
        "url": url,
        "hub": place if pushed_to else None,
    }
