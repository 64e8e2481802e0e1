"""Hearing a stream beside whoever wants to know that there is nothing to hear."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from longtask.cli.remote.hearing import Heard
from longtask.client.streams import Message
from longtask.core.errors import NotFound
from tests.cli.shell import DEADLINE_S

MESSAGE = Message("event", {}, "1")


def test_silence_is_told_and_what_comes_after_it_is_heard():
    go = threading.Event()

    def stream() -> Generator[Message, None, None]:
        yield MESSAGE
        go.wait(DEADLINE_S)
        yield MESSAGE

    heard = Heard(stream())
    assert heard.next(DEADLINE_S) == MESSAGE
    assert heard.next(0.001) is None
    go.set()
    assert heard.next(DEADLINE_S) == MESSAGE
    with pytest.raises(EOFError):
        heard.next(DEADLINE_S)


def test_an_error_of_the_stream_is_raised_where_it_is_heard():
    def stream() -> Generator[Message, None, None]:
        yield MESSAGE
        raise NotFound("the task is gone")

    heard = Heard(stream())
    assert heard.next(DEADLINE_S) == MESSAGE
    with pytest.raises(NotFound, match="gone"):
        heard.next(DEADLINE_S)


def test_who_has_left_hears_nothing_and_the_stream_is_closed():
    closed, told = threading.Event(), threading.Event()

    def stream() -> Generator[Message, None, None]:
        try:
            told.wait(DEADLINE_S)
            while True:
                yield MESSAGE
        finally:
            closed.set()

    heard = Heard(stream())
    heard.close()
    told.set()
    assert closed.wait(DEADLINE_S)
