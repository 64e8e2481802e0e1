"""`python -m tests.sim.mutants`: breaks the code on purpose and demands that each break is found.

A mutant is one line of the real code (or of a statement) said differently.  It runs in a process of its own, whose
imports read the changed text: nothing is patched, and a line that is not there any more fails loudly.  Then worlds are
played, with odds that lead to the place, until one goes wrong.  What the simulator's model leaves out (real worktrees)
has a scenario of its own in `scenarios.py`.

A mutant that survives shows a hole in the oracle or in the odds, not in the code.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

SEEDS_MAX = 250
PROCESSES = 2
CALM = {"stale": 0, "crash": 0, "busy": 0, "kill": 0, "freeze": 0, "suspend": 0, "drain": 0, "interlude": 0}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`place`: a module, or `sql NAME` for a statement.  `old` stands there `times` times."""

    name: str
    place: str
    old: str
    new: str
    odds: dict[str, Any] = field(default_factory=dict)
    scenario: str | None = None
    times: int = 1


DECIDE, MACHINE, SETTLE = "longtask.core.decide", "longtask.core.machine", "longtask.core.settle"
DISPATCH, SETTLING, WORKER = "longtask.engine.dispatch", "longtask.engine.settling", "longtask.engine.worker"
MERGING, DESK, WRITING = "longtask.engine.merging", "longtask.engine.desk", "longtask.engine.writing"
SCHEDULER = "longtask.engine.scheduler"
FENCED = " and l.attempt = :attempt"
ZOMBIES = {"freeze": 15, "kill": 4, "kinds": ("run", "agent"), "acts": ("hang", "done"), "people": 5}
STALE = {"stale": 40, "interlude": 10, "kinds": ("run", "function"), "acts": ("fail", "fail", "done")}
MERGES = {"code": 100, "race": 80, "kinds": ("run",), "acts": ("done",), "failing": 0, "conditional": 0, "people": 0,
          "needs": 20, "stages_max": 2}  # fmt: skip

MUTANTS = (
    Mutant("fence ignored in report", DECIDE, "    if step.attempt != attempt:", "    if False:", ZOMBIES),
    Mutant("fence ignored in journal", "sql journal_started", FENCED, "", ZOMBIES | {"kinds": ("agent",)}),
    Mutant("fence ignored in journal's end", "sql journal_done", FENCED, "", ZOMBIES | {"kinds": ("agent",)}),
    Mutant("fence ignored in checkpoint", "sql put_checkpoint", FENCED, "", ZOMBIES | {"kinds": ("agent",)}),
    Mutant("fence ignored in beat", "sql beat", " and attempt = :attempt", "", ZOMBIES),
    Mutant("settled twice", SETTLING, "    if not untold(step) or", "    if",
           {"stale": 40, "kinds": ("for_each", "for_each", "run")}),  # fmt: skip
    Mutant("batch cursor lost", SETTLE, "telling=telling, cursor=dependents[-1].key", 'telling=telling, cursor=""',
           {"batches": (2, 3)}),  # fmt: skip
    Mutant("early signal lost", DISPATCH, "            signal = earliest_fitting(w, step, outcome.question)",
           "            signal = None", {"kinds": ("wait", "run"), "people": 80, "person": "signal"}),  # fmt: skip
    Mutant("claimed before due", DECIDE, "or step.due_at > now:\n        raise Refused(f\"step {step.key!r} is",
           "or False:\n        raise Refused(f\"step {step.key!r} is", STALE),  # fmt: skip
    Mutant("claimed while paused", DECIDE, "    if task.admits < (1 if step.pool == POOL_SYSTEM else 2):",
           "    if task._replace(state=TaskState.ACTIVE).admits < (1 if step.pool == POOL_SYSTEM else 2):",
           STALE | {"people": 80, "person": "pause"}),  # fmt: skip
    Mutant("fix requested while closing", DECIDE, "            if closing:\n                return (e.StepFailed(",
           "            if False:\n                return (e.StepFailed(",
           CALM | {"fix": 100, "kinds": ("run",), "acts": ("fail", "fail_digest"), "failing": 100, "people": 60,
                   "person": "cancel"}),  # fmt: skip
    Mutant("loss counted as failure", MACHINE, '{"losses": step.losses + 1, "due_at"',
           '{"losses": step.losses + 1, "failures": step.failures + 1, "due_at"', ZOMBIES),  # fmt: skip
    Mutant("head moved without compare", DECIDE,
           "or task.head != head or task.state is TaskState.CLOSING:\n        return ()\n    return (e.StepMerged(",
           "or task.state is TaskState.CLOSING:\n        return ()\n    return (e.StepMerged(",
           MERGES),  # fmt: skip
    Mutant("reference before journal", MERGING, "    with write(store, ref.task_id, ref.step) as w:",
           "    merger.follow(task._replace(head=result.commit or task.head))\n"
           "    with write(store, ref.task_id, ref.step) as w:",
           MERGES | {"crash": 15}),  # fmt: skip
    Mutant("approval consumed twice", MACHINE, '"losses": 0, "run": step.run + 1,\n                        "reason": fact.reason, "cause": None,',
           '"losses": 0, "run": step.run + 1,\n                        "reason": fact.reason,',
           {"kinds": ("approval",), "people": 80, "person": "answer", "conditional": 0}),  # fmt: skip
    Mutant("approval decided twice", DECIDE,
           "    if step.state is not S.WAITING or step.waiting_for is not WaitingFor.USER or step.question is None:",
           "    if step.question is None:", {"kinds": ("approval",), "people": 80, "person": "answer"}),  # fmt: skip
    Mutant("old question answered", DECIDE, "    if ask is not None and ask != step.ask:", "    if False:",
           {"kinds": ("approval",), "people": 80, "person": "answer"}),  # fmt: skip
    Mutant("digest not compared", DECIDE, '    if digest is not None and digest != question.get("digest"):', "    if False:",
           {"kinds": ("approval",), "people": 80, "person": "answer"}),  # fmt: skip
    Mutant("handle started before durable", WORKER, "            claims += self._claim(now, len(over), claims)",
           "            for claimed in self._claim(now, len(over), claims):\n                self._start(claimed)"),  # fmt: skip
    Mutant("failed fix satisfies", SETTLE, "owned_verdict=telling if awaited", "owned_verdict=V.OK if awaited",
           {"fix": 100, "kinds": ("run",), "acts": ("fail", "fail_digest"), "failing": 70, "conditional": 0}),  # fmt: skip
    Mutant("task ended with something untold", MACHINE, "        if counts.open == 0 and counts.untold == 0 and",
           "        if counts.open == 0 and"),  # fmt: skip
    Mutant("omit told early", SETTLE,
           "        if step.blockers:\n            return facts\n        if step.omits:\n"
           "            return [*facts, e.StepSkipped(step.key, because, benign=True)]",
           "        if step.omits:\n            return [*facts, e.StepSkipped(step.key, because, benign=True)]\n"
           "        if step.blockers:\n            return facts", {"conditional": 60}),  # fmt: skip
    Mutant("gate shut before its stage drained", SETTLE,
           "        if step.blockers:\n            return facts\n        return [*facts, e.StepSkipped(step.key, because) if",
           "        if step.blockers and not step.vetoes:\n            return facts\n"
           "        return [*facts, e.StepSkipped(step.key, because) if"),  # fmt: skip
    Mutant("tree not restored on resume", "longtask.steps.places",
           "        tree = resume_tree(assignment.journal, assignment.checkpoint)", "        tree = None",
           scenario="an_edit_survives_its_worker"),  # fmt: skip
    Mutant("cancelled attempt completes", DECIDE, "    if stop == STOP_CANCEL:\n        if isinstance(outcome, Stopped):",
           "    if stop == STOP_CANCEL and isinstance(outcome, Stopped):\n        if isinstance(outcome, Stopped):",
           {"people": 80, "person": "cancel_step", "acts": ("hang",)}),  # fmt: skip
    Mutant("pause takes the place of a cancel", WRITING, " and lease.stop != decide.STOP_CANCEL]", "]",
           {"people": 80, "person": "cancel_step", "acts": ("hang",), "kinds": ("for_each", "run")}),  # fmt: skip
    Mutant("expired at once after sleep", SCHEDULER, "            if now - self._steady_since >= self._lease_ms:",
           "            if True:", {"suspend": 20, "freeze": 0, "kill": 0, "crash": 0, "acts": ("hang",)}),  # fmt: skip
)


# --- a broken program ------------------------------------------------------------------------------------------------


class Changed(importlib.machinery.SourceFileLoader):
    """Loads a module from its text with one line said differently."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        return compile(replaced(self.mutant, source), self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.mutant.place:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None
        loader = Changed(fullname, spec.origin)
        loader.mutant = self.mutant
        return importlib.util.spec_from_loader(fullname, loader)


def replaced(mutant: Mutant, text: str) -> str:
    found = text.count(mutant.old)
    if found != mutant.times:
        raise SystemExit(f"mutant {mutant.name!r}: {mutant.old!r} stands {found} times in {mutant.place}; mend the mutant")
    return text.replace(mutant.old, mutant.new)


def install(mutant: Mutant) -> None:
    assert mutant.place.startswith("sql ") or mutant.place not in sys.modules, f"{mutant.place} is imported already"
    if not mutant.place.startswith("sql "):
        sys.meta_path.insert(0, Finder(mutant))
        return
    queries = importlib.import_module("longtask.store.queries")
    statements = queries.load("sqlite")  # one dictionary for all stores of the process
    name = mutant.place.removeprefix("sql ")
    statements[name] = replaced(mutant, statements[name])


def hunt(mutant: Mutant) -> dict[str, Any]:
    """In this process, which is broken from now on: how the mutant was found, or that it was not."""
    install(mutant)
    began = time.monotonic()
    if mutant.scenario is not None:
        scenarios = importlib.import_module("tests.sim.scenarios")
        wrong = getattr(scenarios, mutant.scenario)()
        return {"found": wrong, "seed": None, "tries": 1, "s": time.monotonic() - began}
    logging = importlib.import_module("logging")
    logging.disable(logging.CRITICAL)
    plans, world = importlib.import_module("tests.sim.plans"), importlib.import_module("tests.sim.world")
    odds = dict(mutant.odds)
    if "kinds" in odds:
        odds["kinds"] = tuple(plans.Kind(word) for word in odds["kinds"])
    for seed in range(1, SEEDS_MAX + 1):
        wrong = world.play(seed, plans.Odds(**odds))
        if wrong is not None:
            first = wrong.splitlines()[0].partition(": ")[2]
            return {"found": first, "seed": seed, "tries": seed, "s": time.monotonic() - began}
    return {"found": None, "seed": None, "tries": SEEDS_MAX, "s": time.monotonic() - began}


def apart(mutant: Mutant) -> tuple[Mutant, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.sim.mutants", "--one", mutant.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return mutant, {"found": None, "seed": None, "tries": 0, "s": 0.0, "broken": done.stderr.strip()[-2_000:]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return mutant, answer


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.sim.mutants", description="breaks the code on purpose")
    parser.add_argument("--one", help="this mutant, in this process")
    parser.add_argument("names", nargs="*", help="these mutants; all if left out")
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(hunt(next(m for m in MUTANTS if m.name == args.one))))
        return 0
    chosen = [m for m in MUTANTS if not args.names or any(name in m.name for name in args.names)]
    survived = 0
    with ThreadPoolExecutor(PROCESSES) as pool:
        for mutant, answer in pool.map(apart, chosen):
            found = answer["found"]
            survived += found is None
            what = answer.get("broken") or (found or "SURVIVED").replace("\n", " ")[:110]
            print(f"{mutant.name:36} seed {answer['seed'] or '-':>4} {answer['s']:6.1f} s  {what}", flush=True)
    print(f"{len(chosen)} mutants, {survived} not killed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
