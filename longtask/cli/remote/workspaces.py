"""Workspaces, at a server, and which of them a folder here is a checkout of."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from longtask.cli import workspaces as local
from longtask.cli.session import Session
from longtask.client import documents
from longtask.client.client import Client
from longtask.client.servers import is_here
from longtask.core.errors import Refused
from longtask.workspace import origin
from longtask.workspace.hub import hub_id, machine_id
from longtask.workspace.repo import excludes, git_folder, remotes
from longtask.workspace.workspace import Workspace

Fits = Callable[[documents.Workspace], bool]


def add(session: Session, client: Client, repository: str) -> int:
    session.outside_only("workspace add")
    if origin.is_url(repository):
        return local.say_added(session, client.register_workspace(url=repository))
    hub = Workspace.open(session.config.home, local.folder(repository)).hub
    if at_home(client):
        return local.say_added(session, client.register_workspace(str(hub.folder)))
    ignored = excludes(hub.repository).decode("utf-8", "replace")
    machine = machine_id(session.config.home)
    made = client.register_workspace(str(hub.repository), host=socket.gethostname(), machine=machine, ignored=ignored)
    return local.say_added(session, made)


def list_(session: Session, client: Client) -> int:
    return local.say_all(session, client.workspaces())


def show(session: Session, client: Client, workspace: str) -> int:
    return local.say_one(session, client.workspace(workspace))


def at_home(client: Client) -> bool:
    """The server is this user's own, on this machine."""
    return is_here(client.url) and client.whoami()["token"] is None


def of_checkout(session: Session, client: Client, checkout: Workspace) -> documents.Workspace:
    """The workspace whose repository a folder here belongs to.  Raises Refused, which says how to register it."""
    known = client.workspaces()
    for fits in _ways(session, client, checkout):
        found = [one for one in known if fits(one)]
        if len(found) > 1:
            told = ", ".join(one["id"] for one in found)
            raise Refused(
                f"repository '{checkout.hub.folder}' is several workspaces of {client.url} ({told}): name one in the "
                "plan, with: workspace: {repo: ID}"
            )
        if found:
            return found[0]
    helps = session.command("workspace", "add", os.path.relpath(checkout.hub.folder))
    raise Refused(f"repository '{checkout.hub.folder}' is no workspace of {client.url}; register it: {helps}")


def belongs(session: Session, client: Client, checkout: Workspace, workspace: documents.Workspace) -> bool:
    return any(fits(workspace) for fits in _ways(session, client, checkout))


def _ways(session: Session, client: Client, checkout: Workspace) -> Iterator[Fits]:
    """In which a workspace may be known to be that of the checkout, the surest first."""
    repository, folder = checkout.hub.repository, checkout.hub.folder
    machine, host = hub_id(repository, machine_id(session.config.home)), socket.gethostname()
    if is_here(client.url):
        yield lambda one: _is_folder(one) and Path(one["repository"]) == folder
        yield lambda one: _is_folder(one) and git_folder(Path(one["repository"])) == repository
    yield lambda one: one["id"] == machine
    yield lambda one: one["host"] == host and Path(one["repository"]) == folder
    addresses = {address for url in remotes(checkout.hub) if (address := origin.address(url)) is not None}
    yield lambda one: one["url"] is not None and origin.address(one["url"]) in addresses


def _is_folder(workspace: documents.Workspace) -> bool:
    """On the server's machine."""
    return workspace["host"] is None and workspace["url"] is None
