"""Lines with colours for a terminal that shows them, plain text for everything else.

A line is a list of pieces (text, style).  What comes from tasks (goals, reasons, questions) goes through
`views.text.clean`: it may hold sequences that move the cursor.  No rich here: it takes longer to load than most
commands take to answer, and only the live view needs it.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Sequence
from typing import TextIO

Piece = tuple[str, str]
Line = Sequence[Piece]

SGR = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "bold yellow": "1;33",
}
ASCII = str.maketrans(
    {"●": "*", "○": "o", "◆": "?", "◑": "~", "✓": "+", "✗": "x", "⊘": "x", "·": ".", "–": "-", "…": "~", "→": ">"}
)
WIDTH_MIN, WIDTH_USUAL = 20, 80


def cells(text: str) -> int:
    """Columns that a terminal takes for it."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cropped(line: Line, width: int) -> list[Piece]:
    """At most `width` columns; what is cut off ends in an ellipsis.  0: as it is."""
    if not width or sum(cells(text) for text, _ in line) <= width:
        return list(line)
    out: list[Piece] = []
    left = width - 1
    for text, style in line:
        if cells(text) > left:
            while cells(text) > left:
                text = text[:-1]
            return [*out, (text + "…", style)]
        out.append((text, style))
        left -= cells(text)
    return out


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line).rstrip()


def ansi(line: Line) -> str:
    return "".join(f"\033[{SGR[style]}m{text}\033[0m" if style and text else text for text, style in line).rstrip()


class ReaderGone(Exception):
    """Whoever read what is printed (`longtask … | head`) has gone away.  No OSError: typer makes a failure of those."""


class Paper:
    """A stream to write lines on.  `terminal`: a person looks at it; then `columns` wide."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.terminal = stream.isatty()
        self.colour = self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.whole_unicode = _takes(stream, "●✓…")
        if not self.whole_unicode and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")

    @property
    def columns(self) -> int:
        """0 where nobody looks: nothing is cut off there."""
        return max(shutil.get_terminal_size((WIDTH_USUAL, 24)).columns, WIDTH_MIN) if self.terminal else 0

    def write(self, line: Line | str, *, crop: bool = False) -> None:
        pieces: Line = [(line, "")] if isinstance(line, str) else line
        if crop:
            pieces = cropped(pieces, self.columns)
        self.raw((ansi(pieces) if self.colour else text_of(pieces)) + "\n")

    def raw(self, text: str) -> None:
        if not self.whole_unicode:
            text = text.translate(ASCII)
        try:
            try:
                self._stream.write(text)
            except UnicodeEncodeError:  # the rest of a name that is no UTF-8
                self._stream.write(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
            self._stream.flush()
        except BrokenPipeError:
            raise ReaderGone from None

    def content(self, content: bytes) -> None:
        """Byte for byte."""
        try:
            self._stream.flush()
            self._stream.buffer.write(content)
            self._stream.buffer.flush()
        except BrokenPipeError:
            raise ReaderGone from None


def _takes(stream: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
