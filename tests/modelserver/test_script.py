"""Scripts: what is taken, and that every mistake is told with its place, what was found and what is allowed."""

from __future__ import annotations

import json

import pytest

from longtask.core.errors import BadPlan
from longtask.modelserver.script import from_values, load, load_file


def problems(text: str) -> list[str]:
    with pytest.raises(BadPlan) as caught:
        load(text, "s.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_a_script_says_all_that_the_language_knows():
    script = load(
        """
        script: 1
        about: everything
        aux: a title
        mode: sequence
        beyond: nothing more
        turns:
          - text: I look
            reasoning: hm
            calls:
              - read: a.txt
              - read: {path: b.txt}
              - write: {path: c.txt, content: ""}
              - edit: {path: c.txt, old: x, new: ""}
              - shell: ls
              - {tool: other, args: {n: 1}}
              - {tool: free, args: some text}
            usage: {tokens_in: 10, tokens_out: 2, tokens_cached: 4}
            delay: 1ms
            pace: 1ms
            faults:
              - {status: 429, retry_after: 2s, resets_in: 1h, message: enough, times: 3}
              - {status: 529, after: 2}
              - {hang: 30s}
              - {stall: always, after: 3}
              - {cut: 0}
              - {malformed: 2, times: always}
          - output: {answer: 42}
            stop: length
            faults: {cut: 1}
        """
    )
    assert [call.portable[0] if call.portable else call.tool for call in script.turns[0].calls] == [
        "read", "read", "write", "edit", "shell", "other", "free",
    ]  # fmt: skip
    assert [fault.kind for fault in script.turns[0].faults] == [
        "status", "status", "hang", "stall", "cut", "malformed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("turns:\n  - txt: hi\n", "s.yaml:2:5: unknown key 'txt' in turns[0]; did you mean 'text'?"),
        ("turns:\n  - text: 5\n", "s.yaml:2:11: turns[0].text must be text, found 5"),
        (
            "turns:\n  - text: hi\n    usage: {tokens_in: many}\n",
            "s.yaml:3:24: turns[0].usage.tokens_in must be a whole number, found 'many'",
        ),
        (
            "turns:\n  - text: hi\n    faults: {status: 200}\n",
            "s.yaml:3:13: turns[0].faults[0].status must be at least 400, found 200",
        ),
        (
            "turns:\n  - text: hi\n    faults: {hang: 30}\n",
            "turns[0].faults[0].hang must be a duration or `always`: 30 has no unit; write 30s, 30m or 30h",
        ),
        (
            "turns:\n  - text: hi\n    faults: [{cut: 2, hang: 3s}]\n",
            "turns[0].faults[0] must have one of status, hang, stall, cut, malformed; found `hang` and `cut`",
        ),
        (
            "turns:\n  - text: hi\n    faults: [{cut: 2, retry_after: 3s}]\n",
            "turns[0].faults[0] has `retry_after`, which does not belong to `cut`",
        ),
        (
            "turns:\n  - text: hi\n    faults: [{cut: 2, times: 0}]\n",
            "turns[0].faults[0].times must be a number of times, from 1, or `always`; found 0",
        ),
        (
            "turns:\n  - text: hi\n    faults: [{cut: 2, times: always}, {status: 500}]\n",
            "turns[0] has a fault after one that comes `always`",
        ),
        (
            "turns:\n  - calls: [{shell: ls, read: a}]\n",
            "s.yaml:2:13: turns[0].calls[0] must have one of shell, write, edit, read, tool; found `shell` and `read`",
        ),
        ("turns:\n  - calls: [{args: {}}]\n", "must have one of shell, write, edit, read, tool; found none"),
        ("turns:\n  - calls: [{shell: ls, args: {}}]\n", "turns[0].calls[0] has `args`, which belong to `tool`"),
        ("turns:\n  - calls: [{write: {path: a}}]\n", "turns[0].calls[0].write.content is missing"),
        ("turns:\n  - calls: [{tool: a, args: [1]}]\n", "must be a mapping, or a text for a tool that takes free text"),
        ("turns:\n  - usage: {tokens_in: 1}\n", "turns[0] says nothing; give it text, calls or output"),
        ("turns:\n  - text:\n", "turns[0].text has no value; give it one, or leave it out"),
        (
            "turns:\n  - text: a\n    usage: {tokens_in: 1, tokens_cached: 2}\n",
            "turns[0].usage has more tokens_cached (2) than tokens_in (1)",
        ),
        ("mode: random\nturns: [{text: a}]\n", "mode must be one of history, sequence; found 'random'"),
        ("match: '('\nturns: [{text: a}]\n", "match is no regular expression: missing ), unterminated subpattern"),
        ("script: 2\nturns: [{text: a}]\n", "has `script: 2`; this version knows 1"),
        ("routes: [{turns: [{text: a}]}]\naux: b\n", "has `routes`, and beside them aux, which belong into a route"),
        ("about: none\n", "it has no turns"),
        ("- text: a\n", "a script is a mapping with `turns` or `routes`, found a list"),
        ("", "the script is empty; begin with `turns:`"),
        ("turns: [\n", "s.yaml:2:1: not valid YAML"),
        ("turns: [{text: *a}]\n", "aliases (`*a`) are not taken; write it out"),
    ],
)
def test_a_mistake_is_told_with_place_found_and_allowed(text, told):
    found = problems(text)
    assert any(told in one for one in found), found
    assert all(one.startswith("s.yaml:") for one in found), found


def test_all_mistakes_are_told_at_once():
    found = problems("turns:\n  - txt: a\n  - text: 1\n  - text: b\n    stop: now\n")
    assert [one.split(": ")[0] for one in found] == ["s.yaml:2:5", "s.yaml:3:11", "s.yaml:5:11"]


def test_a_script_in_json_is_told_its_places_too():
    with pytest.raises(BadPlan, match=r"s\.json:2:3: unknown key 'turn'"):
        load('{\n  "turn": []\n}', "s.json")
    assert load(json.dumps({"turns": [{"text": "a"}]})).turns[0].text == "a"


def test_a_script_made_in_python_names_the_path():
    with pytest.raises(BadPlan, match=r"turns\[0\]: .*turns\[0\] says nothing"):
        from_values({"turns": [{}]})


def test_an_output_may_hold_null():
    assert load("turns: [{output: {answer: null}}]").turns[0].output == {"answer": None}
    assert problems("turns:\n  - output:\n")[0].endswith("turns[0].output has no value; give it one, or leave it out")


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BadPlan, match=r"cannot read .*none\.yaml.: no such file"):
        load_file(tmp_path / "none.yaml")
