"""A tool as it is offered to the model: what the plan's rules make of its calls, and how it is used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from longtask.agents.policy import Policy, Verdict
from longtask.agents.tools import Tool, Toolbox
from longtask.core.model import JsonMap

CALLED_CHARS_MAX = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
STRICTNESS = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


@dataclass(frozen=True, slots=True)
class Offer:
    """`name` is the journal's and the rules'; `family`: a tool whose rules hold for this one, too.  `free`: offered
    whatever the plan allows, unless it is denied."""

    name: str
    about: str
    schema: JsonMap
    use: Callable[[JsonMap], JsonMap]  # {text, failed, …}; never raises for what the call did wrong
    family: str
    writes: bool = False
    repeatable: bool = True
    free: bool = False

    @property
    def called(self) -> str:
        """By the model: providers take no dots in names, and no long ones."""
        return _NOT_IN_NAMES.sub("_", self.name.replace(".", "__"))[:CALLED_CHARS_MAX]


def offers_of(box: Toolbox, step_repeatable: bool) -> Sequence[Offer]:
    return [offer_of(tool, box, step_repeatable) for tool in box.tools()]


def offer_of(tool: Tool, box: Toolbox, step_repeatable: bool, *, free: bool = False) -> Offer:
    return Offer(
        tool.name,
        tool.about,
        tool.schema(),
        lambda args: box.use(tool.name, args),
        tool.comes_with or tool.name,
        tool.writes,
        step_repeatable if tool.repeatable is None else tool.repeatable,
        free,
    )


def offered(policy: Policy, offer: Offer) -> bool:
    """Whether some call of it could be made."""
    denied = Policy(deny=policy.deny)
    names = {offer.name, offer.family}
    allowed = offer.free or any(policy.offers(name) for name in names)
    return allowed and all(denied.offers(name) for name in names)


def verdict(policy: Policy, offer: Offer, args: JsonMap, root: Path) -> Verdict:
    """What is asked or denied of a family is so of each in it; what is allowed of either is allowed."""
    about = _about(args, root)
    names = (offer.name, offer.family)
    guarded = Policy(ask=policy.ask, deny=policy.deny)
    strictest = max((guarded.of(name, about) for name in names), key=STRICTNESS.index)
    allowed = offer.free or any(policy.of(name, about) is not Verdict.DENY for name in names)
    return strictest if allowed or strictest is not Verdict.ALLOW else Verdict.DENY


def _about(args: JsonMap, root: Path) -> str:
    """A command as it stands; a path as a rule would word it, whichever way the model worded it."""
    if isinstance(args.get("command"), str):
        return str(args["command"])
    path = args.get("path")
    return os.path.relpath(os.path.realpath(root / path), root) if isinstance(path, str) and "\0" not in path else ""
