"""`longtask trace`: where a task's time has gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from longtask.cli.help import commands
from longtask.cli.paint import Line, cells
from longtask.cli.session import TASK, Session
from longtask.core.model import JsonMap
from longtask.telemetry import settings
from longtask.telemetry.reading import SPANS_SHOWN, read_trace, spans_of, trace_map
from longtask.telemetry.source import ERROR, Span, SpanKind, by_beginning
from longtask.views.text import clean
from longtask.views.words import duration

LINES_SHOWN = 200
SPANS_MAX = 200_000
WIDTH_USUAL, BAR_MIN = 100, 16
NAME_SHARE = 0.5  # of the width, at most
TIME_CELLS = 8


def register(app: typer.Typer) -> None:
    command = commands(app, "Look")

    @command()
    def trace(
        ctx: typer.Context,
        task: Annotated[str, typer.Argument(help=f"{TASK}; default: @last")] = "@last",
        all_spans: Annotated[
            bool, typer.Option("--all", help=f"every span; else at most {LINES_SHOWN} lines, {SPANS_SHOWN} as JSON")
        ] = False,
    ) -> int:
        """Show where a task's time has gone: stages, steps, waits, attempts, and each call of a model or a tool.

        Read from the trace file in $LONGTASK_HOME, which needs no collector and is brought up to the journal first. The
        same spans go to a collector where the usual OTEL_* variables name one. A step's line begins when it could first
        be claimed, an attempt's when a worker took it: the gap is the time in the queue.

        Examples:
            longtask trace
            longtask trace release-12 --json | jq '.spans[] | select(.kind == "turn") | .attributes'
        """
        session: Session = ctx.obj
        found = session.task(task)
        chosen, limit = settings.load(), SPANS_MAX if all_spans else SPANS_SHOWN
        read = read_trace(session.parts.store, session.config.home, chosen, found, limit=limit)
        return say_trace(session, trace_map(read), session.parts.store.now(), all_spans)


def say_trace(session: Session, document: JsonMap, now: int, whole: bool) -> int:
    """`document`: see docs/json.md."""
    if session.json:
        session.give(document)
        return 0
    session.say([(document["handle"], "bold"), (f"  trace {document['trace_id']}", "dim")])
    made = list(waterfall(spans_of(document), now, session.out.columns or WIDTH_USUAL, session.out.whole_unicode))
    for line in made if whole else made[:LINES_SHOWN]:
        session.say(line)
    if not whole and (len(made) > LINES_SHOWN or document["cut"]):
        session.say([(f"… more: {session.command('trace', document['handle'], '--all')}", "dim")])
    if document["dropped"]:
        session.say([(f"{document['dropped']} spans are not kept: the task has too many", "dim")])
    return 0


def waterfall(spans: Sequence[Span], now: int, width: int, unicode: bool = True) -> Iterator[Line]:
    """A line for each span, under its parent: its name, how long it took, and when, as a bar."""
    rows = list(_tree(spans))
    if not rows:
        return
    begin = min(span.started_at for span, _ in rows)
    end = max(max(span.ended_at or now, span.started_at) for span, _ in rows)
    names = [f"{'  ' * depth}{_name(span)}" for span, depth in rows]
    most = max(int(width * NAME_SHARE), 20)
    column = min(max(map(cells, names)), most)
    bar = max(width - column - TIME_CELLS - 4, BAR_MIN)
    full, tip = ("█", "▏") if unicode else ("#", "|")
    for (span, _), name in zip(rows, names, strict=True):
        took = duration(max((span.ended_at or now) - span.started_at, 0))
        first, last = _place(span, now, begin, end, bar)
        drawn = " " * first + (full * (last - first) or tip)
        shown = name if cells(name) <= column else name[: column - 1] + "…"
        more = ">" if not span.ended_at else ""
        style = "red" if span.status == ERROR else "yellow" if not span.ended_at else _STYLES.get(span.kind, "")
        yield [
            (shown + " " * (column - cells(shown)), style if style != "dim" else ""),
            (f"{took:>{TIME_CELLS}}  ", "dim"),
            (drawn + more, style),
        ]


def _place(span: Span, now: int, begin: int, end: int, width: int) -> tuple[int, int]:
    """Cells from … to; the same twice where it was shorter than one."""
    whole = max(end - begin, 1)
    first = min((span.started_at - begin) * width // whole, width - 1)
    last = min((max(span.ended_at or now, span.started_at) - begin) * width // whole, width)
    if (max(span.ended_at or now, span.started_at) - span.started_at) * width < whole:
        return first, first
    return first, max(last, first + 1)


def _tree(spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """Parents before their children; what has lost its parent hangs under the task."""
    known = {span.id for span in spans}
    roots = [span for span in spans if span.kind is SpanKind.TASK]
    lost = roots[0].id if roots else ""
    children: dict[str, list[Span]] = {}
    for span in spans:
        parent = span.parent if span.parent in known else lost if span.id != lost else ""
        children.setdefault(parent, []).append(span)
    left = [(span, 0) for span in reversed(children.get("", []))]
    while left:
        span, depth = left.pop()
        yield span, depth
        inner = sorted(children.get(span.id, ()), key=by_beginning)
        left += [(child, depth + 1) for child in reversed(inner)]


def _name(span: Span) -> str:
    name = clean(span.name)
    if span.kind is SpanKind.ATTEMPT:
        name = f"attempt {span.attempt}"
        outcome = span.attributes.get("longtask.outcome")
        return f"{name}, {clean(str(outcome))}" if outcome and outcome != "completed" else name
    if span.kind in (SpanKind.STEP, SpanKind.TASK):
        state = span.attributes.get("longtask.state")
        return f"{name}, {state}" if state and state != "completed" else name
    return name


_STYLES = {SpanKind.WAIT: "dim", SpanKind.TURN: "cyan", SpanKind.TOOL: "cyan", SpanKind.TASK: "bold"}
