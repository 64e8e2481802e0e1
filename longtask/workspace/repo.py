"""The user's repository: where a task's base comes from.

It is read, never changed (`publish.py` adds one branch): index, files, settings, stash and HEAD stay as they are, and
no program that its settings name is run.  What counts as dirty is what the user's own git would list (`dirty.py`).
"""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from longtask.core.errors import NotFound, Refused, WorkspaceError
from longtask.workspace import names, origin
from longtask.workspace.dirty import DirtyTree, counted, include, users_file
from longtask.workspace.dirty import changes as changes_of
from longtask.workspace.exchange import seed, send
from longtask.workspace.git import GitFailed, Place, git, locked, shown
from longtask.workspace.hub import (
    Hub,
    Move,
    Origin,
    find_hub,
    hub_id,
    hub_path,
    id_of,
    machine_id,
    make_hub,
    move_refs,
    read_ref,
    take_stale_lock,
)
from longtask.workspace.remote import remote_of

Dirty = Literal["refuse", "ignore", "include"]

# Since CVE-2024-32004 (2.39.4) the serving side checks the owner too, and settings of ours do not reach it otherwise.
SERVE = "git -c safe.directory='*' upload-pack"


@dataclass(frozen=True, slots=True)
class Base:
    """Where a task starts.  `branch` None: detached, or not named by a branch.  `note`: what the user should know."""

    commit: str
    branch: str | None
    note: str = ""


def open_repository(home: Path, folder: Path, setting: str | None = None) -> Hub:
    """Find the repository around `folder` and its hub.  `setting`: LONGTASK_HUB.  Raises WorkspaceError."""
    place = Place(cwd=folder)
    words = ("--show-object-format", "--path-format=absolute", "--git-common-dir")
    found = git(place, "rev-parse", *words, ok=(0, 128))
    if found.code:
        mend = ": run `git init` there" if "not a git repository" in found.err else ""
        said = " ".join(found.err.split())
        raise WorkspaceError(f"'{shown(str(folder))}' is in no git repository that can be read ({said}){mend}")
    top = git(place, "rev-parse", "--path-format=absolute", "--show-toplevel", ok=(0, 128))
    object_format, _, shared = found.line.partition("\n")
    repository = Path(os.path.realpath(shared))
    folder = Path(top.line) if top.code == 0 else repository
    if folder != repository and not os.path.lexists(folder / ".git"):
        raise WorkspaceError(
            f"repository '{shown(str(repository))}' has its files in '{shown(str(folder))}' (core.worktree), where no "
            f"`.git` leads back to it: write `gitdir: {shown(str(repository))}` into a file '.git' there"
        )
    id = hub_id(repository, machine_id(home) if setting else "")
    hub = Hub(home, id, repository, folder, remote_of(setting, id) if setting else None)
    make_hub(hub, object_format, excludes(repository))
    return hub


def git_folder(folder: Path) -> Path | None:
    """The shared git folder of the repository around it.  None: there is none."""
    if not folder.is_dir():
        return None
    found = git(Place(cwd=folder), "rev-parse", "--path-format=absolute", "--git-common-dir", ok=(0, 128))
    return None if found.code else Path(os.path.realpath(found.line))


def remotes(hub: Hub) -> list[str]:
    """URLs of the repositories that the user's own exchanges commits with."""
    found = git(Place(git_dir=hub.repository), "config", "-z", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1))
    return [entry.partition("\n")[2] for entry in found.names]


def excludes(repository: Path) -> bytes:
    """The user's own ignored files, which stand in no commit; a worktree would commit `.idea` and the like."""
    sources = [users_file(repository, "core.excludesFile", "ignore"), repository / "info" / "exclude"]
    parts: list[bytes] = []
    for source in sources:
        try:
            parts.append(source.read_bytes().rstrip(b"\n") + b"\n")
        except OSError:
            continue
    return b"".join(parts)


# The base


def open_elsewhere(home: Path, repository: Path, host: str, machine: str, setting: str, ignored: bytes) -> Hub:
    """The hub of a repository that lies on another machine, named as that machine itself would name it."""
    id = id_of(repository, machine)
    remote = remote_of(setting, id)
    with contextlib.suppress(NotFound):
        return find_hub(home, id, remote)
    folder = repository.parent if repository.name == ".git" else repository
    hub = Hub(home, id, repository, folder, remote, host)
    make_hub(hub, "sha1", ignored)
    return hub


def open_origin(home: Path, url: str, trusted: bool, setting: str | None = None, pinned: Sequence[str] = ()) -> Hub:
    """The hub of a repository that is named by a URL, which must answer when it is named first.  What was trusted once
    stays so.  `pinned`: see `take_base`.  Raises BadPlan, NotFound, HubUnreachable."""
    url = origin.check(url)
    id = origin.origin_id(url)
    here, remote = hub_path(home, id), remote_of(setting, id) if setting else None
    object_format = "sha1"
    try:
        found = find_hub(home, id, remote).origin
        trusted = trusted or (found is not None and found.reach == "anywhere")
    except NotFound:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        commit = origin.look(Origin(url, "anywhere" if trusted else "public"), home, pinned)
        object_format = "sha256" if len(commit) == 64 else "sha1"
    hub = Hub(home, id, here, here, remote, origin=Origin(url, "anywhere" if trusted else "public"))
    make_hub(hub, object_format, b"")
    return hub


def take_base(hub: Hub, ref: str | None, dirty: Dirty, aside: Iterable[Path] = (), pinned: Sequence[str] = ()) -> Base:
    """Resolve to a commit and bring it into the hub, and into the one that machines share.

    `aside`: files that do not count as dirty and are not included, such as the plan itself.  A `ref` that is not what
    is checked out leaves nothing to decide: the working tree belongs to another commit, and the note says so.
    `pinned`: the addresses at which an origin is asked that may not lead anywhere.
    """
    if hub.origin is not None:
        found = Base(*origin.take_base(hub, _plain(ref) if ref is not None else None, pinned))
    else:
        found = _take_base(hub, ref, dirty, aside)
    seed(hub, found.commit)
    return found


def _take_base(hub: Hub, ref: str | None, dirty: Dirty, aside: Iterable[Path]) -> Base:
    head = _resolve(hub, "HEAD")
    commit = head if ref is None else _resolve(hub, ref)
    if commit is None and ref is not None:
        raise _unknown(hub, ref)
    branch = _branch(hub, ref)
    if commit is None:
        return _first_commit(hub, branch, dirty, aside)
    changes = changes_of(hub, aside)
    if changes.all and commit == head and dirty == "refuse":
        raise DirtyTree(hub.folder, changes.all)
    if changes.all and commit != head and dirty == "include":
        raise Refused(
            f"base {ref!r} is not what is checked out in '{shown(str(hub.folder))}': "
            "check it out first, or leave out --dirty include"
        )
    _fetch(hub, commit)
    if not changes.all:
        return Base(commit, branch)
    if commit != head:
        return Base(commit, branch, f"{counted(changes.all)} not committed; the base is {ref!r}, without them")
    if dirty == "ignore":
        return Base(commit, branch, f"{counted(changes.all)} not committed and not part of the base")
    made = include(hub, commit, changes)
    if made is None:
        return Base(commit, branch, changes.left_out)
    return Base(made, branch, f"includes {counted(changes.paths)} not committed{changes.left_out}")


def look_up(hub: Hub, name: str, folder: Path | None = None) -> str:
    """A person's commit, which is brought into the hub: `name` in `folder` (a worktree), or the user's repository."""
    if folder is None and hub.host is not None:
        raise Refused(f"commit {name!r}: the repository is on host {hub.host!r}: say it there, or name a folder here")
    source = folder or hub.folder
    found = git(Place(cwd=source), "rev-parse", "--verify", "--quiet", f"{_plain(name)}^{{commit}}", ok=(0, 1, 128))
    if found.code:
        raise NotFound(f"commit {name!r}: no such commit in '{shown(str(source))}'")
    commit = found.line
    _fetch(hub, commit, source)
    return commit


def adopt(hub: Hub, ref: str, commit: str) -> None:
    """It is what `ref` of an attempt holds, here and in the hub that machines share."""
    move = Move(ref, commit)
    move_refs(hub, [move])
    send(hub, "sending a commit", move)


def _resolve(hub: Hub, name: str) -> str | None:
    done = git(Place(cwd=hub.folder), "rev-parse", "--verify", "--quiet", f"{_plain(name)}^{{commit}}", ok=(0, 1, 128))
    return done.line if done.code == 0 else None


def _plain(name: str) -> str:
    if not name or name.startswith("-") or "\0" in name:
        raise NotFound(f"base {shown(name)!r} cannot be the name of a commit")
    return name


def _branch(hub: Hub, name: str | None) -> str | None:
    words = ("symbolic-ref", "HEAD") if name is None else ("rev-parse", "--symbolic-full-name", "--verify", name)
    done = git(Place(cwd=hub.folder), words[0], "--quiet", *words[1:], ok=(0, 1, 128))
    return done.line.removeprefix("refs/heads/") if done.line.startswith("refs/heads/") else None


def _unknown(hub: Hub, name: str) -> NotFound:
    kinds = ("refs/heads", "refs/tags", "refs/remotes")
    listed = git(Place(cwd=hub.folder), "for-each-ref", "--format=%(refname:short)", *kinds)
    near = difflib.get_close_matches(name, os.fsdecode(listed.out).splitlines(), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return NotFound(f"base {shown(name)!r}: no such branch, tag or commit in '{shown(str(hub.folder))}'{hint}")


def _fetch(hub: Hub, commit: str, source: Path | None = None) -> None:
    """Bring a commit, its history and the tags on it into the hub, and pin it."""
    pin = names.base_ref(commit)
    if read_ref(hub, pin):
        return
    words = ["fetch", "--quiet", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance"]
    words += ["--update-shallow", f"--upload-pack={SERVE}", str(source or hub.repository), f"+{commit}:{pin}"]
    for _ in range(4):
        try:
            git(hub.place, *words)
            return
        except GitFailed as error:
            failed = error
            with locked(hub.path / "longtask.lock"):
                if not take_stale_lock(hub, error):
                    break
    if git(Place(cwd=hub.folder), "config", "--get-regexp", r"^remote\..*\.promisor$", ok=(0, 1)).code == 0:
        raise WorkspaceError(
            f"repository '{shown(str(hub.repository))}' is a partial clone and lacks some of its objects: "
            "make a full clone (`git clone` without --filter) and work there"
        ) from failed
    raise failed


# The working tree


def _first_commit(hub: Hub, branch: str | None, dirty: Dirty, aside: Iterable[Path]) -> Base:
    if dirty != "include":
        raise Refused(
            f"repository '{shown(str(hub.folder))}' has no commit yet: make a first one "
            "(`git add -A && git commit`), or choose --dirty include to start from the files as they are"
        )
    changes = changes_of(hub, aside)
    made = include(hub, None, changes)
    if made is None:
        raise Refused(f"repository '{shown(str(hub.folder))}' has neither a commit nor a file to start from: add one")
    return Base(made, branch, f"no commit yet: starts from {counted(changes.paths)}{changes.left_out}")
