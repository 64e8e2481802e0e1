"""The mutants: one line of the real code, or of a statement, said differently; and odds that lead to the place.

Nothing of ours is imported here, so that a process may read this and then import the broken text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CALM = {"stale": 0, "crash": 0, "busy": 0, "kill": 0, "freeze": 0, "suspend": 0, "drain": 0, "interlude": 0}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`place`: a module, or `sql [postgres] NAME` for a statement.  `old` stands there `times` times."""

    name: str
    place: str
    old: str
    new: str
    odds: dict[str, Any] = field(default_factory=dict)
    scenario: str | None = None
    times: int = 1


DECIDE, MACHINE, SETTLE = "longtask.core.decide", "longtask.core.machine", "longtask.core.settle"
DISPATCH, SETTLING, WORKER = "longtask.engine.dispatch", "longtask.engine.settling", "longtask.engine.worker"
CLAIMING, REPORTING = "longtask.engine.claiming", "longtask.engine.reporting"
MERGING, DESK, WRITING = "longtask.engine.merging", "longtask.engine.desk", "longtask.engine.writing"
SCHEDULER = "longtask.engine.scheduler"
FENCED = " and l.attempt = :attempt"
FROZEN = {
    "freeze": 20,
    "kinds": ("run",),
    "acts": ("done",),
    "failing": 0,
    "people": 5,
    "conditional": 0,
    "workers_min": 2,
    "tasks_max": 2,
    "rounds": 120,
}
ABSENT = FROZEN | {"freeze": 3, "kinds": ("agent",), "calls_max": 6, "absence": 40}
STALE = {"stale": 40, "interlude": 10, "kinds": ("run", "function"), "acts": ("fail", "fail", "done")}
SHARING, MODEL = "longtask.store.sharing", "longtask.core.model"
LIMITED = {"limited": 100, "kinds": ("agent", "agent", "run"), "attended": 100, "people": 60}
QUEUES = {"mutex": 100, "kinds": ("run", "function"), "acts": ("done",), "conditional": 0, "stages_max": 1, "needs": 20}
GROW = "longtask.core.grow"
FORK, FORKING = "longtask.core.fork", "longtask.engine.forking"
HANDS = {"hands": 90, "people": 80, "kinds": ("run", "function"), "acts": ("done", "fail"), "conditional": 10}
FORKS = {
    "forks": 80,
    "people": 60,
    "code": 100,
    "kinds": ("run",),
    "acts": ("done",),
    "failing": 10,
    "conditional": 0,
    "files": "abcdefgh",
    "tasks_max": 2,
    "rounds": 100,
}
MERGES = {
    "code": 100,
    "race": 100,
    "rounds": 100,
    "kinds": ("run",),
    "acts": ("done",),
    "failing": 0,
    "conditional": 0,
    "people": 0,
    "needs": 10,
    "stages_max": 1,
    "stale": 50,
    "files": "abcdefgh",
}

SPAWNS = {
    "spawn": 100,
    "kinds": ("agent",),
    "acts": ("done",),
    "failing": 0,
    "conditional": 0,
    "mutex": 0,
    "stages_max": 1,
    "steps_max": 4,
    "rounds": 120,
}
ERRANDS = "longtask.engine.family"
FAMILY = {"task": 60, "steps_max": 4, "stages_max": 2, "failing": 10, "conditional": 10, "mutex": 0, "rounds": 120}
PAUSING = FAMILY | {"people": 90, "person": "pause resume", "race": 60, "batches": (2, 3), "workers_min": 2}
ACTIVE = FAMILY | {"active": 100, "kinds": ("run",), "kill": 0, "freeze": 0, "people": 20, "person": "raise"}
SPENDING = FAMILY | {"kinds": ("agent",), "acts": ("done",), "failing": 0, "calls_max": 6, "kill": 0, "code": 0}

MUTANTS = (
    Mutant(
        "fence ignored in report",
        DECIDE,
        "    if step.attempt != attempt:",
        "    if False:",
        ABSENT | {"kinds": ("run",)},
    ),
    Mutant("fence ignored in journal", "sql journal_started", FENCED, "", ABSENT),
    Mutant("fence ignored in journal's end", "sql journal_done", FENCED, "", ABSENT),
    Mutant("fence ignored in checkpoint", "sql put_checkpoint", FENCED, "", ABSENT),
    Mutant("fence ignored in beat", "sql beat", " and attempt = :attempt", "", FROZEN),
    Mutant(
        "settled twice",
        SETTLING,
        "    if not untold(step) or",
        "    if",
        {"stale": 40, "kinds": ("for_each", "for_each", "run")},
    ),
    Mutant(
        "batch cursor lost",
        SETTLE,
        "telling=telling, cursor=dependents[-1].key",
        'telling=telling, cursor=""',
        {"batches": (2, 3)},
    ),
    Mutant(
        "early signal lost",
        REPORTING,
        "            signal = earliest_fitting(w, step, outcome.question)",
        "            signal = None",
        {"kinds": ("wait", "run"), "people": 80, "person": "signal"},
    ),
    Mutant(
        "later signal first",
        "sql signals",
        "order by number",
        "order by number desc",
        {"kinds": ("wait", "wait", "run"), "people": 80, "person": "signal"},
    ),
    Mutant(
        "claimed before due",
        DECIDE,
        'or step.due_at > now:\n        raise Refused(f"step {step.key!r} is',
        'or False:\n        raise Refused(f"step {step.key!r} is',
        STALE,
    ),
    Mutant(
        "claimed while paused",
        DECIDE,
        "    if task.admits < (1 if step.pool == POOL_SYSTEM else 2):",
        "    if task._replace(state=TaskState.ACTIVE).admits < (1 if step.pool == POOL_SYSTEM else 2):",
        STALE | {"people": 80, "person": "pause"},
    ),
    Mutant(
        "fix requested while closing",
        DECIDE,
        "            if closing:\n                return (e.StepFailed(",
        "            if False:\n                return (e.StepFailed(",
        CALM
        | {
            "fix": 100,
            "kinds": ("run",),
            "acts": ("fail", "fail_digest"),
            "failing": 100,
            "people": 60,
            "person": "cancel",
        },
    ),
    Mutant(
        "loss counted as failure",
        MACHINE,
        '{"losses": step.losses + 1, "due_at"',
        '{"losses": step.losses + 1, "failures": step.failures + 1, "due_at"',
        FROZEN,
    ),
    Mutant(
        "head moved without compare",
        DECIDE,
        "or task.head != head or task.state is TaskState.CLOSING:\n        return ()\n    return (e.StepMerged(",
        "or task.state is TaskState.CLOSING:\n        return ()\n    return (e.StepMerged(",
        MERGES,
    ),
    Mutant(
        "reference before journal",
        MERGING,
        "    with write(store, ref.task_id, ref.step) as w:",
        "    merger.follow(task._replace(head=result.commit or task.head))\n"
        "    with write(store, ref.task_id, ref.step) as w:",
        MERGES | {"crash": 15},
    ),
    Mutant(
        "approval consumed twice",
        MACHINE,
        '"losses": 0, "run": step.run + 1,\n                        "reason": fact.reason, "cause": None,',
        '"losses": 0, "run": step.run + 1,\n                        "reason": fact.reason,',
        {"kinds": ("approval",), "people": 80, "person": "answer", "conditional": 0},
    ),
    Mutant(
        "old question answered",
        DECIDE,
        "    if ask is not None and ask != step.ask:",
        "    if False:",
        {"kinds": ("approval",), "people": 80, "person": "answer"},
    ),
    Mutant(
        "digest not compared",
        DECIDE,
        '    if digest is not None and digest != question.get("digest"):',
        "    if False:",
        {"kinds": ("approval",), "people": 80, "person": "answer"},
    ),
    Mutant(
        "handle started before durable",
        DISPATCH,
        "        with self._store.group():\n            self._store.ahead([report.ref",
        "        from contextlib import contextmanager\n\n        @contextmanager\n        def careless():\n"
        "            ended = False\n            try:\n                with self._store.group():\n"
        "                    yield\n                    ended = True\n            except Exception:\n"
        "                if not ended:\n                    raise\n\n"
        "        with careless():\n            self._store.ahead([report.ref",
    ),
    Mutant(
        "failed fix satisfies",
        SETTLE,
        "owned_verdict=telling if awaited",
        "owned_verdict=V.OK if awaited",
        {"fix": 100, "kinds": ("run",), "acts": ("fail", "fail_digest"), "failing": 70, "conditional": 0},
    ),
    Mutant(
        "task ended with something untold",
        MACHINE,
        "        if counts.open == 0 and counts.untold == 0 and",
        "        if counts.open == 0 and",
    ),
    Mutant(
        "omit told early",
        SETTLE,
        "        if step.blockers:\n            return facts\n        if step.omits:\n"
        "            return [*facts, e.StepSkipped(step.key, because, benign=True)]",
        "        if step.omits:\n            return [*facts, e.StepSkipped(step.key, because, benign=True)]\n"
        "        if step.blockers:\n            return facts",
        {"conditional": 60},
    ),
    Mutant(
        "gate shut before its stage drained",
        SETTLE,
        "        if step.blockers:\n            return facts\n"
        "        return [*facts, e.StepSkipped(step.key, because) if",
        "        if step.blockers and not step.vetoes:\n            return facts\n"
        "        return [*facts, e.StepSkipped(step.key, because) if",
    ),
    Mutant(
        "tree not restored on resume",
        "longtask.steps.places",
        "            tree, base = saved_at(saved)",
        "            pass",
        scenario="an_edit_survives_its_worker",
    ),
    Mutant(
        "cancelled attempt completes",
        DECIDE,
        "    if stop == STOP_CANCEL:\n        if isinstance(outcome, Stopped):",
        "    if stop == STOP_CANCEL and isinstance(outcome, Stopped):\n        if isinstance(outcome, Stopped):",
        {"people": 80, "person": "cancel_step", "acts": ("hang",)},
    ),
    Mutant(
        "pause takes the place of a cancel",
        "sql unasked",
        " and l.stop is null",
        "",
        {"people": 80, "person": "cancel_step pause", "acts": ("hang",), "kinds": ("for_each", "run")},
    ),
    Mutant(
        "a spent budget takes the place of a cancel",
        WRITING,
        " and lease.stop != decide.STOP_CANCEL]",
        "]",
        SPENDING | {"task": 5, "people": 80, "person": "cancel_step", "acts": ("hang", "done")},
    ),
    Mutant(
        "expired at once after sleep",
        SCHEDULER,
        "        if now - self._steady_since >= self._lease_ms:",
        "        if True:",
        {"suspend": 20, "freeze": 0, "kill": 0, "crash": 0, "acts": ("hang",)},
    ),
    Mutant(
        "mutex kept by a dead attempt",
        "longtask.core.change",
        "            if held is not None:\n",
        "            if held is not None and old is not None and row.losses == old.losses:\n",
        QUEUES | {"kill": 10, "acts": ("hang",)},
    ),
    Mutant(
        "mutex taken out of turn",
        MODEL,
        "self.holder is None and (self.called or not self.queued)",
        "self.holder is None",
        QUEUES,
    ),
    Mutant(
        "mutex handed past those who queue",
        REPORTING,
        "            if not view.free or not w.frees(name):",
        "            if view.holder is not None or not w.frees(name):\n                return None\n"
        "            from longtask.core.model import MutexView\n            view = MutexView()\n"
        "            if not w.frees(name):",
        QUEUES,
    ),
    Mutant(
        "ticket kept by who has ended",
        MACHINE,
        "(step.state is S.RUNNING or state not in OPEN):",
        "step.state is S.RUNNING:",
        QUEUES | {"people": 60, "person": "cancel_step"},
    ),
    Mutant(
        "mutex taken whoever holds it",
        "sql take_mutex",
        "on conflict (name) do nothing",
        "on conflict (name) do update set task_n = excluded.task_n, step = excluded.step, attempt = excluded.attempt",
        QUEUES,
        scenario="a_mutex_is_held_once",
    ),
    Mutant(
        "offer row not renewed",
        SHARING,
        "    if moved or task.counts.ready != ready or before is None or _terms(task) != _terms(before):",
        "    if moved or before is None or _terms(task) != _terms(before):",
    ),
    Mutant(
        "offer of a task that admits nothing",
        "sql renew_offers",
        "case when :admits = 2 or (:admits = 1 and pool = 'system') then",
        "case when :admits > 0 then",
    ),
    Mutant(
        "claim through a full task",
        DECIDE,
        '    if task.admits < (1 if step.pool == POOL_SYSTEM else 2):\n        raise Refused(f"task',
        '    if task.admits < 1:\n        raise Refused(f"task',
        STALE | {"acts": ("hang",)},
    ),
    Mutant(
        "later spawn answered with the first's ends",
        CLAIMING,
        "decide.item_key(step.key, index, step.expansion)",
        "decide.item_key(step.key, index, 1)",
        SPAWNS,
    ),
    Mutant(
        "spawn of another run taken for its own",
        CLAIMING,
        '        if step.listing["run"] != step.run:',
        "        if False:",
        SPAWNS
        | {
            "acts": ("fail", "done"),
            "failing": 50,
            "fix": 100,
            "calls_max": 1,
            "kill": 20,
            "people": 5,
            "steps_max": 3,
            "tasks_max": 1,
        },
    ),
    Mutant(
        "spawned by the first list again",
        MACHINE,
        "step.listing if fact.listing is None else fact.listing",
        "fact.listing if fact.expansion == 1 else step.listing",
        SPAWNS,
    ),
    Mutant(
        "growth behind a completed step",
        GROW,
        "elif before.state not in (S.BLOCKED, S.READY):",
        "elif before.state not in (S.BLOCKED, S.READY, S.COMPLETED):",
        HANDS | {"before": "completed"},
    ),
    Mutant(
        "growth beside what it is put before",
        GROW,
        "held = (e.StepHeld(before.key),) if before is not None and before.state is S.READY else ()",
        "held = ()",
        HANDS,
    ),
    Mutant(
        "need counted as told, not as known to the new step",
        GROW,
        "return need.telling if need.telling is not None and dependent <= need.cursor else need.told",
        "return need.told",
        HANDS | {"batches": (1, 2), "failing": 50, "steps_max": 6},
    ),
    Mutant(
        "a planner told to those that it has not added yet",
        SETTLING,
        "    if w.joined(key):\n        return False\n",
        "",
        HANDS | {"kinds": ("agent",), "acts": ("done",), "failing": 0, "people": 5},
    ),
    Mutant(
        "what a person has is lost like a worker's",
        DECIDE,
        "    if step.taken_by is not None:\n        return given_back(",
        "    if False:\n        return given_back(",
        HANDS,
    ),
    Mutant(
        "what had failed runs again when it is given back",
        DECIDE,
        '    if was.get("state") == S.FAILED:',
        "    if False:",
        HANDS,
    ),
    Mutant(
        "what has asked runs again when it is given back",
        DECIDE,
        '    if "question" in was:',
        "    if False:",
        HANDS | {"acts": ("fail",)},
    ),
    Mutant(
        "a person takes a slot",
        MODEL,
        "return self.pool == POOL_SYSTEM or self.taken_by is not None",
        "return self.pool == POOL_SYSTEM",
        HANDS,
    ),
    Mutant(
        "fork that keeps code of a parallel step",
        FORKING,
        "            made.fork,\n",
        "            __import__('dataclasses').replace(made.fork, task=self._store.get_task(ref.task_id)),\n",
        FORKS,
    ),
    Mutant(
        "fork that takes over the whole journal",
        FORK,
        "            claim = claim if goes_on else event.seq - 1",
        "            pass",
        FORKS,
    ),
    Mutant(
        "fork of a list begins where it was collected",
        FORK,
        "            goes_on = True",
        "            pass",
        FORKS | {"kinds": ("for_each",)},
    ),
    Mutant(
        "fork that keeps failures",
        FORK,
        "FINAL = (V.OK, V.OMIT)",
        "FINAL = (V.OK, V.OMIT, V.VETO)",
        FORKS | {"failing": 40},
    ),
    Mutant(
        "fork that keeps items which had only begun",
        FORK,
        "row.role is Role.ITEM and row.state is S.COMPLETED]",
        "row.role is Role.ITEM]",
        FORKS | {"kinds": ("run", "for_each")},
    ),
    Mutant(
        "weight of items that are left out is lost",
        FORK,
        "weight=row.whole - sum(item.weight for item in items)",
        "weight=row.weight",
        FORKS | {"kinds": ("run", "for_each")},
    ),
    Mutant(
        "what was brought along blocks like any other",
        MACHINE,
        "told = Verdict.NONE if need is None else need.told",
        "told = Verdict.NONE",
        FORKS,
    ),
    Mutant(
        "what was brought along is told once more",
        MACHINE,
        "return ended._replace(told=verdict(ended))",
        "return ended",
        FORKS,
    ),
    Mutant(
        "a fork that broke off goes on from where its source is now",
        FORKING,
        "made = _Made(forked(self._events(origin.task, origin.seq)))",
        "made = _Made(self.forked(Ref(origin.task, origin.step)))",
        FORKS | {"crash": 25, "batches": (2, 3), "failing": 30},
    ),
    Mutant(
        "fence not taken for share",
        "sql postgres put_checkpoint",
        "for share of l",
        "",
        scenario="a_late_write_waits_for_who_closes_its_lease",
    ),
    Mutant(
        "lease by the worker's clock",
        "longtask.store.postgres.blocks",
        "server_ms if self._clock is None else self.now()",
        "time.time_ns() // 1_000_000",
        scenario="a_machine_with_a_wrong_clock_claims_as_every_other",
    ),
    Mutant(
        "NOTIFY trusted",
        "longtask.engine.loop",
        "self._store.wait(pause)",
        "self._store.wait(3_600.0 if self._store.hinted else pause)",
        scenario="work_is_found_though_nobody_tells_of_it",
    ),
    Mutant(
        "raise of a stage forgotten",
        MACHINE,
        "raises[stage - 1] += 1",
        "raises[stage - 1] += 0",
        LIMITED,
    ),
    Mutant(
        "stage stopped before its limit",
        "longtask.core.spending",
        "spent = stage_spent(task, step.stage)",
        "spent = {name: n * 2 for name, n in stage_spent(task, step.stage).items()}",
        LIMITED,
    ),
    Mutant(
        "child reported twice",
        "longtask.core.family",
        '    return f"end:{child}"',
        '    return f"end:{child}{object()}"',
        FAMILY,
    ),
    Mutant("parent woken never", ERRANDS, "                self._tell_end(row)", "                pass", FAMILY),
    Mutant(
        "unnumbered pause relay",
        "longtask.core.family",
        "    if wish <= task.followed:",
        "    if False:",
        FAMILY | {"people": 90, "person": "pause resume", "race": 90, "tasks_max": 1, "task": 90, "kinds": ("wait",)},
    ),
    Mutant(
        "child born into an old wish",
        ERRANDS,
        "one.followed < w.task.wish",
        "False",
        scenario="a_child_made_behind_a_relay_is_told_by_another",
    ),
    Mutant(
        "child passed by the relay",
        ERRANDS,
        "w.mark(wish=w.task.wish + 1, relay=",
        "w.mark(relay=",
        scenario="a_child_made_while_a_relay_looks_is_told_by_another",
    ),
    Mutant(
        "relay that begins anew without an errand",
        ERRANDS,
        "            if w.task.relay is not None:  # it may",
        "            if False:  # it may",
        scenario="a_relay_that_begins_anew_where_it_ends_goes_on",
    ),
    Mutant(
        "pause at once of the task alone",
        ERRANDS,
        "self._follow(child, wish, hold, parent.at_once)",
        "self._follow(child, wish, hold)",
        PAUSING,
    ),
    Mutant(
        "pause at once that asks nothing of a child's attempts",
        ERRANDS,
        "                    if w.task.at_once:",
        "                    if False:",
        PAUSING,
    ),
    Mutant(
        "pause at once of a paused task passes nothing on",
        MACHINE,
        "(hold is not self.held or self.urged)",
        "hold is not self.held",
        PAUSING,
    ),
    Mutant(
        "pause at once that asks one batch",
        ERRANDS,
        '        if parent.at_once and before == "" and self._stop_running(parent.id):',
        "        if False:",
        PAUSING | {"batches": (2, 3), "task": 10, "kinds": ("run",), "steps_max": 8},
    ),
    Mutant(
        "child created by a zombie",
        DISPATCH,
        "        with self._store.group():\n            self._store.ahead([report.ref",
        "        import json\n"
        "        from longtask.core.model import SubTask\n"
        "        for report in reports:\n"
        "            if isinstance(report.outcome, SubTask):\n"
        "                from longtask.core.family import child_id\n"
        "                from longtask.store.contract import ErrandRow\n"
        "                from .family import Family\n"
        "                (task_id, key), made = report.ref, self._store.get_step(report.ref)\n"
        "                child = child_id(task_id, key, report.attempt, self._store.now())\n"
        "                body = json.dumps({'spec': made.spec, 'inputs': {}})\n"
        "                row = ErrandRow(0, task_id, key, 'create', child, 0, 0, 0, body)\n"
        "                Family(self._store, self._reports._scopes, self._reports._expressions).act(row)\n"
        "        with self._store.group():\n            self._store.ahead([report.ref",
        FAMILY | {"person": "cancel_step", "people": 80, "freeze": 10},
    ),
    Mutant(
        "child kept by a step that has ended",
        "longtask.core.family",
        "row.state not in _AFTER_WAKING",
        "row.state is S.COMPLETED",
        FAMILY | {"person": "cancel_step", "people": 60},
    ),
    Mutant(
        "time of children not counted",
        "longtask.core.active",
        "if isinstance(fact, StepParked) and fact.waiting_for is WaitingFor.TASK:",
        "if False:",
        ACTIVE,
    ),
    Mutant("time that overlaps lost", "longtask.core.active", "        if touched:", "        if False:", ACTIVE),
    Mutant(
        "time forgotten while it goes on",
        "longtask.core.active",
        "min([now - LATE_MS, *self._open()])",
        "now",
        ACTIVE | {"steps_max": 8},
    ),
    Mutant("budget counted twice", ERRANDS, "row.step, 0, child=row.task_id, **", "row.step, 0, **", SPENDING),
    Mutant(
        "usage told twice",
        ERRANDS,
        "        op = family.usage_op(row.task_id, row.seq)",
        "        op = family.usage_op(row.task_id, row.seq) + str(self._store.now())",
        SPENDING,
    ),
    Mutant(
        "budget above looked at late",
        ERRANDS,
        "    if any(_is_over(*one) for",
        "    if any(_is_over(one.task, 0, 0) for",
        SPENDING | {"freeze": 8},
    ),
    Mutant(
        "budget of more agents than one lock asks",
        ERRANDS,
        "_is_over(*one) for one in counting)",
        "_is_over(*one) for one in counting[1:])",
        SPENDING,
    ),
)
