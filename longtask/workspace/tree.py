"""Worktrees: the folder in which one attempt works, made, found again and removed.

A worktree is a small repository of its own that borrows the hub's objects, not a linked worktree of the hub: linked
ones share stashes, branches and settings (one agent's `git stash pop` takes the edits of another, one `git worktree
prune` forgets them all), and a kill in the middle leaves entries in the shared place.  Here whatever happens to the
folder, its `.git` included, touches nobody else.

    trees/<task>/<step>.<attempt>        the files
    trees/<task>/<step>.<attempt>.tmp    its TMPDIR
    trees/<task>/<step>.<attempt>.own    our index, our lock, and the record, written last: no record, half made
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from longtask.core.errors import Refused, WorkspaceError
from longtask.workspace import names
from longtask.workspace.exchange import need
from longtask.workspace.git import EMAIL, NAME, Place, git, quoted, shown
from longtask.workspace.hub import Hub, advance, tree_of, write_if_new
from longtask.workspace.submodules import name_places


@dataclass(frozen=True, slots=True)
class Worktree:
    """One attempt's folder.  Paths are absolute.

    `merges`: the commit that is being joined to `base`, if this is the worktree of a conflict; `conflicts` are its
    paths.  `aside`: paths that are never saved (the plan's `cache`).  `apart`: those that keep a checkpoint's files
    from being moved upon the head (`merge.moved`).  `start_tree`: the files as they were put there;
    `ready_tree`: as the set-up has left them, which is where the attempt's own changes begin; `inside`: paths that it
    has changed inside submodules.
    """

    task_id: str
    step: str
    attempt: int
    path: Path
    base: str
    base_tree: str
    merges: str | None = None
    conflicts: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    start_tree: str = ""
    ready_tree: str = ""
    apart: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()

    @property
    def tmp_path(self) -> Path:
        return self.path.with_name(self.path.name + ".tmp")

    @property
    def own_path(self) -> Path:
        return self.path.with_name(self.path.name + ".own")

    @property
    def excludes(self) -> Path:
        return self.own_path / "exclude"

    @property
    def index(self) -> Path:
        return self.own_path / "index"

    @property
    def record(self) -> Path:
        return self.own_path / "worktree.json"

    def environment(self) -> dict[str, str]:
        """For what runs in it.  Git must not look above it: should `.git` get lost, it would find somebody else's."""
        return {"TMPDIR": str(self.tmp_path), "GIT_CEILING_DIRECTORIES": str(self.path.parent)}

    def place(self, hub: Hub, index: Path | None = None) -> Place:
        """Its files as the hub sees them, past the attempt's own repository."""
        return Place(git_dir=hub.path, work_tree=self.path, index=index or self.index)


@dataclass(frozen=True, slots=True)
class Joined:
    """A merge to be done by hand: what a conflict's worktree starts from (`merge.py`)."""

    commit: str
    tree: str
    paths: tuple[str, ...]
    stages: bytes  # as `git update-index --index-info -z` takes them


# Making


def task_folder(home: Path, task_id: str) -> Path:
    return home / names.TREES / names.safe_task(task_id)


def checkout(
    hub: Hub,
    task_id: str,
    step: str,
    attempt: int,
    base: str,
    *,
    tree: str | None = None,
    aside: Sequence[str] = (),
    joined: Joined | None = None,
    keep_existing: bool = False,
    apart: Sequence[str] = (),
) -> Worktree:
    """A fresh worktree at `base`, or with the files of `tree` (a checkpoint) and their difference to `base` as changes.

    What an earlier call left in the place is replaced; with `keep_existing` it is kept if it is whole and at `base`.
    """
    path = task_folder(hub.home, task_id) / names.attempt_name(step, attempt)
    if keep_existing:
        found = read_worktree(path)
        if found is not None and found.base == base and found.path.is_dir():
            return found
    if need(hub, base, *([tree] if tree else []), task_id=task_id, tags=True):
        advance(hub, task_id, base)  # holds on to it, and the next fetch need not bring it again
    base_tree = tree_of(hub, base)
    start_tree = tree or (joined.tree if joined else base_tree)
    wt = Worktree(
        *(task_id, step, attempt, path, base, base_tree),
        merges=joined.commit if joined else None,
        conflicts=joined.paths if joined else (),
        aside=tuple(inner_path(name) for name in aside),
        start_tree=start_tree,
        ready_tree=start_tree,
        apart=tuple(apart),
    )
    remove(hub.home, path)
    for folder in (wt.own_path, wt.tmp_path, wt.path):
        folder.mkdir(mode=0o700, parents=True)
    excludes = hub.excludes.read_bytes() + b"".join(map(_pattern, wt.aside))
    wt.excludes.write_bytes(excludes)
    _make_repository(hub, wt, excludes)
    if _ignores_case(wt):
        _check_case(hub, wt, start_tree)
    _fill(hub, wt, start_tree)
    name_places(hub, wt.path)
    if joined:
        _mark_merging(wt, joined)
    write_record(wt)
    return wt


def inner_path(name: str) -> str:
    """A path below the worktree, checked: it may neither leave it nor be git's own."""
    path = os.path.normpath(name)
    first = path.split(os.sep, 1)[0]
    if os.path.isabs(path) or first in ("..", ".", "") or first.lower() == ".git" or "\n" in path:
        raise Refused(f"path '{shown(name)}' must lie below the top of the repository")
    return path


def _pattern(name: str) -> bytes:
    """An ignore pattern for just this path."""
    escaped = "".join("\\" + c if c in "\\*?[]!# " else c for c in name)
    return os.fsencode(f"/{escaped}\n")


def _make_repository(hub: Hub, wt: Worktree, excludes: bytes) -> None:
    object_format = "sha256" if len(wt.base) == 64 else "sha1"
    git(Place(cwd=wt.path), "init", "--quiet", "--template=", f"--object-format={object_format}", ".")
    own = wt.path / ".git"
    settings = (
        f"[user]\n\tname = {NAME}\n\temail = {EMAIL}\n"
        "[commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    )
    with (own / "config").open("a") as file:
        file.write(settings)
    (own / "info").mkdir(exist_ok=True)
    (own / "info" / "exclude").write_bytes(excludes)
    (own / "objects" / "info" / "alternates").write_bytes(os.fsencode(quoted(hub.path / "objects") + "\n"))
    tags = git(hub.place, "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags").out
    (own / "packed-refs").write_bytes(tags)
    (own / "HEAD").write_text(f"{wt.base}\n")
    if (hub.path / "shallow").exists():
        shutil.copyfile(hub.path / "shallow", own / "shallow")


def _ignores_case(wt: Worktree) -> bool:
    """Git has tried it out when it made the repository."""
    return "ignorecase = true" in (wt.path / ".git" / "config").read_text()


def _check_case(hub: Hub, wt: Worktree, tree: str) -> None:
    """One of two files would stand over the other, and what is saved would be one of them twice, or once."""
    seen: dict[str, str] = {}
    for path in git(hub.place, "ls-tree", "-r", "-z", "--name-only", tree).names:
        other = seen.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
        if other != path:
            raise WorkspaceError(
                f"files '{shown(other)}' and '{shown(path)}' differ in case alone, which the file system of "
                f"'{shown(str(wt.path.parent))}' ignores: have LONGTASK_HOME on one that does not, or rename one"
            )


def _fill(hub: Hub, wt: Worktree, tree: str) -> None:
    """Write the files; then the attempt's own index starts as a copy of ours, at the base."""
    git(wt.place(hub), "read-tree", "--reset", "-u", tree)
    # With its time: git looks again at files that are as young as the index, and the copy is younger than it looks.
    shutil.copy2(wt.index, wt.path / ".git" / "index")
    if tree != wt.base_tree:
        theirs = Place(git_dir=wt.path / ".git", work_tree=wt.path)
        git(theirs, "read-tree", "--reset", wt.base_tree)
        git(theirs, "update-index", "--refresh", "-q", ok=(0, 1))


def _mark_merging(wt: Worktree, joined: Joined) -> None:
    """`git status` in the worktree shall say what there is to do."""
    theirs = Place(git_dir=wt.path / ".git", work_tree=wt.path)
    git(theirs, "update-index", "-z", "--index-info", stdin=joined.stages)
    (wt.path / ".git" / "MERGE_HEAD").write_text(f"{joined.commit}\n")
    (wt.path / ".git" / "MERGE_MSG").write_text(f"Merge {joined.commit} into {wt.base}\n")


def write_record(wt: Worktree) -> None:
    known = {field.name: getattr(wt, field.name) for field in fields(wt) if field.name != "path"}
    write_if_new(wt.record, json.dumps(known).encode())


def read_worktree(path: Path) -> Worktree | None:
    """The worktree that another process made; None: there is none, or it is half made."""
    try:
        known = json.loads(path.with_name(path.name + ".own").joinpath("worktree.json").read_bytes())
        for field in ("conflicts", "aside", "apart", "inside"):
            known[field] = tuple(known.get(field, ()))  # records of older versions lack some
        known.setdefault("start_tree", known["base_tree"])
        known.setdefault("ready_tree", known["start_tree"])
        return Worktree(path=path, **known)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise WorkspaceError(f"record of worktree '{shown(str(path))}' is damaged: {error}") from None


def worktrees(home: Path, task_id: str) -> list[Path]:
    """The places of a task's worktrees, half-made ones included."""
    try:
        parts = list(task_folder(home, task_id).iterdir())
    except (FileNotFoundError, NotADirectoryError):  # who cleans up may take it away at any moment
        return []
    return sorted({part.with_name(part.name.removesuffix(".own").removesuffix(".tmp")) for part in parts})


# Removing


def remove(home: Path, path: Path) -> bool:
    """Take a worktree away with all that is beside it.  False: something could not be deleted and lies in the trash.

    Moving it out of the way first means that a kill leaves a worktree or none, never half of one.
    """
    trees = home / names.TREES
    if path.parent.parent != trees:
        raise WorkspaceError(f"'{shown(str(path))}' is not a worktree of ours: not removed")
    trash = trees / ".trash"
    gone = True
    for ending in (".own", "", ".tmp"):  # the record first: without it the rest counts as half made
        part = path.with_name(path.name + ending)
        if not os.path.lexists(part):
            continue
        trash.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = trash / secrets.token_hex(
            8
        )  # made by the move itself: whoever empties the trash takes empty places too
        try:
            part.rename(place)
        except FileNotFoundError:
            if os.path.lexists(part):
                raise
            continue  # somebody else has removed it just now
        gone &= delete(place)
    return gone


def delete(folder: Path) -> bool:
    """Delete a folder whatever the modes inside (package caches make theirs read-only), or a file.  False: not all."""
    if folder.is_file() or folder.is_symlink():
        folder.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return True
    for inner, _, _ in os.walk(folder):
        try:
            os.chmod(inner, 0o700)
        except OSError:
            continue
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
