"""The commits of one task as a git bundle, and back into a hub of another installation.

The bundle holds the task's base with its files, without its history, and all that the task has made upon it: so it is
as large as the work, not as large as the project, and needs nothing from where it goes.  Whoever reads it treats the
base as the beginning of history (git: shallow).  Its bytes depend on the commits alone, not on how the hub has packed
them.

References follow the journal here as everywhere: `take` brings objects only, `point` sets references when the task is
there.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from longtask.core.errors import NotFound, WorkspaceError
from longtask.core.model import JsonMap
from longtask.workspace import exchange, names
from longtask.workspace import hub as local
from longtask.workspace.git import GitFailed, Place, git, quoted, shown
from longtask.workspace.hub import Hub, Move
from longtask.workspace.remote import make_folder, remote_of
from longtask.workspace.repo import SERVE

BLOCK_BYTES = 1 << 20
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
ATTEMPT = re.compile(r"/attempts/[^/]+\.[1-9][0-9]{0,8}(-[1-9][0-9]{0,8})?")


def known(hub: Hub) -> dict[str, str]:
    """What another installation may know of the repository."""
    if hub.origin is not None:
        return {"url": hub.origin.url}
    return {"host": socket.gethostname(), **local.known(hub)}


def write(hub: Hub, task_id: str, base: str, head: str, target: Path) -> None:
    """The task's head and what its attempts have delivered.  Raises HubUnreachable, WorkspaceError."""
    exchange.need(hub, base, head, task_id=task_id)
    refs = local.read_refs(hub, f"{names.task_refs(task_id)}/attempts")
    refs[names.head_ref(task_id)] = head
    kind = git(hub.place, "rev-parse", "--show-object-format").line
    with _aside(hub.path.parent, kind, base) as place:
        assert place.git_dir is not None
        (place.git_dir / "objects" / "info" / "alternates").write_bytes(
            os.fsencode(quoted(hub.path / "objects") + "\n")
        )
        tips = "".join(f"{commit}\n" for commit in sorted({*refs.values(), base}))
        words = ["pack-objects", "--quiet", "--revs", "--threads=1", "--no-reuse-delta", "--no-reuse-object"]
        pack = git(place, *words, "--delta-base-offset", str(place.git_dir / "made"), stdin=tips.encode()).line
        with target.open("wb") as file:
            file.write(_head(kind, refs))
            with (place.git_dir / f"made-{pack}.pack").open("rb") as content:
                shutil.copyfileobj(content, file, BLOCK_BYTES)


def _head(kind: str, refs: Mapping[str, str]) -> bytes:
    """See gitformat-bundle(5)."""
    first = "# v2 git bundle\n" if kind == "sha1" else f"# v3 git bundle\n@object-format={kind}\n"
    return (first + "".join(f"{commit} {ref}\n" for ref, commit in sorted(refs.items())) + "\n").encode()


class Bundle:
    """One that was opened: all its objects are there and fit together.  Raises WorkspaceError where they do not."""

    def __init__(self, place: Place, kind: str, base: str, refs: Mapping[str, str]) -> None:
        self._place, self._kind, self._base, self._refs = place, kind, base, refs

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, file: Path, task_id: str, base: str, head: str) -> Iterator[Bundle]:
        """`folder`: where it is unpacked for the time.  Of its references those of the task are read, and no others."""
        if not COMMIT.fullmatch(base) or not COMMIT.fullmatch(head):
            raise WorkspaceError("the bundle's base and head are no ids of commits")
        kind = "sha256" if len(base) == 64 else "sha1"
        under = names.task_refs(task_id)
        with _aside(folder, kind, base) as place:
            words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"]
            try:
                git(place, *words, "--no-auto-maintenance", str(file), f"+{under}/*:{under}/*")
                refs = local.refs_in(place, under)
                git(place, "cat-file", "-e", f"{base}^{{tree}}")
            except GitFailed as error:
                raise WorkspaceError(f"the bundle cannot be unpacked: {error}") from error
            if refs.get(names.head_ref(task_id)) != head:
                raise WorkspaceError(f"the bundle has another head than {head[:12]}")
            odd = [ref for ref in refs if ref != names.head_ref(task_id) and not ATTEMPT.fullmatch(ref, len(under))]
            if odd:
                raise WorkspaceError(f"the bundle has a reference '{shown(odd[0])}', which is no attempt's")
            yield cls(place, kind, base, refs)

    def take(self, home: Path, workspace_id: str, about: JsonMap, shared: str | None) -> Hub:
        """Its objects into the hub of the workspace, which is made if need be; then the repository of `about` is one
        of another machine, from which nothing is ever fetched.  Raises WorkspaceError."""
        hub = _hub(home, workspace_id, about, shared, self._kind)
        words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"]
        words += ["--no-auto-maintenance", "--update-shallow", f"--upload-pack={SERVE}"]
        commits = sorted({*self._refs.values(), self._base})
        if exchange.missing(hub, commits):
            git(hub.place, *words, str(self._place.git_dir), *commits)
        return hub

    def point(self, hub: Hub, task_id: str, head: str) -> None:
        """Its references, here and in the hub that machines share; may be repeated.  Raises WorkspaceError."""
        moves = [Move(ref, commit) for ref, commit in sorted(self._refs.items()) if ref != names.head_ref(task_id)]
        local.move_refs(hub, moves)
        local.advance(hub, task_id, head)
        if hub.remote is not None:
            exchange.seed(hub, self._base)
            exchange.send(hub, "sending commits", *moves)
            exchange.move_head(hub, task_id, head)


@contextmanager
def _aside(folder: Path, kind: str, base: str) -> Iterator[Place]:
    """An empty repository in which history begins with `base`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".bundle.", dir=folder))
    try:
        git(Place(cwd=made), "init", "--quiet", "--bare", "--template=", f"--object-format={kind}", str(made))
        (made / "objects" / "info").mkdir(exist_ok=True)
        (made / "shallow").write_text(f"{base}\n")
        yield Place(git_dir=made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _hub(home: Path, workspace_id: str, about: JsonMap, shared: str | None, kind: str) -> Hub:
    if not local.WORKSPACE_ID.fullmatch(workspace_id):
        raise WorkspaceError(f"workspace '{shown(workspace_id)}' is no id of one")
    remote = remote_of(shared, workspace_id) if shared else None
    if remote is not None:
        make_folder(remote, kind)  # no machine of this fleet may have opened it yet
    try:
        return exchange.find(home, workspace_id, shared)
    except (NotFound, exchange.HubLacks):
        told = {**about, "host": about.get("host") or "?", "reach": "nowhere"}
        made = local.hub_of(home, workspace_id, told, remote)
        local.make_hub(made, kind, b"")
        return made
