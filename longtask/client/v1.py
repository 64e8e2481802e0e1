"""Everything under /v1 that people and their programs ask, each as a function that sends nothing.

`client.py` makes two methods of each, one that blocks and one that is awaited.  A task is named by its id, a prefix of
it (8 characters or more), NAME-n, or @last; a step by its key.  Errors are those of core/errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from longtask.client import documents as d
from longtask.client.request import PAGE, Pages, Request, content, document, get, items, path, post, post_bytes, text
from longtask.core.errors import BadPlan

Plan = str | bytes | Mapping[str, Any]
DAY_MS = 86_400_000
MONTHS_MS = 90 * DAY_MS  # so long a token is good unless somebody says otherwise


def whoami() -> Request[d.Who]:
    """Who the server takes the caller for, and what that one may do."""
    return get(path("whoami"), document)


# --- plans and tasks ----------------------------------------------------------------------------------------------


def check_plan(plan: Plan) -> Request[d.Checked]:
    """Checks a plan; submits nothing.  Raises BadPlan, which names everything that is wrong."""
    body, media_type = _plan(plan)
    return post_bytes(path("plans", "check"), document, body, media_type)


def submit(
    plan: Plan,
    *,
    name: str | None = None,
    base: str | None = None,
    dirty: Literal["refuse", "ignore", "include"] | None = None,
    parallel: int | None = None,
    attended: bool = True,
    secrets: Sequence[str] = (),
    workspace: str | None = None,
    folder: str | None = None,
    key: str | None = None,
    idempotency_key: str | None = None,
) -> Request[d.Acted]:
    """Submits a plan: YAML or JSON as text, or a map.

    Should the answer be lost the same request is sent again, and makes no second task.  `key`: the same key returns the
    same task, for as long as it is kept, also to another call.  `workspace`: the id of one, instead of the repository
    that the plan names.  `folder`: of the plan, from which it names files, on the server's machine.  Raises BadPlan.
    """
    body, media_type = _plan(plan)
    query = {"name": name, "base": base, "dirty": dirty, "parallel": parallel, "key": key, "secret": tuple(secrets)}
    query |= {"workspace": workspace, "folder": folder, "attended": None if attended else False}
    where = path("tasks", query=query)
    return post_bytes(where, document, body, media_type, key=idempotency_key)


def tasks(
    *,
    open: bool = False,
    status: Sequence[str] = (),
    name: str | None = None,
    workspace: str | None = None,
    by: str | None = None,
    before: int | None = None,
    limit: int | None = None,
    children: bool = False,
) -> Pages[d.ListedTask]:
    """Tasks, newest first.  `before`: older than the task with this number in its handle.  `limit`: at most so many.
    `children`: with those that were made for steps of other tasks."""
    query = {"open": open or None, "status": tuple(status), "name": name, "workspace": workspace, "by": by}
    query |= {"children": children or None}
    first = get(path("tasks", query={**query, "limit": min(limit or PAGE, PAGE)}), document)
    return Pages(first, limit, None if before is None else str(before))


def task(task: str, *, steps: int | None = None) -> Request[d.TaskTree]:
    """Where a task stands: stages, steps, progress, what it waits for.  `steps`: at most so many of them."""
    return get(path("tasks", task, query={"steps": steps}), document)


def graph(task: str, *, steps: int | None = None) -> Request[d.Graph]:
    """What waits for what, with the steps that were added on the way."""
    return get(path("tasks", task, "graph", query={"steps": steps}), document)


def plan(task: str) -> Request[str]:
    """The plan as it was submitted."""
    return get(path("tasks", task, "plan"), text)


def why(task: str, step: str | None = None) -> Request[list[d.Reason]]:
    """What a task or a step waits for, since when, and the command that helps."""
    return get(path("tasks", task, "why", query={"step": step}), items)


def changes(task: str, step: str | None = None, *, since: str | None = None) -> Request[d.Changes]:
    """Which files the task, or one step, has changed.  `since`: only from this commit of the task on."""
    return get(path("tasks", task, "diff", query={"step": step, "since": since}), document)


def diff(task: str, step: str | None = None, *, since: str | None = None) -> Request[bytes]:
    """The same as a patch, byte for byte."""
    return get(path("tasks", task, "patch", query={"step": step, "since": since}), content)


def files(task: str, match: str = "**", *, at: str = "head") -> Pages[d.FileEntry]:
    """The files that a commit of the task holds, by path.  `match`: such as `docs/*.md`; `**` is any path.  `at`: head,
    base, or the full id of a commit of the task."""
    return Pages(get(path("tasks", task, "files", query={"match": match, "at": at, "limit": PAGE}), document))


def file(task: str, name: str, *, at: str = "head") -> Request[bytes]:
    """The bytes of one of them.  Raises NotFound, also for a link; Refused for one that is too large."""
    return get(path("tasks", task, "files", name, query={"at": at}), content)


def pause(task: str, *, now: bool = False) -> Request[d.Acted]:
    """Claims nothing new; what runs goes on to its end.  `now`: it is given back too."""
    return post(path("tasks", task, "pause"), document, {"now": now})


def resume(
    task: str, *, cost_usd: float | None = None, tokens: int | None = None, active_ms: int | None = None
) -> Request[d.Acted]:
    """Goes on with a paused task; a limit is raised to this."""
    return post(path("tasks", task, "resume"), document, _given(cost_usd=cost_usd, tokens=tokens, active_ms=active_ms))


def cancel(task: str, *, reason: str = "") -> Request[d.Acted]:
    """Cancels a task: running processes are stopped."""
    return post(path("tasks", task, "cancel"), document, {"reason": reason})


def trace(task: str, *, limit: int | None = None) -> Request[dict[str, Any]]:
    """Where a task's time has gone: its spans."""
    return get(path("tasks", task, "trace", query={"limit": limit}), document)


# --- steps --------------------------------------------------------------------------------------------------------


def steps(task: str) -> Pages[d.StepEntry]:
    """The steps, by key."""
    return Pages(get(path("tasks", task, "steps", query={"limit": PAGE}), document))


def step(task: str, step: str, *, values: bool = False, words: bool = False) -> Request[d.StepDetail]:
    """One step, and what it needs.  `values`: a result that is too large for a row is fetched too.  `words`: and what
    it is to do from its next attempt on, as `edit` takes it."""
    query = {"values": values or None, "words": words or None}
    return get(path("tasks", task, "steps", step, query=query), document)


def attempts(task: str, step: str) -> Pages[d.Attempt]:
    """Who made each attempt, and what it came to, oldest first."""
    return Pages(get(path("tasks", task, "steps", step, "attempts", query={"limit": PAGE}), document))


def output(task: str, step: str, attempt: int) -> Pages[d.OutputChunk]:
    """What an attempt has written so far; a gap in `n` means that the middle of a flood was left out."""
    where = path("tasks", task, "steps", step, "attempts", str(attempt), "output", query={"limit": PAGE})
    return Pages(get(where, document))


def turns(task: str, step: str) -> Pages[d.TurnEntry]:
    """The calls of an agent's newest run so far, the last of which may go on."""
    return Pages(get(path("tasks", task, "steps", step, "turns", query={"limit": PAGE}), document))


def retry(task: str, step: str) -> Request[d.Acted]:
    """Takes up a failed or cancelled step again, in place."""
    return post(path("tasks", task, "steps", step, "retry"), document)


def cancel_step(task: str, step: str) -> Request[d.Acted]:
    """Cancels one step; retry takes it up again."""
    return post(path("tasks", task, "steps", step, "cancel"), document)


def skip(task: str, step: str) -> Request[d.Acted]:
    """Goes on without a step."""
    return post(path("tasks", task, "steps", step, "skip"), document)


def add(
    task: str,
    steps: Sequence[Mapping[str, Any]] | None = None,
    *,
    stages: Sequence[Mapping[str, Any]] | None = None,
    defaults: Mapping[str, Any] | None = None,
    stage: str | None = None,
    before: str | None = None,
    after: str | None = None,
) -> Request[d.Grown]:
    """Adds steps, as a plan writes them, to a task that is under way.  `stages`: instead of `steps`; they become needs,
    and all enter one stage.  `before`: a step that is to wait for them; `after`: one that those without `needs` wait
    for.  Raises BadPlan, and then adds none."""
    body = _given(steps=steps, stages=stages, defaults=defaults, stage=stage, before=before, after=after)
    return post(path("tasks", task, "steps"), document, body)


def edit(task: str, step: str, words: Mapping[str, Any], *, retry: bool = False) -> Request[d.Acted]:
    """Says anew what a step does that has not completed and does not run.  `retry`: and takes it up again."""
    return post(path("tasks", task, "steps", step, "edit"), document, {"words": dict(words), "retry": retry})


def take(task: str, step: str, *, hours: float = 24.0) -> Request[d.Taken]:
    """Nobody else works on the step until the caller says that it is done, gives it back, or the time is over."""
    return post(path("tasks", task, "steps", step, "take"), document, {"hours": hours})


def give_back(task: str, step: str) -> Request[d.Acted]:
    """A step that was taken is a worker's again."""
    return post(path("tasks", task, "steps", step, "give-back"), document)


def done(
    task: str,
    step: str,
    *,
    outputs: Mapping[str, Any] | None = None,
    commit: str | None = None,
    attempt: int | None = None,
) -> Request[d.Acted]:
    """What the caller did by hand is the step's outcome.  `commit`: the change of the code, in the hub already as
    `refs/longtask/TASK/attempts/STEP.ATTEMPT`; `attempt`: of what `take` has answered."""
    body = _given(outputs=outputs, commit=commit, attempt=attempt)
    return post(path("tasks", task, "steps", step, "done"), document, body)


def foresee(task: str, step: str, act: Literal["fork", "retry", "edit", "reject"]) -> Request[d.Foreseen]:
    """What an act on a step would make stale; nothing is done."""
    return get(path("tasks", task, "steps", step, "foreseen", query={"act": act}), document)


def fork(
    task: str, step: str, *, key: str | None = None, paused: bool = False, idempotency_key: str | None = None
) -> Request[d.Forked]:
    """A new task that does the step again; what was done before it is taken over.

    `key`: the same key returns the same fork, for as long as it is kept, also to another call.  `paused`: nothing of it
    begins before it is resumed."""
    body = {"from": step} | ({"paused": True} if paused else {}) | ({} if key is None else {"key": key})
    return post(path("tasks", task, "fork"), document, body, key=idempotency_key)


# --- people -------------------------------------------------------------------------------------------------------


def approvals(*, mine: bool = True, limit: int = 100) -> Request[list[d.Approval]]:
    """What is asked, the longest waiting first.  `mine`: only what the caller may decide."""
    return get(path("approvals", query={"mine": None if mine else False, "limit": limit}), items)


def task_approvals(task: str, *, limit: int = 100) -> Request[list[d.Approval]]:
    """What a task asks."""
    return get(path("tasks", task, "approvals", query={"limit": limit}), items)


def approval(task: str, step: str) -> Request[d.Approval]:
    """What a step asks, as it was frozen.  Raises NotFound when it asks nothing."""
    return get(path("tasks", task, "steps", step, "approval"), document)


def decide(
    seen: d.Approval, answer: str, *, text: str = "", edited: Any = None, commit: str | None = None
) -> Request[d.Acted]:
    """Answers what was seen, with one of its `answers`.  A rejection takes a text.

    Raises problems.Changed if something else is asked meanwhile; Refused if somebody has answered.
    """
    body = {"answer": answer, "text": text, **_given(edited=edited, commit=commit)}
    where = path("tasks", seen["task"], "steps", seen["step"], "approval")
    return post(where, document, body, **{"If-Match": f'"{seen["version"]}"'})


def approve(seen: d.Approval, text: str = "") -> Request[d.Acted]:
    """Says yes to what was seen."""
    return decide(seen, "approve", text=text)


def reject(seen: d.Approval, text: str) -> Request[d.Acted]:
    """Says no, and what is wrong."""
    return decide(seen, "reject", text=text)


def signal(
    task: str, name: str, payload: Mapping[str, Any] | None = None, *, delivery: str | None = None
) -> Request[d.Signalled]:
    """Sends a named message to a task; it is kept if nothing waits yet.  `delivery`: the same id counts once."""
    return post(path("signals", name), document, _signal("task", task, payload, delivery))


def signal_workspace(
    workspace: str, name: str, payload: Mapping[str, Any] | None = None, *, delivery: str | None = None
) -> Request[d.Noticed]:
    """The same to all open tasks of a workspace."""
    return post(path("signals", name), document, _signal("workspace", workspace, payload, delivery))


# --- what was made, and the installation --------------------------------------------------------------------------


def artifacts(task: str, *, all: bool = False) -> Request[list[d.Artifact]]:
    """What a task has made.  `all`: also what attempts leave by the way."""
    return get(path("tasks", task, "artifacts", query={"all": all or None}), items)


def artifact(
    task: str, name: str, *, digest: str | None = None, first: int = 0, count: int | None = None
) -> Request[bytes]:
    """The bytes of an artifact, `count` of them from `first`; large ones: `download`."""
    headers = {}
    if first or count is not None:
        if first < 0 or (count is not None and count < 1):
            raise BadPlan(f"range of {count} bytes from {first}: first is 0 or more, count 1 or more")
        headers["Range"] = f"bytes={first}-{'' if count is None else first + count - 1}"
    return get(artifact_path(task, name, digest), content, **headers)


def artifact_path(task: str, name: str, digest: str | None) -> str:
    return path("tasks", task, "artifacts", name, query={"digest": digest})


def journal(task: str, *, after: int = 0, types: Sequence[str] = ()) -> Pages[d.CloudEvent]:
    """What has happened to a task until now, oldest first; to follow it: `events`.  `types`: only such."""
    query = {"limit": PAGE, "type": tuple(types)}
    return Pages(get(path("tasks", task, "events", query=query), document), start=str(after))


def workspaces() -> Request[list[d.Workspace]]:
    """The repositories that the installation knows."""
    return get(path("workspaces"), items)


def workspace(id: str) -> Request[d.Workspace]:
    """One of them.  Raises NotFound."""
    return get(path("workspaces", id), document)


def register_workspace(
    repository: str | None = None,
    *,
    url: str | None = None,
    host: str | None = None,
    machine: str | None = None,
    ignored: str = "",
) -> Request[d.Workspace]:
    """Registers a repository: a folder by its whole path, or a URL that the server fetches from.

    The folder lies on the server's machine, or on `host`; `machine`: 32 hex digits that tell that machine from others,
    `ignored`: what git ignores there beside the commits.  What is registered already stays as it is.
    """
    given = _given(repository=repository, url=url, host=host, machine=machine, ignored=ignored or None)
    return post(path("workspaces"), document, given)


def fleet() -> Request[d.Fleet]:
    """The workers, and the steps that wait for one."""
    return get(path("fleet"), document)


# --- who may do what, and who is told -----------------------------------------------------------------------------


def tokens() -> Request[list[d.TokenEntry]]:
    """All tokens, also those that are good no more; never their texts."""
    return get(path("tokens"), items)


def create_token(
    name: str,
    roles: Sequence[str],
    *,
    workspaces: Sequence[str] | None = None,
    expires_ms: int | None = MONTHS_MS,
) -> Request[d.MadeToken]:
    """Makes a token.  Its text is in this answer and nowhere else: should it be lost, revoke the token, and make
    another.  `workspaces` None: all.  `expires_ms`: from now; None: never."""
    body = {"name": name, "roles": list(roles), "expires_ms": expires_ms}
    return post(path("tokens"), document, body | _given(workspaces=None if workspaces is None else list(workspaces)))


def rotate_token(token: str, *, grace_ms: int = DAY_MS, expires_ms: int | None = MONTHS_MS) -> Request[d.MadeToken]:
    """Gives a token a new form; the old one is good for `grace_ms`.  `token`: its id, or a name that only one has."""
    return post(path("tokens", token, "rotate"), document, {"grace_ms": grace_ms, "expires_ms": expires_ms})


def revoke_token(token: str) -> Request[d.TokenEntry]:
    """Makes a token good no more, within seconds."""
    return post(path("tokens", token, "revoke"), document)


def audit(*, task: str | None = None, who: str | None = None, limit: int | None = None) -> Pages[d.AuditEntry]:
    """Who has changed what, from where, and what came of it, newest first.  `task`: its id."""
    first = get(path("audit", query={"task": task, "who": who, "limit": min(limit or PAGE, PAGE)}), document)
    return Pages(first, limit)


def webhooks() -> Pages[d.Webhook]:
    """Where events are sent, and how each endpoint is doing."""
    return Pages(get(path("webhooks", query={"limit": PAGE}), document))


def webhook(id: str) -> Request[d.Webhook]:
    """One of them.  Raises NotFound."""
    return get(path("webhooks", id), document)


def add_webhook(
    url: str, *, types: Sequence[str] = (), workspace: str | None = None, secret_env: str | None = None
) -> Request[d.NewWebhook]:
    """Has events sent to an address from now on.  Its secret is in this answer and nowhere else.

    `types`: patterns of event types; none: all.  `secret_env`: a variable of the server that holds the secret.
    """
    body = {"url": url, "types": list(types), **_given(workspace=workspace, secret_env=secret_env)}
    return post(path("webhooks"), document, body)


def remove_webhook(id: str) -> Request[d.Webhook]:
    """Sends nothing there any more; answers what it was.  Raises NotFound, also when an answer was lost before."""
    return Request("DELETE", path("webhooks", id), document)


def replay_webhook(id: str, since: int) -> Request[d.Webhook]:
    """Delivers anew what has happened since an instant (ms since 1970 UTC), under the same ids."""
    return post(path("webhooks", id, "replay"), document, {"since": since})


def enable_webhook(id: str) -> Request[d.Webhook]:
    """Goes on with one that was disabled, or that waits for its next try, at once."""
    return post(path("webhooks", id, "enable"), document)


def make_link(task: str, step: str, *, who: str | None = None, lasts_ms: int | None = None) -> Request[d.NewLink]:
    """Makes a single-use link that answers what the step asks now, without a token.  The address is in this answer and
    nowhere else.  `who`: in whose name it decides, if not the caller's.  `lasts_ms`: three days if None."""
    return post(path("tasks", task, "steps", step, "links"), document, _given(who=who, lasts_ms=lasts_ms))


def _plan(plan: Plan) -> tuple[bytes, str]:
    if isinstance(plan, Mapping):
        return json.dumps(plan).encode(), "application/json"
    return plan.encode() if isinstance(plan, str) else plan, "application/yaml"


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _signal(whose: str, id: str, payload: Mapping[str, Any] | None, delivery: str | None) -> dict[str, Any]:
    return {whose: id, "payload": dict(payload or {}), **_given(delivery=delivery)}
