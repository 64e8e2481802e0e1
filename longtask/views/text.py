"""Text of tasks (goals, reasons, questions) as one line for people.

It may hold sequences that move a cursor, or be as long as a log.
"""

from __future__ import annotations

from longtask.steps.output import plain


def clean(text: object, length_max: int = 300) -> str:
    """One line without control characters."""
    raw = str(text)[: 4 * length_max].encode(errors="surrogateescape")
    one = " ".join(plain(raw).split())
    return one if len(one) <= length_max else one[: length_max - 1] + "…"


def first_line(text: object, length_max: int = 300) -> str:
    lines = str(text).strip().splitlines()
    return clean(lines[0], length_max) if lines else ""


def gist(reason: str | None, length_max: int = 300) -> str:
    """Of a failure: how it ended, and the last that was said.  The command itself is known to whoever reads it.  Of a
    list of problems: what they are about, the first, and how many more."""
    lines = [line for line in (reason or "").strip().splitlines() if line.strip()]
    if not lines:
        return ""
    if problems := problems_in(reason or ""):
        more = f" (and {len(problems) - 1} more)"
        first = clean(f"{lines[0]} {problems[0]}", length_max - len(more))
        return first + (more if len(problems) > 1 else "")
    how, colon, _ = lines[0].partition(": ")
    if len(lines) == 1 or not colon or not how.startswith(("exit code ", "signal ")):
        return clean(lines[0], length_max)
    return clean(f"{how}: {lines[-1].strip(' =')}", length_max)


def problems_in(reason: str) -> list[str]:
    """Of a reason that is a head and a list of problems, the list."""
    head, *rest = [line.strip() for line in reason.splitlines() if line.strip()] or [""]
    return rest if head.endswith(":") and not head.startswith(("exit code ", "signal ")) else []


def counted(number: int, what: str) -> str:
    """`1 step`, `2,000 steps`"""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
