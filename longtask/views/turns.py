"""An agent's run as it stands: rows of the run journal, as a reader sees them.

They have the shape of the lines of a transcript, which an attempt leaves when it has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from longtask.core.model import JsonMap
from longtask.redaction import redact_value
from longtask.steps.session import without
from longtask.store.contract import JournalRow


def turn_maps(rows: Iterable[JournalRow]) -> list[dict[str, Any]]:
    return [turn_map(row) for row in rows]


def turn_map(row: JournalRow) -> dict[str, Any]:
    """`body` null: it was begun, and goes on."""
    return {
        "n": row.n,
        "kind": row.kind,
        "name": row.name,
        "attempt": row.attempt,
        "tokens_in": row.tokens_in,
        "tokens_out": row.tokens_out,
        "micros": row.micros,
        "started_at": row.started_at or None,
        "done_at": row.done_at or None,
        "body": redact_value(without(cast("JsonMap | None", row.body))),
    }
