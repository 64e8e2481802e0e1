"""`longtask workspace …`: the repositories that an installation knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from longtask.cli.fleet import table
from longtask.cli.help import Group, commands
from longtask.cli.session import Session
from longtask.core.errors import NotFound
from longtask.views.text import clean
from longtask.views.workspaces import workspace_map
from longtask.workspace import origin
from longtask.workspace.hub import WORKSPACE_ID
from longtask.workspace.workspace import Workspace

Id = Annotated[str, typer.Argument(metavar="ID", help="as list shows it")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(cls=Group, help="Say which repositories tasks may begin from.", no_args_is_help=True)
    app.add_typer(group, name="workspace", rich_help_panel="Operate")
    command = commands(group, "Commands")

    @command()
    def add(
        ctx: typer.Context,
        repository: Annotated[
            str, typer.Argument(metavar="[REPOSITORY]", help="a folder of it, or a URL to fetch from; default: here")
        ] = ".",
    ) -> int:
        """Register a repository, so that a plan can name it by its id, and a checkout of it be run with --server.

        A folder here that is registered with a server elsewhere pushes what tasks begin from to the hub of that server
        (LONGTASK_HUB there). A URL (https, ssh) is fetched by the server itself, with its own credentials: register it
        on the server's machine, or as an administrator. Where nobody has registered a URL nothing is fetched from it.

        Examples:
            longtask workspace add
            longtask workspace add --server https://longtask.example.com
            longtask workspace add https://git.example.com/shop.git
        """
        session: Session = ctx.obj
        session.outside_only("workspace add")
        config = session.config
        config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if origin.is_url(repository):
            made = Workspace.of(config.home, repository, config.hub, trusted=True)
            made.base()
        else:
            made = Workspace.open(config.home, folder(repository), config.hub)
        made.announce()
        return say_added(session, workspace_map(made, pushed_to=True))

    @command("list")
    def list_(ctx: typer.Context) -> int:
        """List the repositories that were registered, or that a task has begun from.

        Examples:
            longtask workspace list
            longtask workspace list --json | jq -r '.[].id'
        """
        session: Session = ctx.obj
        config = session.config
        return say_all(session, [workspace_map(one, pushed_to=True) for one in Workspace.all(config.home, config.hub)])

    @command()
    def show(ctx: typer.Context, workspace: Id) -> int:
        """Show where a repository lies, and where its hub is.

        Examples:
            longtask workspace show 0f6d1f0e4a5b6c7d
        """
        session: Session = ctx.obj
        config = session.config
        if not WORKSPACE_ID.fullmatch(workspace):
            listed = session.command("workspace", "list")
            raise NotFound(f"no workspace {workspace!r}; list them: {listed}")
        return say_one(session, workspace_map(Workspace.at(config.home, workspace, config.hub), pushed_to=True))


def folder(repository: str) -> Path:
    """Raises NotFound."""
    found = Path(repository).expanduser()
    if not found.is_dir():
        raise NotFound(f"repository {repository!r}: no such folder; give one, or a URL")
    return found


def say_added(session: Session, workspace: Mapping[str, Any]) -> int:
    if session.json:
        session.give(dict(workspace))
    session.say(f"{clean(workspace['repository'])} is workspace {workspace['id']}")
    return 0


def say_all(session: Session, workspaces: Sequence[Mapping[str, Any]]) -> int:
    if session.json:
        session.give(list(workspaces))
        return 0
    if not workspaces:
        session.say(f"no workspace; register one: {session.command('workspace', 'add')}")
        return 0
    rows = [(one["id"], clean(one["repository"]), clean(one["host"] or "")) for one in workspaces]
    for line in table(("workspace", "repository", "on host"), rows):
        session.say(line)
    return 0


def say_one(session: Session, workspace: Mapping[str, Any]) -> int:
    if session.json:
        session.give(dict(workspace))
    for name in ("id", "repository", "host", "hub"):
        if workspace[name]:
            session.say([(f"{name:<12}", "dim"), (clean(workspace[name]), "")])
    return 0
