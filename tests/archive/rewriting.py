"""Archives that lie: their sums fit, what they say does not."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from longtask.archive import manifest as m
from longtask.archive.container import Writer

Contents = dict[str, bytes]


def members(file: Path) -> Contents:
    with tarfile.open(file) as found:
        return {entry.name: _content(found, entry) for entry in found}


def _content(found: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    content = found.extractfile(entry)
    assert content is not None
    return content.read()


def rewritten(
    file: Path,
    target: Path,
    change: Callable[[Contents], None] = lambda contents: None,
    told: Callable[[dict[str, Any]], None] = lambda manifest: None,
) -> Path:
    """With other contents, sums that fit them, and then another manifest."""
    contents = members(file)
    manifest = json.loads(contents.pop(m.NAME))
    change(contents)
    manifest["files"] = [
        {"name": name, "size_bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        for name, body in contents.items()
    ]
    told(manifest)
    return write({m.NAME: json.dumps(manifest).encode(), **contents}, target)


def write(contents: Mapping[str, bytes], target: Path) -> Path:
    with target.open("wb") as file:
        writer = Writer(file)
        for name, body in contents.items():
            writer.add(name, len(body), io.BytesIO(body))
        writer.close()
    return target


def edit_line(name: str, number: int, change: Callable[[dict[str, Any]], None]) -> Callable[[Contents], None]:
    """Of a file of lines; `number` as an index."""

    def edit(contents: Contents) -> None:
        lines = contents[name].splitlines(keepends=True)
        value = json.loads(lines[number])
        change(value)
        lines[number] = json.dumps(value).encode() + b"\n"
        contents[name] = b"".join(lines)

    return edit


def edit_value(name: str, change: Callable[[dict[str, Any]], None]) -> Callable[[Contents], None]:
    def edit(contents: Contents) -> None:
        value = json.loads(contents[name])
        change(value)
        contents[name] = json.dumps(value).encode()

    return edit
