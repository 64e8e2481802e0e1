"""`longtask migrate`: the database of a fleet is changed when its operators say so."""

from __future__ import annotations

from typing import Annotated

import typer

from longtask import __version__
from longtask.boot import migrate_store
from longtask.cli.help import commands
from longtask.cli.session import Session
from longtask.core.errors import Refused
from longtask.views.fleet import ALIVE_MS

WORKERS_MAX = 10_000
NAMED_MAX = 5


def register(app: typer.Typer) -> None:
    command = commands(app, "Operate")

    @command()
    def migrate(
        ctx: typer.Context,
        contract: Annotated[
            bool, typer.Option("--contract", help="also take away what only older releases use; none may run any more")
        ] = False,
    ) -> int:
        """Bring the database to the schema of this release.

        A fleet on PostgreSQL is upgraded without stopping: migrate with the new release while workers of the one
        before go on, replace them one after another, then migrate once more with --contract. An empty database is
        set up by whoever opens it first; a file in SQLite needs none of this.

        Examples:
            longtask migrate --database postgresql://db.internal/longtask
            longtask migrate --contract
        """
        session: Session = ctx.obj
        session.outside_only("migrate")
        if contract:
            _refuse_older_workers(session)
        applied, left = migrate_store(session.config, contract)
        if session.json:
            session.give({"applied": applied, "left": left})
            return 0
        numbers = ", ".join(map(str, applied))
        session.say(f"applied: {numbers}" if applied else f"nothing to do ({session.config.database_shown})")
        if left:
            again = session.command("migrate", "--contract")
            session.say(f"left for when no older release runs any more: {', '.join(map(str, left))}; then: {again}")
        return 0


def _refuse_older_workers(session: Session) -> None:
    store = session.parts.store
    since = store.now() - ALIVE_MS
    older = [w for w in store.workers(WORKERS_MAX) if w.seen_at >= since and w.version != __version__]
    if older:
        named = ", ".join(f"{w.id} on {w.host} ({w.version or 'of an unknown release'})" for w in older[:NAMED_MAX])
        more = f" and {len(older) - NAMED_MAX} more" if len(older) > NAMED_MAX else ""
        raise Refused(
            f"workers of another release than {__version__} are at work: {named}{more}; replace them first; look: "
            f"{session.command('fleet')}"
        )
