"""What a repository tells an agent: `AGENTS.md`, and skills.

AGENTS.md of the top stands in the instructions; that of a folder is told when a tool first touches something in there,
and goes before those above it.  A skill is a folder with a `SKILL.md` in `.agents/skills` or `.claude/skills`; its name
and description stand in the instructions, the rest is read when the model asks for it.

All of it is text out of the repository: whoever can write there can word it.  It gives no right that the plan does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtask.agents.tools import Param, Tool, Toolbox, ToolError
from longtask.core.model import JsonMap

MEMORY = "AGENTS.md"
MEMORY_CHARS_MAX = 32_000
SKILLS = (".agents/skills", ".claude/skills")
SKILL = "SKILL.md"
SKILLS_MAX = 100
ABOUT_CHARS_MAX = 1_024
SKILL_CHARS_MAX = 64_000
FILES_MAX = 100
_SKILL = Param(str, "its name, as it is listed")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_FIELD = re.compile(r"([A-Za-z_-]+):\s*(.*)")


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    about: str
    folder: str  # relative to the worktree


def memory_of(root: Path, folder: str = "") -> str | None:
    """The AGENTS.md of a folder of the worktree; None: there is none."""
    return _text(root, os.path.join(folder, MEMORY), MEMORY_CHARS_MAX)


def folders_to(path: str) -> Iterator[str]:
    """The folders from below the top down to `path`, itself included if it is one."""
    parts = [part for part in os.path.normpath(path).split(os.sep) if part not in ("", ".")]
    if os.path.isabs(path) or ".." in parts:
        return
    for depth in range(1, len(parts) + 1):
        yield os.path.join(*parts[:depth])


def skills_of(root: Path) -> list[Skill]:
    """Sorted by name; of two with one name, the first place's."""
    found: dict[str, Skill] = {}
    for place in SKILLS:
        folder = root / place
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        for name in names[:SKILLS_MAX]:
            text = _text(root, f"{place}/{name}/{SKILL}", SKILL_CHARS_MAX)
            if text is None or not _NAME.fullmatch(name):
                continue
            about = _head(text).get("description", "")[:ABOUT_CHARS_MAX]
            found.setdefault(name, Skill(name, about, f"{place}/{name}"))
    return sorted(found.values(), key=lambda skill: skill.name)


def skill_text(root: Path, skill: Skill) -> str:
    """What its SKILL.md says, and which files stand beside it."""
    text = _text(root, f"{skill.folder}/{SKILL}", SKILL_CHARS_MAX) or ""
    files = sorted(
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root / skill.folder)
        for name in names
        if name != SKILL
    )
    more = [f"\nFiles of this skill (read them with `read`, run them with `shell`):\n{chr(10).join(files[:FILES_MAX])}"]
    return "\n".join([_body(text).strip(), *(more if files else [])])


def skill_tool(root: Path) -> Tool:
    def use(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
        skills = {skill.name: skill for skill in skills_of(root)}
        if args["name"] not in skills:
            raise ToolError(f"skill: no skill '{args['name']}'; there is {', '.join(map(repr, skills)) or 'none'}")
        return {"text": skill_text(root, skills[args["name"]]), "failed": False}

    return Tool("skill", "Read a skill: how work of one kind is done here.", {"name": _SKILL}, use, comes_with="read")


def _text(root: Path, path: str, chars_max: int) -> str | None:
    """None: no file, or none inside of the worktree."""
    full = Path(os.path.realpath(root / path))
    if root not in full.parents or not full.is_file():
        return None
    try:
        text = full.read_text(errors="replace")
    except OSError:
        return None
    return text if len(text) <= chars_max else f"{text[:chars_max]}\n… (cut here: {len(text)} characters)"


def _head(text: str) -> Mapping[str, str]:
    """The fields of the front matter that are plain text.  Lines that are indented continue the field above."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    fields: dict[str, str] = {}
    name = ""
    for line in lines[1:]:
        if line.strip() == "---":
            break
        field = _FIELD.fullmatch(line)
        if field is not None:
            name = field[1]
            fields[name] = "" if field[2] in (">", "|", ">-", "|-") else field[2].strip().strip("\"'")
        elif name and line[:1].isspace():
            fields[name] = f"{fields[name]} {line.strip()}".strip()
    return fields


def _body(text: str) -> str:
    parts = re.split(r"^---\s*$", text, maxsplit=2, flags=re.MULTILINE)
    return parts[2] if len(parts) == 3 and not parts[0].strip() else text
