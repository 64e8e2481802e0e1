"""Evidence, not words: what must hold of an attempt's work before its step may be completed.

A plan says so in `evidence`; a step that does not bear it out has failed like any other, so that a fix or the next run
is told what was missing:

    protect          paths and globs: files of the base that may be neither changed nor deleted (new ones may come)
    change           true: work that has changed nothing is no work
    tests_min        that many tests must have passed, as the output tells (`progress`), or the reports (`junit`)
    coverage         {report, min}: of a file that the command writes: Cobertura XML, LCOV, or coverage.py's JSON

The numbers stand in the step's outputs (`tests`, `coverage`, and `tested`: the commit that was tested).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from longtask.core.model import Json, JsonMap
from longtask.steps.reading.contract import Progress

REPORT_BYTES_MAX = 50_000_000
SHOWN_MAX = 5
_COBERTURA = re.compile(r"<coverage\b[^>]*?\bline-rate=[\"']([\d.]+)[\"']")
_LCOV = re.compile(r"^(LF|LH):(\d+)$", re.MULTILINE)


def numbers(wanted: JsonMap, seen: Progress | None, folder: Path, commit: str | None) -> dict[str, Json]:
    """What a command that has succeeded shows.  Raises ValueError, in words for whoever mends it."""
    found: dict[str, Json] = {}
    if "tests_min" in wanted:
        passed = seen.passed if seen is not None else None
        if passed is None:
            raise ValueError("evidence: nothing that it has written tells how many tests have passed")
        if passed < wanted["tests_min"]:
            raise ValueError(f"evidence: {passed} tests have passed, at least {wanted['tests_min']} are to")
        found["tests"] = passed
    if "coverage" in wanted:
        report, least = wanted["coverage"]["report"], wanted["coverage"]["min"]
        reached = coverage(folder, report)
        if reached < least:
            raise ValueError(
                f"evidence: {reached:.1f} % of the lines are covered ({report}), at least {least} % are to be"
            )
        found["coverage"] = round(reached, 1)
    if found and commit is not None:
        found["tested"] = commit
    return found


def coverage(folder: Path, report: str) -> float:
    """Per cent of the lines, as the report in the folder says.  Raises ValueError."""
    path = (folder / report).resolve()
    try:
        if not path.is_relative_to(folder.resolve()) or not path.is_file() or path.stat().st_size > REPORT_BYTES_MAX:
            raise ValueError(f"evidence: coverage report '{report}' was not written, or is no ordinary file")
        text = path.read_text(errors="replace")
    except OSError as error:
        raise ValueError(f"evidence: coverage report '{report}': {(error.strerror or str(error)).lower()}") from error
    if match := _COBERTURA.search(text):
        return float(match[1]) * 100
    if lines := _LCOV.findall(text):
        total = sum(int(number) for word, number in lines if word == "LF")
        return 100 * sum(int(number) for word, number in lines if word == "LH") / total if total else 100.0
    try:
        return float(json.loads(text)["totals"]["percent_covered"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"evidence: coverage report '{report}' is neither Cobertura XML, nor LCOV, nor coverage.py's JSON"
        ) from None


def touched(protect: Sequence[str], changed: Iterable[str]) -> list[str]:
    """Of the paths, those that a rule names: a glob, a file, or all below a folder."""
    return [path for path in changed if any(_names(rule, path) for rule in protect)]


def _names(rule: str, path: str) -> bool:
    return fnmatchcase(path, rule) or path == rule or path.startswith(rule.rstrip("/") + "/")


def listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN_MAX} more" if len(paths) > SHOWN_MAX else ""
    return ", ".join(f"'{path}'" for path in paths[:SHOWN_MAX]) + more
