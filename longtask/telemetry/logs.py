"""How log lines look: `event key=value …: words`, as they are written, or each as one JSON object.

LONGTASK_LOG_FORMAT chooses: text (the default) or json.  The names and values of JSON come from the line's own
`key=%s` places, so both forms say the same; a line about a task names its trace.  What looks like a key is taken out.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Mapping
from typing import Any, TextIO

from longtask.core.errors import BadPlan
from longtask.redaction import redact
from longtask.telemetry.ids import trace_id

VARIABLE = "LONGTASK_LOG_FORMAT"
TEXT, JSON = "text", "json"
TEXT_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_PLACE = re.compile(r"(\w+)=%[-+0-9.]*[srdifgxX]")
_ANY = re.compile(r"%(?:%|[-+0-9.]*[srdifgxXce])")
_EVENT = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = redact(record.getMessage())
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        named = _EVENT.match(message)
        if named:
            line["event"] = named[0]
        for name, value in fields_of(record).items():
            line.setdefault(name, value)
        task = line.get("task")
        if isinstance(task, str):
            line["trace_id"] = trace_id(task)
        line["message"] = message
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The values of the line's `key=%s` places, numbers as numbers."""
    if not isinstance(record.args, tuple) or not isinstance(record.msg, str):
        return {}
    found: dict[str, Any] = {}
    places = {match.end(): match[1] for match in _PLACE.finditer(record.msg)}
    values = iter(record.args)
    for match in _ANY.finditer(record.msg):
        if match[0] == "%%":
            continue
        value = next(values, None)
        if (name := places.get(match.end())) is not None:
            found[name] = value if isinstance(value, int | float) or value is None else redact(str(value))
    return found


def formatter(environment: Mapping[str, str] = os.environ, text: str = TEXT_FORMAT) -> logging.Formatter:
    """Raises BadPlan."""
    word = environment.get(VARIABLE, "").strip().lower() or TEXT
    if word == JSON:
        return JsonLines()
    if word != TEXT:
        raise BadPlan(f"{VARIABLE} {word!r}: write {TEXT} or {JSON}")
    return TextLines(text)


def log_lines(stream: TextIO, level: int = logging.INFO) -> None:
    """All logs of this process go there from now on, and nowhere else.  Raises BadPlan."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
