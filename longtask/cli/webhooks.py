"""`longtask webhook`: where events are sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from longtask.cli.fleet import table
from longtask.cli.help import Group, commands
from longtask.cli.session import Session
from longtask.cli.telling import local
from longtask.config import retention_ms
from longtask.core.errors import BadPlan
from longtask.store.outward import Webhook
from longtask.views.text import clean
from longtask.views.words import duration
from longtask.webhooks import endpoints

Id = Annotated[str, typer.Argument(metavar="ID", help="as list shows it; its beginning is enough")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=Group,
        help="Have events sent to other programs, signed by Standard Webhooks. A server sends them: longtask server.",
        no_args_is_help=True,
    )
    app.add_typer(group, name="webhook", rich_help_panel="Operate")
    command = commands(group, "Commands")

    @command()
    def add(
        ctx: typer.Context,
        url: Annotated[str, typer.Argument(metavar="URL", help="https, or http inside")],
        type_: Annotated[
            list[str] | None,
            typer.Option("--type", metavar="PATTERN", help="such as longtask.completed or step.*; again for several"),
        ] = None,
        workspace: Annotated[str | None, typer.Option(metavar="ID", help="only events of its tasks")] = None,
        secret_env: Annotated[
            str | None,
            typer.Option("--secret-env", metavar="NAME", help="a variable of the server that holds the secret"),
        ] = None,
    ) -> int:
        """Send events there from now on.

        Each is a POST whose body is the CloudEvent that `longtask events --json` shows. The secret that signs them is
        made and printed once, unless a variable of the server's environment holds it.

        An event is sent until it is taken (2xx), at least once and in order; while one is not taken, those after it
        wait. After nine tries, some nine hours, the endpoint is disabled. An address that is not public is reached only
        if LONGTASK_ALLOW_PRIVATE lists it.

        Examples:
            longtask webhook add https://hooks.example.com/longtask --type 'longtask.*' --type approval.required
        """
        session: Session = ctx.obj
        session.outside_only("webhook")
        added, secret = endpoints.add(
            session.parts.store, url, types=type_ or (), workspace_id=workspace, secret_env=secret_env, by=session.me
        )
        return say_added(session, {**endpoints.document(session.parts.store.webhook(added.id)), "secret": secret})

    @command("list")
    def list_(ctx: typer.Context) -> int:
        """List the endpoints, and how each is doing.

        Examples:
            longtask webhook list
            longtask webhook list --json | jq -r '.[].url'
        """
        session: Session = ctx.obj
        found = session.parts.store.webhooks("", endpoints.WEBHOOKS_MAX)
        return say_all(session, [endpoints.document(one) for one in found], session.parts.store.now())

    @command()
    def remove(ctx: typer.Context, webhook: Id) -> int:
        """Send nothing there any more.

        Examples:
            longtask webhook remove 01a229f3
        """
        session: Session = ctx.obj
        session.outside_only("webhook")
        found = _found(session, webhook)
        session.parts.store.remove_webhook(found.id)
        return say_removed(session, endpoints.document(found))

    @command()
    def replay(
        ctx: typer.Context,
        webhook: Id,
        since: Annotated[str, typer.Option(metavar="TIME", help="such as 2h or 3d ago, or 2026-01-31T09:00")],
    ) -> int:
        """Deliver anew what has happened since, under the same ids; takes up one that was disabled.

        Examples:
            longtask webhook replay wh-3f9a --since 2h
        """
        session: Session = ctx.obj
        session.outside_only("webhook")
        found = _found(session, webhook)
        at = instant(since, session.parts.store.now())
        session.parts.store.replay_webhook(found.id, at)
        return say_replayed(session, endpoints.document(session.parts.store.webhook(found.id)), at)

    @command()
    def enable(ctx: typer.Context, webhook: Id) -> int:
        """Go on with one that was disabled, or that waits for its next try: from where it was, at once.

        Examples:
            longtask webhook enable 01a229f3
        """
        session: Session = ctx.obj
        session.outside_only("webhook")
        found = _found(session, webhook)
        session.parts.store.enable_webhook(found.id)
        return say_enabled(session, endpoints.document(session.parts.store.webhook(found.id)))


def _found(session: Session, id: str) -> Webhook:
    """Raises NotFound, BadPlan."""
    store = session.parts.store
    return store.webhook(whole_id(id, [one.id for one in store.webhooks("", endpoints.WEBHOOKS_MAX)]))


def whole_id(id: str, known: Iterable[str]) -> str:
    """Of the one that begins so; `id` itself when there is none.  Raises BadPlan."""
    fits = [one for one in known if one.startswith(id)]
    if len(fits) > 1 and id not in fits:
        raise BadPlan(f"webhook {id!r} fits {fits[0]!r} and {fits[1]!r}; give more characters")
    return id if id in fits or not fits else fits[0]


# Of documents: the same for here and elsewhere.


def say_added(session: Session, webhook: Mapping[str, Any]) -> int:
    """With its secret, this once."""
    if session.json:
        session.give(dict(webhook))
    session.say(f"webhook {webhook['id']} is added; it hears what happens from now on")
    if webhook["secret"] is not None:
        session.say(f"its secret, told now and never again: {webhook['secret']}")
    return 0


def say_all(session: Session, webhooks: Sequence[Mapping[str, Any]], now: int) -> int:
    if session.json:
        session.give(list(webhooks))
        return 0
    if not webhooks:
        session.say(f"no webhook; add one: {session.command('webhook', 'add', 'URL')}")
        return 0
    rows = [
        (
            one["id"],
            one["state"],
            clean(one["url"]),
            clean(", ".join(one["types"])) or "all",
            one["workspace"] or "all",
            _doing(one, now),
        )
        for one in webhooks
    ]
    for line in table(("webhook", "is", "url", "types", "workspace", "last"), rows):
        session.say(line)
    return 0


def say_removed(session: Session, webhook: Mapping[str, Any]) -> int:
    return _told(session, webhook, f"webhook {webhook['id']} is removed")


def say_replayed(session: Session, webhook: Mapping[str, Any], at: int) -> int:
    return _told(session, webhook, f"webhook {webhook['id']} is sent what has happened since {local(at)}")


def say_enabled(session: Session, webhook: Mapping[str, Any]) -> int:
    return _told(session, webhook, f"webhook {webhook['id']} goes on")


def _told(session: Session, webhook: Mapping[str, Any], text: str) -> int:
    if session.json:
        session.give(dict(webhook))
    session.say(text)
    return 0


def _doing(webhook: Mapping[str, Any], now: int) -> str:
    if webhook["reason"] is not None:
        waits = webhook["disabled_at"] is None and webhook["next_at"] is not None
        again = f"; again in {duration(max(0, webhook['next_at'] - now))}" if waits else ""
        return clean(f"{webhook['reason']}{again}")
    return f"taken {duration(max(0, now - webhook['delivered_at']))} ago" if webhook["delivered_at"] else "nothing yet"


def instant(text: str, now: int) -> int:
    """Raises BadPlan."""
    if re.fullmatch(r"[0-9]+[a-z]", text.strip()):
        return now - (retention_ms(text, "--since") or 0)
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise BadPlan(f"--since {text!r}: write how long ago (2h, 3d), or an instant (2026-01-31T09:00)") from None
