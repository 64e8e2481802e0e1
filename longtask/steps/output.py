"""What a program has written: cut into numbered chunks, bounded.

- The bytes are kept as they came; `plain` makes text for people out of them.
- Of a flood the first and the last part are kept, half of `bytes_max` each. A chunk names its offset in the whole
  output, so a gap between two of them says how much was left out.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

OUTPUT_BYTES_MAX = 10_000_000
CHUNK_BYTES_MAX = 64 * 1024
CHUNK_EVERY_MS = 250
TAIL_CHUNKS_MAX = 4  # in CHUNK_EVERY_MS, once the first part is full: 1 MB/s is enough to look at
RECENT_BYTES = 64 * 1024

# Colours and movements; titles and links (ended by a bell, and never long); other short ones.
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,1000}(?:\x07|\x1b\\)?|[()*+#%][0-9A-Za-z@]|[@-Z\\-_=>78c])"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(content: bytes) -> str:
    """Text for people, digests and progress: no colours, no controls, of an overwritten line the last state."""
    text = _ANSI.sub("", content.decode(errors="replace"))
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", "\n".join(lines))


@dataclass(frozen=True, slots=True)
class OutputChunk:
    number: int  # from 1, without a gap
    offset: int  # of its first byte in all that was written
    content: bytes


class OutputBuffer:
    """One stream of output. Feed bytes, take chunks; the caller's clock says when a small chunk is due."""

    def __init__(
        self,
        bytes_max: int = OUTPUT_BYTES_MAX,
        chunk_bytes_max: int = CHUNK_BYTES_MAX,
        every_ms: int = CHUNK_EVERY_MS,
    ) -> None:
        self.total_bytes = 0
        self._first_max = bytes_max // 2
        self._last_max = bytes_max - self._first_max
        self._chunk_max = chunk_bytes_max
        self._every_ms = every_ms
        self._first = bytearray()  # not yet taken
        self._last = bytearray()  # not yet taken; ends where all ends
        self._recent = bytearray()
        self._number = 0
        self._taken_at: int | None = None
        self._taken_in_window = 0
        self._dropped_bytes = 0
        self._last_taken: deque[tuple[int, int]] = deque()  # number and size of each chunk of the last part
        self._last_taken_bytes = 0
        self._forgotten: list[int] = []

    @property
    def left_out_bytes(self) -> int:
        return self._dropped_bytes

    def feed(self, content: bytes) -> None:
        room = max(0, self._first_max - self.total_bytes)
        self._first += content[:room]
        self._last += content[room:]
        self.total_bytes += len(content)
        self._recent += content[-RECENT_BYTES:]
        del self._recent[:-RECENT_BYTES]
        over = len(self._last) - self._last_max
        if over > 0:
            del self._last[:over]
            self._dropped_bytes += over
        self._forget()

    def take(self, now_ms: int, final: bool = False) -> list[OutputChunk]:
        """Chunks to be stored now: full ones, and what has waited for 250 ms. `final`: all that is left."""
        due = final or self._taken_at is None or now_ms - self._taken_at >= self._every_ms
        if due:
            self._taken_in_window = 0
        found: list[OutputChunk] = []
        while size := self._cut(self._first, final=final or bool(self._last), due=due):
            found.append(self._chunk(self._first, size, self.total_bytes - len(self._last) - self._between()))
        while not self._first and (final or self._taken_in_window < TAIL_CHUNKS_MAX):
            size = self._cut(self._last, final, due)
            if not size:
                break
            chunk = self._chunk(self._last, size, self.total_bytes)
            self._last_taken.append((chunk.number, size))
            self._last_taken_bytes += size
            self._taken_in_window += 1
            found.append(chunk)
        if found and due:
            self._taken_at = now_ms
        self._forget()
        return found

    def forget(self) -> range:
        """Numbers of chunks, taken before, that are no longer of the last part: to be deleted. Told once."""
        found, self._forgotten = self._forgotten, []
        return range(found[0], found[-1] + 1) if found else range(0)

    def tail(self, lines: int = 20, bytes_max: int = 4_000) -> str:
        """The last lines, for the message of a failure."""
        return tail(bytes(self._recent), lines, bytes_max)

    def _between(self) -> int:
        """Bytes after the first part that are neither in `_first` nor in `_last`: taken before, or dropped."""
        return max(0, self.total_bytes - self._first_max) - len(self._last)

    def _cut(self, pending: bytearray, final: bool, due: bool) -> int:
        if len(pending) >= self._chunk_max:
            line_end = pending.rfind(b"\n", self._chunk_max // 2, self._chunk_max) + 1
            return line_end or _whole_characters(pending[: self._chunk_max]) or self._chunk_max
        if final:
            return len(pending)
        return _whole_characters(pending) if due else 0

    def _chunk(self, pending: bytearray, size: int, end: int) -> OutputChunk:
        self._number += 1
        chunk = OutputChunk(self._number, end - len(pending), bytes(pending[:size]))
        del pending[:size]
        return chunk

    def _forget(self) -> None:
        while self._last_taken:
            number, size = self._last_taken[0]
            if self._last_taken_bytes - size + len(self._last) < self._last_max:
                break
            self._last_taken.popleft()
            self._last_taken_bytes -= size
            self._dropped_bytes += size
            self._forgotten.append(number)


def _whole_characters(content: bytearray) -> int:
    """Length without the beginning of a character at the end."""
    for back in range(1, min(4, len(content)) + 1):
        byte = content[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(content) - back if needed > back else len(content)
        if byte < 0x80:
            break
    return len(content)


def sealed(chunks: Iterable[OutputChunk]) -> bytes:
    """One text out of the chunks that were kept; says where something was left out, and how much."""
    parts: list[bytes] = []
    end = 0
    for chunk in chunks:
        if chunk.offset > end:
            parts.append(b"\n[... %d bytes left out ...]\n" % (chunk.offset - end))
        parts.append(chunk.content)
        end = chunk.offset + len(chunk.content)
    return b"".join(parts)


def tail(content: bytes, lines: int = 20, bytes_max: int = 4_000) -> str:
    """The last lines that say something, as plain text."""
    found = [line.rstrip() for line in plain(content[-RECENT_BYTES:]).splitlines()]
    text = "\n".join([line for line in found if line][-lines:])
    return text.encode()[-bytes_max:].decode(errors="ignore")
