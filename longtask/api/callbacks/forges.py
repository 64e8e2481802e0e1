"""Events of GitHub and GitLab: whether they are theirs, and what they say about a commit.

All of it becomes the signal `ci.completed` with the same fields, whoever tells it:

    sha          the commit that was looked at; what a `wait` matches
    conclusion   success, failure, cancelled or skipped; `said` is the forge's own word
    source, kind github: check_run, check_suite, workflow_run; gitlab: pipeline, job
    name, url, repository, branch, id, attempt   where they are known

One commit is told about many times: a wait that wants one of them says so (`match: {sha: …, kind: workflow_run,
name: build}`).  Only an end counts: what begins, waits or runs is heard and passed over.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtask.core.model import Json

SIGNAL = "ci.completed"
TEXT_MAX = 400
SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
DELIVERY = re.compile(r"[\x21-\x7e]{1,200}")

GITHUB_EVENTS = ("check_run", "check_suite", "workflow_run")
GITHUB_SAYS = {  # docs.github.com, "check runs": conclusion
    "success": "success",
    "neutral": "success",  # it keeps nothing from being merged
    "skipped": "skipped",
    "failure": "failure",
    "timed_out": "failure",
    "startup_failure": "failure",
    "action_required": "failure",
    "cancelled": "cancelled",
    "stale": "cancelled",  # GitHub itself gave it up
}
GITLAB_SAYS = {"success": "success", "failed": "failure", "canceled": "cancelled", "skipped": "skipped"}


@dataclass(frozen=True, slots=True)
class Completed:
    """The payload of the signal."""

    payload: dict[str, Json]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Heard, and nothing is made of it."""

    why: str


Heard = Completed | PassedOver


# --- whose it is --------------------------------------------------------------------------------------------------


def signed_by_github(secrets: Sequence[str], body: bytes, header: str) -> bool:
    """`X-Hub-Signature-256`: over the body as it came, before anybody has parsed it."""
    right = [f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}" for secret in secrets]
    return _any_same(right, header)


def told_by_gitlab(tokens: Sequence[str], header: str) -> bool:
    """`X-Gitlab-Token`: the token itself."""
    return _any_same(tokens, header)


def signed_by_gitlab(secrets: Sequence[str], body: bytes, headers: Mapping[str, str]) -> bool:
    """GitLab's signing token: the headers of Standard Webhooks, with their time."""
    from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook, WebhookVerificationError

    found = {name: headers.get(name, "") for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
    for secret in secrets:
        try:
            Webhook(secret).verify(body, found, json_parse=False)
        except (WebhookVerificationError, EmptyWebhookSecretError, ValueError, RuntimeError, OverflowError):
            continue  # also for what is no signature at all
        return True
    return False


def _any_same(right: Sequence[str], given: str) -> bool:
    """In constant time, whichever of them fits."""
    fits = False
    for one in right:
        fits |= hmac.compare_digest(one.encode(), given.encode("utf-8", "replace"))
    return fits


# --- what it says -------------------------------------------------------------------------------------------------


def parsed(body: bytes) -> dict[str, Any] | None:
    """None: it is no JSON object."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def of_github(event: str, value: Mapping[str, Any]) -> Heard:
    if event not in GITHUB_EVENTS:
        return PassedOver(f"event {_text(event)!r} is none of {', '.join(GITHUB_EVENTS)}")
    if value.get("action") != "completed":
        return PassedOver(f"action {_text(value.get('action'))!r} is no end")
    about = _map(value.get(event))
    suite = _map(about.get("check_suite")) if event == "check_run" else about
    app = _map(about.get("app"))
    return _completed(
        GITHUB_SAYS,
        about.get("head_sha"),
        about.get("conclusion"),
        source="github",
        kind=event,
        name=about.get("name") or app.get("slug"),
        url=about.get("html_url") or about.get("details_url"),
        repository=_map(value.get("repository")).get("full_name"),
        branch=suite.get("head_branch"),
        id=about.get("id"),
        attempt=about.get("run_attempt"),
    )


def of_gitlab(value: Mapping[str, Any]) -> Heard:
    project = _map(value.get("project"))
    match value.get("object_kind"):
        case "pipeline":
            about = _map(value.get("object_attributes"))
            web = project.get("web_url")
            return _completed(
                GITLAB_SAYS,
                about.get("sha"),
                about.get("status"),
                source="gitlab",
                kind="pipeline",
                name=about.get("name"),
                url=about.get("url") or (f"{web}/-/pipelines/{about.get('id')}" if isinstance(web, str) else None),
                repository=project.get("path_with_namespace"),
                branch=about.get("ref"),
                id=about.get("id"),
            )
        case "build":  # what a job is called there
            return _completed(
                GITLAB_SAYS,
                value.get("sha"),
                value.get("build_status"),
                source="gitlab",
                kind="job",
                name=value.get("build_name"),
                url=_map(value.get("repository")).get("homepage"),
                repository=project.get("path_with_namespace") or value.get("project_name"),
                branch=value.get("ref"),
                id=value.get("build_id"),
                pipeline=value.get("pipeline_id"),
            )
    return PassedOver(f"event {_text(value.get('object_kind'))!r} is neither a pipeline nor a job")


def _completed(says: Mapping[str, str], sha: Json, said: Json, **more: Json) -> Heard:
    if not isinstance(said, str) or said not in says:
        return PassedOver(f"status {_text(said)!r} is no end")
    if not isinstance(sha, str) or not SHA.fullmatch(sha):
        return PassedOver("it names no commit")
    known = {key: _text(value) if isinstance(value, str) else value for key, value in more.items()}
    kept = {key: value for key, value in known.items() if isinstance(value, str | int) and value != ""}
    return Completed({"sha": sha, "conclusion": says[said], "said": said, **kept})


def _map(value: Json) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    """As any database can keep it."""
    return str(value)[:TEXT_MAX].encode("utf-8", "replace").decode().replace("\0", "?")
