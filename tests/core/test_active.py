"""The time in which at least one attempt ran, of a task and of all below it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longtask.core import events as e
from longtask.core.active import LATE_MS, Active
from longtask.core.model import WaitingFor
from longtask.core.oracle.active import active_ms


class Journals:
    """Of a family, as its store would keep them."""

    def __init__(self) -> None:
        self.of: dict[str, list[e.Event]] = {"t": []}

    def add(self, task: str, at: int, fact: e.Fact) -> None:
        journal = self.of.setdefault(task, [])
        journal.append(e.Event(task, len(journal) + 1, at, fact))

    def read(self, active: Active) -> None:
        """All that is new, the last part first."""
        left = list(active.parts)
        while left:
            part = left.pop()
            seq = active.parts[part].seq
            for event in self.of.get(part, [])[seq:]:
                child = active.hear(event)
                if child is not None:
                    left.append(child)


def parks(step: str, child: str) -> e.StepParked:
    return e.StepParked(step, 1, WaitingFor.TASK, {"name": f"task.ended:{child}", "child": child})


def test_what_runs_in_a_child_counts_and_what_overlaps_counts_once():
    journals, active = Journals(), Active("t")
    journals.add("t", 0, e.StepClaimed("x", 1, "w"))
    journals.add("t", 10, parks("x", "k"))
    journals.add("t", 20, e.StepClaimed("a", 1, "w"))
    journals.add("k", 15, e.StepClaimed("c", 1, "w"))
    journals.read(active)
    assert active.ms(40) == 10 + 25
    journals.add("t", 30, e.StepCompleted("a", 1))
    journals.add("k", 50, e.StepCompleted("c", 1))
    journals.read(active)
    assert (active.ms(60), active.ms(40), active.ms(12)) == (45, 35, 10)


def test_a_child_that_has_ended_is_read_no_more():
    journals, active = Journals(), Active("t")
    journals.add("t", 0, e.StepClaimed("x", 1, "w"))
    journals.add("t", 1, parks("x", "k"))
    journals.add("k", 2, e.StepClaimed("c", 1, "w"))
    journals.add("k", 5, e.StepCompleted("c", 1))
    journals.add("k", 5, e.TaskCompleted())
    journals.add("k", 6, e.UsageRecorded("c", 0, 1, 1, 1, child="deeper"))
    journals.read(active)
    assert list(active.parts) == ["t"] and active.ms(10) == 4


SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 30)), max_size=12)


@given(SPANS, st.lists(st.integers(0, 100), max_size=4), st.booleans())
def test_it_is_what_a_sweep_over_all_journals_says_however_they_are_read(spans, pauses, forgets):
    journals, active = Journals(), Active("t")
    scale = LATE_MS if forgets else 1
    moves = [(at * scale, 0, n, task) for n, (task, at, ms) in enumerate(spans)]
    moves += [((at + ms) * scale, 1, n, task) for n, (task, at, ms) in enumerate(spans)]
    for task in (1, 2, 3):
        journals.add("t", 0, e.StepClaimed(f"x{task}", 1, "w"))
        journals.add("t", 0, parks(f"x{task}", f"k{task}"))
    done = 0
    for now in [*sorted(pause * scale for pause in pauses), 200 * scale]:
        while done < len(moves) and sorted(moves)[done][0] <= now:
            at, ends, n, task = sorted(moves)[done]
            fact = e.StepCompleted(f"s{n}", 1) if ends else e.StepClaimed(f"s{n}", 1, "w")
            journals.add(f"k{task}" if task else "t", at, fact)
            done += 1
        journals.read(active)
        assert active.ms(now) == active_ms(journals.of.values(), now)
        active.forget(now)
        assert active.ms(now) == active_ms(journals.of.values(), now)
    assert not forgets or len(active._spans) <= 1
