"""Output of an attempt as documents."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any

from longtask.store.contract import Chunk

LOOKED_BACK = 4  # chunks; a letter that is cut in two lies in chunks that follow each other, or nearly so


class Told:
    """Chunks in their order -> the shape of a line of `logs --json`.

    A chunk may end within a letter: the letter is told whole, with the chunk that ends it.  `before`: what was told
    earlier, as far as it matters.
    """

    def __init__(self, before: Iterable[Chunk] = ()) -> None:
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        for chunk in before:
            self.text(chunk)

    def text(self, chunk: Chunk) -> str:
        if chunk.stream not in self._decoders:
            self._decoders[chunk.stream] = codecs.getincrementaldecoder("utf-8")("replace")
        return self._decoders[chunk.stream].decode(chunk.body)

    def __call__(self, chunk: Chunk) -> dict[str, Any]:
        return {"n": chunk.n, "at": chunk.at, "stream": chunk.stream, "text": self.text(chunk)}
