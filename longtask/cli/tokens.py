"""`longtask token …` and `longtask audit`: who may call a server, and who has changed what."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

import typer

from longtask.api.access.roles import Role
from longtask.api.access.tokens import Tokens
from longtask.cli.fleet import table
from longtask.cli.help import Group, commands
from longtask.cli.session import Session
from longtask.config import retention_ms
from longtask.core.errors import NotFound, Refused
from longtask.store.access import new_audit_id
from longtask.store.callers import Audit, Token
from longtask.views.access import audit_map, token_map
from longtask.views.text import clean
from longtask.views.words import duration, handle, iso

ROLES = ", ".join(Role)
ID = typer.Argument(metavar="TOKEN", help="its id, or a name that only one good token has")
EXPIRES = typer.Option("--expires", metavar="TIME", help="such as 90d or 12h; off: never")


def register(app: typer.Typer) -> None:
    group = typer.Typer(cls=Group, help="Say who may call a server, and as what.", no_args_is_help=True)
    app.add_typer(group, name="token", rich_help_panel="Operate")
    _changing(group)
    _showing(group)
    _audit(app)


def _changing(group: typer.Typer) -> None:
    command = commands(group, "Commands")

    @command()
    def create(
        ctx: typer.Context,
        name: Annotated[str, typer.Argument(help="who will use it: stands in journals and in the audit")],
        role: Annotated[list[str], typer.Option("--role", metavar="ROLE", help=f"{ROLES}; may be repeated")],
        workspace: Annotated[
            list[str] | None,
            typer.Option("--workspace", metavar="ID", help="only tasks of this one; may be repeated; default: all"),
        ] = None,
        expires: Annotated[str, EXPIRES] = "90d",
    ) -> int:
        """Make a token, and print it once: only its hash is kept.

        viewer looks; operator looks, submits and steers; approver looks and decides; worker carries out steps; admin
        may do everything.

        Examples:
            longtask token create ann --role operator --role approver
            longtask token create ci --role operator --workspace web --expires 365d
        """
        session: Session = ctx.obj
        session.outside_only("token create")
        tokens = Tokens(session.parts.store)
        expires_ms = retention_ms(expires, "--expires")
        made, text = tokens.create(name, role, by=session.me, workspaces=workspace, expires_ms=expires_ms)
        _note(session, "token create", made)
        return say_new(session, {**token_map(made, session.parts.store.now()), "token": text})

    @command()
    def rotate(
        ctx: typer.Context,
        token: Annotated[str, ID],
        grace: Annotated[str, typer.Option(metavar="TIME", help="so long the old form is good")] = "1d",
        expires: Annotated[str, EXPIRES] = "90d",
    ) -> int:
        """Give a token a new form, and print it once; the old one is good for a while yet.

        Examples:
            longtask token rotate ann
            longtask token rotate 4k2m9x1b7q --grace 1h
        """
        session: Session = ctx.obj
        session.outside_only("token rotate")
        grace_ms, expires_ms = retention_ms(grace, "--grace") or 0, retention_ms(expires, "--expires")
        made, text = Tokens(session.parts.store).rotate(token, grace_ms=grace_ms, expires_ms=expires_ms)
        _note(session, "token rotate", made)
        return say_new(session, {**token_map(made, session.parts.store.now()), "token": text})

    @command()
    def revoke(ctx: typer.Context, token: Annotated[str, ID]) -> int:
        """Make a token good no more, within seconds, on every server; streams that it has open end too.

        Examples:
            longtask token revoke 4k2m9x1b7q
        """
        session: Session = ctx.obj
        session.outside_only("token revoke")
        store = session.parts.store
        known = Tokens(store).revoke(token)
        _note(session, "token revoke", known)
        revoked = replace(known, revoked_at=known.revoked_at or store.now())
        return say_revoked(session, token_map(revoked, store.now()))


def _showing(group: typer.Typer) -> None:
    command = commands(group, "Commands")

    @command("list")
    def list_(
        ctx: typer.Context,
        all_: Annotated[bool, typer.Option("--all", help="those too that are good no more")] = False,
    ) -> int:
        """List the tokens that are good.

        Examples:
            longtask token list
            longtask token list --all --json
        """
        session: Session = ctx.obj
        store = session.parts.store
        now = store.now()
        return say_tokens(session, [token_map(token, now) for token in Tokens(store).list()], now, all_)


def _audit(app: typer.Typer) -> None:
    @commands(app, "Operate")()
    def audit(
        ctx: typer.Context,
        task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="only of this task")] = None,
        who: Annotated[str | None, typer.Option("--who", metavar="NAME", help="only of this caller")] = None,
        count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000, help="at most so many")] = 50,
    ) -> int:
        """Show who has changed what through a server, when, from where, and what came of it, newest first.

        What was refused is there too. What people do on this machine without a server stands in the journal of the
        task: longtask events. Rows are kept for 400 days.

        Examples:
            longtask audit
            longtask audit @last --who ann
        """
        session: Session = ctx.obj
        store = session.parts.store
        task_id = None if task is None else session.task(task).id
        rows = store.audit(task_id=task_id, who=who, before="", limit=count)
        return say_audit(session, [audit_map(row) for row in rows], lambda id: handle(session.parts.store.get_task(id)))


# Of documents: the same for here and elsewhere.


def say_tokens(session: Session, tokens: Sequence[Mapping[str, Any]], now: int, all_: bool) -> int:
    found = [token for token in tokens if all_ or token["good"]]
    if session.json:
        session.give(found)
        return 0
    if not found:
        session.say(f"no token; make one: {session.command('token', 'create', 'NAME', '--role')} operator")
        return 0
    for line in table(("id", "name", "roles", "workspaces", "is", "used"), [_row(token, now) for token in found]):
        session.say(line)
    return 0


def say_revoked(session: Session, token: Mapping[str, Any]) -> int:
    if session.json:
        session.give(dict(token))
    session.say(f"token {token['id']!r} of {clean(token['name'])} is revoked")
    return 0


def say_audit(session: Session, rows: Sequence[Mapping[str, Any]], name: Callable[[str], str]) -> int:
    """`name`: of a task, by its id; raises NotFound, Refused."""
    if session.json:
        session.give(list(rows))
        return 0
    if not rows:
        session.say("nothing was changed through a server")
        return 0
    handles = {id: _handle(id, name) for id in {row["task"] for row in rows} if id}
    shown = [_audit_row(row, handles) for row in rows]
    for line in table(("when", "who", "from", "what", "task", "came of it"), shown):
        session.say(line)
    return 0


def _handle(task_id: str, name: Callable[[str], str]) -> str:
    with suppress(NotFound, Refused):  # pruned, or never there
        return name(task_id)
    return task_id


def _audit_row(row: Mapping[str, Any], handles: dict[str, str]) -> tuple[str, ...]:
    came = f"{row['status']} {row['outcome'] or ''}".strip() if row["status"] else "not known"
    what = f"{row['action']} {row['step'] or ''}".strip()
    who, address = clean(row["who"], 40), clean(row["address"], 40)
    task = clean(handles.get(row["task"] or "", "–"), 40)
    return iso(row["at"]), who, address, clean(what, 60), task, clean(came, 40)


def _row(token: Mapping[str, Any], now: int) -> tuple[str, ...]:
    seen = "all" if token["workspaces"] is None else ", ".join(token["workspaces"]) or "none"
    if token["revoked_at"] is not None:
        state = "revoked"
    elif token["expires_at"] is None:
        state = "good"
    else:
        state = f"good for {duration(token['expires_at'] - now)}" if token["good"] else "expired"
    used = f"{duration(max(0, now - token['used_at']))} ago" if token["used_at"] else "never"
    return token["id"], clean(token["name"], 40), ", ".join(token["roles"]), clean(seen, 40), state, used


def say_new(session: Session, made: Mapping[str, Any]) -> int:
    """With its text, this once."""
    if session.json:
        session.give(dict(made))
        return 0
    session.say(made["token"])
    session.err.write([("keep it: it is shown this once; send it as 'Authorization: Bearer …'", "dim")])
    return 0


def _note(session: Session, action: str, token: Token) -> None:
    """In the audit, since it changes who may change things."""
    store = session.parts.store
    now = store.now()
    terminal = f"{os.uname().nodename}:{os.getpid()}"
    row = Audit(new_audit_id(now), now, session.me, None, terminal, f"{action} {token.id}", status=200)
    store.begin_audit([row])
