"""Archives, from and to a server."""

from __future__ import annotations

import hashlib
from pathlib import Path

from longtask.cli.archives import ENDING, say_imported
from longtask.cli.session import Session
from longtask.client.client import Client


def export_task(session: Session, client: Client, task: str, output: Path | None) -> int:
    found = client.task(task, steps=0)
    target = output or Path(f"{found['handle']}{ENDING}")
    client.export_archive(found["id"], target)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = target.stat().st_size
    if session.json:
        document = {"task": found["id"], "handle": found["handle"], "file": str(target)}
        session.give({**document, "size_bytes": size, "sha256": digest})
    session.say(f"wrote {target} ({size:,} bytes, sha256 {digest})")
    return 0


def import_task(session: Session, client: Client, file: Path) -> int:
    session.outside_only("import")
    return say_imported(session, client.import_archive(file))
