"""Facts and specs as JSON: what is written comes back, old versions for ever."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtask.core import codec
from longtask.core.errors import StoreError
from longtask.core.events import (
    FACTS,
    Event,
    NewStep,
    StepClaimed,
    StepCompleted,
    StepFailed,
    StepsAdded,
    TaskSubmitted,
)
from longtask.core.machine import refold
from longtask.core.model import Edge, Kind, Role, StepSpec, TaskOptions
from tests.core.values import of_class
from tests.golden import ended

GOLDEN = Path(__file__).parent.parent / "golden" / "facts_v1.jsonl"
ANY_FACT = st.one_of(*[of_class(cls) for cls in FACTS.values()])


@given(ANY_FACT)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_fact_comes_back_as_it_was(fact):
    kind, v, text = codec.dump_fact(fact)
    text.encode()  # any database can keep it
    assert codec.load_fact(kind, v, text) == fact


@given(of_class(StepSpec), of_class(TaskOptions))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_specs_and_options_come_back_as_they_were(spec, options):
    assert codec.load_spec(codec.dump_spec(spec)) == spec
    assert codec.load_options(codec.dump_options(options)) == options


def test_what_equals_its_default_is_left_out():
    assert codec.dump_fact(StepCompleted("a", 1)) == ("StepCompleted", 1, '{"step":"a","attempt":1}')
    assert codec.dump_spec(StepSpec(Kind.RUN)) == '{"kind":"run"}'


def test_steps_that_differ_in_their_key_alone_stand_once():
    fan = [NewStep(f"s{i}", Kind.RUN, weight=100) for i in range(3)]
    steps = (*fan, NewStep("f", Kind.RUN, role=Role.FIX))
    edges = (Edge("s0", "gate.1"), Edge("s1", "gate.1"), Edge("s2", "f"))
    _, _, text = codec.dump_fact(StepsAdded(steps, edges))
    assert json.loads(text) == {
        "steps": [
            {"key": ["s0", "s1", "s2"], "kind": "run", "weight": 100},
            {"key": "f", "kind": "run", "role": "fix"},
        ],
        "edges": [[["s0", "s1"], "gate.1"], ["s2", "f"]],
    }
    assert codec.load_fact("StepsAdded", 1, text) == StepsAdded(steps, edges)


def test_an_unknown_fact_is_told_as_such():
    with pytest.raises(StoreError, match=r"fact 'StepFlew' is not known.*upgrade longtask"):
        codec.load_fact("StepFlew", 1, "{}")


def test_a_newer_version_of_a_fact_is_refused():
    with pytest.raises(StoreError, match=r"fact 'StepHeld' has version 2, this program knows 1; upgrade longtask"):
        codec.load_fact("StepHeld", 2, '{"step":"a"}')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"step":"a","attempt":1,"wings":2}', r"unknown fields \['wings'\].*upgrade longtask"),
        ('{"step":"a"}', r"fields \['attempt', 'worker'\] are missing.*longtask doctor"),
        ('{"step":', r"is not JSON.*longtask doctor"),
        ("[]", r"longtask doctor"),
        ("null", r"longtask doctor"),
    ],
)
def test_damaged_facts_say_what_is_wrong(text, says):
    with pytest.raises(StoreError, match=says):
        codec.load_fact("StepClaimed", 1, text)


def test_an_unknown_word_of_an_enum_is_told():
    with pytest.raises(StoreError, match=r"stored NewStep: the word 'dance' is not known.*upgrade longtask"):
        codec.load_fact("StepsAdded", 1, '{"steps":[{"key":"a","kind":"dance"}]}')


def test_what_is_no_json_is_refused_when_written():
    with pytest.raises(ValueError, match="Out of range float"):
        codec.dump_fact(StepCompleted("a", 1, result=float("nan")))
    with pytest.raises(TypeError, match="cannot write 'object' as JSON"):
        codec.dump_fact(StepCompleted("a", 1, result=object()))


def test_an_old_version_is_carried_forward(monkeypatch):
    """Version 1 called the reason `why`, version 2 had it as a list."""
    monkeypatch.setitem(codec.VERSIONS, "StepFailed", 3)
    monkeypatch.setitem(codec.UPGRADES, ("StepFailed", 1), lambda old: {"step": old["step"], "reason": [old["why"]]})
    monkeypatch.setitem(codec.UPGRADES, ("StepFailed", 2), lambda old: {**old, "reason": " ".join(old["reason"])})
    assert codec.load_fact("StepFailed", 1, '{"step":"a","why":"it broke"}') == StepFailed("a", "it broke")
    assert codec.load_fact("StepFailed", 2, '{"step":"a","reason":["it","broke"]}') == StepFailed("a", "it broke")
    assert codec.dump_fact(StepFailed("a", "x"))[1] == 3


def test_what_version_1_wrote_is_read_for_ever():
    """A journal that holds every fact, written by the first version.  Never edit the file: add another one."""
    lines = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    facts = [codec.load_fact(line["kind"], line["v"], json.dumps(line["body"])) for line in lines]
    assert {type(fact) for fact in facts} >= {cls for name, cls in FACTS.items() if name in {x["kind"] for x in lines}}
    first = facts[0]
    assert isinstance(first, TaskSubmitted)
    assert first.options.stages == ("build", "test")
    assert first.steps[0] == NewStep("compile", Kind.RUN, weight=100, ready=True)
    assert first.edges[:2] == (Edge("compile", "gate.1"), Edge("lint", "gate.1"))
    assert facts[1] == StepClaimed("compile", 1, "w-1", base="c0ffee", timeout_at=1_700_000_600_000)


def test_every_fact_is_in_a_golden_file_and_read_for_ever():
    """A new fact, or a new field of one, comes with a file of its own."""
    kinds = set()
    for file in sorted(GOLDEN.parent.glob("facts_*.jsonl")):
        for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            fact = codec.load_fact(line["kind"], line["v"], json.dumps(line["body"]))
            kinds.add(type(fact).__name__)
    assert kinds == set(FACTS)


@pytest.mark.parametrize("file", sorted(GOLDEN.parent.glob("journals_*.jsonl")), ids=lambda file: file.stem)
def test_a_journal_of_any_version_folds_to_the_end_that_it_had(file):
    """Written by `tests/golden/record.py` when that version was made."""
    journals: dict[int, list[Event]] = {}
    for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        fact = codec.load_fact(line["kind"], line["v"], json.dumps(line["body"]))
        journals.setdefault(line["journal"], []).append(Event("", line["seq"], line["at"], fact))
    ends = json.loads(file.with_suffix(".ends.json").read_text(encoding="utf-8"))
    assert [ended(*refold(events)) for _, events in sorted(journals.items())] == ends
