"""Repositories elsewhere: who may have the server fetch from which URL.

A server fetches with the credentials of the user it runs as, from inside its network; so whoever names a URL borrows
both.  The user of this machine, who calls without a token, may name any.  Everybody else names what is registered, and
only an administrator of the whole server registers; then the host must be public, or on LONGTASK_ALLOW_PRIVATE, each
time that it is asked (`workspace/origin.py` keeps it to the addresses that were looked at here).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from longtask.api.access.caller import Caller
from longtask.api.problems import Problem
from longtask.api.server import Server
from longtask.config import ALLOW_PRIVATE
from longtask.core.errors import BadPlan, HubUnreachable, NotFound, Refused
from longtask.steps.posting import AddressRefused, Allowed, PostError, reachable
from longtask.workspace import origin
from longtask.workspace.hub import known_ids
from longtask.workspace.workspace import Workspace

FETCHES_MAX = 4  # at once: each may take as long as a repository is large, and keeps a thread of the routes
_FETCHES = BoundedSemaphore(FETCHES_MAX)


def at_home(caller: Caller) -> bool:
    """The user of this machine, who can read its files anyway."""
    return caller.token is None


def register(server: Server, caller: Caller, url: str) -> Workspace:
    """Raises BadPlan, NotFound, HubUnreachable, Problem."""
    config, trusted = server.parts.config, at_home(caller)
    addresses = () if trusted else _addresses(server, origin.check(url))
    with _fetching():
        workspace = Workspace.of(config.home, url, config.hub, trusted=trusted, pinned=addresses)
        workspace.base(pinned=addresses)
    return workspace


def found(server: Server, caller: Caller, url: str) -> Workspace:
    """The workspace of a URL that a plan names.  Raises BadPlan, NotFound."""
    config, url = server.parts.config, origin.check(url)
    if at_home(caller):
        with _fetching():
            return Workspace.of(config.home, url, config.hub, trusted=True)
    id = origin.origin_id(url)
    if caller.sees(id) and id in known_ids(config.home):  # here: for what others have registered they fetch
        return Workspace.at(config.home, id, config.hub)
    raise NotFound(
        f"repo {url!r} is no workspace here: an administrator registers it, with: longtask workspace add {url}"
    )


def base_of(server: Server, workspace: Workspace, ref: str | None) -> str:
    """What a branch, a tag or a commit is there, fetched.  Raises NotFound, HubUnreachable, Problem."""
    where = workspace.hub.origin
    assert where is not None
    if where.reach == "nowhere":
        raise Refused(
            f"repo {where.url!r}: another machine has registered it; register it with this server too, or name a base "
            "that was pushed to the hub"
        )
    addresses = () if where.reach == "anywhere" else _addresses(server, where.url)
    with _fetching():
        return workspace.base(ref, pinned=addresses).commit


def _addresses(server: Server, url: str) -> tuple[str, ...]:
    """At which a host may be asked.  Raises BadPlan, HubUnreachable."""
    scheme, host, port = origin.where(url)
    if scheme == "file":
        raise BadPlan(f"repo {url!r}: a folder of the server's machine is named there, without a token")
    allowed = Allowed.read(server.parts.config.allow_private, ALLOW_PRIVATE)
    try:
        return tuple(map(str, reachable(host, port, scheme != "http", allowed)))
    except AddressRefused as error:
        raise BadPlan(f"repo {url!r}: {error}") from None
    except PostError as error:
        raise HubUnreachable(f"repo {url!r}: {error}") from None


@contextmanager
def _fetching() -> Iterator[None]:
    if not _FETCHES.acquire(blocking=False):
        told = f"{FETCHES_MAX} repositories are being fetched, and no more at once; try again"
        raise Problem(503, "busy", "the server is busy", told, headers={"Retry-After": "2"})
    try:
        yield
    finally:
        _FETCHES.release()
