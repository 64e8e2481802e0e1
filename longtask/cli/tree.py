"""A task as a tree of stages and steps, in columns, for people.

Large tasks are folded: of steps of one stage (or items of one for_each) that say the same, a few are shown and the
rest is counted.  Where the height is bounded, stages that are over, then those to come, shrink to a line each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from longtask.cli.paint import Line, Piece, cells, cropped
from longtask.core.machine import status
from longtask.core.model import Kind, Role, Step, StepState
from longtask.views.picture import Picture
from longtask.views.text import clean, counted, first_line, gist
from longtask.views.words import duration, handle, named, percent, spent, stage_word, waits_for

S = StepState
MARK: dict[StepState, Piece] = {
    S.BLOCKED: ("·", "dim"),
    S.READY: ("○", ""),
    S.RUNNING: ("●", "cyan"),
    S.WAITING: ("◆", "yellow"),
    S.MERGING: ("◑", "cyan"),
    S.COMPLETED: ("✓", "green"),
    S.FAILED: ("✗", "red"),
    S.CANCELLED: ("⊘", "red"),
    S.SKIPPED: ("–", "dim"),
}
FOLD_ABOVE = 12  # steps of a stage, or items of a for_each
MATTERS = (S.FAILED, S.WAITING, S.CANCELLED, S.RUNNING, S.MERGING)  # shown, up to a number; of items in this order
KEY_WIDTH_MAX = 36


@dataclass(frozen=True, slots=True)
class Detail:
    """How much is shown.  `each`: rows of one state in a folded stage; `fold_above` 0: fold nothing."""

    fold_above: int = FOLD_ABOVE
    each: int = 8
    over: bool = True  # steps of stages that are over
    upcoming: bool = True  # steps of stages that have not begun


WHOLE = Detail(fold_above=0)
SHRINKING = (Detail(), Detail(over=False), Detail(over=False, upcoming=False), Detail(3, 2, False, False))


@dataclass(frozen=True, slots=True)
class Row:
    indent: int
    mark: Piece
    name: str
    time: str = ""
    note: Sequence[Piece] = field(default=())


def status_colour(word: str) -> str:
    known = {"completed": "green", "failed": "red", "cancelled": "red"}
    return known.get(word, "yellow" if "wait" in word or word == "paused" else "cyan")


def lines(picture: Picture, *, detail: Detail | None = None, width: int = 0, height: int = 0) -> list[Line]:
    """`width` and `height` 0: as wide and as long as it gets."""
    made: list[Line] = []
    for level in (detail,) if detail else SHRINKING if height else SHRINKING[:1]:
        made = [*head(picture), *_aligned(list(_body(picture, level)), width)]
        if not height or len(made) <= height:
            return [cropped(line, width) for line in made]
    left_out = len(made) - height + 1
    made = [*made[: height - 1], [(f"  … {left_out} more lines: longtask show {handle(picture.task)}", "dim")]]
    return [cropped(line, width) for line in made]


def head(picture: Picture) -> Iterator[Line]:
    task = picture.task
    word = status(task)
    took = duration((task.ended_at or picture.now) - task.created_at, whole=not task.ended)
    line = [(handle(task), "bold"), ("  ", ""), (word, status_colour(word)), (f"  {percent(task)}%  {took}", "")]
    used, near = spent(task)
    if used:
        line.append((f"  {used}", "yellow" if near and not task.ended else "dim"))
    yield line
    if picture.parent is not None:
        yield [(f"  for step {clean(str(task.parent_step))} of {picture.parent}", "dim")]
    if task.options.goal:
        yield [(f"  {clean(task.options.goal)}", "dim")]


def _aligned(rows: list[Row | Line], width: int) -> Iterator[Line]:
    """Names, times and notes each begin in one column."""
    named = [row.indent + 2 + cells(row.name) for row in rows if isinstance(row, Row)]
    most = min(KEY_WIDTH_MAX, width // 2) if width else KEY_WIDTH_MAX
    column = max((n for n in named if n <= most), default=0)
    for row in rows:
        if not isinstance(row, Row):
            yield row
            continue
        room = max(column - row.indent - 2 - cells(row.name), 0)
        mark, colour = row.mark
        name_style = "dim" if colour == "dim" else ""
        start: list[Piece] = [(" " * row.indent, ""), (mark, colour), (" " + row.name, name_style), (" " * room, "")]
        yield [*start, (f"  {row.time:>6}", ""), *([("  ", ""), *row.note] if row.note else [])]


# --- stages -------------------------------------------------------------------------------------------------------


def _body(picture: Picture, detail: Detail) -> Iterator[Row | Line]:
    task = picture.task
    by_stage: dict[int, list[Step]] = defaultdict(list)
    owned: dict[str, list[Step]] = defaultdict(list)
    for step in picture.steps:
        (by_stage[step.stage] if step.owner is None else owned[step.owner]).append(step)
    for number, name in enumerate(task.options.stages or ("steps",), 1):
        own = by_stage[number]
        word = stage_word(task, own, number)
        shrunk = (not detail.over and word in ("completed", "skipped", "failed")) or (
            not detail.upcoming and word == "upcoming"
        )
        if shrunk:
            yield _stage_row(picture, name, word, own)
            continue
        yield [("  ", ""), (clean(name), "bold"), ("" if word in ("running", "completed") else f"  {word}", "dim")]
        yield from _stage(picture, own, owned, detail)
    if picture.left_out:
        yield [(f"  … and {picture.left_out:,} more steps", "dim")]


def _stage_row(picture: Picture, name: str, word: str, own: Sequence[Step]) -> Row:
    state = {"completed": S.COMPLETED, "failed": S.FAILED, "skipped": S.SKIPPED}.get(word, S.BLOCKED)
    began = min((s.began_at for s in own if s.began_at), default=0)
    ended = max((s.ended_at for s in own), default=0)
    time = duration(ended - began) if began and ended and word != "upcoming" else ""
    return Row(2, MARK[state], clean(name), time, [(counted(len(own), "step"), "dim")])


def _stage(picture: Picture, own: Sequence[Step], owned: dict[str, list[Step]], detail: Detail) -> Iterator[Row | Line]:
    shown, rest = _folded(own, detail)
    for step in shown:
        yield from _step(picture, step, owned, detail, 4)
    for state, n in rest:
        yield _counted(4, state, f"{n:,} {'more ' if state in MATTERS else ''}{state}")


def _counted(indent: int, state: StepState, text: str) -> Line:
    """No row: a number that grows must not move the columns."""
    return [(" " * indent, ""), MARK[state], (f" {text}", "dim")]


def _folded(steps: Sequence[Step], detail: Detail) -> tuple[list[Step], list[tuple[StepState, int]]]:
    """Those to show, and how many others there are of each state.  A few of one state are not worth folding."""
    if not detail.fold_above or len(steps) <= detail.fold_above:
        return list(steps), []
    counts = Counter(step.state for step in steps)
    left = {state: detail.each if state in MATTERS else 0 for state, n in counts.items() if n > detail.fold_above // 2}
    shown = []
    hidden: Counter[StepState] = Counter()
    for step in steps:
        if left.get(step.state, 1) > 0:
            shown.append(step)
            if step.state in left:
                left[step.state] -= 1
        else:
            hidden[step.state] += 1
    return shown, [(state, hidden[state]) for state in MARK if hidden[state]]


# --- steps --------------------------------------------------------------------------------------------------------


def _step(
    picture: Picture, step: Step, owned: dict[str, list[Step]], detail: Detail, indent: int
) -> Iterator[Row | Line]:
    yield Row(indent, MARK[step.state], clean(step.key), step_time(picture, step), note(picture, step))
    items = [s for s in owned.get(step.key, ()) if s.role is Role.ITEM]
    others = [s for s in owned.get(step.key, ()) if s.role is not Role.ITEM]
    shown, rest = _folded(items, detail)
    if rest:
        shown.sort(key=lambda item: MATTERS.index(item.state) if item.state in MATTERS else len(MATTERS))
    for child in (*shown, *others):
        yield from _step(picture, child, owned, detail, indent + 2)
    for state, n in rest:
        yield _counted(indent + 2, state, f"{n:,} {'more ' if state in MATTERS else ''}items {state}")


def step_time(picture: Picture, step: Step) -> str:
    """How long its newest attempt has run, or ran; nothing of one whose work is others' (its attempts only give it out,
    and collect what came of it)."""
    if step.kind in (Kind.FOR_EACH, Kind.TASK):
        return ""
    if step.state is S.RUNNING:
        return duration(picture.now - step.began_at, whole=True)
    if not step.open and step.began_at and step.ended_at:
        return duration(step.ended_at - step.began_at)
    return ""


def note(picture: Picture, step: Step) -> list[Piece]:
    """What one wants to know beside a step's name: progress, attempt, reason, what it waits for."""
    parts: list[Piece] = []
    progress = picture.progress_of(step)
    if progress is not None and step.state is S.RUNNING and progress.total:
        parts.append((f"{progress.done}/{progress.total}", "cyan"))
    elif progress is not None and progress.text and step.state is S.RUNNING:
        parts.append((first_line(progress.text), "dim"))
    elif step.state is S.COMPLETED and isinstance(step.result, dict) and step.result.get("summary"):
        parts.append((first_line(step.result["summary"]), "dim"))
    if step.attempt > 1 and step.kind not in ("approval", "for_each", "wait", "task"):
        parts.append((f"attempt {step.attempt}", "dim"))
    if step.state is S.RUNNING and step.taken_by is not None:
        parts.append((f"taken by {clean(step.taken_by)}", "yellow"))
    if step.rounds:
        parts.append((f"round {step.rounds}", "dim"))
    if (items := picture.items_of(step)) is not None:
        if step.kind is not Kind.AGENT:
            parts.append((f"{items.ended:,}/{items.total:,} items", "dim"))
        elif step.state is S.BLOCKED:  # of what it has spawned last; when it goes on they say nothing of it
            parts.append((f"{items.ended}/{items.total} subagents", "dim"))
    child = picture.children.get(step.key)
    if child is not None:
        parts.append((f"{child.handle} {child.status} {child.percent}%", status_colour(child.status)))
    if child is None or step.state is not S.WAITING:
        parts += _note_of_state(picture, step)
    spaced = [(("  " if i else "") + text, style) for i, (text, style) in enumerate(parts)]
    return spaced


def _note_of_state(picture: Picture, step: Step) -> list[Piece]:
    reason = gist(step.reason)
    match step.state:
        case S.WAITING:
            return [(waits_for(step), "yellow")]
        case S.READY if step.due_at > picture.now:
            return [(f"again in {duration(step.due_at - picture.now, whole=True)}", "dim"), (reason, "dim")]
        case S.SKIPPED:
            why = "not wanted" if step.benign else f"because of {named(picture.task, step.because or '?')}"
            return [(clean(why), "dim")]
        case S.FAILED | S.CANCELLED:
            word = "skipped by hand" if step.waived else "tolerated" if step.tolerated else ""
            return [piece for piece in [(word, "dim"), (reason, "dim" if word else "red")] if piece[0]]
        case S.BLOCKED if step.rounds and reason:
            return [(reason, "dim")]
    return []
