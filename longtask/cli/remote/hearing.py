"""A stream that is heard beside the caller, so that the caller notices when there is nothing to hear."""

from __future__ import annotations

import threading
from collections.abc import Generator
from queue import Empty, SimpleQueue

from longtask.client.streams import Message


class Heard:
    """Messages of a stream, as they come.  `close` leaves it."""

    def __init__(self, messages: Generator[Message, None, None]) -> None:
        self._messages = messages
        self._queue: SimpleQueue[Message | Exception | None] = SimpleQueue()  # None: it has ended
        self._left = False
        self._thread = threading.Thread(target=self._hear, name="hear", daemon=True)
        self._thread.start()

    def next(self, within_s: float) -> Message | None:
        """None: there was nothing within this time.  Raises EOFError behind the last one, and what the stream does."""
        try:
            told = self._queue.get(timeout=within_s)
        except Empty:
            return None
        if isinstance(told, Exception):
            raise told
        if told is None:
            raise EOFError("the stream has ended")
        return told

    def close(self) -> None:
        """Its connection goes with the next that it tells, or with the client."""
        self._left = True

    def _hear(self) -> None:
        try:
            for message in self._messages:
                if self._left:
                    break
                self._queue.put(message)
            self._messages.close()
            self._queue.put(None)
        except Exception as error:  # noqa: BLE001  it is told to whoever hears
            self._queue.put(error)
