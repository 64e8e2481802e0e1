"""The ratios as a picture: one bar for each peer in each case, on a logarithmic scale, SVG by hand.  Pure.

A bar to the right of the line at 1: LongTask is so many times as fast (or needs so many times less)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10

from bench.peers.plan import PEERS, WORKLOADS
from bench.peers.report import Row

WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 860, 210, 70, 14, 10, 56
LEAST, MOST = 0.1, 100.0
COLOURS = {"sqlite": "#2a6f97", "postgres": "#7b5ea7"}
TEXT, FAINT = "#1f2328", "#d0d7de"


def picture(rows: Sequence[Row]) -> str:
    """Cases without a ratio are left out."""
    drawn = [(row, better(row)) for row in rows if row.ratio is not None]
    out: list[str] = []
    y = TOP
    case = None
    for row, ratio in drawn:
        if (row.workload, row.database) != case:
            case = (row.workload, row.database)
            y += GAP
            out.append(_text(12, y + BAR - 3, f"{row.workload}, {row.database}", bold=True))
            y += BAR + 3
        out += _bar(y, row, ratio)
        y += BAR + 3
    height = y + 24
    body = "\n".join([*_axis(height), *out])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="11">\n'
        f"<title>LongTask against its peers</title>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f"{body}\n</svg>\n"
    )


def better(row: Row) -> float:
    """How many times as good LongTask is: above 1 it is better, whatever the unit."""
    assert row.ratio is not None
    return row.ratio.middle if WORKLOADS[row.workload].more_is_better else 1 / row.ratio.middle


def _x(ratio: float) -> float:
    share = (log10(min(max(ratio, LEAST), MOST)) - log10(LEAST)) / (log10(MOST) - log10(LEAST))
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _bar(y: int, row: Row, ratio: float) -> list[str]:
    one, end = _x(1), _x(ratio)
    left, width = min(one, end), max(abs(end - one), 1)
    colour = COLOURS[row.database]
    label = PEERS[row.peer].title + ("" if row.peer_database in (row.database, "own") else f" on {row.peer_database}")
    return [
        _text(LEFT - 8, y + BAR - 3, label, anchor="end"),
        f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}"/>',
        _text(max(end, one) + 5, y + BAR - 3, f"{ratio:.2g} ×"),
    ]


def _axis(height: int) -> list[str]:
    out = [_text(12, 20, "How many times as good as the peer LongTask is (medians; logarithmic)", bold=True)]
    for tick in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0):
        x, width = _x(tick), 1.5 if tick == 1 else 0.75
        colour = TEXT if tick == 1 else FAINT
        out.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - 16}" stroke="{colour}" stroke-width="{width}"/>'
        )
        out.append(_text(x, TOP - 8, f"{tick:g}", anchor="middle"))
    for number, (database, colour) in enumerate(COLOURS.items()):
        x = WIDTH - RIGHT - 160 + number * 90
        out.append(f'<rect x="{x}" y="11" width="10" height="10" rx="2" fill="{colour}"/>')
        out.append(_text(x + 15, 20, database))
    return out


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{TEXT}"{weight}>{escape(text)}</text>'
