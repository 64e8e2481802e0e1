"""Names of ours that are safe everywhere: as part of a ref, as a folder, on a command line, in a URL.

A step's key may hold `[3]~2` and dots, and a caller's key anything at all.  Two keys never get one name, not even on a
file system that ignores case.  Letters, digits, `_` and single inner dots stay; any other byte becomes `-` and two hex
digits; a very long name keeps its beginning and gets a digest behind `--`, which no other name holds.
"""

from __future__ import annotations

import hashlib
import re

LENGTH_MAX = 100  # bytes: leaves room for an attempt number and endings below the 255 of most file systems

TREES = "trees"
HUBS = "hubs"
CACHES = "caches"

REFS = "refs/longtask"

_TASK = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ODD = re.compile(rb"[^a-z0-9_.]|\A\.|\.(?=\.|lock\Z|\Z)")  # git refuses `..`, and `.` or `.lock` at an end


def safe(key: str) -> str:
    assert key, "a name is needed"
    raw = key.encode("utf-8", "surrogatepass")
    name = _ODD.sub(lambda found: b"-%02x" % found[0][0], raw).decode("ascii")
    if len(name) <= LENGTH_MAX:
        return name
    digest = hashlib.sha256(raw).hexdigest()[:32]
    return f"{name[: LENGTH_MAX - 34]}--{digest}"


def safe_task(task_id: str) -> str:
    """Task ids are UUIDs, which are safe as they are."""
    return task_id if _TASK.fullmatch(task_id) else safe(task_id)


def attempt_name(step: str, attempt: int) -> str:
    return f"{safe(step)}.{attempt}"


def task_refs(task_id: str) -> str:
    return f"{REFS}/{safe_task(task_id)}"


def head_ref(task_id: str) -> str:
    return f"{task_refs(task_id)}/head"


def attempt_ref(task_id: str, step: str, attempt: int) -> str:
    return f"{task_refs(task_id)}/attempts/{attempt_name(step, attempt)}"


def resolved_ref(task_id: str, step: str, attempt: int, ask: int) -> str:
    """What a person has named as the answer to a merge conflict; the attempt's own stays what it has delivered."""
    return f"{attempt_ref(task_id, step, attempt)}-{ask}"


def checkpoint_ref(task_id: str, step: str, attempt: int) -> str:
    return f"{task_refs(task_id)}/checkpoints/{attempt_name(step, attempt)}"


def base_ref(commit: str) -> str:
    """Pins what was taken from the user's repository; belongs to no task, since several start from one commit."""
    return f"refs/bases/{commit}"


# In the hub that machines share, where one repository may serve several workspaces, or be the project's own.

SHARED_BASES = f"{REFS}/bases"


def shared_base_ref(commit: str) -> str:
    return f"{SHARED_BASES}/{commit}"


def merge_ref(commit: str) -> str:
    """Pins what joins this commit of an attempt to a head, until the task's head holds it."""
    return f"{REFS}/merges/{commit}"


def record_ref(workspace_id: str) -> str:
    """A commit with what a machine must know of a workspace that another has begun."""
    return f"{REFS}/workspaces/{workspace_id}/record"


def tags_ref(workspace_id: str) -> str:
    return f"{REFS}/workspaces/{workspace_id}/tags"
