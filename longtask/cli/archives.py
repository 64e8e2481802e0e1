"""A task as a file: export and import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtask.boot.archives import make_exporter, make_importer
from longtask.cli.help import commands
from longtask.cli.session import TASK, Session
from longtask.core.errors import Refused
from longtask.core.model import JsonMap
from longtask.views.documents import acted_map
from longtask.views.text import clean
from longtask.views.words import handle

ENDING = ".longtask.tar.gz"
LISTED_MAX = 5


def register(app: typer.Typer) -> None:
    command = commands(app, "Operate")

    @command("export")
    def export_task(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        output: Annotated[
            Path | None, typer.Option("-o", "--output", metavar="FILE", help=f"default: NAME-n{ENDING}, here")
        ] = None,
    ) -> int:
        """Write a task that has ended into one file, to keep it, or to import it elsewhere.

        The file holds the plan, the journal, what steps have written and made, what agents have done, and the task's
        commits as a git bundle, each with its SHA-256. It holds no secret that LongTask knows of, and of one task it
        has the same bytes every time. What stands in it: docs/keeping.md.

        Examples:
            longtask export release-12
            longtask export release-12 -o /backup/release-12.longtask.tar.gz
        """
        session: Session = ctx.obj
        found = session.task(task)
        target = output or Path(f"{handle(found)}{ENDING}")
        try:
            made = make_exporter(session.parts).write(found.id, target)
        except OSError as error:
            raise unwritable(target, error) from None
        if session.json:
            session.give(
                {
                    "task": found.id,
                    "handle": handle(found),
                    "file": str(target),
                    "size_bytes": made.size_bytes,
                    "sha256": made.sha256,
                    "files": made.files,
                    "missing": list(made.missing),
                }
            )
        if made.missing:
            names = ", ".join(clean(name) for name in made.missing[:LISTED_MAX])
            session.warn(f"{len(made.missing)} artifacts are not in it, since their bytes are gone here: {names}")
        session.say(f"wrote {target} ({made.size_bytes:,} bytes, sha256 {made.sha256})")
        return 0

    @command("import")
    def import_task(
        ctx: typer.Context, file: Annotated[Path, typer.Argument(metavar="FILE", help="made by `longtask export`")]
    ) -> int:
        """Bring a task from another installation: its history, output, artifacts and commits.

        Every byte is checked before anything is stored, and the journal is folded anew: it must give exactly what the
        file tells of the task, or nothing is imported. A task keeps its id, so it is refused where it is already.

        Examples:
            longtask import release-12.longtask.tar.gz
        """
        session: Session = ctx.obj
        session.outside_only("import")
        try:
            done = make_importer(session.parts).read(file, session.me)
        except OSError as error:
            raise unreadable(file, error) from None
        return say_imported(session, acted_map(done.task, again=done.again, told=list(done.told)))


def say_imported(session: Session, acted: JsonMap) -> int:
    if session.json:
        session.give(dict(acted))
    for text in acted["told"]:
        session.warn(clean(str(text)))
    word = "was imported before" if acted["again"] else "is imported"
    session.say(f"{acted['handle']} {word} ({acted['status']}); look: {session.command('show', acted['handle'])}")
    return 0


def unwritable(file: Path, error: OSError) -> Refused:
    return Refused(f"file {str(file)!r} cannot be written: {error.strerror or error}; name another with -o")


def unreadable(file: Path, error: OSError) -> Refused:
    return Refused(f"file {str(error.filename or file)!r}: {error.strerror or error}; nothing was imported")
