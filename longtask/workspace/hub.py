"""The hub: a bare repository of ours per workspace, with every commit, checkpoint and reference that tasks have made.

Only this package writes to it.  Attempts work in repositories of their own that borrow its objects (`tree.py`), so
their stashes, branches and settings reach neither the hub nor each other.  Nothing in it runs by itself: no hooks, no
collection of garbage but by `compact`.

References move after the journal, and by compare-and-set.  All of them are written under one lock file, so a `*.lock`
of git's found under it was left by a killed process and is taken away.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from longtask.core.errors import NotFound, Refused, WorkspaceError
from longtask.workspace import names
from longtask.workspace.git import Answer, GitFailed, Place, git, locked, quoted, shown
from longtask.workspace.remote import Remote

GARBAGE_KEPT = "2.weeks.ago"  # an object that no reference holds may still be named by a journal about to be written
DIFF_BYTES_MAX = 100_000_000  # a diff is held in memory as text, and nobody reads a larger one

_STALE_LOCK = re.compile(r"Unable to create '(?P<path>[^\n]+\.lock)': File exists")
WORKSPACE_ID = re.compile(r"[0-9a-f]{16}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Origin:
    """`url`: as `origin.check` has let it pass.  `reach`: where it may lead.  Anywhere: the user of this machine has
    named it.  To public addresses: somebody who may call a server has.  Nowhere: it is known from the hub that machines
    share, to which many may write; another machine fetches from it."""

    url: str
    reach: Literal["anywhere", "public", "nowhere"]


@dataclass(frozen=True, slots=True)
class Hub:
    """`repository` is the shared git folder of the user's repository, `folder` the place that was last opened in it.

    `remote`: the hub that machines share (`exchange.py`); then this one is a machine's cache of it.  `host`: the
    machine on which those folders lie; None: this one.  `origin`: the repository lies elsewhere, and is fetched from
    (`origin.py`); then both folders are the hub's own.
    """

    home: Path
    id: str
    repository: Path
    folder: Path
    remote: Remote | None = None
    host: str | None = None
    origin: Origin | None = None

    @property
    def path(self) -> Path:
        return hub_path(self.home, self.id)

    @property
    def excludes(self) -> Path:
        return self.path / "info" / "exclude"

    @property
    def place(self) -> Place:
        return Place(git_dir=self.path)


@dataclass(frozen=True, slots=True)
class Move:
    """One reference to be moved.  `new` None deletes it; `old` None does not compare, `""` means: must not exist."""

    ref: str
    new: str | None
    old: str | None = None


@dataclass(frozen=True, slots=True)
class FileStat:
    path: str
    insertions: int
    deletions: int
    binary: bool = False


@dataclass(frozen=True, slots=True)
class Stat:
    files: tuple[FileStat, ...]

    @property
    def insertions(self) -> int:
        return sum(file.insertions for file in self.files)

    @property
    def deletions(self) -> int:
        return sum(file.deletions for file in self.files)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


def hub_id(repository: Path, machine: str = "") -> str:
    """The same for every clone folder, worktree and symbolic link that leads to one repository.

    `machine`: where several share a hub, two repositories at one path of two machines are two.
    """
    return id_of(Path(os.path.realpath(repository)), machine)


def id_of(path: Path, machine: str = "") -> str:
    """The same of a path that leads nowhere on this machine."""
    name = os.fsencode(path)
    return hashlib.sha256(machine.encode() + b"\0" + name if machine else name).hexdigest()[:16]


def hub_path(home: Path, workspace_id: str) -> Path:
    return home / names.HUBS / f"{workspace_id}.git"


def machine_id(home: Path) -> str:
    """Of our own making, and for ever: host names come again in every fleet of containers."""
    path = home / "machine"
    if not path.exists():
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, made = tempfile.mkstemp(prefix=".machine.", dir=home)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(16))
        with contextlib.suppress(FileExistsError):  # another process was quicker
            os.link(made, path)
        os.unlink(made)
    return path.read_text()


def make_hub(hub: Hub, object_format: str, excludes: bytes) -> None:
    """Find or make it; two processes may do so at once.  `excludes`: what the user ignores beside the commits."""
    hub.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not hub.path.is_dir():
        made = Path(tempfile.mkdtemp(prefix=f".{hub.id}.", dir=hub.path.parent))
        git(Place(cwd=made), "init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(made))
        with (made / "config").open("a") as file:  # for whoever uses git there by hand; our own calls say it each time
            file.write("[core]\n\thooksPath = /dev/null\n\tlogAllRefUpdates = false\n[gc]\n\tauto = 0\n")
        try:
            made.rename(hub.path)
        except OSError:  # another process was quicker
            shutil.rmtree(made, ignore_errors=True)
            if not hub.path.is_dir():
                raise
    write_if_new(hub.excludes, excludes)
    write_if_new(hub.path / "longtask.json", json.dumps(known(hub)).encode())  # last: with it, it can be found


def known(hub: Hub) -> dict[str, str]:
    """What another process of this machine must know to find it."""
    if hub.origin is not None:
        return {"url": hub.origin.url, "reach": hub.origin.reach}
    places = {"repository": str(hub.repository), "folder": str(hub.folder)}
    return places | ({"host": hub.host} if hub.host else {})


def hub_of(home: Path, workspace_id: str, known: Mapping[str, Any], remote: Remote | None = None) -> Hub:
    """Raises KeyError."""
    if known.get("url"):
        here = hub_path(home, workspace_id)
        return Hub(home, workspace_id, here, here, remote, origin=Origin(known["url"], known["reach"]))
    places = (Path(known["repository"]), Path(known["folder"]))
    return Hub(home, workspace_id, *places, remote, known.get("host"))


def find_hub(home: Path, workspace_id: str, remote: Remote | None = None) -> Hub:
    """The hub that another process of this machine made.  Raises NotFound."""
    path = hub_path(home, workspace_id)
    try:
        return hub_of(home, workspace_id, json.loads((path / "longtask.json").read_bytes()), remote)
    except FileNotFoundError:
        found = f"no hub at '{shown(str(path))}'; open its repository first"
        raise NotFound(f"workspace {workspace_id!r}: {found}") from None
    except (ValueError, KeyError) as error:
        raise WorkspaceError(f"hub '{shown(str(path))}' is damaged: {error}; open its repository again") from None


def known_ids(home: Path) -> list[str]:
    """Of the hubs that can be found, in their order."""
    found = (path.parent.stem for path in (home / names.HUBS).glob("*.git/longtask.json"))
    return sorted(id for id in found if WORKSPACE_ID.fullmatch(id))


def write_if_new(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all, and only if it differs."""
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(made, path)


# References


def move_refs(hub: Hub, moves: Sequence[Move]) -> None:
    """Move all or none.  Raises GitFailed, also when an `old` is not what was found."""
    if not moves:
        return
    lines: list[str] = []
    for move in moves:
        if move.new is None:
            lines.append(f"delete {move.ref}\0{move.old or ''}\0")
        elif move.old == "":
            lines.append(f"create {move.ref}\0{move.new}\0")
        else:
            lines.append(f"update {move.ref}\0{move.new}\0{move.old or ''}\0")
    text = "".join(lines).encode()
    with locked(hub.path / "longtask.lock") as hold:
        for _ in range(2 * len(moves) + 2):  # a reference has its own lock and that of the packed ones
            try:
                git(hub.place, "update-ref", "--stdin", "-z", stdin=text, hold=(hold,))
                return
            except GitFailed as error:
                failed = error
                if not take_stale_lock(hub, error):
                    break
        raise failed


def take_stale_lock(hub: Hub, error: GitFailed) -> bool:
    """Take away the `*.lock` that made a command fail.  Only under the hub's lock, and only inside the hub."""
    found = _STALE_LOCK.search(error.said)
    if not found:
        return False
    lock = Path(found["path"])
    lock = lock if lock.is_absolute() else hub.path / lock
    if not lock.is_relative_to(hub.path):
        return False
    lock.unlink(missing_ok=True)
    return True


def read_refs(hub: Hub, under: str) -> dict[str, str]:
    """References and their commits, below `under`."""
    return refs_in(hub.place, under)


def refs_in(place: Place, under: str) -> dict[str, str]:
    """The same of any repository."""
    out = git(place, "for-each-ref", "--format=%(objectname) %(refname)", under).out.decode()
    return {ref: commit for commit, ref in (line.split(" ", 1) for line in out.splitlines())}


def read_ref(hub: Hub, ref: str, kind: str = "commit") -> str | None:
    """The id of its commit, or of that commit's tree."""
    done = git(hub.place, "rev-parse", "--verify", "--quiet", f"{ref}^{{{kind}}}", ok=(0, 1, 128))
    return done.line if done.code == 0 else None


def advance(hub: Hub, task_id: str, head: str, expected: str | None = None) -> bool:
    """Move the task's head reference.  False: it is not at `expected` (compare-and-set).

    Without `expected` it never goes back: a head that is contained in the present one was overtaken and changes
    nothing, so calls may be repeated, and may come late.
    """
    ref = names.head_ref(task_id)
    while True:
        now = read_ref(hub, ref) or ""
        if expected is not None and now != expected:
            return False
        if now == head or (expected is None and now and contains(hub, now, head)):
            return True
        try:
            move_refs(hub, [Move(ref, head, now)])
            return True
        except GitFailed:
            if (read_ref(hub, ref) or "") == now:  # it did not fail because somebody else was quicker
                raise


# Objects


def commit_tree(hub: Hub, tree: str, parents: Iterable[str], message: str, at: str | None = None) -> str:
    """Make a commit object; no reference holds it yet.  `at`: seconds since 1970; with it, repeating gives one id."""
    flags = [word for parent in parents for word in ("-p", parent)]
    dates = {"GIT_AUTHOR_DATE": f"{at} +0000", "GIT_COMMITTER_DATE": f"{at} +0000"} if at is not None else {}
    text = message.replace("\0", "").encode("utf-8", "replace") or b"(no message)"
    return git(hub.place, "commit-tree", tree, *flags, stdin=text, env=dates).line


def contains(hub: Hub, commit: str, ancestor: str) -> bool:
    if commit == ancestor:
        return True
    return git(hub.place, "merge-base", "--is-ancestor", _id(ancestor), _id(commit), ok=(0, 1)).code == 0


def related(hub: Hub, a: str, b: str) -> bool:
    """They have an ancestor in common."""
    return git(hub.place, "merge-base", _id(a), _id(b), ok=(0, 1)).code == 0


def has_commit(hub: Hub, commit: str) -> bool:
    return git(hub.place, "cat-file", "-e", f"{_id(commit)}^{{commit}}", ok=(0, 1, 128)).code == 0


def tree_of(hub: Hub, commit: str) -> str:
    return git(hub.place, "rev-parse", "--verify", f"{_id(commit)}^{{tree}}").line


def read_file(hub: Hub, commit: str, path: str) -> bytes:
    """The file as stored (a symbolic link: where it points to).  Raises NotFound."""
    if path.startswith(("./", "../")):
        raise NotFound(f"file '{shown(path)}': give the path from the top of the repository")
    done = git(hub.place, "cat-file", "blob", f"{_id(commit)}:{path}", ok=(0, 128))
    if done.code:
        raise NotFound(f"file '{shown(path)}' is not in commit {commit[:12]}")
    return done.out


def diff(hub: Hub, a: str, b: str, borrow: Path | None = None) -> bytes:
    """What leads from `a` to `b`, binary files included, as `git apply` takes it.  Both are commits or trees.

    `borrow`: a folder with objects that are not in the hub.  Raises Refused: the files have too many bytes for it.
    """
    env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(borrow)} if borrow else {}
    size = _bytes_between(hub, a, b, env)
    if size > DIFF_BYTES_MAX:
        raise Refused(
            f"diff {a[:12]}..{b[:12]}: the files that differ have {size:,} bytes, more than {DIFF_BYTES_MAX:,}: "
            "look at them one by one, with git on the task's branch"
        )
    words = ("-p", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "-M")
    return diff_tree(hub, *words, _id(a), _id(b), env=env).out


def _bytes_between(hub: Hub, a: str, b: str, env: Mapping[str, str]) -> int:
    """Of all files that differ, before and after."""
    lines = diff_tree(hub, "--raw", "-z", "--no-renames", "--no-abbrev", _id(a), _id(b), env=env).out.split(b"\0")[::2]
    blobs = {id for line in lines if line for id in line.split(b" ")[2:4] if id.strip(b"0")}
    sizes = git(
        hub.place, "cat-file", "--batch-check=%(objectsize)", stdin=b"\n".join(sorted(blobs)) + b"\n", env=env
    ).out.split(b"\n")
    return sum(int(size) for size in sizes if size.isdigit())  # a submodule's commit is missing, and has none


def stat(hub: Hub, a: str, b: str) -> Stat:
    """What `diff` holds, counted.  A renamed file stands under its new path; a binary one counts no lines."""
    fields = diff_tree(hub, "--numstat", "-z", "-M", _id(a), _id(b)).out.split(b"\0")
    files: list[FileStat] = []
    at = 0
    while at < len(fields) - 1:
        inserted, deleted, path = fields[at].split(b"\t", 2)
        if not path:  # a rename: old and new path follow
            path = fields[at + 2]
            at += 2
        at += 1
        binary = inserted == b"-"
        counts = (0, 0) if binary else (int(inserted), int(deleted))
        files.append(FileStat(os.fsdecode(path), *counts, binary))
    return Stat(tuple(files))


def diff_tree(hub: Hub, *words: str, env: Mapping[str, str] | None = None) -> Answer:
    return git(hub.place, "diff-tree", "-r", *words, env=env)


def compact(hub: Hub) -> None:
    """Pack what lies about loose.  Slow on a big hub; for an idle hour."""
    git(hub.place, "gc", "--quiet", f"--prune={GARBAGE_KEPT}")


def _id(name: str) -> str:
    if not _COMMIT.fullmatch(name):
        raise NotFound(f"{shown(name)!r} is not the full id of a commit")
    return name
