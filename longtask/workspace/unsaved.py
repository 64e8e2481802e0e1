"""What a commit would not hold, or not as it should, though it lies in a worktree: it is refused, never lost silently.

- Files that a filter program would have changed on their way in (`filters.py`).
- What was done inside a submodule.  A commit names a commit of it, so edits there are in no commit of ours, and a new
  commit must be on a branch of the submodule's own remote, or nobody could ever fetch it.  `ignore` of a submodule in
  .gitmodules says what does not count: `untracked` files, or, with `dirty` and `all`, edits either.

A submodule's repository was written by the attempt, so it is only read, through a repository of ours.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from longtask.core.errors import Refused
from longtask.workspace import filters
from longtask.workspace.dirty import counted, listed
from longtask.workspace.git import NO_PROTOCOL, GitFailed, Place, git, quoted, shown
from longtask.workspace.hub import Hub, diff_tree
from longtask.workspace.submodules import GITLINK, links, modules
from longtask.workspace.tree import Worktree

FILES = (b"100644", b"100755")
DEPTH_MAX = 8  # of submodules in submodules
LOOK_MS_MAX = 600_000


def check(hub: Hub, wt: Worktree, tree: str) -> None:
    """Refuse to deliver `tree`, which the worktree's files were saved as, if it does not hold them all."""
    fields = diff_tree(hub, "--raw", "-z", "--no-renames", wt.base_tree, tree).out.split(b"\0")
    changed: list[tuple[bytes, str, str]] = []  # mode, id and path of what is new
    for line, path in zip(fields[::2], fields[1::2], strict=False):
        _, mode, _, id, _ = line.split(b" ")
        changed.append((mode, id.decode(), os.fsdecode(path)))
    _check_filters(hub, wt, {path: id for mode, id, path in changed if mode in FILES})
    _check_links(hub, wt, {path: id for mode, id, path in changed if mode == GITLINK})
    inside = [path for path in inner_edits(hub, wt) if path not in wt.inside]
    if inside:
        raise Refused(
            f"step {wt.step!r}: {counted(inside)} inside a submodule, which a commit of this repository does not hold: "
            "take them back, or commit and push them there first (what need not be kept: `ignore` in .gitmodules)"
        )


# Filters


def _check_filters(hub: Hub, wt: Worktree, new: Mapping[str, str]) -> None:
    """`new`: blobs by path."""
    found = filters.drivers(wt.place(hub), new)
    if not found:
        return
    known = {id for commit in (wt.base, wt.merges) if commit for id in _ids(hub, commit)}
    bad = [path for path, name in found.items() if new[path] not in known and not _is_pointer(hub, name, new[path])]
    if bad:
        names = ", ".join(repr(shown(name)) for name in sorted({found[path] for path in bad}))
        raise Refused(
            f"step {wt.step!r}: {listed(bad)} would go through filter {names} (.gitattributes), a program that is "
            "never run here, so a commit would hold what is not meant to be in it: leave such files as they were"
        )


def _ids(hub: Hub, commit: str) -> Iterator[str]:
    """Of all files, and of the commits of submodules."""
    for entry in git(hub.place, "ls-tree", "-r", "-z", commit).out.split(b"\0"):
        if entry:
            yield entry.split(b"\t", 1)[0].split(b" ")[2].decode()


def _is_pointer(hub: Hub, driver: str, blob: str) -> bool:
    if driver != filters.LFS or int(git(hub.place, "cat-file", "-s", blob).line) > filters.POINTER_BYTES_MAX:
        return False
    return filters.is_pointer(git(hub.place, "cat-file", "blob", blob).out)


# Submodules


def inner_edits(hub: Hub, wt: Worktree) -> tuple[str, ...]:
    """Paths of files that were changed inside submodules, as the last save has found these."""
    ignored = {f"{path}/": word for path, word in _ignore_words(hub, wt).items()}
    return tuple(path for path, new in _edits(hub, wt.place(hub), wt.path, "", 0) if not _ignores(ignored, path, new))


def _ignores(ignored: Mapping[str, str], path: str, new: bool) -> bool:
    words = {word for folder, word in ignored.items() if path.startswith(folder)}
    return bool(words & {"all", "dirty"} or (new and "untracked" in words))


def _ignore_words(hub: Hub, wt: Worktree) -> dict[str, str]:
    settings = modules(hub.place, wt.path)
    paths = {name.removesuffix(".path"): value for name, value in settings.items() if name.endswith(".path")}
    return {path: settings.get(f"{name}.ignore", "none") for name, path in paths.items()}


def _edits(hub: Hub, place: Place, folder: Path, below: str, depth: int) -> Iterator[tuple[str, bool]]:
    """(path, whether git does not know it yet) of what was changed in the submodules of a repository.

    They are looked at from the hub, with a copy of their own index: their settings are not even read.
    """
    for name, commit in links(place).items() if depth < DEPTH_MAX else ():
        inner, path = folder / name, f"{below}{name}"
        if inner.is_symlink() or not inner.is_dir():
            continue
        if not os.path.lexists(inner / ".git"):  # never filled: whatever lies there is new
            yield from ((f"{path}/{entry}", True) for entry in sorted(os.listdir(inner)))
            continue
        with tempfile.TemporaryDirectory(prefix="longtask-") as made:
            there = Place(git_dir=hub.path, work_tree=inner, index=Path(made, "index"))
            try:
                objects = _borrowed(inner, Path(made, "index"))
                git(there, "update-index", "--refresh", "-q", ok=(0, 1), env=objects, within_ms=LOOK_MS_MAX)
                words = ["diff-index", "--name-only", "-z", "--no-renames", "--ignore-submodules=all"]
                known = git(there, *words, commit, env=objects).names
                words = ["ls-files", "--others", "--exclude-standard", "-z"]
                new = git(there, *words, env=objects, within_ms=LOOK_MS_MAX).names
            except (GitFailed, OSError) as error:
                said = error.said if isinstance(error, GitFailed) else str(error)
                raise Refused(f"submodule '{shown(path)}' cannot be read ({said}): take it back as it was") from error
            yield from ((f"{path}/{edited}", False) for edited in known)
            yield from ((f"{path}/{added}", True) for added in new)
            yield from _edits(hub, there, inner, f"{path}/", depth + 1)


def _borrowed(inner: Path, index: Path) -> dict[str, str]:
    """Copies the index of a submodule; the environment in which its objects are found."""
    words = ("--path-format=absolute", "--git-path", "index", "--git-path", "objects")
    found = git(Place(git_dir=inner / ".git", cwd=inner), "rev-parse", *words, env=NO_PROTOCOL).line.split("\n")
    shutil.copy2(found[0], index)
    return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(Path(found[1]))}


def _check_links(hub: Hub, wt: Worktree, moved: Mapping[str, str]) -> None:
    """`moved`: commits of submodules that the base does not name there."""
    delivered = set(_ids(hub, wt.merges)) if moved and wt.merges else ()
    for path, commit in moved.items():
        inner = wt.path / path
        if commit in delivered or inner.is_symlink() or not os.path.lexists(inner / ".git"):
            continue
        there = Place(git_dir=inner / ".git", work_tree=inner)
        words = ("--count=1", "--contains", commit, "refs/remotes", "refs/tags")
        found = git(there, "for-each-ref", *words, ok=(0, 128, 129), env=NO_PROTOCOL)
        if found.code or not found.out:
            raise Refused(
                f"step {wt.step!r}: submodule '{shown(path)}' is at commit {commit[:12]}, which is on no branch of its "
                "remote: push it there first, or take the submodule back to where it was"
            )
