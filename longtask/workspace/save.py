"""Saving: what lies in a worktree becomes a tree, a checkpoint, a commit, or the patch of what a command left behind.

What is saved is what lies in the files, whatever the attempt did with git: tracked or not, but not ignored.  They are
read through the hub and an index of our own, kept beside the worktree, so a save costs what changed, and the attempt's
repository is not even looked at.  One save at a time per worktree.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from longtask.core.errors import Refused, WorkspaceError
from longtask.workspace import names, unsaved
from longtask.workspace.exchange import send
from longtask.workspace.git import Answer, GitFailed, Place, git, locked, quoted, shown
from longtask.workspace.hub import Hub, Move, commit_tree, diff, diff_tree, move_refs, read_ref
from longtask.workspace.submodules import GITLINK, links, modules
from longtask.workspace.tree import Worktree, write_record

TRIES = 3  # files may vanish while they are read
NESTED_MAX = 16  # levels of repositories inside repositories
READ_MS_MAX = 600_000  # of one look at all files: ten minutes are for the slowest disk
PATCH_BYTES_MAX = 32 * 1024 * 1024  # of files whose patch is held in memory


def snapshot(hub: Hub, wt: Worktree, *, index: Path | None = None, objects: Path | None = None) -> str:
    """Write the files as a tree; no reference holds it yet.

    `index` and `objects`: a copy of our index, and a folder for what is written, when the hub shall not keep it.
    """
    _check_whole(wt)
    place = wt.place(hub, index)
    settings = {"core.excludesFile": str(wt.excludes)}
    env = {} if objects is None else _writing_to(hub, objects)
    with locked(wt.own_path / "lock") as hold:
        assert place.index is not None
        place.index.with_name(place.index.name + ".lock").unlink(missing_ok=True)
        tries = TRIES
        for _ in range(NESTED_MAX):
            added = _add(place, settings, env, hold)
            if added.code == 0:
                tree = git(place, "write-tree", env=env, hold=(hold,)).line
                inside = _committed_inside(hub, wt, tree, env)
                if not inside:
                    return tree
            else:
                inside = _uncommitted_inside(place, settings)
                tries -= not inside
            if not tries:
                break
            _enter(place, inside)
    raise GitFailed(("add",), str(wt.path), added.code, added.err)


def _check_whole(wt: Worktree) -> None:
    if wt.path.is_symlink():
        raise WorkspaceError(f"worktree '{shown(str(wt.path))}' was replaced by a link: it is not followed")
    if not wt.path.is_dir() or not any(wt.path.iterdir()):
        raise WorkspaceError(f"worktree '{shown(str(wt.path))}' is gone or was emptied: nothing of it is saved")


def _writing_to(hub: Hub, objects: Path) -> dict[str, str]:
    return {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(hub.path / "objects")}


def _add(place: Place, settings: Mapping[str, str], env: Mapping[str, str], hold: int) -> Answer:
    """All files as they are.  Submodules are told of by name: `git add` would run a `git status` in each, and with it
    what the attempt has written into its settings."""
    inside = [os.fsencode(path) + b"\0" for path in links(place, env)]
    if inside:
        words = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"]
        git(place, *words, stdin=b"".join(inside), env=env, hold=(hold,))
    apart = b"".join(b":(exclude,literal)" + path for path in inside)
    words = ["add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"]
    return git(
        place,
        *words,
        ok=(0, 1, 128),
        stdin=b":/\0" + apart,
        settings=settings,
        env=env,
        hold=(hold,),
        within_ms=READ_MS_MAX,
    )


# A repository inside the worktree (an agent cloned one, a test made one) would be saved as a mere link to a commit that
# only it holds: its files would be lost.  Git takes the folder for an ordinary one as soon as something in it is in the
# index, so a name that does not exist is put there; the next `add` drops it again.


def _enter(place: Place, inside: Sequence[str]) -> None:
    if not inside:
        return
    digits = len(git(place, "hash-object", "--stdin").line)
    lines: list[str] = []
    for path in inside:
        lines.append(f"0 {'0' * digits}\t{path}")
        lines.append(f"100644 {'1' * digits}\t{path}/.longtask-entered")
    git(place, "update-index", "-z", "--index-info", stdin=os.fsencode("\0".join(lines) + "\0"))


def _uncommitted_inside(place: Place, settings: Mapping[str, str]) -> list[str]:
    return [path.rstrip("/") for path in _untracked(place, settings) if path.endswith("/")]


def _untracked(place: Place, settings: Mapping[str, str]) -> list[str]:
    words = ("ls-files", "--others", "--exclude-standard", "-z")
    return git(place, *words, settings=settings, within_ms=READ_MS_MAX).names


def _committed_inside(hub: Hub, wt: Worktree, tree: str, env: Mapping[str, str]) -> list[str]:
    """Links that the base does not have and `.gitmodules` does not name."""
    if tree == wt.base_tree:
        return []
    changed = diff_tree(hub, "--raw", "-z", "--no-renames", wt.base_tree, tree, env=env).out.split(b"\0")
    found = [
        os.fsdecode(path)
        for line, path in zip(changed[::2], changed[1::2], strict=False)
        if line.split(b" ")[1] == GITLINK and line.split(b" ")[0] != b":" + GITLINK
    ]
    named = modules(hub.place, wt.path) if found else {}
    known = {path for name, path in named.items() if name.endswith(".path")}
    return [path for path in found if path not in known]


# What a set-up changes outside the plan's `cache` is in the files, and is nobody's work.  So what is saved is the tree
# that the attempt began with, and on it each path that differs from what the set-up had left: whole files, since a
# lock file that both have written is of one piece.


def own_tree(hub: Hub, wt: Worktree, tree: str, env: Mapping[str, str] | None = None) -> str:
    """`tree` without what only the set-up has changed."""
    if wt.ready_tree == wt.start_tree:
        return tree
    if tree == wt.ready_tree:
        return wt.start_tree
    fields = diff_tree(hub, "--raw", "-z", "--no-renames", wt.ready_tree, tree, env=env).out.split(b"\0")
    lines: list[bytes] = []
    for line, path in zip(fields[::2], fields[1::2], strict=False):
        _, mode, _, id, _ = line.split(b" ")
        lines.append(b"%b %b\t%b\0" % (mode.lstrip(b"0") or b"0", id, path))
    lines.sort(key=lambda line: not line.startswith(b"0 "))  # what goes makes room first
    with tempfile.TemporaryDirectory(prefix="own-", dir=wt.own_path) as folder:
        place = Place(git_dir=hub.path, index=Path(folder, "index"))
        git(place, "read-tree", wt.start_tree, env=env)
        git(place, "update-index", "--add", "--replace", "-z", "--index-info", stdin=b"".join(lines), env=env)
        return git(place, "write-tree", env=env).line


def begin(hub: Hub, wt: Worktree) -> Worktree:
    """After the set-up: from here on changes are the attempt's own.

    Of a run that goes on, what it has edited stands above what the set-up has written again.
    """
    tree = snapshot(hub, wt)
    inside = unsaved.inner_edits(hub, wt)
    if tree == wt.start_tree and inside == wt.inside:
        return wt
    if wt.start_tree != wt.base_tree:
        edited = set(_changed(hub, wt.base_tree, wt.start_tree)).intersection(_changed(hub, wt.start_tree, tree))
        if edited:
            _put_back(hub, wt, sorted(edited))
            tree = snapshot(hub, wt)
    ready = replace(wt, ready_tree=tree, inside=inside)
    write_record(ready)
    return ready


def _changed(hub: Hub, a: str, b: str) -> list[str]:
    return diff_tree(hub, "--name-only", "-z", "--no-renames", a, b).names


def _put_back(hub: Hub, wt: Worktree, paths: Sequence[str]) -> None:
    """These files become what they were when the worktree was made."""
    place = wt.place(hub)
    words = ("--source", wt.start_tree, "--worktree", "--staged", "--pathspec-from-file=-", "--pathspec-file-nul")
    listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
    with locked(wt.own_path / "lock") as hold:
        git(place, "restore", *words, stdin=listed, hold=(hold,), env={"GIT_LITERAL_PATHSPECS": "1"})


def checkpoint(hub: Hub, wt: Worktree) -> str:
    """Save the files as they are; returns the tree, pinned under the attempt's own reference.

    Each attempt pins its own, so one that lives on past its lease cannot let go of its follower's.
    """
    tree = own_tree(hub, wt, snapshot(hub, wt))
    pin(hub, wt, tree)
    return tree


def pin(hub: Hub, wt: Worktree, tree: str) -> None:
    ref = names.checkpoint_ref(wt.task_id, wt.step, wt.attempt)
    made = None
    if read_ref(hub, ref, "tree") != tree:
        made = commit_tree(hub, tree, (), f"Checkpoint of {wt.step}, attempt {wt.attempt}\n")
        move_refs(hub, [Move(ref, made)])
    if hub.remote is not None:  # perhaps again: an earlier call was not answered
        send(hub, "sending a checkpoint", Move(ref, made or read_ref(hub, ref)))


def commit(hub: Hub, wt: Worktree, message: str) -> str | None:
    """The attempt's work as one commit on its base, pinned on its own reference.  None: nothing was changed.

    In a conflict's worktree the commit has both sides as parents, always; it is refused while markers are left.
    Refused is, too, what it would not hold (`unsaved.py`).
    """
    if wt.merges:
        _check_markers(wt)
    tree = own_tree(hub, wt, snapshot(hub, wt))
    unsaved.check(hub, wt, tree)
    if tree == wt.base_tree and not wt.merges:
        return None
    parents = (wt.base, wt.merges) if wt.merges else (wt.base,)
    made = commit_tree(hub, tree, parents, message)
    move = Move(names.attempt_ref(wt.task_id, wt.step, wt.attempt), made)
    move_refs(hub, [move])
    send(hub, "sending a commit", move)
    return made


def _check_markers(wt: Worktree) -> None:
    """The markers of this merge carry its commits, so text that merely looks like markers is nobody's mistake."""
    marks = (f"<<<<<<< {wt.base}".encode(), f">>>>>>> {wt.merges}".encode())
    left: list[str] = []
    for name in wt.conflicts:
        path = wt.path / name
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            if any(line.startswith(marks) for line in file):
                left.append(name)
    if left:
        listed = ", ".join(f"'{shown(name)}'" for name in left)
        raise Refused(f"step {wt.step!r}: conflict markers are left in {listed}: resolve them, then deliver")


# What a command leaves behind


def leftovers(hub: Hub, wt: Worktree) -> list[str]:
    """Paths that differ from the base, new ones included, but not ignored ones, nor what only the set-up has changed.

    Writes nothing into the hub.
    """
    _check_whole(wt)
    place = wt.place(hub)
    settings = {"core.excludesFile": str(wt.excludes)}
    with locked(wt.own_path / "lock") as hold:
        git(place, "update-index", "--refresh", "-q", ok=(0, 1), hold=(hold,), within_ms=READ_MS_MAX)
        words = ("--name-only", "-z", "--no-renames", "--ignore-submodules=dirty")
        changed = git(place, "diff-index", *words, wt.ready_tree).names
        new = _untracked(place, settings)
    if wt.start_tree != wt.base_tree:  # and what earlier attempts of the run have changed
        changed += _changed(hub, wt.base_tree, wt.start_tree)
    return sorted({*changed, *new})


def standing(hub: Hub, wt: Worktree, paths: Sequence[str]) -> list[str]:
    """Those of the paths that are files of the base."""
    there = set(git(hub.place, "ls-tree", "-r", "-z", "--name-only", wt.base_tree).names)
    return [path for path in paths if path in there]


def leftover_patch(hub: Hub, wt: Worktree, bytes_max: int = PATCH_BYTES_MAX) -> bytes | None:
    """What leads from the base to the files as they are.  None: the files have more than `bytes_max`.

    Its objects are thrown away again: what no commit takes must not make the hub grow.
    """
    size = 0
    for name in leftovers(hub, wt):
        path = wt.path / name
        size += sum(_size(inner) for inner in path.rglob("*")) if name.endswith("/") else _size(path)
        if size > bytes_max:
            return None
    with tempfile.TemporaryDirectory(prefix="leftovers-", dir=wt.own_path) as folder:
        index, objects = Path(folder, "index"), Path(folder, "objects")
        objects.mkdir()
        shutil.copy2(wt.index, index)
        tree = snapshot(hub, wt, index=index, objects=objects)
        tree = own_tree(hub, wt, tree, _writing_to(hub, objects))
        return diff(hub, wt.base_tree, tree, borrow=objects)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
