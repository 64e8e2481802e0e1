"""What only Codex is told: patches in place of edits, and JavaScript where its models know one tool only.

Which tools Codex offers depends on the model that it believes to talk to:

- a model that it does not know: `exec_command`; a patch is a here-document for `apply_patch`, which Codex intercepts;
- models with tools: `exec_command`, and `apply_patch` as a tool that takes free text;
- models of "code mode": `exec` alone, which takes JavaScript; the other tools are functions of it.

A patch changes whole lines.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from longtask.modelserver.asked import Tool

SHELL, PATCH, CODE = "exec_command", "apply_patch", "exec"


def call_of(
    name: str, words: Mapping[str, str], tools: Mapping[str, Tool]
) -> tuple[str, Mapping[str, str] | str] | None:
    """Name and arguments of a portable call; None: this is not Codex."""
    if CODE in tools and tools[CODE].params is None:
        return CODE, f"text(await tools.{_function(name, words)});"
    if SHELL not in tools:
        return None
    if name not in ("write", "edit"):
        return SHELL, {"cmd": _command(name, words)}
    if PATCH in tools and tools[PATCH].params is None:
        return PATCH, patch(words)
    return SHELL, {"cmd": f"{PATCH} <<'END_OF_PATCH'\n{patch(words)}\nEND_OF_PATCH"}


def _function(name: str, words: Mapping[str, str]) -> str:
    if name in ("write", "edit"):
        return f"{PATCH}({json.dumps(patch(words))})"
    return f"{SHELL}({json.dumps({'cmd': _command(name, words)})})"


def _command(name: str, words: Mapping[str, str]) -> str:
    return words["command"] if name == "shell" else f"cat {shlex.quote(words['path'])}"


def patch(words: Mapping[str, str]) -> str:
    """Of {path, old, new}; or of {path, content}: the file is made, or written anew."""
    added = [f"+{line}" for line in words.get("new", words.get("content", "")).splitlines()]
    if "old" in words:
        body = [f"*** Update File: {words['path']}", "@@", *(f"-{line}" for line in words["old"].splitlines()), *added]
    else:
        body = [f"*** Add File: {words['path']}", *added]
    return "\n".join(["*** Begin Patch", *body, "*** End Patch"])
