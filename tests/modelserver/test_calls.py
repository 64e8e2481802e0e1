"""Portable calls in the tools that agents offer; the tools are theirs, word for word."""

from __future__ import annotations

import json

import pytest

from longtask.agents.tools import TOOLS
from longtask.modelserver.asked import Asked, Tool, tool_of
from longtask.modelserver.calls import NoTool, call_of
from longtask.modelserver.said import answer
from longtask.modelserver.script import Call, Turn

SHELL = Call(shell="make test")
WRITE = Call.model_validate({"write": {"path": "a.txt", "content": "x\n"}})
EDIT = Call.model_validate({"edit": {"path": "a.txt", "old": "x", "new": "y\nz"}})
READ = Call.model_validate({"read": "a b.txt"})
EDITED = "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n+z\n*** End Patch"
WRITTEN = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch"


def offered(**params: str) -> dict[str, Tool]:
    """Of each tool its parameters, the optional ones with a question mark."""
    tools = {}
    for name, words in params.items():
        names = words.split()
        schema = {
            "properties": {word.rstrip("?"): {"type": "string"} for word in names},
            "required": [word for word in names if not word.endswith("?")],
        }
        tools[name] = tool_of(name, schema)
    return tools


CLAUDE = offered(
    Task="prompt",
    Bash="command timeout? description? run_in_background?",
    Edit="file_path old_string new_string replace_all?",
    Read="file_path offset? limit?",
    Write="file_path content",
)
OPENCODE = offered(
    bash="command timeout? workdir? description",
    edit="filePath oldString newString replaceAll?",
    read="filePath offset? limit?",
    write="content filePath",
)
BUILTIN = {name: tool_of(name, tool.schema()) for name, tool in TOOLS.items()}
CODEX_UNKNOWN = offered(exec_command="cmd workdir? yield_time_ms?", write_stdin="session_id", update_plan="plan")
CODEX = CODEX_UNKNOWN | {"apply_patch": Tool("apply_patch", None)}
CODEX_CODE = CODEX_UNKNOWN | {"exec": Tool("exec", None), "wait": tool_of("wait", {})}
OTHER = offered(run_in_terminal="cmd", fs_write_file="filename text", fs_read_file="filename")


@pytest.mark.parametrize(
    ("tools", "call", "wanted"),
    [
        (CLAUDE, SHELL, ("Bash", {"command": "make test"})),
        (CLAUDE, WRITE, ("Write", {"file_path": "a.txt", "content": "x\n"})),
        (CLAUDE, EDIT, ("Edit", {"file_path": "a.txt", "old_string": "x", "new_string": "y\nz"})),
        (CLAUDE, READ, ("Read", {"file_path": "a b.txt"})),
        (OPENCODE, SHELL, ("bash", {"command": "make test", "description": "as the script says"})),
        (OPENCODE, WRITE, ("write", {"filePath": "a.txt", "content": "x\n"})),
        (OPENCODE, EDIT, ("edit", {"filePath": "a.txt", "oldString": "x", "newString": "y\nz"})),
        (OPENCODE, READ, ("read", {"filePath": "a b.txt"})),
        (BUILTIN, SHELL, ("shell", {"command": "make test"})),
        (BUILTIN, WRITE, ("write", {"path": "a.txt", "content": "x\n"})),
        (BUILTIN, EDIT, ("edit", {"path": "a.txt", "old": "x", "new": "y\nz"})),
        (BUILTIN, READ, ("read", {"path": "a b.txt"})),
        (CODEX_UNKNOWN, SHELL, ("exec_command", {"cmd": "make test"})),
        (CODEX_UNKNOWN, READ, ("exec_command", {"cmd": "cat 'a b.txt'"})),
        (
            CODEX_UNKNOWN,
            EDIT,
            ("exec_command", {"cmd": f"apply_patch <<'END_OF_PATCH'\n{EDITED}\nEND_OF_PATCH"}),
        ),
        (CODEX, EDIT, ("apply_patch", EDITED)),
        (CODEX, WRITE, ("apply_patch", WRITTEN)),
        (CODEX, SHELL, ("exec_command", {"cmd": "make test"})),
        (CODEX_CODE, SHELL, ("exec", 'text(await tools.exec_command({"cmd": "make test"}));')),
        (CODEX_CODE, EDIT, ("exec", f"text(await tools.apply_patch({json.dumps(EDITED)}));")),
        (OTHER, SHELL, ("run_in_terminal", {"cmd": "make test"})),
        (OTHER, WRITE, ("fs_write_file", {"filename": "a.txt", "text": "x\n"})),
        (OTHER, READ, ("fs_read_file", {"filename": "a b.txt"})),
    ],
)
def test_a_portable_call_becomes_one_of_the_tools_that_are_offered(tools, call, wanted):
    assert call_of(call, tools) == wanted


def test_a_tool_that_takes_words_of_a_command_gets_a_shell():
    tools = {"shell": tool_of("shell", {"properties": {"command": {"type": "array"}}, "required": ["command"]})}
    assert call_of(SHELL, tools) == ("shell", {"command": ["bash", "-lc", "make test"]})


def test_a_call_that_nothing_fits_names_what_is_offered():
    with pytest.raises(NoTool, match=r"no tool that could edit; the request offers: fs_read_file, fs_write_file, run_"):
        call_of(EDIT, OTHER)
    with pytest.raises(NoTool, match="offers: none"):
        call_of(SHELL, {})


def test_a_tool_by_its_name_is_called_as_it_stands():
    call = Call.model_validate({"tool": "mcp__web__get", "args": {"url": "http://127.0.0.1/"}})
    assert call_of(call, {}) == ("mcp__web__get", {"url": "http://127.0.0.1/"})


@pytest.mark.parametrize("name", ["StructuredOutput", "final_result"])
def test_a_structured_answer_is_handed_over_by_the_tool_for_it(name):
    tools = CLAUDE | offered(**{name: "answer"})
    said = answer(Turn(text="so it is", output={"answer": 42}), Asked("m", False, tools, "", 0))
    assert [(call.name, call.args) for call in said.calls] == [(name, {"answer": 42})]
    assert said.text == "so it is"


def test_a_structured_answer_is_the_text_where_the_request_wants_json():
    asked = Asked("m", False, CLAUDE | offered(final_result="answer"), "", 0, as_json=True)
    said = answer(Turn(output={"answer": 42}), asked)
    assert (said.text, said.calls) == ('{"answer": 42}', ())


def test_a_structured_answer_that_nothing_asks_for_stands_below_the_text():
    asked = Asked("m", False, CLAUDE, "", 0)
    assert answer(Turn(output=[1]), asked).text == "[1]"
    assert answer(Turn(text="done", output={"a": 1}), asked).text == 'done\n\n{"a": 1}'
