"""Files of a task, as one of its commits holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from longtask.cli.help import commands
from longtask.cli.session import TASK, Session
from longtask.views.files import HEAD, commit_at, file_map, readable
from longtask.views.text import clean


def register(app: typer.Typer) -> None:
    command = commands(app, "Look")

    @command("files")
    def files(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        path: Annotated[str | None, typer.Argument(help="print this one, byte for byte")] = None,
        match: Annotated[str, typer.Option(metavar="GLOB", help="list only these; ** is any path")] = "**",
        at: Annotated[
            str, typer.Option(metavar="COMMIT", help="head, base, or the full id of a commit of the task")
        ] = HEAD,
    ) -> int:
        """List the files that a task has come to, or print one of them.

        Examples:
            longtask files @last --match 'docs/*.md'
            longtask files @last docs/api.md --at base
        """
        session: Session = ctx.obj
        found = session.task(task)
        commit = commit_at(session.parts.merger.workspace, found, at)
        workspace = session.parts.merger.workspace(found.workspace_id)
        if path is not None:
            session.out.content(workspace.content(readable(workspace.file(commit, path)).blob))
            return 0
        say_files(session, [file_map(one) for one in workspace.files(commit, match)])
        return 0


def say_files(session: Session, found: Sequence[Mapping[str, Any]]) -> None:
    if session.json:
        session.give(list(found))
        return
    for one in found:
        session.say(f"{one['size_bytes']:>12,}  {clean(one['path'])}" + ("  (link)" if one["kind"] == "link" else ""))
    if not found:
        session.say("no file fits")
