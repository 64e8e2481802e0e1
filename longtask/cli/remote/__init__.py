"""Commands that are answered by a server: `longtask --server URL …`.

What a command is called, takes and says of itself stands in its own module and nowhere else; `take_over` puts another
body under it, which asks the server's documents and draws them with the same functions.  A command without such a body
refuses: nothing is done here, on this machine's own database, that was meant for elsewhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import typer

ANSWERED = {  # commands, and the modules and names of their bodies
    "run": "run.run",
    "ls": "look.ls",
    "show": "look.show",
    "why": "look.why",
    "artifacts": "look.artifacts",
    "files": "look.files",
    "diff": "look.diff",
    "trace": "look.trace",
    "fleet": "look.show_fleet",
    "plan check": "look.plan_check",
    "watch": "follow.watch",
    "events": "follow.events",
    "logs": "follow.logs",
    "approve": "act.approve",
    "reject": "act.reject",
    "signal": "act.signal",
    "pause": "act.pause",
    "resume": "act.resume",
    "cancel": "act.cancel",
    "retry": "act.retry",
    "skip": "act.skip",
    "fork": "fork.fork",
    "add": "hands.add",
    "edit": "hands.edit",
    "take": "hands.take",
    "done": "hands.done",
    "export": "archives.export_task",
    "import": "archives.import_task",
    "workspace add": "workspaces.add",
    "workspace list": "workspaces.list_",
    "workspace show": "workspaces.show",
    "token create": "access.create_token",
    "token rotate": "access.rotate_token",
    "token revoke": "access.revoke_token",
    "token list": "access.list_tokens",
    "audit": "access.audit",
    "webhook add": "webhooks.add",
    "webhook list": "webhooks.list_",
    "webhook remove": "webhooks.remove",
    "webhook replay": "webhooks.replay",
    "webhook enable": "webhooks.enable",
}


def answered(words: Sequence[str]) -> str | None:
    """The command that these words call, if a server answers it."""
    return next((name for name in (" ".join(words[:2]), " ".join(words[:1])) if name in ANSWERED), None)


def take_over(app: typer.Typer, name: str) -> None:
    """Puts the body of this module under a command of the app."""
    group, _, own = name.rpartition(" ")
    for inner in [entry.typer_instance for entry in app.registered_groups if entry.name == group] if group else [app]:
        assert inner is not None
        for command in inner.registered_commands:
            local = command.callback
            if local is not None and (command.name or local.__name__) == own:
                module, _, body = ANSWERED[name].partition(".")
                command.callback = _asking(getattr(importlib.import_module(f"{__name__}.{module}"), body), local)


def _asking(body: Callable[..., int], local: Callable[..., Any]) -> Callable[..., int]:
    @wraps(local)  # its arguments
    def command(ctx: typer.Context, **given: Any) -> int:
        return body(ctx.obj, ctx.obj.client, **given)

    return command
