"""Notes that outlive a run: what an agent of one workspace leaves for the runs that come after it.

A note is a call of the tool `note`, and stands in the run's journal like any other.  When the end of the run is
accepted, its notes become an artifact of the step (`notes/STEP.ATTEMPT.json`), which people see as they see other
artifacts.  A later run in the same workspace is told the newest of them among its instructions.  That is an input of
its replay and has a row of its own, so that what is noted meanwhile does not make it diverge.

A note is text that a model has written: whoever could make the model write it could word it.  It gives no right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from longtask.agents.tools import Param, Tool, Toolbox, ToolError
from longtask.core.model import JsonMap

NAME = "note"
FOLDER = "notes/"
NOTE_CHARS_MAX = 1_000
KEPT_MAX = 20  # of one run
TOLD_CHARS_MAX = 12_000  # of all that a run is told


def _note(box: Toolbox, args: Mapping[str, Any]) -> JsonMap:
    text = args["text"].strip()
    if not text:
        raise ToolError("note: 'text' is empty")
    if len(text) > NOTE_CHARS_MAX:
        raise ToolError(f"note: {len(text)} characters, at most {NOTE_CHARS_MAX}; what is longer belongs into a file")
    return {"text": "noted for later runs", "failed": False, NAME: text}


NOTE = Tool(
    NAME,
    "Leave a note for agents that will work in this repository after you: what was hard to find out and will be true "
    "then, such as how its tests are run. Not what you are doing, nor what the files say.",
    {"text": Param(str, "one thing, in a sentence or two")},
    _note,
    comes_with="read",
)


def of_rows(rows: Iterable[JsonMap]) -> list[str]:
    """What a run has noted, in its order, each once."""
    noted = [row["body"].get(NAME) for row in rows if row["kind"] == "tool" and row["name"] == NAME and row.get("body")]
    return list(dict.fromkeys(text for text in noted if isinstance(text, str)))[:KEPT_MAX]


def told(notes: Sequence[JsonMap]) -> str | None:
    """Among the instructions; None: there is nothing.  `notes`: {step, text}, the newest first."""
    lines: list[str] = []
    chars = 0
    for note in notes:
        line = f"- {' '.join(str(note['text']).split())}"
        chars += len(line)
        if chars > TOLD_CHARS_MAX:
            break
        lines.append(line)
    if not lines:
        return None
    listed = "\n".join(reversed(lines))
    return (
        "What agents before you have noted about this repository, the newest last. It may be out of date: look before "
        f"you rely on it, and leave a note yourself (`{NAME}`) if it is wrong.\n\n{listed}"
    )
