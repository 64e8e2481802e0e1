"""What an act will make stale, told before it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longtask.core.model import JsonMap
from longtask.core.stale import Foreseen

SHOWN_MAX = 40  # keys of one kind in a text; documents have all


def foreseen_map(act: str, seen: Foreseen) -> JsonMap:
    """`head`: the commit that a fork begins from; `seq`: up to which event it takes the task over."""
    return {
        "act": act,
        "step": seen.step,
        "again": list(seen.again),
        "begins": list(seen.begins),
        "skipped": list(seen.skipped),
        "kept": list(seen.kept),
        "gone": list(seen.gone),
        "items_kept": dict(seen.items),
        "asks": seen.asks,
        "revised": seen.revised,
        "seq": seen.seq,
        "head": seen.head,
    }


def foreseen_lines(seen: JsonMap) -> Iterator[str]:
    """The document, for people."""
    act, step = seen["act"], seen["step"]
    if act == "fork":
        begins = f", from commit {seen['head'][:12]}" if seen["head"] else ""
        yield f"a fork from {step} is a new task{begins}; this one stays as it is"
    elif act == "retry":
        yield f"{step} is taken up again, in place"
    elif act == "edit":
        yield f"{step} does from its next attempt on what is said anew"
    elif seen["revised"]:
        yield f"a revision is put in front of {step}, which then asks again"
    elif seen["asks"]:
        yield f"{step} is rejected, and asks what to do; if it is given up:"
    else:
        yield f"{step} ends as rejected"
    for word, keys in (
        ("runs again", seen["again"]),
        ("is to run", seen["begins"]),
        ("will not run", seen["skipped"]),
        ("stays as it is", seen["kept"]),
        ("is not in it, since it was added later", seen["gone"]),
    ):
        if keys:
            yield f"{word}: {_named(keys)}"
    for key, count in seen["items_kept"].items():
        yield f"of {key}, {count:,} items are done and stay so"
    if act == "reject" and seen["revised"]:
        yield "what has completed is not run again on what the revision changes; fork to do that"


def _named(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - SHOWN_MAX:,} more" if len(keys) > SHOWN_MAX else ""
    return ", ".join(keys[:SHOWN_MAX]) + more
