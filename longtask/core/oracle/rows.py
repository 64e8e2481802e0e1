"""Rows beside each other: counters, leases, waits, windows, weights, owned steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from longtask.core.machine import status, tally
from longtask.core.model import POOL_SYSTEM, Kind, Role, Step, StepState, Tally, TaskState, WaitingFor, WhenFailed

from .history import Past
from .view import View, Violation, counts_as_bad, fits, is_open, known, meaning, shown

S, T, W = StepState, TaskState, WaitingFor

WORDS = frozenset(
    "completed failed cancelled cancelling paused running queued waiting_budget waiting_user waiting_ci waiting_event "
    "waiting_timer".split()
)
WAKES: dict[WaitingFor, tuple[str, ...]] = {  # what a waiting step must have, one of these in its question
    W.USER: ("answers", "digest", "kind"),
    W.CI: ("name",),
    W.EVENT: ("name",),
    W.TASK: ("child", "name"),
    W.MUTEX: ("mutex",),
}


def counters(view: View) -> Iterator[Violation]:
    """The header's counters: the sum of the machine's `tally`, and a count of rows that does not ask the machine."""
    total = Tally()
    for step in view.steps.values():
        total = total.plus(tally(step), Tally())
    named = _counted(view)
    for name, header, summed in zip(Tally._fields, view.task.counts, total, strict=True):
        if not header == summed == named[name]:
            yield Violation("counters", f"{name}: header {header}, tally {summed}, rows {named[name]}")


def _counted(view: View) -> Counter[str]:
    count: Counter[str] = Counter()
    for step in view.steps.values():
        count["steps"] += 1
        count["open"] += is_open(step)
        count["ready"] += step.state is S.READY
        count["ready_system"] += step.state is S.READY and step.pool == POOL_SYSTEM
        slotless = step.pool == POOL_SYSTEM or step.taken_by is not None
        count["running"] += step.state is S.RUNNING and not slotless
        count["running_system"] += step.state is S.RUNNING and slotless
        count["merging"] += step.state is S.MERGING
        count["bad"] += counts_as_bad(step)
        count["untold"] += not known(step)
        count["gates"] += step.gate and not is_open(step)
        count["weight"] += step.weight
        count["weight_done"] += 0 if is_open(step) else step.weight
        if step.state is S.WAITING:
            count[f"wait_{step.waiting_for}"] += 1
    return count


def header(view: View) -> Iterator[Violation]:
    """Ended ⇔ nothing is open and nothing untold; ended as the rows say; a known word; no more runs than allowed."""
    task = view.task
    left = sum(is_open(s) for s in view.steps.values()), sum(not known(s) for s in view.steps.values())
    waits = task.loading and task.state is not T.CLOSING  # for steps that are still to be submitted
    if (task.state in (T.COMPLETED, T.FAILED, T.CANCELLED)) != (left == (0, 0) and not waits):
        yield Violation("ended", f"task is {task.state} with {left[0]} open and {left[1]} untold steps")
    bad = [s.key for s in view.steps.values() if counts_as_bad(s)]
    if task.state is T.COMPLETED and (bad or task.doomed):
        yield Violation("ended", f"task has completed, though {shown(bad) or 'it is doomed'} did not succeed")
    if task.state is T.FAILED and not (bad or task.doomed):
        yield Violation("ended", "task has failed and no step of it has")
    if task.options.fail_fast and bad and task.state in (T.ACTIVE, T.PAUSED):
        yield Violation("ended", f"task fails fast, {shown(bad)} has ended badly, and it goes on")
    if task.doomed and task.state not in (T.CLOSING, T.FAILED):
        yield Violation("ended", f"task is doomed and {task.state}")
    if task.state in (T.PAUSED, T.ACTIVE) and (task.state is T.PAUSED) != bool(task.pauses):
        yield Violation("pauses", f"task is {task.state} with reasons {task.pauses} to pause")
    if status(task) not in WORDS:
        yield Violation("status", f"{status(task)!r} is no status")
    running = sum(s.state is S.RUNNING and s.pool != POOL_SYSTEM and s.taken_by is None for s in view.steps.values())
    if running > task.parallel:
        yield Violation("parallel", f"{running} steps are running, {task.parallel} may")


def leases(view: View) -> Iterator[Violation]:
    """Exactly the running steps have one, for their newest attempt, never beyond its timeout."""
    held = {lease.step: lease for lease in view.leases}
    if len(held) != len(view.leases):
        yield Violation("lease", "a step has two leases")
    running = {key for key, step in view.steps.items() if step.state is S.RUNNING}
    for key in sorted(running ^ held.keys()):
        word = "is running without a lease" if key in running else f"has a lease and is {_state(view, key)}"
        yield Violation("lease", f"step {key!r} {word}")
    for key in sorted(running & held.keys()):
        lease, step = held[key], view.steps[key]
        if (lease.attempt, lease.worker, lease.timeout_at) != (step.attempt, step.worker, step.timeout_at):
            yield Violation("lease", f"step {key!r}: lease {lease} is not that of attempt {step.attempt}")
        if lease.timeout_at is not None and lease.due_at > lease.timeout_at:
            yield Violation("lease", f"step {key!r}: its lease ends at {lease.due_at}, after {lease.timeout_at}")


def stops(view: View) -> Iterator[Violation]:
    """In a task that is paused at once all that runs has been asked to give back, or a relay is still about it."""
    if view.task.state is not T.PAUSED or not view.task.at_once or view.task.relay is not None:
        return
    for lease in view.leases:
        step = view.steps.get(lease.step)
        if lease.stop is None and step is not None and step.taken_by is None:
            yield Violation("pauses", f"step {lease.step!r} runs on, nobody has asked it to give back")


def _state(view: View, key: str) -> str:
    return str(view.steps[key].state) if key in view.steps else "not there"


def waits(view: View) -> Iterator[Violation]:
    """Something can wake each waiting step, and what could wake it by signal has not come yet."""
    for step in view.steps.values():
        if step.state is not S.WAITING:
            if step.waiting_for is not W.NOTHING or step.question is not None:
                yield Violation("waiting", f"step {step.key!r} is {step.state} and waits for {step.waiting_for!r}")
            continue
        question = step.question or {}
        if not step.due_at and not any(question.get(word) for word in WAKES.get(step.waiting_for, ())):
            yield Violation("waiting", f"step {step.key!r}: nothing can wake it ({step.waiting_for}, {question})")
        if view.task.state is T.CLOSING:
            continue
        heard = [s for s in view.signals if s.number not in view.unheard]
        missed = [s.number for s in heard if s.number > step.seen and fits(question, s)]
        if missed:
            yield Violation("waiting", f"step {step.key!r} waits, though signals {missed} fit and it has not seen them")
    if view.waits is None:
        return
    found = sorted((w.step, w.ask, w.name) for w in view.waits)
    wanted = sorted(
        (s.key, s.ask, s.question["name"])
        for s in view.steps.values()
        if s.state is S.WAITING and s.question is not None and "name" in s.question
    )
    if found != wanted:
        yield Violation("waiting", f"wait rows are {found}, waiting steps {wanted}")


def owned(view: View) -> Iterator[Violation]:
    """When an owner has ended and is known to have, what it owned has ended too, or has been asked to stop."""
    asked = {lease.step for lease in view.leases if lease.stop == "cancel"}
    for key, children in view.owned.items():
        owner = view.steps.get(key)
        if owner is None or is_open(owner) or not known(owner) or not view.tells:
            continue
        left = [c.key for c in children if is_open(c) and not (c.state is S.RUNNING and c.key in asked)]
        if left:
            yield Violation("owned", f"step {key!r} has ended and still owns {shown(left)}")


def items(view: View, past: Past) -> Iterator[Violation]:
    """Of each for_each, and of each agent that has spawned: no more begun than its window; none missing, none twice;
    weights add up.  What an agent spawns begins at once, and the agent judges what became of it."""
    for owner in view.steps.values():
        if owner.expansion < 1 or owner.role is Role.ITEM:
            continue  # of an item, `expansion` is the one that it belongs to
        if owner.key in past.brought and (view.task.loading or not view.tells):
            continue  # its items are still to come, or never came
        mine = [s for s in view.owned.get(owner.key, ()) if s.role is Role.ITEM]
        yield from _weights(owner, mine, past)
        if owner.kind is Kind.AGENT:
            yield from _whole(owner, mine, past)
        if not owner.items:
            continue  # taken up again, and not expanded again yet
        now = [s for s in mine if s.expansion == owner.expansion]
        yield from _window(view, owner, now)
        begun = Counter(s.item for s in now)
        listed = owner.kind is Kind.FOR_EACH
        done = {s.item for s in mine if s.state is S.COMPLETED and s.expansion < owner.expansion and listed}
        twice = [str(i) for i, count in begun.items() if count > 1]
        missing = [str(i) for i in range(owner.items_next) if i not in begun and i not in done]
        if twice or missing or any(i is None or i >= owner.items_next for i in begun):
            yield Violation(
                "items",
                f"step {owner.key!r}: items below {owner.items_next} of {owner.items} are twice: {shown(twice)}; "
                f"missing: {shown(missing)}; begun: {shown(map(str, begun))}",
            )
        ended = [s for s in now if view.heard(s, owner)]
        failed = sum(s.state is not S.COMPLETED for s in ended)
        if view.tells and (owner.items_ended, owner.items_failed) != (len(ended), failed):
            yield Violation(
                "items",
                f"step {owner.key!r} counts {owner.items_ended} ended and {owner.items_failed} failed items, "
                f"rows say {len(ended)} and {failed}",
            )
        if listed and owner.state is S.COMPLETED and owner.key not in past.accepted:
            fine = {s.item for s in mine if s.state is S.COMPLETED or owner.when_failed is WhenFailed.CONTINUE}
            absent = [str(i) for i in range(owner.items) if i not in fine]
            if absent:
                yield Violation("items", f"step {owner.key!r} has completed without its items {shown(absent)}")


def _whole(owner: Step, mine: list[Step], past: Past) -> Iterator[Violation]:
    """Each expansion of an agent has all its items, whenever it was."""
    for expansion, length in enumerate(past.expansions.get(owner.key, ()), 1):
        found = sorted(s.item if s.item is not None else -1 for s in mine if s.expansion == expansion)
        if found != list(range(length)):
            text = f"step {owner.key!r} has spawned {length} in expansion {expansion}, there are {found}"
            yield Violation("items", text)


def _window(view: View, owner: Step, now: list[Step]) -> Iterator[Violation]:
    spec = view.specs.get(owner.spec)
    begun = sum(is_open(s) for s in now)
    if spec is not None and begun > spec.parallel_max:
        yield Violation("window", f"step {owner.key!r}: {begun} items are begun, {spec.parallel_max} may be")


def _weights(owner: Step, mine: list[Step], past: Past) -> Iterator[Violation]:
    """Shares are differences of floor sums of the first weight of a for_each; all other items weigh nothing."""
    total = owner.weight + sum(s.weight for s in mine)
    whole, length = past.wholes.get(owner.key, (owner.whole, 0))
    if total != whole or owner.whole != whole:
        yield Violation("weights", f"step {owner.key!r} weighed {whole}, with its items it weighs {total}")
    for s in mine:
        if s.item is None or not length:
            continue
        shared = s.expansion == 1 and owner.kind is Kind.FOR_EACH
        share = whole * (s.item + 1) // length - whole * s.item // length if shared else 0
        if s.weight != share:
            yield Violation("weights", f"item {s.key!r} weighs {s.weight}, its share is {share}")


def weights(view: View) -> Iterator[Violation]:
    for step in view.steps.values():
        weightless = step.gate or step.role in (Role.FIX, Role.CONFLICT)
        if step.weight < 0 or (weightless and step.weight):
            yield Violation("weights", f"step {step.key!r} weighs {step.weight}")


def skipped(view: View) -> Iterator[Violation]:
    """`benign` is a kind of skip; a verdict that is being told differs from the one told before."""
    for step in view.steps.values():
        if step.benign and step.state is not S.SKIPPED:
            yield Violation("skip", f"step {step.key!r} is {step.state} and marked as not wanted")
        if step.waived and meaning(step) not in ("ok", ""):
            yield Violation("skip", f"step {step.key!r} is waived and still vetoes")


CHECKS = (counters, header, leases, stops, waits, owned, weights, skipped)
