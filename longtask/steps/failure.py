"""Why a command has failed: in words for people and for the agent that mends it, and as a digest.

- The words are all that a fix is told, so they begin with the command and how it ended, then name the tests that
  failed, and end with the last lines: never longer than a reason may be, however long each of them is.
- The digest answers "are these the failures of the round before?" for the fix loop. What differs from run to run
  without meaning anything (times, addresses, folders, order) must not change it; any progress must. In doubt it
  differs: that costs one of a few rounds, while stopping a loop that gets somewhere costs a person's time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from longtask.core.policy import REASON_LENGTH_MAX
from longtask.steps.output import RECENT_BYTES, plain, tail

LAST_LINES = 15
NAMES_CHARS_MAX = 900  # of the reason; the last lines have the rest
LINE_LENGTH_MAX = 2_000  # of a line that is searched; expressions grow with its square

_TELLING = re.compile(r"error|fail|exception|fatal|panic|assert|cannot|can't|not found|undefined|refused|denied", re.I)

_NOISE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<uuid>"),
        (r"\b0x[0-9a-fA-F]+\b", "<address>"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
        (r"\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
        (r"\b\d{4}-\d\d-\d\d\b", "<time>"),
        # Worktrees and temporary folders differ from attempt to attempt; the name of the file does not.
        (r"(?<![\w./:])/(?:[^\s/:'\"()\[\]<>,;]+/)+", "<folder>/"),
        (r"(\.\w{1,5}):\d+(?::\d+)?\b", r"\1:<line>"),
        (r"\bline \d+", "line <line>"),
        (r"\b(?:\d+m ?)?\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?)\b", "<duration>"),
        (r"\b([Pp][Ii][Dd]|[Pp]rocess|[Tt]hread|[Ss]eed)([ =:#]+)\d+", r"\1\2<n>"),
        (r"(\w)\[\d+\]:", r"\1[<n>]:"),
        (r"\b(localhost|127\.0\.0\.1|0\.0\.0\.0):\d+", r"\1:<port>"),
        (r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b", "<hash>"),
        (r"\b\d{10,}\b", "<n>"),
        (r"\s+", " "),
    )
)


def reason(head: str, failing: Mapping[str, str], failed: int | None, output: bytes) -> str:
    """`head`: how it ended, and the command.  `failed`: how many tests, if the output tells it."""
    parts = [head, *_named(list(failing), failed)]
    room = REASON_LENGTH_MAX - sum(len(part) + 1 for part in parts)
    last = tail(output, LAST_LINES, bytes_max=2 * REASON_LENGTH_MAX)
    return "\n".join([*parts, last[-room:]]).rstrip()


def _named(names: list[str], failed: int | None) -> list[str]:
    if not names:
        return []
    lines: list[str] = []
    room = NAMES_CHARS_MAX
    for name in names:
        room -= len(name) + 3
        if room < 0:
            break
        lines.append(f"- {name}")
    number = max(failed or 0, len(names))
    left_out = number - len(lines)
    more = [f"- and {left_out} more"] if left_out else []
    return [f"Failed tests: {number}", *lines, *more, "Last lines:"]


def without_noise(line: str) -> str:
    """The line without what differs from run to run."""
    for pattern, word in _NOISE:
        line = pattern.sub(word, line)
    return line.strip()


def digest(failing: Mapping[str, str], output: bytes, code: int | None) -> str:
    """32 hex digits for what failed: the tests with the kinds of their failures, else the last words.

    A test that now fails in another way is progress, with another number it is not.  `code`: of the exit, None if a
    signal ended it."""
    lines = {f"{without_noise(name)} {kind}" for name, kind in failing.items()} or _last_words(output)
    return hashlib.sha256("\n".join([f"exit {code}", *sorted(lines)]).encode()).hexdigest()[:32]


def _last_words(output: bytes) -> set[str]:
    lines = [line[:LINE_LENGTH_MAX] for line in plain(output[-RECENT_BYTES:]).split("\n") if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    return {without_noise(line) for line in (telling[-200:] or lines[-40:])}
