"""The file: a tar in gzip of which every byte is fixed by the names, lengths and contents of its members.

Whoever reads one trusts nothing in it.  No header is interpreted but the length of the first member; each of the others
must be, byte for byte, the header of the member that is expected.  So there are no links, folders, owners, long names
or other extensions that could lead elsewhere.  Never more than a block is unpacked at a time, and never more of a
member than its length.
"""

from __future__ import annotations

import struct
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from longtask.core.errors import BadPlan, Refused

BLOCK_BYTES = 1 << 18
LEVEL = 6
TAR_BLOCK = 512
END = bytes(2 * TAR_BLOCK)
HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"  # gzip: no name, no time, no operating system
TRAILER = struct.Struct("<LL")  # CRC-32 and length of the tar


class Sink(Protocol):
    def write(self, content: bytes, /) -> object: ...


class BadArchive(BadPlan):
    """The file is no archive, was changed or cut, or does not hold what it says.  Nothing of it was stored."""


def header(name: str, size_bytes: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size_bytes, 0o600
    content = entry.tobuf(tarfile.GNU_FORMAT, "ascii", "strict")
    assert len(content) == TAR_BLOCK, f"name {name!r} does not fit into one block"
    return content


class Writer:
    """`add` one member after another, then `close`."""

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._packer = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS)
        self._sum = self._size = 0
        file.write(HEADER)

    def add(self, name: str, size_bytes: int, content: BinaryIO) -> None:
        """Raises Refused if the content has another length."""
        self._write(header(name, size_bytes))
        left = size_bytes
        while left and (block := content.read(min(BLOCK_BYTES, left))):
            left -= len(block)
            self._write(block)
        if left or content.read(1):
            raise Refused(f"{name} has changed while it was read; export the task again")
        self._write(bytes(-size_bytes % TAR_BLOCK))

    def close(self) -> None:
        self._write(END)
        self._file.write(self._packer.flush())
        self._file.write(TRAILER.pack(self._sum, self._size & 0xFFFFFFFF))

    def _write(self, content: bytes) -> None:
        self._sum = zlib.crc32(content, self._sum)
        self._size += len(content)
        self._file.write(self._packer.compress(content))


class Reader:
    """`first`, then `member` by member, then `end`; each raises BadArchive."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        start = file.read(len(HEADER))
        if start != HEADER:
            raise BadArchive("this is no archive of a task: it does not begin as one; make it with: longtask export")
        self._packed = start

    def first(self, name: str, size_bytes_max: int) -> bytes:
        """A member of a length that only its header tells."""
        block = self._exactly(TAR_BLOCK)
        try:
            size_bytes = tarfile.TarInfo.frombuf(block, "ascii", "strict").size
        except (tarfile.TarError, ValueError) as error:
            raise BadArchive(f"this is no archive of a task: {error}") from error
        if not 0 <= size_bytes <= size_bytes_max or block != header(name, size_bytes):
            raise BadArchive(f"this is no archive of a task: it does not begin with {name}")
        return b"".join(self._content(size_bytes))

    def member(self, name: str, size_bytes: int) -> Iterator[bytes]:
        if self._exactly(TAR_BLOCK) != header(name, size_bytes):
            raise BadArchive(f"the archive is damaged: {name} is not where its manifest says")
        yield from self._content(size_bytes)

    def end(self) -> None:
        """Nothing follows."""
        if self._exactly(len(END)) != END or self._read(1):
            raise BadArchive("the archive is damaged: there is more in it than its manifest names")
        if not self._unpacker.eof or self._unpacker.unused_data or self._file.read(1):
            raise BadArchive("the archive is damaged: it was cut, or something was put behind its end")

    def _content(self, size_bytes: int) -> Iterator[bytes]:
        left = size_bytes
        while left:
            block = self._read(min(BLOCK_BYTES, left))
            if not block:
                raise BadArchive("the archive was cut: bytes are missing at its end")
            left -= len(block)
            yield block
        if self._exactly(-size_bytes % TAR_BLOCK).strip(b"\0"):
            raise BadArchive("the archive is damaged: something stands between two files")

    def _exactly(self, size_bytes: int) -> bytes:
        parts: list[bytes] = []
        while size_bytes and (block := self._read(size_bytes)):
            size_bytes -= len(block)
            parts.append(block)
        if size_bytes:
            raise BadArchive("the archive was cut: bytes are missing at its end")
        return b"".join(parts)

    def _read(self, size_bytes_max: int) -> bytes:
        """At most so many bytes of the tar; none at its end."""
        while not self._unpacker.eof:
            packed = self._packed or self._file.read(BLOCK_BYTES)
            try:
                block = self._unpacker.decompress(packed, size_bytes_max)
            except zlib.error as error:
                raise BadArchive(f"the archive is damaged: {error}") from error
            self._packed = self._unpacker.unconsumed_tail
            if block:
                return block
            if not packed:
                return b""
        return b""
