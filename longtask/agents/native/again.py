"""A call that a person decides about, of an agent that has lost it by then.

Its program was ended when the call was to be asked about.  So the model is told what was decided and makes the call
again; exactly that call is let through, once.  Two words in the bodies of rows tell a later attempt whether it was:
that it begins (`ALLOWED`), and that it has ended (`PRINT`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from longtask.agents.journal import ASKED, TOOL, OutcomeUnknown, Seams, fingerprint
from longtask.agents.native.decisions import DEFERRED, Decision, decide
from longtask.core.model import JsonMap

ALLOWED, PRINT = "allowed", "print"


class Again:
    """`about`: what a call with these arguments is about, for people and models."""

    def __init__(self, seams: Seams, about: Callable[[JsonMap], str], *, repeatable: bool) -> None:
        self._seams = seams
        self._about = about
        self._repeatable = repeatable
        self._decision: Decision | None = None  # that the model is to act on

    def ask(self, call: JsonMap) -> str | None:
        """What the model is told.  Raises Asks while nobody has decided."""
        self._decision = decide(self._seams, (), call, repeatable=True)
        return self._seams.told(self._words(self._decision))

    def go_on(self, rows: Sequence[JsonMap]) -> str | None:
        """What the model is told of a decision that it has not heard of; None: of none.

        Raises Asks, and OutcomeUnknown when the call was begun and how it ended is not known."""
        asked = [n for n, row in enumerate(rows) if row.get(DEFERRED)]
        if not asked:
            return None
        call, after = rows[asked[-1]][DEFERRED], rows[asked[-1] + 1 :]
        answers = [row for row in after if row["kind"] == ASKED]
        if not answers:
            return self.ask(call)
        self._decision = decide(self._seams, answers, call, repeatable=True)
        self._forget_if_used(self._decision, after)
        return None

    def lets(self, tool: str, args: JsonMap) -> str | None:
        """The print of this call if it is the one that was allowed: the next one is not."""
        decision, mark = self._decision, print_of(tool, args)
        if decision is None or not decision.allowed or print_of(decision.tool, decision.args) != mark:
            return None
        self._decision = None
        return mark

    def _forget_if_used(self, decision: Decision, after: Sequence[JsonMap]) -> None:
        wanted = print_of(decision.tool, decision.args)
        begun = [n for n, row in enumerate(after) if row.get(ALLOWED) == wanted]
        if not begun or not decision.allowed:
            return
        if any(row.get(PRINT) == wanted for row in after[begun[-1] :]):
            self._decision = None
        elif not self._repeatable:
            raise OutcomeUnknown(
                f"outcome unknown: {TOOL} '{decision.tool}' was approved and begun, and its end is not known; it is "
                f"not repeatable: look at what it has done, then answer"
            )

    def _words(self, decision: Decision) -> str:
        about = self._about(decision.args)
        if not decision.allowed:
            return f"About your call of {decision.tool} ({about}): {decision.text}. It was not made."
        remark = decision.remark or "a person has allowed your call"
        changed = ", but changed" if decision.edited else ""
        return f"{remark}. It was not made yet: make this call now{changed}, exactly as it stands here: {about}"


def print_of(tool: str, args: JsonMap) -> str:
    return fingerprint("call", tool, dict(args))
