"""`longtask --server URL run`: what the task begins from goes to the hub, the plan to the server, and we listen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from longtask import plan
from longtask.cli.remote import follow, workspaces
from longtask.cli.run import DIRTY, Dirty, loaded_from, text_of
from longtask.cli.session import Session
from longtask.client.client import Client
from longtask.client.servers import is_here
from longtask.core.errors import BadPlan, Refused
from longtask.workspace import origin
from longtask.workspace.hub import WORKSPACE_ID
from longtask.workspace.repo import git_folder
from longtask.workspace.workspace import Workspace


def run(
    session: Session,
    client: Client,
    file: Path,
    foreground: bool,
    detach: bool,
    dirty: str | None,
    base: str | None,
    attended: bool | None,
    name: str | None,
    parallel: int | None,
    slots: int,
    key: str | None,
    prompt: str | None,
    agent: str | None,
    model: str | None,
) -> int:
    if dirty is not None and dirty not in DIRTY:
        raise BadPlan(f"--dirty {dirty!r}: choose {', '.join(DIRTY)}")
    if foreground:
        raise BadPlan("--foreground works in this process, and with --server the server's workers do; leave one out")
    text = text_of(session, file, prompt, agent, model)
    session.submitting = True
    loaded = loaded_from(file, text)
    for warning in plan.warnings(loaded):
        session.warn(f"note: {warning}")
    workspace, base = _begin(session, client, loaded, file, cast(Dirty | None, dirty), base)
    acted = client.submit(
        plan.whole_text(loaded, file.read_bytes().decode("utf-8", "replace")) if text is None else text,
        name=name,
        base=base,
        dirty=None if workspace is not None else cast(Dirty | None, dirty),
        parallel=parallel,
        attended=session.interactive if attended is None else attended,
        workspace=workspace,
        folder=str(file.resolve().parent) if is_here(client.url) else None,
        key=key,
    )
    session.submitting = False
    if session.json:
        told = {"task": acted["task"], "handle": acted["handle"], "status": acted["status"]}
        session.give_line({"type": "task.submitted", **told})
    if detach:
        helps = session.command("watch", acted["handle"])
        session.say(f"{acted['handle']} runs at {client.url}; watch it: {helps}")
        return 0
    if not session.live and not session.json:
        print(f"task {acted['handle']} ({acted['task']})", file=sys.stderr)
    return follow.view(session, client, client.task(acted["task"], steps=0))


def _begin(
    session: Session, client: Client, loaded: plan.Plan, file: Path, dirty: Dirty | None, base: str | None
) -> tuple[str | None, str | None]:
    """The workspace and the commit of a checkout here, which is in the workspace's hub then; else (None, `base`): the
    server itself finds what the plan names."""
    if loaded.workspace is None:
        if base or dirty:
            raise BadPlan("--base and --dirty need a plan with a workspace; add: workspace: {repo: .}")
        return None, None
    repo, folder = loaded.workspace.repo or ".", file.resolve().parent
    if origin.is_url(repo):
        return None, base
    session.config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if WORKSPACE_ID.fullmatch(repo) and not (folder / repo).exists():
        named, checkout = client.workspace(repo), _around(session, folder)
        if checkout is None or not workspaces.belongs(session, client, checkout, named):
            return None, base
    else:
        checkout = Workspace.open(session.config.home, folder / repo)
        named = workspaces.of_checkout(session, client, checkout)
    if named["hub"] is None and named["url"] is None:
        raise Refused(
            f"workspace {named['id']!r} of {client.url} has no hub that this machine could push to: "
            "LONGTASK_HUB there names one"
        )
    chosen = dirty or loaded.workspace.dirty or "refuse"
    aside = (session.config.home, file.resolve(), *plan.files_of(loaded))
    found = checkout.base(base or loaded.workspace.base, cast(Dirty, chosen), aside)
    if found.note:
        session.warn(f"note: {found.note}")
    if named["hub"] is not None:
        checkout.bring(found.commit, named["hub"], named["id"])
    return named["id"], found.commit


def _around(session: Session, folder: Path) -> Workspace | None:
    """The checkout that the plan stands in, if it stands in one."""
    return Workspace.open(session.config.home, folder) if git_folder(folder) is not None else None
