"""Random histories of random plans, looked at by the oracle after every transaction, and then brought to their end."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtask.core.events import FACTS
from longtask.core.machine import refold
from tests.core.chance import Player


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data(), st.integers(1, 40))
def test_the_oracle_finds_nothing_in_a_random_history_and_it_ends(data, moves):
    player = Player(lambda n: data.draw(st.integers(0, n - 1)))
    play = player.play(moves)
    player.end(play)
    assert play.task.ended


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_nor_in_longer_ones_by_seed(first):
    for seed in range(first, first + 10):
        chance = random.Random(seed)
        player = Player(chance.randrange)
        play = player.play(30 + chance.randrange(60))
        player.end(play)
        assert play.task.ended, seed


def test_random_histories_reach_every_fact_that_a_single_task_can_have():
    """Else the two tests above would say less than they seem to."""
    seen: set[str] = set()
    for seed in range(200):
        chance = random.Random(seed)
        player = Player(chance.randrange)
        unchecked = player.plan()
        unchecked.checked = False
        play = player.go_on(unchecked, 60)
        seen |= {type(event.fact).__name__ for event in play.events}
    absent = {"MutexAwaited", "UsageRecorded", "BudgetRaised", "BudgetNear", "LimitNear", "BudgetExceeded"}
    assert set(FACTS) - seen - absent == set()


def test_a_journal_folds_to_the_same_rows_whatever_its_transactions_were():
    chance = random.Random(7)
    player = Player(chance.randrange)
    play = player.play(60)
    task, rows = refold(play.events)
    assert rows.keys() == play.rows.keys()
    assert (task.state, task.head, task.seq) == (play.task.state, play.task.head, play.task.seq)
