"""The tools of an agent: read, write, edit, delete, list, search and shell, in one table.

- Everything happens below the worktree: a path that leads out of it (`..`, an absolute one, a symbolic link) is an
  error, and so is writing into `.git`.  This is a guard-rail for the file tools, not a wall: `shell` is bash.
- What goes wrong is told to the model as a result (`failed`), never raised: a run does not end over a wrong path.
- Results are bounded.  The same worktree gives the same result: lists and searches are sorted.
- `writes` and `repeatable` are for the journal: after a tool that may write, the worktree is saved.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtask.agents import shell
from longtask.core.model import Json, JsonMap

READ_LINES = 2_000
READ_CHARS_MAX = 64_000
LINE_CHARS_MAX = 2_000
FILE_BYTES_MAX = 10_000_000
SEARCH_FILE_BYTES_MAX = 2_000_000
MATCHES_MAX = 200
MATCH_CHARS_MAX = 300
ENTRIES_MAX = 500
SHELL_TIMEOUT_S = 600
SHELL_TIMEOUT_MAX_S = 6 * 3600
NOT_SEARCHED = frozenset({".git", "node_modules", ".venv", "__pycache__"})
SUBJECTS = {  # of our own tools: the argument that says what a call is about
    **dict.fromkeys(("read", "list", "write", "edit", "delete"), "path"),
    "search": "pattern",
    "find": "query",
    "skill": "name",
}


class ToolError(Exception):
    """Told to the model as the result of its call."""


@dataclass(frozen=True, slots=True)
class Param:
    type: type
    about: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Tool:
    """`repeatable` None: as the step is.  `comes_with`: a plan that allows that tool allows this one."""

    name: str
    about: str
    params: Mapping[str, Param]
    use: Callable[[Toolbox, Mapping[str, Any]], JsonMap]
    writes: bool = False
    comes_with: str | None = None
    repeatable: bool | None = True

    def schema(self) -> JsonMap:
        """Of its arguments, as JSON Schema."""
        return {
            "type": "object",
            "properties": {
                name: {"type": JSON_TYPES[param.type], "description": param.about}
                for name, param in self.params.items()
            },
            "required": [name for name, param in self.params.items() if param.required],
            "additionalProperties": False,
        }


JSON_TYPES = {str: "string", int: "integer"}


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools at work in one worktree.  `show` hears what people see of it; `more`: tools of one runtime; `inside`:
    words that put a shell command into its sandbox."""

    root: Path  # resolved
    env: Mapping[str, str]
    show: Callable[[str], None]
    names: tuple[str, ...] = field(default=())
    more: tuple[Tool, ...] = ()
    inside: tuple[str, ...] = ()

    def tools(self) -> Sequence[Tool]:
        return [
            tool
            for tool in (*TOOLS.values(), *self.more)
            if not self.names or tool.name in self.names or tool.comes_with in self.names
        ]

    def use(self, name: str, args: JsonMap) -> JsonMap:
        """{text, failed, …}; never raises for what the call did wrong."""
        try:
            tools = {tool.name: tool for tool in self.tools()}
            tool = tools.get(name)
            if tool is None:
                raise ToolError(f"no tool '{name}'; there is {', '.join(map(repr, tools))}")
            _check(tool, args)
            return tool.use(self, args)
        except ToolError as error:
            return {"text": str(error), "failed": True}
        except OSError as error:
            path = os.fspath(error.filename or name)
            if path.startswith(f"{self.root}/"):
                path = path[len(f"{self.root}/") :]
            return {"text": f"'{_shown(path)}': {(error.strerror or str(error)).lower()}", "failed": True}

    # paths

    def find(self, path: str) -> Path:
        """Where `path` leads, links followed."""
        if "\0" in path:
            raise ToolError("a path holds no NUL character")
        return self._inside(path, Path(os.path.realpath(self.root / path)))

    def find_to_write(self, path: str) -> Path:
        full = self.find(path)
        self._not_git(path, full)
        if full.is_dir():
            raise ToolError(f"'{path}' is a folder")
        if full.exists() and not full.is_file():
            raise ToolError(f"'{path}' is no ordinary file")
        return full

    def find_entry(self, path: str) -> Path:
        """The entry itself: a link is not followed, its folder is."""
        name = os.path.basename(path.rstrip("/"))
        if name in ("", ".", ".."):
            raise ToolError(f"'{path}' names no file")
        entry = self.find(os.path.dirname(path.rstrip("/")) or ".") / name
        self._not_git(path, entry)
        return entry

    def files(self) -> Iterator[str]:
        """Relative paths of all files, sorted by folder; version control and installed packages are left out."""
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in NOT_SEARCHED)
            for name in sorted(names):
                if name not in NOT_SEARCHED:
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def _inside(self, path: str, full: Path) -> Path:
        if full != self.root and self.root not in full.parents:
            raise ToolError(f"'{path}' leads out of the worktree")
        return full

    def _not_git(self, path: str, full: Path) -> None:
        if any(part.lower() == ".git" for part in full.relative_to(self.root).parts):
            raise ToolError(f"'{path}' belongs to git: not to be written")


def _check(tool: Tool, args: JsonMap) -> None:
    for name, param in tool.params.items():
        if name not in args:
            if param.required:
                raise ToolError(f"{tool.name}: '{name}' is missing ({param.about})")
        elif not isinstance(args[name], param.type) or isinstance(args[name], bool):
            raise ToolError(
                f"{tool.name}: '{name}' is to be {JSON_TYPES[param.type]}, found {type(args[name]).__name__}"
            )
    for name in args:
        if name not in tool.params:
            raise ToolError(f"{tool.name}: no argument '{name}'; there is {', '.join(map(repr, tool.params))}")


def _ok(text: str, **more: Json) -> JsonMap:
    return {"text": text, "failed": False, **more}


def _shown(path: str) -> str:
    """A file name as text that JSON can hold; names are bytes and need not be UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _bytes_of(full: Path, path: str) -> bytes:
    if full.is_dir():
        raise ToolError(f"'{path}' is a folder; list it")
    found = full.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"'{path}' is no ordinary file")  # reading a FIFO would wait for ever
    if found.st_size > FILE_BYTES_MAX:
        raise ToolError(f"'{path}' has {found.st_size} bytes, at most {FILE_BYTES_MAX}; use shell")
    return full.read_bytes()


def read(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
    path = args["path"]
    content = _bytes_of(box.find(path), path)
    if b"\0" in content[:8192]:
        raise ToolError(f"'{path}' is not text ({len(content)} bytes)")
    lines = content.decode(errors="replace").splitlines()
    first = max(args.get("offset", 1), 1)
    last = first - 1 + max(args.get("limit", READ_LINES), 1)
    out: list[str] = []
    chars = 0
    for number, line in enumerate(lines[first - 1 : last], first):
        shown = f"{number}\t{line[:LINE_CHARS_MAX]}{'…' if len(line) > LINE_CHARS_MAX else ''}"
        chars += len(shown) + 1
        if chars > READ_CHARS_MAX:
            break
        out.append(shown)
    after = first - 1 + len(out)
    if after < len(lines):
        out.append(f"… (lines {after + 1} to {len(lines)} are not shown; read on with offset {after + 1})")
    return _ok("\n".join(out) if out else "(empty)" if not lines else f"(the file has {len(lines)} lines)")


def write(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
    full = box.find_to_write(args["path"])
    content = args["content"].encode("utf-8", "surrogatepass")
    there = full.exists()
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(content)
    return _ok(f"{'written' if there else 'made'}: {args['path']}, {len(content)} bytes")


def edit(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
    path, wanted = args["path"], args.get("count", 1)
    full = box.find_to_write(path)
    old, new = args["old"].encode(), args["new"].encode()
    if not old:
        raise ToolError("edit: 'old' is empty; write makes a file")
    content = _bytes_of(full, path)
    found = content.count(old)
    if found != wanted:
        hint = ""
        if not found and b"\r\n" in content and b"\r\n" not in old and b"\n" in old:
            hint = "; the file has CRLF line ends"
        elif found:
            hint = "; take more of what stands around it, or give the count"
        raise ToolError(f"edit: 'old' was found {found} times in '{path}', to be {wanted}{hint}; nothing was changed")
    full.write_bytes(content.replace(old, new))
    return _ok(f"edited: {path}, {found} place{'s' if found > 1 else ''}")


def delete(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
    entry = box.find_entry(args["path"])
    if entry.is_dir() and not entry.is_symlink():
        raise ToolError(f"'{args['path']}' is a folder; use shell")
    entry.unlink()
    return _ok(f"deleted: {args['path']}")


def listing(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
    folder = box.find(args.get("path", "."))
    with os.scandir(folder) as found:
        entries = sorted(_shown(entry.name) + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in found)
    more = [f"… ({len(entries) - ENTRIES_MAX} more)"] if len(entries) > ENTRIES_MAX else []
    return _ok("\n".join(entries[:ENTRIES_MAX] + more) or "(empty)")


def search(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
    try:
        pattern = re.compile(args["pattern"])
    except re.error as error:
        raise ToolError(f"search: {args['pattern']!r} is not a regular expression: {error}") from error
    glob = args.get("glob", "*")
    out: list[str] = []
    for path in box.files():
        if not fnmatch.fnmatchcase(path if "/" in glob else os.path.basename(path), glob):
            continue
        for number, line in _lines(box.root / path):
            if pattern.search(line):
                out.append(
                    f"{_shown(path)}:{number}:{line[:MATCH_CHARS_MAX]}{'…' if len(line) > MATCH_CHARS_MAX else ''}"
                )
            if len(out) == MATCHES_MAX:
                return _ok("\n".join([*out, f"… (only the first {MATCHES_MAX})"]), matches=len(out))
    return _ok("\n".join(out) or "(nothing found)", matches=len(out))


def _lines(full: Path) -> Iterator[tuple[int, str]]:
    """Lines of a text file; of anything else, none.  A link is looked at where it leads, if at all."""
    content = b""
    with contextlib.suppress(OSError):
        if full.is_file() and not full.is_symlink() and full.stat().st_size <= SEARCH_FILE_BYTES_MAX:
            content = full.read_bytes()
    if b"\0" not in content[:8192]:
        # A line is cut before it is searched: a pattern may take time that grows with the square of the length.
        yield from (
            (n, line[:LINE_CHARS_MAX]) for n, line in enumerate(content.decode(errors="replace").splitlines(), 1)
        )


def run_shell(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
    limit_s = args.get("timeout", SHELL_TIMEOUT_S)
    if not 1 <= limit_s <= SHELL_TIMEOUT_MAX_S:
        raise ToolError(f"shell: 'timeout' is 1 to {SHELL_TIMEOUT_MAX_S} seconds, found {limit_s}")
    if "\0" in args["command"]:
        raise ToolError("shell: a command holds no NUL character")
    end = shell.run(args["command"], box.root, box.env, limit_s, box.show, box.inside)
    how = f"exit code {end.exit_code}"
    if end.timed_out:
        how = f"killed after {limit_s} s"
    elif end.signal is not None:
        how = f"killed by signal {end.signal}"
    text = f"{end.text.rstrip()}\n({how})" if end.text.strip() else f"({how})"
    return {"text": text, "failed": end.exit_code != 0, "exit_code": end.exit_code}


_PATH = Param(str, "path of the file, relative to the worktree")

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "read",
            "Read a text file. Each line comes with its number and a tab before it.",
            {
                "path": _PATH,
                "offset": Param(int, "first line, from 1", False),
                "limit": Param(int, f"how many lines, {READ_LINES} if not given", False),
            },
            read,
        ),
        Tool(
            "write",
            "Write a whole file; its folders are made, what was there is replaced.",
            {"path": _PATH, "content": Param(str, "the whole text")},
            write,
            writes=True,
        ),
        Tool(
            "edit",
            "Replace an exact text in a file. It must be found exactly as often as `count` says, else nothing changes.",
            {
                "path": _PATH,
                "old": Param(str, "the text as it stands, line ends and indents included"),
                "new": Param(str, "what takes its place"),
                "count": Param(int, "in how many places, 1 if not given", False),
            },
            edit,
            writes=True,
        ),
        Tool("delete", "Delete a file or a link.", {"path": _PATH}, delete, writes=True, comes_with="write"),
        Tool(
            "list",
            "List a folder; folders end in a slash.",
            {"path": Param(str, "the folder, the worktree's top if not given", False)},
            listing,
            comes_with="read",
        ),
        Tool(
            "search",
            "Search the lines of all text files for a regular expression (Python's).",
            {
                "pattern": Param(str, "the regular expression"),
                "glob": Param(str, "which files: a name like *.py, or with a slash a path like src/*.py", False),
            },
            search,
        ),
        Tool(
            "shell",
            "Run a command with bash in the worktree. Nothing of it lives on when it has ended.",
            {
                "command": Param(str, "the command"),
                "timeout": Param(int, f"seconds, {SHELL_TIMEOUT_S} if not given", False),
            },
            run_shell,
            writes=True,
            repeatable=None,
        ),
    )
}


def subject(name: str, args: JsonMap) -> str:
    """What a call is about; of a tool that is not ours all that it is called with."""
    if name in SUBJECTS and SUBJECTS[name] in args:
        return str(args[SUBJECTS[name]])
    return json.dumps(args, ensure_ascii=False) if args else ""
