"""What an archive says of itself, before anything else in it is looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from longtask.archive.container import BadArchive
from longtask.core.model import JsonMap

NAME = "manifest.json"
FORMAT, VERSION = "longtask-archive", 1
BYTES_MAX = 64_000_000  # of the manifest itself: some 400,000 files
FILES_BYTES_MAX = 100_000_000_000  # of all files, unpacked
LINES_BYTES_MAX = 1_000_000_000  # of a file that is looked through line by line
LINE_BYTES_MAX = 64_000_000

TASK, PLAN, JOURNAL, STEPS, INBOX = "task.json", "plan.txt", "journal.jsonl", "steps.jsonl", "inbox.jsonl"
CALLS, OUTPUT, CODE, BLOBS = "calls.jsonl", "output.jsonl", "code.bundle", "blobs/"
NEEDED = (TASK, JOURNAL, STEPS, INBOX, CALLS, OUTPUT)
KNOWN = frozenset({*NEEDED, PLAN, CODE})
ABOUT = ({"url"}, {"host", "repository", "folder"})  # what is told of a repository
DIGEST = re.compile(r"[0-9a-f]{64}")
WORKSPACE_ID = re.compile(r"[0-9a-f]{16}")
TASK_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class File(NamedTuple):
    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`task`: {id, name, number, state, workspace, head, base} as the header has them.  `code`: what is known of the
    repository, {host, repository, folder} or {url}; None: no code comes along.  `missing`: digests of artifacts whose
    bytes the exporting installation had lost."""

    program: str  # name and version of what has written it
    database: str  # identity of the one it comes from
    task: JsonMap
    files: Sequence[File]
    code: JsonMap | None = None
    missing: Sequence[str] = ()

    def dump(self) -> bytes:
        text = json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "program": self.program,
                "database": self.database,
                "task": dict(self.task),
                "code": None if self.code is None else dict(self.code),
                "missing": list(self.missing),
                "files": [file._asdict() for file in self.files],
            },
            ensure_ascii=True,
            indent=1,
        )
        return text.encode() + b"\n"


def load(content: bytes) -> Manifest:
    """Raises BadArchive."""
    try:
        found = json.loads(content)
        if found["format"] != FORMAT:
            raise BadArchive(f"this is no archive of a task: it says {found['format']!r}")
        if found["version"] != VERSION:
            told = f"the archive has version {found['version']!r}, this program reads {VERSION}"
            raise BadArchive(
                f"{told}; import it with the longtask that wrote it ({found.get('program')}), or a newer one"
            )
        files = [_file(one) for one in found["files"]]
        made = Manifest(
            str(found["program"]), str(found["database"]), found["task"], files, found["code"], found["missing"]
        )
        _check(made)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadArchive(f"the archive's manifest cannot be read ({type(error).__name__}: {error})") from error
    return made


def _file(found: Any) -> File:
    file = File(found["name"], found["size_bytes"], found["sha256"])
    blob = file.name.removeprefix(BLOBS) if file.name.startswith(BLOBS) else None
    if file.name not in KNOWN and (blob is None or not DIGEST.fullmatch(blob)):
        raise BadArchive(f"the archive names {file.name!r}, which is no part of an archive of version {VERSION}")
    if type(file.size_bytes) is not int or file.size_bytes < 0 or not DIGEST.fullmatch(file.sha256):
        raise BadArchive(f"the archive's manifest says nothing sound about {file.name!r}")
    if blob is not None and blob != file.sha256:
        raise BadArchive(f"the archive is damaged: {file.name!r} is named by another sum than its own")
    return file


def _check(made: Manifest) -> None:
    names = [file.name for file in made.files]
    if len(set(names)) < len(names):
        raise BadArchive("the archive names a file twice")
    if lacking := set(NEEDED) - set(names):
        raise BadArchive(f"the archive lacks {', '.join(sorted(lacking))}")
    if not TASK_ID.fullmatch(made.task["id"]) or not isinstance(made.task["workspace"], str):
        raise BadArchive(f"the archive is of a task {made.task['id']!r}, which is no id")
    if any(not DIGEST.fullmatch(digest) for digest in made.missing):
        raise BadArchive("the archive's manifest names something missing that is no digest")
    if made.code is not None and not (set(made.code) in ABOUT and all(type(one) is str for one in made.code.values())):
        raise BadArchive("the archive's manifest says nothing sound about the repository")
    if made.code is not None and not WORKSPACE_ID.fullmatch(made.task["workspace"]):
        raise BadArchive(f"the archive's workspace {made.task['workspace']!r} is no id of one")
    if (made.code is None) == (CODE in names):
        raise BadArchive(f"the archive has either {CODE} or a word of the repository, not both")
    for file in made.files:
        if file.name.endswith(".jsonl") and file.size_bytes > LINES_BYTES_MAX and file.name != OUTPUT:
            raise BadArchive(f"the archive's {file.name} has {file.size_bytes:,} bytes, more than {LINES_BYTES_MAX:,}")
    if (size := sum(file.size_bytes for file in made.files)) > FILES_BYTES_MAX:
        raise BadArchive(f"the archive would unpack to {size:,} bytes, more than {FILES_BYTES_MAX:,}")
