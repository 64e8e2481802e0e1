"""Talking to a hub beside the caller."""

from __future__ import annotations

import threading

import pytest

from longtask.core.errors import HubUnreachable
from longtask.workspace.beside import Beside
from tests.cli.shell import until


@pytest.fixture
def beside(monkeypatch):
    monkeypatch.setattr("longtask.workspace.beside.WAIT_S", 0.05)
    made = Beside(again_s=0.01)
    yield made
    made.close()


def test_a_quick_answer_is_given_at_once(beside):
    assert beside.ask(lambda a, b: a + b, 1, 2) == 3


def test_a_slow_answer_is_given_when_it_is_asked_for_again_and_was_sought_once(beside):
    go, begun, done = threading.Event(), [], threading.Event()

    def slow(word):
        begun.append(word)
        go.wait()
        done.set()
        return word

    for _ in range(2):
        with pytest.raises(HubUnreachable, match="takes long"):
            beside.ask(slow, "x")
    go.set()
    assert done.wait(10)
    assert beside.ask(slow, "x") == "x"
    assert begun == ["x"]


def test_while_one_is_slow_others_hold_nobody_up(beside, monkeypatch):
    go = threading.Event()
    with pytest.raises(HubUnreachable):
        beside.ask(lambda: go.wait())
    monkeypatch.setattr("longtask.workspace.beside.WAIT_S", 0.0)  # by now it counts as slow
    with pytest.raises(HubUnreachable):
        beside.ask(lambda word: go.wait(), "another")
    go.set()


def test_an_error_is_the_asker_s_and_is_told_once(beside):
    calls = []

    def fails(word):
        calls.append(word)
        raise ValueError(word)

    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            beside.ask(fails, "x")
    assert calls == ["x", "x"]


def test_what_fails_is_tried_again_and_only_the_newest_of_a_subject_counts(beside):
    done, failed, seen = threading.Event(), threading.Event(), []

    def act(word):
        seen.append(word)
        if word == "old":
            failed.set()
            raise HubUnreachable("no")
        done.set()

    beside.later("task", act, "old")
    assert failed.wait(10)
    beside.later("task", act, "new")
    assert done.wait(10)
    beside.close()
    assert seen[-1] == "new"


def test_what_is_due_is_done_before_it_closes_and_what_fails_is_left():
    made, seen, go = Beside(again_s=60), [], threading.Event()

    def act(word):
        go.wait()
        seen.append(word)
        if word == 1:
            raise HubUnreachable("no")

    for n in range(4):
        made.later(f"task {n}", act, n)
    closing = threading.Thread(target=made.close)
    closing.start()
    go.set()
    closing.join(10)
    assert sorted(seen) == [0, 1, 2, 3]


def test_what_may_come_last_waits_for_all_else(beside):
    seen, begun, go = [], threading.Event(), threading.Event()

    def act(word):
        begun.set()
        go.wait()
        seen.append(word)

    beside.later("first", act, "first")
    assert begun.wait(10)
    beside.later("clean", act, "clean", last=True)
    beside.later("move", act, "move")
    go.set()
    beside.close()
    assert seen == ["first", "move", "clean"]


def test_its_end_waits_for_no_long_queue(monkeypatch):
    monkeypatch.setattr("longtask.workspace.beside.CLOSING_S", 0.0)
    made, seen, begun, go = Beside(), [], threading.Event(), threading.Event()

    def act(n):
        begun.set()
        go.wait()
        seen.append(n)

    for n in range(1_000):
        made.later(f"task {n}", act, n)
    assert begun.wait(10)
    closing = threading.Thread(target=made.close)
    closing.start()
    until(lambda: made.closing)
    go.set()
    closing.join(10)
    assert len(seen) == 1
