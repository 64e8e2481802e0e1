"""`longtask login` and `longtask logout`: tokens for servers elsewhere, in a file that only this user reads."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer

from longtask.cli.help import commands
from longtask.cli.session import PATIENCE, Session
from longtask.client.servers import Logins, checked, is_here, server_url
from longtask.core.errors import NotFound, Refused
from longtask.views.text import clean

LINE_MAX = 4_096
Url = Annotated[
    str | None, typer.Argument(metavar="[URL]", help="such as https://longtask.example.com; default: $LONGTASK_SERVER")
]


def register(app: typer.Typer) -> None:
    command = commands(app, "Operate")

    @command()
    def login(ctx: typer.Context, url: Url = None) -> int:
        """Keep a token for a server, so that `--server URL` and longtask.Client need no other.

        The token is asked for, or read from standard input; it is tried, and then kept in servers.json in
        $XDG_CONFIG_HOME/longtask, which only you can read. LONGTASK_TOKEN goes before it. Several servers have a token
        each.

        Examples:
            longtask login https://longtask.example.com
            longtask login https://longtask.example.com < token.txt
        """
        session: Session = ctx.obj
        server = server_url(url or session.server)
        if server.startswith("http:") and not is_here(server):
            session.warn(f"{server} is not encrypted: whoever sees what is sent there sees the token")
        token = checked(_read(server))
        from longtask.client.client import Client

        with Client(server, token, limits=PATIENCE) as client:
            who = client.whoami()
        Logins().keep(server, token, who["name"])
        if session.json:
            session.give({"server": server, **who})
        session.say(f"logged in to {server} as {clean(who['name'])} ({', '.join(who['roles']) or 'no role'})")
        return 0

    @command()
    def logout(
        ctx: typer.Context,
        url: Url = None,
        all_: Annotated[bool, typer.Option("--all", help="forget the tokens of all servers")] = False,
    ) -> int:
        """Forget the token for a server. It is good as before: an administrator revokes it.

        Examples:
            longtask logout https://longtask.example.com
            longtask logout --all
        """
        session: Session = ctx.obj
        logins = Logins()
        known = list(logins.servers())
        servers = known if all_ else [server_url(url or session.server)]
        for server in servers:
            if not logins.forget(server):
                told = ", ".join(known) or "none"
                raise NotFound(f"no token is kept for server {server!r}; servers with one: {told}")
            session.say(f"the token for {server} is forgotten; it is good until it expires or is revoked")
        if session.json:
            session.give({"servers": servers})
        return 0


def _read(server: str) -> str:
    """Raises Refused."""
    if sys.stdin.isatty():
        given = getpass.getpass(f"token for {server}: ")
    else:
        given = sys.stdin.readline(LINE_MAX)
    if not given.strip():
        raise Refused("no token was given; one is made on the server's machine by: longtask token create NAME --role …")
    return given
