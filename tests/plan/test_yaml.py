"""Texts to values: YAML 1.2 without surprises, places, and everything that a hostile text may try."""

import json
import time

import pytest

from longtask.core.errors import BadPlan
from longtask.core.policy import PLAN_BYTES_MAX
from longtask.plan import load, load_file
from longtask.plan.yaml import parse
from tests.plan.texts import HEAD, problems, said, steps


def value(text, **words):
    parsed, _, findings = parse(text, **words)
    findings.raise_if_any()
    return parsed


def test_words_that_yaml_1_1_took_for_booleans_stay_text():
    assert value("[yes, no, on, off, y, n, Yes, NO]") == ["yes", "no", "on", "off", "y", "n", "Yes", "NO"]
    assert value("[true, False, TRUE]") == [True, False, True]
    assert value("{on: 1, yes: 2}") == {"on": 1, "yes": 2}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("12", 12),
        ("-3", -3),
        ("3_000_000", 3_000_000),
        ("0o17", 15),
        ("0x1F", 31),
        ("0755", "0755"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.2.3", "1.2.3"),
        ("12:30:00", "12:30:00"),
        ("2026-11-29", "2026-11-29"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("null", None),
        ("~", None),
        ("'null'", "null"),
        ('"5"', "5"),
        ("| # text\n   5\n", "5\n"),
    ],
)
def test_plain_scalars_follow_the_core_schema(text, wanted):
    assert value(f"a: {text}") == {"a": wanted}


def test_below_named_keys_scalars_stay_as_written():
    text = "env: {PORT: 8080, V: 1.10, ON: true, W: 007}\nrun: [sleep, 5]\nother: 5"
    assert value(text, text_under=("env", "run")) == {
        "env": {"PORT": "8080", "V": "1.10", "ON": "true", "W": "007"},
        "run": ["sleep", "5"],
        "other": 5,
    }
    assert value("run: 5") == {"run": 5}


def test_a_value_and_a_key_know_their_place():
    _, places, _ = parse("a: 1\nlist:\n  - x\n  - {deep: y}\n", "p.yaml")
    assert places.of(("list", 1, "deep")) == (4, 12)
    assert places.of(("list", 1, "deep"), key=True) == (4, 6)
    assert places.of(("list", 1, "absent", "more")) == (4, 5)  # the nearest thing around it
    assert places.of(("absent",)) == (1, 1)


def test_byte_order_mark_and_windows_line_ends_are_fine():
    text = "\ufeff" + steps("{id: a, run: x, nonsense: 1}").replace("\n", "\r\n")
    assert problems(text.encode()) == ["4:21: step 'a': unknown key 'nonsense'"]
    assert problems(steps("{id: a, run: x}").replace("\n", "\r\n").encode()) == []


def test_aliases_anchors_tags_and_merges_are_refused_where_they_stand():
    text = "a: &x 1\nb: *x\nc: !!python/object:os.system x\nd:\n  <<: {a: 1}\ne: !!str 3\n"
    _, _, findings = parse(text, "p.yaml")
    assert [str(p) for p in findings.found.values()] == [
        "p.yaml:1:4: anchors (`&x`) are not taken; remove it",
        "p.yaml:2:4: aliases (`*x`) are not taken; write it out",
        "p.yaml:3:4: tags ('tag:yaml.org,2002:python/object:os.syst…') are not taken; remove it",
        "p.yaml:5:3: merges (`<<`) are not taken; write it out",
        "p.yaml:6:4: tags ('tag:yaml.org,2002:str') are not taken; remove it",
    ]


def test_a_bomb_of_aliases_stays_small():
    bomb = 'a0: &a0 ["x","x"]\n' + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    began = time.process_time()
    messages = said(HEAD + bomb)
    assert time.process_time() - began < 2
    assert len(messages) == 51
    assert messages[1] == "anchors (`&a0`) are not taken; remove it"
    assert messages[-1] == "and 271 more"


def test_duplicate_keys_name_the_first():
    assert problems("longtask: 1\nname: a\nname: b\nsteps: [{id: a, run: x}]\n") == [
        "3:1: 'name' is there twice; the first stands in line 2"
    ]
    assert problems('{"longtask": 1, "name": "a", "name": "b", "steps": [{"id": "a", "run": "x"}]}') == [
        "1:30: 'name' is there twice; the first stands in line 1"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\t- b", "2:1: not valid YAML: a tab cannot indent; use spaces"),
        ("a: b: c", "1:5: not valid YAML: a second `: ` on one line; put the text in quotes, or start a new line"),
        (
            "a: [1, 2",
            "1:9: not valid YAML: expected ',' or ']', but got '<stream end>' "
            "(while parsing a flow sequence from line 1)",
        ),
        (
            "a: 1\nb\nc: 2",
            "3:1: not valid YAML: could not find expected ':'; is a `:` missing, or an indent wrong?",
        ),
        (
            'a: "\\q"',
            "1:6: not valid YAML: found unknown escape character 'q' "
            "(while scanning a double-quoted scalar from line 1)",
        ),
        ("@a", "1:1: not valid YAML: found character '@' that cannot start any token"),
        ("? [a]\n: b", "1:3: a key must be text, not a list, a mapping or an alias"),
        (
            f"{HEAD}steps: [{{id: a, run: x}}]\n---\nb: 2",
            "4:1: the file holds more than one document (`---`); write one in one file",
        ),
    ],
)
def test_broken_yaml_says_where_and_what_to_do(text, message):
    assert problems(text)[0] == message


@pytest.mark.parametrize(
    "text",
    ["%YAML", "%FOO\n", 'a: "\\UFFFFFFFF"', 'a: "\\U0011FFFF"', "a: !<", "a: |9999\n x", "{", "]", "&", "*", "- -"],
)
def test_the_parser_never_fails_with_anything_but_a_problem(text):
    assert problems(text)


@pytest.mark.parametrize(
    ("char", "name"),
    [
        ("\x00", "U+0000 (NUL)"),
        ("\x07", "U+0007 (BEL)"),
        ("\x1b", "U+001B (ESC)"),
        ("\x7f", "U+007F (DEL)"),
        ("\x85", "U+0085 (NEL)"),
        ("\u2028", "U+2028"),
        ("\u202e", "U+202E"),
        ("\u2066", "U+2066"),
        ("\ufeff", "U+FEFF (byte order mark)"),
    ],
)
def test_control_characters_are_named_where_they_stand(char, name):
    text = f"longtask: 1\nname: a{char}b\n"
    assert problems(text) == [f"2:8: character {name} is not allowed; remove it"]


def test_control_characters_written_as_escapes_are_refused_too():
    assert problems(steps('{id: a, run: "echo \\x07"}')) == [
        "4:18: character U+0007 is not allowed, escaped or not; remove it"
    ]
    plan = {"longtask": 1, "name": "a", "steps": [{"id": "a", "run": "echo \u001b[31m"}]}
    assert said(json.dumps(plan), "p.json") == ["character U+001B is not allowed, escaped or not; remove it"]


def test_only_the_first_control_characters_are_told():
    assert len(problems("a: " + "\x01" * 1000)) == 20


def test_text_that_is_not_utf_8_says_where():
    assert problems(b"longtask: 1\nname: \xff\n") == ["2:7: byte 0xff is not UTF-8; save the file as UTF-8"]
    assert said(HEAD.encode("utf-16")) == ["the file is UTF-16; save it as UTF-8"]


@pytest.mark.parametrize("text", ["", "   \n\n", "# nothing but words\n", "\ufeff"])
def test_an_empty_file_says_how_to_begin(text):
    assert problems(text) == ["1:1: the plan is empty; begin with `longtask: 1`"]


@pytest.mark.parametrize("text", ["[" * 5_000, "{a: " * 100_000, "- " * 100_000, '{"a":' * 100_000])
def test_deep_nesting_is_refused_at_once(text):
    began = time.process_time()
    (message,) = said(text)
    assert message == "it is nested deeper than 50 levels"
    assert time.process_time() - began < 5


def test_deep_json_that_the_parser_would_take_is_refused_too():
    args: object = 1
    for _ in range(60):
        args = {"x": args}
    plan = {"longtask": 1, "name": "a", "steps": [{"id": "a", "function": "m:f", "args": args}]}
    assert said(json.dumps(plan), "p.json") == ["it is nested deeper than 50 levels"]


def test_a_text_over_the_limit_is_refused_before_it_is_parsed():
    began = time.process_time()
    (message,) = said("a" * (PLAN_BYTES_MAX + 1))
    assert message == (
        "the file has 4,000,001 bytes, the limit is 4,000,000; put large texts into files of the repository "
        "and many like steps into for_each"
    )
    assert time.process_time() - began < 0.5


def test_a_file_of_100_mb_is_never_read_whole(tmp_path):
    path = tmp_path / "plan.yaml"
    with open(path, "wb") as file:
        file.truncate(100_000_000)
    began = time.process_time()
    with pytest.raises(BadPlan, match="the file has 100,000,000 bytes, the limit is 4,000,000"):
        load_file(path)
    assert time.process_time() - began < 0.5


def test_a_file_that_is_not_there_is_a_clear_problem(tmp_path):
    with pytest.raises(BadPlan, match=r"cannot read '.*nothing.yaml': no such file or directory"):
        load_file(tmp_path / "nothing.yaml")
    with pytest.raises(BadPlan, match="is a directory"):
        load_file(tmp_path)


def test_a_plan_file_is_named_in_its_problems(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(steps("{id: a, run: x, extra: 1}"))
    with pytest.raises(BadPlan) as caught:
        load_file(path)
    assert str(caught.value).startswith(f"{path}:4:21: step 'a': unknown key 'extra'")


def test_json_problems_have_places_as_well():
    text = json.dumps({"longtask": 1, "name": "a", "steps": [{"id": "a", "run": "x", "timeout": 5}]}, indent=2)
    assert problems(text, "p.json") == ["8:18: step 'a': timeout 5 has no unit; write 5s, 5m or 5h"]


def test_json_indented_by_tabs_and_with_escaped_emoji_is_read():
    text = json.dumps(
        {"longtask": 1, "name": "a", "goal": "\U0001f600", "steps": [{"id": "a", "run": "x"}]}, indent="\t"
    )
    assert load(text, "p.json").goal == "\U0001f600"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"longtask": 1,}', "1:16: not valid JSON: "),
        ("[1, 2", "1:6: not valid JSON: expecting ',' delimiter"),
        ('{"longtask": 1, "name": "a\nb"}', "1:27: not valid JSON: invalid control character at"),
    ],
)
def test_broken_json_says_where(text, message):
    assert problems(text, "p.json")[0].startswith(message)


def test_flow_style_yaml_is_not_taken_for_json():
    assert problems("{longtask: 1, name: a, steps: [{id: a, run: x}]}") == []


@pytest.mark.parametrize("text", ["- a", "plain", "5", "[]", "true"])
def test_a_plan_is_a_mapping(text):
    assert said(text)[0].startswith("a plan is a mapping that begins with `longtask: 1`, found ")


def test_numbers_beyond_64_bits_are_refused_in_place():
    assert "2:15: the number 99999999999999999999… is too large" in problems(
        "longtask: 1\nname: {x: [0, 99999999999999999999999]}\n"
    )
    plan = '{"longtask": 1, "name": "a", "priority": ' + "9" * 5000 + ', "steps": [{"id": "a", "run": "x"}]}'
    assert problems(plan) == ["1:42: the number 99999999999999999999… is too large"]


def test_a_yaml_of_very_many_parts_is_refused_in_time(monkeypatch):
    monkeypatch.setattr("longtask.plan.yaml.NODES_MAX", 1_000)
    messages = problems(steps(*[f"{{id: s{n}, run: x}}" for n in range(500)]))
    assert messages == ["336:5: it has more than 1,000 parts; write a plan of this size as JSON or in Python"]


def test_a_text_of_nothing_but_problems_is_not_read_to_its_end():
    messages = problems(HEAD + "name: again\n" * 20_000)
    assert len(messages) == 51
    assert messages[-1] == "and 451 more"
