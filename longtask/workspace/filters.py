"""Filter programs (`filter=lfs` in .gitattributes ...): none is ever run, so what one would have done is not done.

A worktree holds such a file as it is stored, and unchanged it goes back as it was.  Changed it would be stored as
nobody wants it (a large file in place of its pointer, a secret in clear text), so it is refused: by `dirty.py` of the
user's files, by `unsaved.py` of an attempt's.
What git does by itself (line endings, `ident`, `working-tree-encoding`) needs no program and is done.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from longtask.workspace.git import Place, git

LFS = "lfs"
POINTER_BYTES_MAX = 1_024  # the specification's own limit
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-\d-[^\n]+\n)*oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
_NO_DRIVER = ("unspecified", "unset", "set")


def switched_off(place: Place) -> dict[str, str]:
    """Settings under which none of the filter programs is run that the repository's own settings name."""
    found = git(place, "config", "-z", "--name-only", "--get-regexp", r"^filter\.", ok=(0, 1))
    drivers = {key.rsplit(".", 1)[0] for key in found.names}
    return {
        f"{driver}.{part}": value
        for driver in drivers
        for part, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    }


def drivers(place: Place, paths: Iterable[str], settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """The name of its filter, by path; paths without one are left out."""
    asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
    if not asked:
        return {}
    fields = git(place, "check-attr", "-z", "--stdin", "filter", stdin=asked, settings=settings).out.split(b"\0")
    found = zip(fields[::3], fields[2::3], strict=False)
    return {os.fsdecode(path): os.fsdecode(value) for path, value in found if os.fsdecode(value) not in _NO_DRIVER}


def is_pointer(content: bytes) -> bool:
    """What Git LFS stores in place of a file; of an empty one it stores nothing."""
    return not content or _POINTER.fullmatch(content) is not None


def points_at(content: bytes, path: Path) -> bool:
    """Whether a pointer is that of the file as it lies there."""
    found = _POINTER.fullmatch(content)
    try:
        if not found or path.is_symlink() or path.stat().st_size != int(found[2]):
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest().encode() == found[1]
    except OSError:
        return False
