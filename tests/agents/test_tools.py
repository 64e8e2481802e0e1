"""The tools of an agent, on real files: confined, bounded, and never a crash of the run."""

import os
import sys
from pathlib import Path

import pytest

from longtask.agents.native.decisions import question
from longtask.agents.tools import MATCHES_MAX, TOOLS, Toolbox, subject


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    root = tmp_path / "tree"
    root.mkdir()
    (tmp_path / "secret").write_text("key")
    (root / "a.py").write_text("import six\nx = 1\nx = 1\n")
    return Toolbox(root, dict(os.environ), lambda text: None)


def use(box: Toolbox, name: str, **args: object) -> str:
    result = box.use(name, args)
    assert not result["failed"], result
    return result["text"]


def fail(box: Toolbox, name: str, **args: object) -> str:
    result = box.use(name, args)
    assert result["failed"], result
    return result["text"]


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "sub/../../secret", "out", "out/secret"])
def test_no_path_leads_out_of_the_worktree(box, path):
    (box.root / "out").symlink_to("..")
    for name, more in (("read", {}), ("write", {"content": ""}), ("edit", {"old": "a", "new": "b"}), ("delete", {})):
        if path == "out" and name == "delete":
            continue  # the link itself may go
        assert "leads out of the worktree" in fail(box, name, path=path, **more), name
    assert "leads out" in fail(box, "list", path="..")
    assert (box.root.parent / "secret").read_text() == "key"


def test_a_link_is_deleted_not_what_it_leads_to(box):
    (box.root / "link").symlink_to("../secret")
    use(box, "delete", path="link")
    assert (box.root.parent / "secret").exists() and not (box.root / "link").is_symlink()


@pytest.mark.parametrize("path", [".git", ".git/config", ".GIT/config", "sub/.git/hooks/x", "to_git/config"])
def test_nothing_is_written_into_git(box, path):
    (box.root / ".git").mkdir()
    (box.root / "to_git").symlink_to(".git")
    assert "belongs to git" in fail(box, "write", path=path, content="x")
    assert "belongs to git" in fail(box, "delete", path=path)


def test_read_numbers_lines_and_says_where_it_stopped(box):
    assert use(box, "read", path="a.py") == "1\timport six\n2\tx = 1\n3\tx = 1"
    assert (
        use(box, "read", path="a.py", offset=2, limit=1)
        == "2\tx = 1\n… (lines 3 to 3 are not shown; read on with offset 3)"
    )
    assert use(box, "read", path="a.py", offset=9) == "(the file has 3 lines)"
    (box.root / "big").write_text("0123456789\n" * 100_000)
    text = use(box, "read", path="big")
    assert len(text) < 70_000 and "read on with offset" in text
    (box.root / "binary").write_bytes(b"\0\1\2")
    assert "is not text" in fail(box, "read", path="binary")
    assert "no such file" in fail(box, "read", path="none")
    assert "is a folder" in fail(box, "read", path=".")


def test_a_fifo_is_refused_not_waited_for(box):
    os.mkfifo(box.root / "fifo")
    assert "no ordinary file" in fail(box, "read", path="fifo")
    assert "no ordinary file" in fail(box, "write", path="fifo", content="")


def test_edit_is_exact_and_says_how_often_it_was_found(box):
    assert "found 2 times" in fail(box, "edit", path="a.py", old="x = 1", new="x = 2")
    assert "found 0 times" in fail(box, "edit", path="a.py", old="y", new="z")
    assert (box.root / "a.py").read_text() == "import six\nx = 1\nx = 1\n"
    assert use(box, "edit", path="a.py", old="x = 1", new="x = 2", count=2) == "edited: a.py, 2 places"
    use(box, "edit", path="a.py", old="import six\n", new="")
    assert (box.root / "a.py").read_text() == "x = 2\nx = 2\n"


def test_edit_keeps_bytes_that_are_no_utf_8_and_line_ends(box):
    (box.root / "l1").write_bytes(b"caf\xe9\r\nold\r\n")
    assert "CRLF" in fail(box, "edit", path="l1", old="old\nx", new="new")
    use(box, "edit", path="l1", old="old", new="new")
    assert (box.root / "l1").read_bytes() == b"caf\xe9\r\nnew\r\n"


def test_edit_keeps_the_mode(box):
    (box.root / "a.py").chmod(0o755)
    use(box, "edit", path="a.py", old="six", new="io")
    assert (box.root / "a.py").stat().st_mode & 0o777 == 0o755


def test_write_makes_folders_and_replaces(box):
    assert use(box, "write", path="new/deep/f.txt", content="é") == "made: new/deep/f.txt, 2 bytes"
    assert use(box, "write", path="new/deep/f.txt", content="") == "written: new/deep/f.txt, 0 bytes"
    assert "is a folder" in fail(box, "write", path="new", content="")
    assert fail(box, "write", path="a.py/x", content="") == "'a.py': file exists"


def test_search_finds_lines_in_order_and_stops(box):
    (box.root / "sub").mkdir()
    (box.root / "sub" / "b.txt").write_text("a six\n" * 3)
    (box.root / ".git").mkdir()
    (box.root / ".git" / "config").write_text("six")
    assert (
        use(box, "search", pattern=r"\bsix$")
        == "a.py:1:import six\nsub/b.txt:1:a six\nsub/b.txt:2:a six\nsub/b.txt:3:a six"
    )
    assert use(box, "search", pattern="six", glob="*.py") == "a.py:1:import six"
    assert use(box, "search", pattern="six", glob="sub/*").startswith("sub/b.txt:1")
    assert use(box, "search", pattern="seven") == "(nothing found)"
    assert "is not a regular expression" in fail(box, "search", pattern="(")
    (box.root / "many").write_text("m\n" * 10_000)
    assert box.use("search", {"pattern": "^m$"})["matches"] == MATCHES_MAX


def test_names_that_are_no_utf_8_are_shown(box):
    (box.root / os.fsdecode(b"caf\xe9 1.txt")).write_text("six")
    assert "caf\\xe9 1.txt:1:six" in use(box, "search", pattern="six")
    assert use(box, "list") == "a.py\ncaf\\xe9 1.txt"


def test_wrong_arguments_are_told_not_raised(box):
    assert "'content' is missing" in fail(box, "write", path="x")
    assert "no argument 'mode'" in fail(box, "read", path="a.py", mode="r")
    assert "to be integer, found str" in fail(box, "read", path="a.py", offset="1")
    assert "to be integer, found bool" in fail(box, "read", path="a.py", offset=True)
    assert "no tool 'fly'; there is 'read'" in fail(box, "fly")
    assert "NUL" in fail(box, "read", path="a\0b")


def test_only_the_allowed_tools_are_there(box):
    few = Toolbox(box.root, box.env, box.show, ("read", "write"))
    assert [tool.name for tool in few.tools()] == ["read", "write", "delete", "list"]
    assert "no tool 'shell'" in fail(few, "shell", command="true")


def test_schemas_come_from_the_table():
    assert TOOLS["edit"].schema()["required"] == ["path", "old", "new"]
    assert TOOLS["edit"].schema()["properties"]["count"]["type"] == "integer"
    assert {name for name, tool in TOOLS.items() if tool.writes} == {"write", "edit", "delete", "shell"}
    assert {name for name, tool in TOOLS.items() if tool.repeatable is None} == {"shell"}


def test_shell_runs_in_the_worktree_and_its_exit_code_is_a_result(box):
    assert use(box, "shell", command="pwd; echo err >&2") == f"{box.root}\nerr\n(exit code 0)"
    result = box.use("shell", {"command": "echo no; exit 3"})
    assert (result["exit_code"], result["failed"], result["text"]) == (3, True, "no\n(exit code 3)")
    assert box.use("shell", {"command": "kill -9 $$"})["text"] == "(killed by signal 9)"
    assert "1 to" in fail(box, "shell", command="true", timeout=0)


def test_shell_is_killed_with_its_group_when_the_time_is_over(box):
    result = box.use("shell", {"command": "echo a; (sleep 60; echo b > late) & sleep 60", "timeout": 1})
    assert result["failed"] and result["exit_code"] is None and result["text"] == "a\n(killed after 1 s)"


def test_shell_does_not_wait_for_what_holds_its_output_open(box):
    assert use(box, "shell", command="sleep 60 & echo $! > pid; echo done") == "done\n(exit code 0)"
    assert not os.path.exists(f"/proc/{(box.root / 'pid').read_text().strip()}") or _dead(box.root / "pid")


def _dead(path: Path) -> bool:
    state = Path(f"/proc/{path.read_text().strip()}/stat").read_text().rpartition(")")[2].split()[0]
    return state in "ZX"


def test_shell_output_is_bounded_and_shown_as_it_comes(box):
    shown: list[str] = []
    loud = Toolbox(box.root, box.env, shown.append)
    result = loud.use("shell", {"command": f"{sys.executable} -c \"print('é' * 100000)\""})
    assert len(result["text"]) < 40_000 and "bytes left out" in result["text"]
    assert "".join(shown) == "é" * 100_000 + "\n"


def test_of_a_tool_that_is_not_ours_people_are_shown_all_that_it_is_called_with():
    assert subject("read", {"path": "a.py", "first": 3}) == "a.py"
    assert subject("refund", {"name": "A-17", "sum": 3}) == '{"name": "A-17", "sum": 3}'
    asked = {"tool": "mcp.tickets.close", "args": {"id": "7"}, "about": ""}
    assert question(asked) == 'the agent would use mcp.tickets.close: {"id": "7"}'
    assert question({**asked, "args": {}}) == "the agent would use mcp.tickets.close"
