"""Bytes as they come, cut anywhere, as lines of text."""

from __future__ import annotations

import re

from longtask.steps.output import plain

LINE_BYTES_MAX = 4096  # of a longer line the first part is read; expressions grow with its square
_HALF_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*)?$")


class Lines:
    def __init__(self) -> None:
        self._pending = b""

    def feed(self, content: bytes) -> list[str]:
        """Lines that have ended; none is empty."""
        # A carriage return starts the line anew: a progress bar is as good as a line.
        first, *others = content.replace(b"\r", b"\n").split(b"\n")
        self._pending += first[: LINE_BYTES_MAX - len(self._pending)]
        if not others:
            return []
        ended = [self._pending, *(piece[:LINE_BYTES_MAX] for piece in others)]
        self._pending = ended.pop()
        return [line for text in plain(b"\n".join(ended)).split("\n") if (line := text.rstrip())]

    @property
    def beginning(self) -> str:
        """Of the line that is still being written."""
        return plain(_HALF_ESCAPE.sub(b"", self._pending)) if self._pending else ""
