"""What a machine gives to the shared hub and takes from it.  Without one (`hub.remote` None) nothing is done here.

Each machine has a bare repository of its own per workspace, in which all work is done: a cache, which may be deleted
when nothing runs there.

- Sent before it counts: an attempt's commit before its delivery, a checkpoint before its row, a merge before the
  journal names it.  An attempt's references are written by its own machine alone, so they are simply set; a task's
  head is moved by compare-and-set, after the journal.
- Taken when it is needed: exactly the commits and trees that are not here, by their ids.  Servers that hand out tips of
  references only are asked for those of the task.
- A pack appears here whole or not at all, and a server takes a push whole or not at all, so a kill leaves nothing that
  looks complete and is not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from longtask.core.errors import HubUnreachable, NotFound
from longtask.workspace import hub as local
from longtask.workspace import names
from longtask.workspace.git import Place, git
from longtask.workspace.hub import Hub, Move
from longtask.workspace.remote import RECEIVE, SETTING, UPLOAD, Remote, call, make_folder, remote_of, trouble

BATCH_REFS_MAX = 200  # in one push or fetch: a command line has room for as many
TRIES = 5  # of a reference that others move at the same time
PACKS_MAX = 50  # each fetch brings one; then they are joined
LOCK_OLD_S = 600  # a lock on a shared disk is held for milliseconds: whoever made this one is gone
LOCK_EVERY_S = 0.05  # between two tries while somebody holds one

_REJECTED = re.compile(r"^!\t[^\t]*:(?P<ref>\S+)\t(?P<why>.*)$", re.MULTILINE)
_RACE = re.compile(r"stale info|failed to update ref|cannot lock ref|incorrect old value|reference already exists")
_LOCK = re.compile(r"Unable to create '(?P<path>[^']+\.lock)': File exists")


class HubLacks(HubUnreachable):
    """It answers, and does not have what the journal names."""


# Where a workspace begins, on each machine


def find(home: Path, workspace_id: str, setting: str | None) -> Hub:
    """The workspace as this machine has it; with a shared hub, also one that only other machines have opened.

    Raises NotFound, HubUnreachable.
    """
    if not setting:
        return local.find_hub(home, workspace_id)
    remote = remote_of(setting, workspace_id)
    try:
        return local.find_hub(home, workspace_id, remote)
    except NotFound:
        return _join(home, workspace_id, remote)


def _join(home: Path, workspace_id: str, remote: Remote) -> Hub:
    """Make this machine's cache of a workspace that another machine has begun."""
    ref = names.record_ref(workspace_id)
    hubs = home / names.HUBS
    hubs.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = _listed(remote, Place(cwd=hubs), ref).get(ref)
    if found is None:
        raise HubLacks(
            f"hub '{remote.shown}': workspace {workspace_id!r} is not there; "
            f"see that {SETTING} is the same on every machine, on that which submitted the task above all"
        )
    known, excludes = _read_record(hubs, remote, ref, found)
    # Whoever may push there may have written it: it names neither a folder of this machine nor what this one fetches.
    hub = local.hub_of(home, workspace_id, {**known, "host": known["host"] or "?", "reach": "nowhere"}, remote)
    local.make_hub(hub, "sha256" if len(found) == 64 else "sha1", excludes)
    _take(hub, f"+{ref}:{ref}")
    return hub


def _read_record(hubs: Path, remote: Remote, ref: str, commit: str) -> tuple[dict[str, str], bytes]:
    folder = Path(tempfile.mkdtemp(prefix=".joining.", dir=hubs))
    try:
        kind = "sha256" if len(commit) == 64 else "sha1"
        git(Place(cwd=folder), "init", "--quiet", "--bare", "--template=", f"--object-format={kind}", str(folder))
        place = Place(git_dir=folder)
        call(remote, place, "reading the workspace", *_fetch_words(remote), f"+{ref}:{ref}")
        read = [git(place, "cat-file", "blob", f"{ref}:{name}").out for name in ("workspace.json", "exclude")]
        return json.loads(read[0]), read[1]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tags(workspace_id: str) -> str:
    return f"+{names.tags_ref(workspace_id)}/*:refs/tags/*"


def seed(hub: Hub, commit: str) -> None:
    """Give the shared hub the base of a task, and what another machine needs to begin with it."""
    if hub.remote is None:
        return
    make_folder(hub.remote, "sha256" if len(commit) == 64 else "sha1")
    base_ref = names.shared_base_ref(commit)
    found = listed(hub, base_ref, names.record_ref(hub.id))
    if found.get(base_ref) != commit:
        _push(hub, "sending the base", [f"+{commit}:{base_ref}"])
        if local.read_refs(hub, "refs/tags"):
            _push(hub, "sending the tags", [f"+refs/tags/*:{names.tags_ref(hub.id)}/*"])
    # On its own and last: with it, others can begin; and git loses a reference that is sent along with a shallow one.
    _announce(hub, found)


def announce(hub: Hub) -> None:
    """Let other machines find the workspace in the shared hub, if there is one.  Raises HubUnreachable."""
    if hub.remote is not None:
        make_folder(hub.remote, git(hub.place, "rev-parse", "--show-object-format").line)
        _announce(hub, listed(hub, names.record_ref(hub.id)))


def _announce(hub: Hub, found: Mapping[str, str]) -> None:
    record, ref = _make_record(hub), names.record_ref(hub.id)
    if found.get(ref) != record:
        _push(hub, "sending the workspace", [f"+{record}:{ref}"])


def _make_record(hub: Hub) -> str:
    """The same every time, as long as the user's lists of ignored files are."""
    known = {"host": socket.gethostname(), **local.known(hub)}
    if hub.origin is not None:  # it lies on no machine of ours
        known = {"host": "", "url": hub.origin.url}
    entries = b""
    contents = {"exclude": hub.excludes.read_bytes(), "workspace.json": json.dumps(known).encode()}
    for name, content in contents.items():
        blob = git(hub.place, "hash-object", "-w", "--stdin", stdin=content).line
        entries += f"100644 blob {blob}\t{name}\0".encode()
    tree = git(hub.place, "mktree", "-z", stdin=entries).line
    made = local.commit_tree(hub, tree, (), "Workspace\n", at="@0")
    ref = names.record_ref(hub.id)
    if local.read_ref(hub, ref) != made:
        local.move_refs(hub, [Move(ref, made)])
    return made


def bring(hub: Hub, commit: str, there: Remote, workspace_id: str) -> None:
    """Give a base to the hub of another installation, which knows the same repository as `workspace_id`.

    Raises HubUnreachable.
    """
    given = replace(hub, remote=there)
    if there.folder is not None and there.folder.exists() and os.path.samefile(there.folder, hub.path):
        return  # both are of one home
    base_ref = names.shared_base_ref(commit)
    if listed(given, base_ref).get(base_ref) == commit:
        return
    if local.read_refs(hub, "refs/tags"):  # first: whoever finds the base finds them too
        _push(given, "sending the tags", [f"+refs/tags/*:{names.tags_ref(workspace_id)}/*"])
    _push(given, "sending the base", [f"+{commit}:{base_ref}"])


def take_brought(hub: Hub, commit: str) -> bool:
    """A base that a machine elsewhere has pushed is pinned as our own.  False: it is not there."""
    pin, ref, tags = names.base_ref(commit), names.shared_base_ref(commit), names.tags_ref(hub.id)
    if local.read_ref(hub, pin) is None:
        there = local.read_refs(hub, ref) if hub.remote is None else listed(hub, ref)
        if there.get(ref) != commit:
            return False
        if need(hub, commit):
            _take(hub, _tags(hub.id))
        found = {name.replace(tags, "refs/tags", 1): id for name, id in local.read_refs(hub, tags).items()}
        local.move_refs(hub, [Move(pin, commit), *(Move(name, id) for name, id in found.items())])
    seed(hub, commit)
    return True


def take_delivered(hub: Hub, task_id: str, ref: str, commit: str) -> bool:
    """A commit that a person elsewhere has pushed for an attempt of the task.  False: it is not there as `ref`."""
    there = local.read_refs(hub, ref) if hub.remote is None else listed(hub, ref)
    if there.get(ref) != commit:
        return False
    need(hub, commit, task_id=task_id)
    local.move_refs(hub, [Move(ref, commit)])
    return True


# Taking


def need(hub: Hub, *ids: str, task_id: str = "", tags: bool = False) -> bool:
    """Have these commits and trees here.  True: some had to be fetched, and the newest `tags` with them.

    Raises HubUnreachable.
    """
    if hub.remote is None:
        return False
    lacking = missing(hub, ids)
    if not lacking:
        return False
    try:
        _take(hub, *lacking, *([_tags(hub.id)] if tags and (hub.host or hub.origin) else []))
    except HubUnreachable as error:
        if not re.search(r"unadvertised object|not our ref|couldn't find remote ref", str(error)):
            raise
        _take_by_name(hub, task_id)  # an old protocol, or gone
    lacking = missing(hub, lacking)
    if lacking:
        raise HubLacks(
            f"hub '{hub.remote.shown}': {lacking[0][:12]} of workspace {hub.id!r} is neither there nor here; "
            f"see that {SETTING} is the same on every machine, and restore the hub if it lost something"
        )
    return True


def can_have(hub: Hub, id: str) -> bool:
    """Whether the shared hub has it, which then is here.  Raises HubUnreachable when nobody can tell."""
    try:
        return need(hub, id)
    except HubLacks:
        return False


def missing(hub: Hub, ids: Iterable[str]) -> list[str]:
    """Of these commits and trees, those that are not on this machine."""
    wanted = list(dict.fromkeys(id for id in ids if id))
    if not wanted:
        return []
    said = git(hub.place, "cat-file", "--batch-check", stdin="".join(f"{id}\n" for id in wanted).encode()).out
    return [line.split()[0] for line in said.decode().splitlines() if line.endswith(" missing")]


def _take(hub: Hub, *specs: str) -> None:
    assert hub.remote is not None
    call(hub.remote, hub.place, "fetching", *_fetch_words(hub.remote), *specs)
    _tidy(hub)


def _take_by_name(hub: Hub, task_id: str) -> None:
    """All tips of the task's references, or of everybody's, that are not here."""
    under = names.task_refs(task_id) if task_id else names.REFS
    found = listed(hub, f"{under}/*", *([names.SHARED_BASES + "/*"] if task_id else []))
    lacking = set(missing(hub, found.values()))
    refs = [ref for ref, id in found.items() if id in lacking]
    for start in range(0, len(refs), BATCH_REFS_MAX):
        _take(hub, *refs[start : start + BATCH_REFS_MAX])


def _fetch_words(remote: Remote) -> list[str]:
    words = ["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--update-shallow"]
    words += ["--no-auto-maintenance", *([f"--upload-pack={UPLOAD}"] if remote.folder else [])]
    return [*words, remote.url]


def _tidy(hub: Hub) -> None:
    packs = hub.path / "objects" / "pack"
    if sum(name.endswith(".pack") for name in os.listdir(packs)) > PACKS_MAX:
        git(hub.place, "repack", "--quiet", "-d", "--geometric=2", ok=(0, 1, 128))  # another process may be at it


def listed(hub: Hub, *refs: str) -> dict[str, str]:
    """References of the shared hub, and the ids they hold.  `*` stands for anything."""
    assert hub.remote is not None
    return _listed(hub.remote, hub.place, *refs)


def _listed(remote: Remote, place: Place, *refs: str) -> dict[str, str]:
    upload = [f"--upload-pack={UPLOAD}"] if remote.folder else []
    said = call(remote, place, "reading its references", "ls-remote", *upload, remote.url, *refs).out.decode()
    return {ref: id for id, ref in (line.split("\t", 1) for line in said.splitlines()) if ref.startswith("refs/")}


# Giving


def send(hub: Hub, what: str, *moves: Move) -> None:
    """Set references that are this machine's alone.  Raises HubUnreachable: then the same call may be made again."""
    if hub.remote is not None and moves:
        _push(hub, what, [f"+{move.new}:{move.ref}" for move in moves])


def send_merge(hub: Hub, commit: str, merged: str) -> None:
    """Before the journal names it as the head, which the head's reference will say only later."""
    send(hub, "sending a merge", Move(names.merge_ref(commit), merged))


def move_head(hub: Hub, task_id: str, head: str, expected: str | None = None) -> bool:
    """As `hub.advance`, on the shared hub: what is there has been overtaken, is the head, or is ahead of it."""
    if hub.remote is None:
        return True
    ref, record = names.head_ref(task_id), names.record_ref(hub.id)
    for _ in range(TRIES):
        found = listed(hub, ref, record)
        now = found.get(ref, "")
        if expected is not None and now != expected:
            return False
        mine = local.read_ref(hub, record)
        if mine and record not in found:  # the hub was made anew
            send(hub, "sending the workspace", Move(record, mine))
        if now == head:
            return True
        if now and expected is None:
            need(hub, now, task_id=task_id)
            if local.contains(hub, now, head):
                return True
        if not _push(hub, "moving the head", [f"{head}:{ref}"], [f"{ref}:{now}"]):
            return True
    raise HubUnreachable(f"hub '{hub.remote.shown}': {ref} was moved by others {TRIES} times; try again")


def drop(hub: Hub, moves: Sequence[Move]) -> None:
    """Delete references that still hold what was seen; others stay."""
    for start in range(0, len(moves), BATCH_REFS_MAX):
        some = moves[start : start + BATCH_REFS_MAX]
        _push(hub, "cleaning", [f":{m.ref}" for m in some], [f"{m.ref}:{m.old}" for m in some])


def _push(hub: Hub, what: str, specs: Sequence[str], leases: Sequence[str] = ()) -> list[str]:
    """Set references; with leases, the answer names those that were not as expected.  Raises HubUnreachable."""
    assert hub.remote is not None
    words = ["push", "--porcelain", "--progress", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"]
    words += [f"--receive-pack={RECEIVE}"] if hub.remote.folder else []
    words += [f"--force-with-lease={lease}" for lease in leases]
    for left in reversed(range(TRIES)):
        done = call(hub.remote, hub.place, what, *words, hub.remote.url, *specs, ok=(0, 1))
        refused = {found["ref"]: found["why"] for found in _REJECTED.finditer(done.out.decode("utf-8", "replace"))}
        if done.code == 0:
            return []
        raced = all(_RACE.search(why) for why in refused.values())
        if not refused or not raced or (not leases and not left):
            raise trouble(hub.remote, what, " ".join([*refused.values(), done.err]))
        freed = _take_old_lock(hub.remote, done.err)
        if leases and not freed:
            return list(refused)
    raise AssertionError("the last try has answered")


def _take_old_lock(remote: Remote, said: str) -> bool:
    """On a shared disk a lock of a machine that was cut off stays.  Its age is told by the disk's own clock."""
    found = _LOCK.search(said)
    if not found or remote.folder is None:
        return False
    lock = Path(found["path"])
    lock = lock if lock.is_absolute() else remote.folder / lock
    if not lock.resolve().is_relative_to(remote.folder.resolve()):
        return False
    try:
        with tempfile.NamedTemporaryFile(dir=lock.parent, prefix=".now.") as now:
            if os.fstat(now.fileno()).st_mtime - lock.stat().st_mtime < LOCK_OLD_S:
                time.sleep(LOCK_EVERY_S)  # its holder is at work
                return False
        lock.unlink()
    except OSError:
        return False
    return True
