"""The plan of every statement is asserted, and so is how many a chained step needs.

The planner's view of sizes is fixed by the first migration, so a plan depends on nothing but the schema.
"""

import re
import time
from itertools import pairwise

import apsw
import pytest

from longtask.core.events import Fact, NewStep, StepClaimed, StepCompleted, StepUnblocked
from longtask.core.machine import fold
from longtask.core.model import Edge, Kind, Verdict
from longtask.store.line import Line
from longtask.store.queries import load
from longtask.store.sqlite import SqliteStore
from tests.conformance.databases import Clock
from tests.conformance.play import blocked, claim, ready, submit

# Statements that read a whole index or table, and why that is right.
SCANS = {
    "mutex_view": "SCAN x",  # one row
    "callable": "SCAN a; SCAN a; SCAN q; SCAN q; SCAN f",  # names of queues, and the tasks in those of free mutexes
    "unsettled": "SCAN s USING COVERING INDEX step_untold",  # of untold steps only, up to the limit
    "closing": "SCAN t USING INDEX task_closing",  # of closing tasks only
    "unheard": "SCAN i USING INDEX inbox_unheard",  # of signals that are still being told only
    "asking": "SCAN s USING INDEX step_asking",  # of steps that ask a person only
    "last_task": "SCAN t",  # by its key backwards, one row
    "open_notices": "SCAN notice USING INDEX notice_open",  # of signals that are still being copied only
    "newest_event": "SCAN event",  # by its key backwards, one row
    "first_event": "SCAN event",  # by its key, one row
    "workers": "SCAN worker USING INDEX worker_seen",  # newest first, up to the limit
    "worker_loads": "SCAN lease",  # of running steps only
    "leases_of_worker": "SCAN l",  # the same, for a beat of a worker elsewhere
    "pool_loads": "SCAN o USING COVERING INDEX offer_next",  # of tasks that a worker may serve only, pool by pool
    "open_counts": "SCAN task USING INDEX task_open; SCAN t",  # of open tasks only, up to the limit
    "queues": "SCAN offer USING COVERING INDEX offer_next; SCAN o",  # of tasks with something ready, up to the limit
    "over": "SCAN u; SCAN u",  # of tasks over one: four at most
    "pool_named": "SCAN t USING COVERING INDEX task_open",  # of open tasks only, when a worker begins
}
# Sorting what a partial index found: few rows, and none of them a whole task's.
SORTS = {"asking", "running", "progress", "unheard", "worker_loads", "callable"}
SORTS |= {"queues"}  # by pool, up to the limit
SORTS |= {"kept_sessions"}  # of one task after another, its open steps
SORTS |= {"over", "errands_of"}  # four tasks; a look at one task
SORTS |= {"tickets"}  # may be those of a whole task: for a look, not for a round


@pytest.fixture(scope="module")
def line(tmp_path_factory) -> Line:
    line = Line(str(tmp_path_factory.mktemp("plans") / "x.output.db"))
    line.migrate("sqlite_output", 1)
    main = Line(str(tmp_path_factory.mktemp("plans") / "x.db"))
    main.migrate("sqlite", 1)
    line.run("attach ? as tasks", (main.path,))
    return line


def plan(line: Line, statement: str) -> list[str]:
    params = dict.fromkeys(re.findall(r":(\w+)", statement), "[]")
    return [row[3] for row in line.run("explain query plan " + statement, params)]


@pytest.mark.parametrize("name", sorted(load("sqlite")))
def test_no_statement_reads_a_whole_table(line, name):
    lines = plan(line, load("sqlite")[name])
    scans = [x for x in lines if x.startswith("SCAN") and "VIRTUAL TABLE" not in x and x not in ("SCAN CONSTANT ROW",)]
    assert "; ".join(scans) == SCANS.get(name, ""), lines
    assert any("TEMP B-TREE" in x for x in lines) == (name in SORTS), lines


@pytest.mark.parametrize(
    ("name", "uses"),
    [
        ("header", "SEARCH s USING PRIMARY KEY (task_n=? AND key=?) LEFT-JOIN"),
        ("header", "SEARCH l USING PRIMARY KEY (task_n=? AND step=?) LEFT-JOIN"),
        ("dependents", "SEARCH e USING PRIMARY KEY (task_n=? AND need=? AND step>?)"),
        ("owned_open", "SEARCH s USING INDEX step_open (task_n=? AND owner=?)"),
        ("completed_items", "SEARCH s USING INDEX step_item (task_n=? AND owner=? AND item>?)"),
        ("items_passed", "SEARCH s USING INDEX step_item (task_n=? AND owner=? AND item>?)"),
        ("ready", "SEARCH s USING INDEX step_ready (task_n=? AND pool=? AND due_at<?)"),
        ("sweepable", "SEARCH s USING INDEX step_open (task_n=?)"),
        ("sweepable", "SEARCH s USING INDEX step_untold (task_n=?)"),
        ("running", "SEARCH l USING PRIMARY KEY (task_n=?)"),
        ("has_heard", "SEARCH i USING COVERING INDEX inbox_delivery (task_n=? AND delivery=?)"),
        ("timed", "SEARCH t USING INDEX task_open (n<?)"),
        ("unasked", "SEARCH l USING PRIMARY KEY (task_n=?)"),
        ("waiters", "SEARCH w USING COVERING INDEX wait_name (task_n=? AND name=? AND step>?)"),
        ("done_op", "SEARCH event USING COVERING INDEX event_op (task_n=? AND op=?)"),
        ("rival", "SEARCH o USING COVERING INDEX offer_next (pool=? AND priority>?)"),
        ("rival", "SEARCH o USING COVERING INDEX offer_next (pool=? AND priority=? AND served_at<?)"),
        ("renew_offers", "SEARCH offer USING PRIMARY KEY (task_n=?)"),
        ("renew_offers", "SEARCH s USING COVERING INDEX step_ready (task_n=? AND pool=?)"),
        ("mutex_view", "SEARCH m USING PRIMARY KEY (name=?) LEFT-JOIN"),
        ("mutex_view", "SEARCH o USING COVERING INDEX mutex_ticket_next (name=?)"),
        ("callable", "SEARCH c USING COVERING INDEX mutex_ticket_called (called_at>?)"),
        ("callable", "SEARCH f USING COVERING INDEX mutex_ticket_of_task (name=? AND task_n>?)"),
        ("free_mutex", "SEARCH mutex USING PRIMARY KEY (name=?)"),
        ("close_tickets", "SEARCH mutex_ticket USING COVERING INDEX mutex_ticket_of_step (task_n=? AND step=?)"),
        ("claimable", "SEARCH o USING COVERING INDEX offer_next (pool=?)"),
        ("claimable", "SEARCH r USING COVERING INDEX step_ready (task_n=? AND pool=? AND due_at<?)"),
        ("overdue", "SEARCH s USING COVERING INDEX step_deadline (due_at>? AND due_at<?)"),
        ("unheard_signal", "SEARCH inbox USING INDEX inbox_unheard (task_n=?)"),
        ("mergeable", "SEARCH s USING COVERING INDEX step_merging (due_at<?)"),
        ("expired", "SEARCH l USING INDEX lease_due (due_at<?)"),
        ("next_due_at", "SEARCH step USING COVERING INDEX step_delayed (due_at>?)"),
        ("beat", "SEARCH lease USING PRIMARY KEY (task_n=? AND step=?)"),
        ("close_leases", "SEARCH lease USING PRIMARY KEY (task_n=? AND step=?)"),
        ("stop_leases", "SEARCH lease USING PRIMARY KEY (task_n=? AND step=?)"),
        ("close_waits", "SEARCH wait USING PRIMARY KEY (task_n=? AND step=?)"),
        ("items", "SEARCH r USING INDEX step_item (task_n=? AND owner=? AND item=?)"),
        ("tasks_of_workspace_open", "SEARCH t USING INDEX task_open_of_workspace (workspace_id=? AND n<?)"),
        ("events", "SEARCH e USING INDEX event_seq (task_n=? AND seq>?)"),
        ("edges", "SEARCH e USING PRIMARY KEY (task_n=? AND (need,step)>(?,?))"),
        ("prunable", "SEARCH t USING INDEX task_ended (ended_at>? AND ended_at<?)"),
        ("stored_values", "SEARCH s USING INDEX step_value ((task_n,key)>(?,?))"),
        ("kept_sessions", "SEARCH s USING INDEX step_open (task_n>?)"),
        ("kept_sessions", "SEARCH j USING INDEX sqlite_autoindex_run_journal_1 (task_n=? AND step=?)"),
        ("calls", "SEARCH j USING INDEX sqlite_autoindex_run_journal_1 (task_n=? AND step=?)"),
        ("stale_blobs", "SEARCH blob USING INDEX blob_used (used_at<?)"),
        ("blob_named", "SEARCH a USING INDEX artifact_digest (digest=?)"),
        ("token_by_hash", "SEARCH token USING INDEX sqlite_autoindex_token_2 (hash=?)"),
        ("token_by_hash", "SEARCH token USING INDEX sqlite_autoindex_token_3 (old_hash=?)"),
        ("end_audit", "SEARCH audit USING PRIMARY KEY (id=?)"),
        ("audit", "SEARCH audit USING PRIMARY KEY (id<?)"),
        ("audit_of_task", "SEARCH audit USING INDEX audit_of_task (task_id=? AND id<?)"),
        ("audit_of_person", "SEARCH audit USING INDEX audit_of_person (who=? AND id<?)"),
        ("forget_audit", "SEARCH audit USING PRIMARY KEY (id<?)"),
        ("request", "SEARCH request USING PRIMARY KEY (caller=? AND key=? AND route=?)"),
        ("forget_requests", "SEARCH request USING COVERING INDEX request_expires (expires_at<?)"),
        ("webhook", "SEARCH webhook USING PRIMARY KEY (id=?)"),
        ("hold_webhook", "SEARCH webhook USING PRIMARY KEY (id=?)"),
        ("move_webhook", "SEARCH webhook USING PRIMARY KEY (id=?)"),
        ("use_link", "SEARCH link USING PRIMARY KEY (id=?)"),
        ("forget_links", "SEARCH link USING COVERING INDEX link_expires (expires_at<?)"),
        ("notice", "SEARCH notice USING INDEX notice_delivery (delivery=? AND workspace_id=?)"),
        ("forget_notices", "SEARCH notice USING INDEX notice_at (at<?)"),
        ("open_tasks", "SEARCH t USING INDEX task_open (n>?)"),
        ("open_tasks_of_workspace", "SEARCH t USING INDEX task_open_of_workspace (workspace_id=? AND n>?)"),
        ("feed_probe", "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)"),
        ("prune_step", "SEARCH step USING PRIMARY KEY (task_n=? AND key=?)"),
        ("prune_event", "SEARCH event USING COVERING INDEX event_seq (task_n=? AND seq=?)"),
    ],
)
def test_what_a_statement_is_found_by(line, name, uses):
    assert uses in plan(line, load("sqlite")[name])


def chained_step(store: SqliteStore, id_: str, key: str, next_key: str) -> None:
    """Report, settle and claim of the next step in one block, as a worker does it."""
    with store.task(id_, key) as tx:
        step = tx.step(key)
        assert tx.spec(step.spec).kind is Kind.RUN
        assert tx.lease(key) is not None
        dependents = {other.key: other for other in tx.dependents(key, "", 500)}
        assert not tx.rival("default", tx.task.served_at)
        told = {other.key: other._replace(blockers=other.blockers - 1) for other in dependents.values()}
        told[key] = step._replace(told=Verdict.OK)
        facts: list[Fact] = [StepCompleted(key, 1), StepUnblocked(next_key, tx.now), StepClaimed(next_key, 1, "w-1")]
        tx.save(fold(tx.task, {key: step, **dependents}, facts, tx.now, told))


def chain(length: int) -> tuple[list[NewStep], list[Edge]]:
    keys = [f"s{i:03}" for i in range(length)]
    steps = [*ready(keys[0]), *[blocked(key, 1, weight=100) for key in keys[1:]]]
    steps.append(blocked("gate.1", length, kind=Kind.GATE))
    edges = [Edge(a, b) for a, b in pairwise(keys)] + [Edge(key, "gate.1") for key in keys]
    return steps, edges


@pytest.mark.parametrize("grouped", [False, True])
def test_a_chained_step_costs_ten_statements_and_one_commit(tmp_path, grouped):
    seen: list[str] = []
    store = SqliteStore(tmp_path / "longtask.db", Clock(), trace=lambda sql, _params: seen.append(sql))
    id_ = submit(store, 1, *chain(10))
    claim(store, id_, "s000")
    chained_step(store, id_, "s000", "s001")  # reads options and spec once for this process
    seen.clear()
    if grouped:
        with store.group():
            chained_step(store, id_, "s001", "s002")
            chained_step(store, id_, "s002", "s003")
        assert len(seen) == 2 * 8 + 2, seen
    else:
        chained_step(store, id_, "s001", "s002")
        assert len(seen) == 10, seen
    assert [sql for sql in seen if sql in ("begin immediate", "commit")] == ["begin immediate", "commit"]
    store.close()


def test_ten_thousand_tasks_of_which_few_can_be_served_cost_no_more_than_those_few(tmp_path):
    store = SqliteStore(tmp_path / "longtask.db", Clock())
    for number in (1, 2, 3):
        submit(store, number, ready("a", "b"))
    writer = apsw.Connection(store.path)
    columns = [row[0] for row in writer.execute("select name from pragma_table_info('task')")]
    others = ", ".join("'t' || i.value" if c == "id" else "0" if c == "admits" else c for c in columns if c != "n")
    writer.execute(
        f"insert into task ({', '.join(c for c in columns if c != 'n')}) "
        "with recursive i (value) as (select 1 union all select value + 1 from i where value < 10000) "
        f"select {others} from task, i where n = 1"
    )
    writer.close()

    def steps_of_the_database_engine(call) -> int:
        counted = 0

        def profile(event: dict) -> None:
            nonlocal counted
            counted += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

        store._line.db.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
        call()
        store._line.db.trace_v2(0)
        return counted

    assert len(store.claimable("default", 50)) == 3
    assert 0 < steps_of_the_database_engine(lambda: store.claimable("default", 50)) < 500
    assert 0 < steps_of_the_database_engine(lambda: store.unsettled(50)) < 100
    assert 0 < steps_of_the_database_engine(store.next_due_at) < 200
    id_ = store.get_task("play-1").id

    def rival() -> None:
        with store.task(id_) as tx:
            assert not tx.rival("default", 0)

    rival()
    assert steps_of_the_database_engine(rival) < 1_000
    began = time.process_time()
    for _ in range(20):
        store.claimable("default", 50)
    assert (time.process_time() - began) / 20 < 0.02
    store.close()
