"""What a run is told before its first turn, beside its prompt.  The same input gives the same text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from longtask.agents.builtin.memory import MEMORY, memory_of, skills_of
from longtask.agents.notes import told
from longtask.core.model import JsonMap

WORK = """\
You are a coding agent. You work alone in a checkout of a repository, by calling tools; paths are relative to its top.

- Look before you change: find the code, read it, read its tests.
- Change what the work needs and nothing else; follow the style that is there.
- Prefer `edit` to `write` for a file that exists. Run the checks that there are, and see that they pass.
- A tool that fails says why: take another way instead of calling it again unchanged.
- Nobody watches. Ask a person only when a decision is theirs; the work stands still until they answer.
- Your changes are committed for you: do not commit, push or switch branches.
- Say what you did at the end, in a few sentences, and what is left open."""


def instructions(root: Path, noted: Sequence[JsonMap] = ()) -> str:
    """`noted`: by earlier runs."""
    parts = [WORK]
    memory = memory_of(root)
    if memory is not None and memory.strip():
        parts.append(
            f"What this repository says in its {MEMORY}. A deeper {MEMORY} goes before it.\n\n{memory.strip()}"
        )
    skills = skills_of(root)
    if skills:
        listed = "\n".join(f"- {skill.name}: {skill.about}" for skill in skills)
        parts.append(f"Skills, to be read with the tool `skill` before work of their kind:\n{listed}")
    left = told(noted)
    parts += [left] if left is not None else []
    return "\n\n".join(parts)
