"""Words that are given to a command: in a file, on stdin, or as options."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from longtask.core.errors import BadPlan, NotFound
from longtask.core.graph import did_you_mean
from longtask.core.model import Json, Task

if TYPE_CHECKING:
    from longtask.core.grow import Growth


def read_words(file: str) -> tuple[bytes, str]:
    """Bytes and the name that messages give them.  Raises NotFound."""
    if file == "-":
        return sys.stdin.buffer.read(), "stdin"
    try:
        return Path(file).read_bytes(), file
    except OSError as error:
        raise NotFound(f"file {file!r}: {error.strerror}") from error


def prompt_in(given: str) -> str:
    """The text itself, or what a file holds: @FILE, and @- for stdin.  Raises BadPlan, NotFound."""
    if not given.startswith("@"):
        return given
    text, name = read_words(given[1:])
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadPlan(f"{name}: a prompt is UTF-8 text; byte {error.start} is none") from error


def growth_in(file: str, task: Task, stage: str | None, before: str | None, after: str | None) -> Growth:
    """Raises BadPlan, NotFound."""
    from longtask.plan.growth import growth_of

    text, name = read_words(file)
    return growth_of(text, name, task, folder=folder_of(file), stage=stage, before=before, after=after)


def folder_of(file: str) -> Path:
    """From which it names other files."""
    return Path() if file == "-" else Path(file).parent


def growth_words(file: str, stage: str | None, before: str | None, after: str | None) -> dict[str, Json]:
    """The same as a request's body, for a server that knows the task.  Raises BadPlan, NotFound."""
    from longtask.plan import growth

    words = growth.without_head(growth.words_of(*read_words(file), folder_of(file)))
    for word in words:
        known = growth.Growth.model_fields
        if word not in known:
            raise BadPlan(f"{file}: {word!r} is no word of steps that are added{did_you_mean(word, known)}")
    said = {"stage": stage, "before": before, "after": after}
    return words | {word: value for word, value in said.items() if value is not None}


def values_in(file: str) -> dict[str, Json]:
    """A mapping in a YAML file.  Raises BadPlan, NotFound."""
    from longtask.plan.compile import TEXT_UNDER
    from longtask.plan.yaml import parse

    text, name = read_words(file)
    raw, _, findings = parse(text, name, text_under=TEXT_UNDER)
    findings.raise_if_any()
    if not isinstance(raw, dict):
        raise BadPlan(f"{name}: write a mapping, such as `timeout: 1h`")
    return dict(raw)


def words_of(
    prompt: str | None, run: str | None, timeout: str | None, retry: int | None, file: str | None
) -> dict[str, Json]:
    """The words of a step that were given, in a file or as options.  Raises BadPlan, NotFound."""
    words = {} if file is None else values_in(file)
    given = {"run": run, "timeout": timeout, "retry": retry}
    words |= {name: value for name, value in given.items() if value is not None}
    if prompt is not None:
        agent = words.get("agent")
        words["agent"] = {**(agent if isinstance(agent, dict) else {}), "prompt": prompt_in(prompt)}
    return words


def outputs_of(pairs: list[str]) -> dict[str, Json] | None:
    """Raises BadPlan."""
    found: dict[str, Json] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise BadPlan(f"--output {pair!r}: write NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found or None
