"""Where a database file may lie: in a folder of its owner's, on a local disk.

File locks and the shared memory of WAL do not work across machines: on a network file system two workers can write at
once and destroy the database, so such a place is refused (`LONGTASK_ALLOW_NETWORK_FS=1` overrules that).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from longtask.core.errors import StoreError

ALLOW = "LONGTASK_ALLOW_NETWORK_FS"
MOUNTS = Path("/proc/self/mountinfo")
LOCKS = Path("/proc/locks")
WAL_WRITE_LOCK = 120  # byte of the -shm file that a writer locks (sqlite.org/walformat.html)

NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb2 smb3 smbfs 9p afs ceph glusterfs lustre gpfs ncpfs coda orangefs beegfs davfs "
    "fuse.sshfs fuse.s3fs fuse.rclone fuse.glusterfs fuse.ceph fuse.davfs2 fuse.gcsfuse fuse.juicefs".split()
)


def prepare(path: Path) -> None:
    """Makes the file, and its folder if only that is missing, for their owner alone.  Raises StoreError."""
    what, folder = f"database {str(path)!r}", path.parent
    try:
        if not folder.exists():
            if not folder.parent.is_dir():
                raise StoreError(f"{what}: there is no folder {str(folder.parent)!r}; create it or name another place")
            folder.mkdir(mode=0o700, exist_ok=True)
        refuse_network(folder, MOUNTS.read_text(errors="surrogateescape") if MOUNTS.exists() else "")
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        elif not stat.S_ISREG(path.stat().st_mode):
            raise StoreError(f"{what}: it is no file; name another place")
    except OSError as error:
        raise StoreError(f"{what}: {error.strerror}; change the permissions or name another place") from error
    for place, kind in ((path, "file"), (folder, "folder")):
        if not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise StoreError(f"{what}: the {kind} {str(place)!r} is read-only for this user; change its permissions")


def refuse_network(folder: Path, mounts: str) -> None:
    """`mounts`: the text of /proc/self/mountinfo; empty where there is none."""
    kind = file_system(folder, mounts)
    if kind in NETWORK_FILE_SYSTEMS and os.environ.get(ALLOW) != "1":
        raise StoreError(
            f"folder {str(folder)!r} is on a network file system ({kind}), where SQLite databases get destroyed; "
            f"use a local disk (LONGTASK_HOME, --database) or PostgreSQL; {ALLOW}=1 overrules this"
        )


def file_system(folder: Path, mounts: str) -> str:
    """Type of the file system that holds the folder; empty if unknown."""
    place = os.path.realpath(folder)
    longest, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        # the kernel writes blanks and the like in mount points as octal escapes
        point = fields[4].encode("latin-1", "replace").decode("unicode_escape") if "\\" in fields[4] else fields[4]
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # a later mount hides an earlier one at the same place
            longest, kind = len(point), after.split(" ")[0]
    return kind


def writer(path: Path) -> int | None:
    """The process that holds the write lock of a database in WAL mode, if the system tells."""
    try:
        shm = os.stat(f"{path}-shm")
        locks = LOCKS.read_text()
    except OSError:
        return None
    for line in locks.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[3] != "WRITE" or fields[1] == "->":
            continue
        inode = fields[5].rpartition(":")[2]
        if inode == str(shm.st_ino) and int(fields[6]) <= WAL_WRITE_LOCK <= _end(fields[7]):
            return int(fields[4])
    return None


def _end(text: str) -> int:
    return 2**62 if text == "EOF" else int(text)
