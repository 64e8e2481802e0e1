"""What agents that are programs of their own have in common, and how what they say is read; without the programs."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from longtask.agents.claude_code.names import about, canonical, not_offered
from longtask.agents.claude_code.outcome import failure
from longtask.agents.claude_code.stream import Limit, Result, Stream, ToolEnd, Turn
from longtask.agents.codex.items import args_of, command_of
from longtask.agents.native.decisions import DEFERRED, pending
from longtask.agents.native.installed import Installed
from longtask.agents.native.program import Launch
from longtask.agents.policy import Policy
from longtask.core.model import Failed, Parked
from tests.cli.shell import until


def launched(code: str, tmp_path: Path, feed: bytes | None = b"") -> Launch:
    return Launch([sys.executable, "-c", code], cwd=tmp_path, env=dict(os.environ), feed=feed)


def events(launch: Launch) -> list[Any]:
    found = []
    while (event := launch.next(20)) is not None:
        found.append(event)
    return found


def test_lines_come_as_events_whatever_else_is_written(tmp_path):
    code = """if True:
        import sys
        print('no JSON', sys.stdin.read(), '[]', '{"n": 2}', sep='\\n')
        sys.stderr.write('oh')
    """
    with launched(code, tmp_path, b'{"n": 1}') as launch:
        assert events(launch) == [{"n": 1}, {"n": 2}]
        assert (launch.wait(), launch.said) == (0, "oh")


def test_what_is_sent_reaches_a_program_that_reads_slowly(tmp_path):
    code = "import sys; print('{\"read\": %d}' % len(sys.stdin.readline()))"
    with launched(code, tmp_path, None) as launch:
        launch.send({"text": "x" * 1_000_000})
        assert launch.next(20) == {"read": 1_000_012}


def test_a_program_ends_with_all_that_it_has_started(tmp_path):
    code = """if True:
        import subprocess
        away = subprocess.Popen(['setsid', 'sleep', '300'])
        print('{"pid": %d}' % away.pid, flush=True)
        away.wait()
    """
    with launched(code, tmp_path) as launch:
        event = launch.next(20)
        assert event is not None
    until(lambda: not _alive(event["pid"]))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_version_is_read_off_the_files_beside_a_program(tmp_path, monkeypatch):
    package = tmp_path / "node_modules" / "@anthropic-ai" / "claude-code-linux-x64"
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": "9.8.7"}))
    (package / "claude").write_bytes(b"\x7fELF")
    (package / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", str(package))
    installed = Installed(tmp_path / "home")
    assert (installed.path("claude-code"), installed.version("claude-code")) == (package / "claude", "9.8.7")
    assert (installed.path("codex"), installed.version("codex")) == (None, "")


def test_a_version_that_no_file_tells_is_asked_for_aside(tmp_path, monkeypatch):
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho 1.2.3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    installed = Installed(tmp_path / "home")
    installed.version("claude-code")
    assert until(lambda: installed.version("claude-code")) == "1.2.3"


def test_only_the_newest_call_that_was_asked_about_is_pending():
    call = {"id": "1", "tool": "shell", "args": {}}
    deferred, asked, turn = {"kind": "tool", DEFERRED: call}, {"kind": "asked"}, {"kind": "turn"}
    assert pending([turn, deferred]) == call
    assert pending([turn, deferred, asked]) == call
    assert pending([deferred, asked, turn]) is None
    assert pending([]) is None


def test_claude_codes_tools_have_the_names_that_plans_use(tmp_path):
    assert [canonical(name) for name in ("Bash", "NotebookEdit", "mcp__git__log", "Other")] == [
        "shell", "edit", "mcp.git.log", "other",
    ]  # fmt: skip
    assert about({"command": "ls"}, tmp_path) == "ls"
    assert about({"file_path": f"{tmp_path}/a/../b.py"}, tmp_path) == "b.py"
    assert about({"file_path": "/etc/passwd"}, tmp_path) == "/etc/passwd"


def test_claude_code_is_not_offered_what_no_rule_would_allow():
    assert {"Task", "CronCreate"} <= set(not_offered(Policy())) and "Bash" not in not_offered(Policy())
    assert {"Bash", "Edit"} <= set(not_offered(Policy(tools=("read", "subagent"))))
    assert "Task" not in not_offered(Policy(tools=("read", "subagent")))
    assert "Bash" not in not_offered(Policy(deny=("shell(rm *)",)))


def wire(**event: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event}


def block(turn: str, **content: Any) -> dict[str, Any]:
    message = {"id": turn, "model": "m", "content": [content], "usage": {"input_tokens": 7, "output_tokens": 1}}
    return {"type": "assistant", "message": message}


def test_claude_codes_lines_become_turns_with_their_tokens():
    stream = Stream()
    start = {"id": "1", "model": "m", "usage": {"input_tokens": 5, "cache_read_input_tokens": 2}}
    lines = [
        wire(type="message_start", message=start),
        block("1", type="text", text="Hello."),
        block("1", type="tool_use", id="t", name="Bash", input={"command": "ls"}),
        wire(type="message_delta", usage={"output_tokens": 9}),
        wire(type="message_stop"),
    ]
    assert [event for line in lines[:4] for event in stream.feed(line)] == [] and stream.under_way("t") is None
    assert stream.feed(lines[4]) == []
    turn = stream.under_way("t")
    assert turn is not None and (turn.text, turn.tokens_in, turn.tokens_out) == ("Hello.", 7, 9)
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}]}
    assert stream.feed({"type": "user", "message": {"content": [result]}}) == [ToolEnd("t", "a", False)]


def test_a_turn_that_was_cut_off_is_none():
    stream = Stream()
    stream.feed(wire(type="message_start", message={"id": "1"}))
    stream.feed(block("1", type="text", text="Hel"))
    assert stream.feed(wire(type="message_start", message={"id": "2"})) == []
    stream.feed(block("2", type="text", text="Hello."))
    stream.feed(wire(type="message_delta", usage={"output_tokens": 9}))
    stream.feed(wire(type="message_stop"))
    over = stream.feed({"type": "result"})
    assert [type(event) for event in over] == [Turn, Result] and over[0].texts == ["Hello."]  # type: ignore[union-attr]


def test_claude_code_waits_for_the_end_of_a_usage_limit_that_it_tells():
    now = 1_800_000_000_000
    limited = {"subtype": "success", "is_error": True, "api_error_status": 429, "result": "slow down"}
    [limit] = Stream().feed(
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_800_003_600}}
    )
    assert isinstance(limit, Limit)
    for outcome in (
        failure(limited, None, limit, now),
        failure({**limited, "result": "usage limit reached|1800003600"}, None, None, now),
    ):
        assert isinstance(outcome, Parked) and 3_600_000 <= outcome.due_at - now < 3_660_000
    assert isinstance(failure(limited, None, None, now), Failed)


def test_codex_calls_are_the_same_on_every_machine(tmp_path):
    assert command_of("/bin/bash -lc 'echo \"a b\" | wc'") == 'echo "a b" | wc'
    assert command_of("/bin/bash -lc ls") == "ls" and command_of("it's") == "it's"
    change = {"path": f"{tmp_path}/a/b.txt", "kind": {"type": "add"}, "diff": "x"}
    assert args_of({"type": "fileChange", "changes": [change]}, tmp_path) == {
        "changes": [{"path": "a/b.txt", "kind": "add", "diff": "x"}]
    }


def test_a_stop_by_a_signal_is_told(tmp_path):
    with launched("import os; os.kill(os.getpid(), 9)", tmp_path) as launch:
        assert events(launch) == []
        assert launch.wait() == -signal.SIGKILL
