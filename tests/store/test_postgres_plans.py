"""The generic plan of every statement on a schema as it is after months: few open tasks among many that have ended.

None reads a table that grows with the tasks from end to end, or sorts what an index does not bound.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from longtask.core.model import Edge, Kind
from longtask.store.postgres.pool import SETTINGS
from longtask.store.postgres.store import PostgresStore
from longtask.store.queries import load, numbered
from tests import postgres
from tests.conformance.play import blocked, claim, ready, submit

TASKS, STEPS = 200, 100
SMALL = {
    "migration",
    "workspace",
    "worker",
    "mutex",
    "webhook",
    "signing_key",
}  # rows of what is there now, not of what there ever was
CATALOG = {"damage", "dead_rows", "oldest_snapshots", "old_snapshots"}  # look at the server's own tables, for `doctor`

# Statements that read a whole table or index, and why that is right.
SCANS = {
    "asking": "index step_asking",  # of steps that ask a person only
    "callable": "index mutex_ticket_of_task; index mutex_ticket_pkey",  # of steps that wait for a mutex now
    "tickets": "index mutex_ticket_pkey",  # the same
    "closing": "index step_untold; index task_closing",  # of untold steps, and of closing tasks
    "unsettled": "index step_untold",  # of untold steps only, up to the limit
    "open_notices": "index notice_open",  # of signals that are still being copied only
    "unheard": "index inbox_unheard",  # of signals that are still being told only
    "last_task": "index task_pkey",  # by its key backwards, one row
    "pool_loads": "index offer_next",  # of tasks that a worker may serve only, pool by pool
    "open_counts": "index task_open",  # of open tasks only, up to the limit
    "pool_named": "index task_open",  # of open tasks only, when a worker begins
    "prunable": "index task_open",  # of open tasks, which may be somebody's child
    "worker_loads": "all of lease",  # of running steps only
    "leases_of_worker": "index lease_pkey",  # the same, for a beat of a worker elsewhere
}
# Sorting what an index found: few rows, none of them a whole task's, or (incrementally) rows that fall due together.
SORTS = {
    "asking", "asking_of_task", "callable", "claimable", "claimable_within", "feed", "feed_probe",
    "kept_sessions", "leases", "mutexes",
    "offers", "owned_open", "progress", "prune_inbox", "queues", "ready", "stored_values", "unheard", "worker_loads",
}  # fmt: skip
SORTS |= {"errands", "errands_of", "over"}  # of one instant; a look at one task; four tasks at most

# The rows of one task that has ended, again under many numbers.
COPIES = """
insert into task ({task}) overriding system value
    select {task_copy} from task t, generate_series(1000, 1000 + {tasks}) g where t.n = {n};
insert into task_options select g, body from task_options, generate_series(1000, 1000 + {tasks}) g where task_n = {n};
insert into spec select g, number, body from spec, generate_series(1000, 1000 + {tasks}) g where task_n = {n};
insert into plan select g, repeat('plan ', 50) from generate_series(1000, 1000 + {tasks}) g;
insert into step ({step}) select {step_copy} from step s, generate_series(1000, 1000 + {tasks}) g where s.task_n = {n};
insert into edge select g, need, step from edge, generate_series(1000, 1000 + {tasks}) g where task_n = {n};
insert into event (task_n, seq, v, at, kind, actor, op, body)
    select g, e.seq + {steps} * x, v, at, kind, actor, case when e.seq = 1 then 'op ' || x end, body
    from event e, generate_series(1000, 1000 + {tasks}) g, generate_series(1, {steps} * 2) x
    where e.task_n = {n} and e.seq <= 2;
insert into inbox select g, x, 'd ' || x, 'ci', '', 5, null, '{{}}'
    from generate_series(1000, 1000 + {tasks}) g, generate_series(1, 20) x;
insert into run_journal select g, 's' || x % 10, 1, x, 'turn', 'm', 'f', 1, 1, 1, 1, 1, 1, '{{}}'
    from generate_series(1000, 1000 + {tasks}) g, generate_series(1, 100) x;
insert into checkpoint (task_n, step, run, attempt, position, tree, at)
    select g, 's' || x % 10, 1, 1, x, 't', 1 from generate_series(1000, 1000 + {tasks}) g, generate_series(1, 50) x;
insert into chunk select 'id ' || g, 's' || x, 1, 1, 'out', 5, 'body'
    from generate_series(1000, 1000 + {tasks}) g, generate_series(1, 50) x;
insert into artifact (task_n, step, attempt, name, digest, size_bytes, media_type, at)
    select g, 's' || x, 1, 'output/x', 'digest ' || g * x, 5, 'text/plain', 5
    from generate_series(1000, 1000 + {tasks}) g, generate_series(1, 50) x;
insert into progress select g, 's' || x, 1, 1, 1, 1, 't'
    from generate_series(1000, 1000 + {tasks}) g, generate_series(1, 50) x;
insert into blob select 'w', 'digest ' || x, 5, x, x from generate_series(1, 10000) x;
insert into wait select g, 's' || x, 1, 'ci', 0, '' from generate_series(1190, 1190 + 10) g, generate_series(1, 50) x;
insert into mutex_ticket (name, task_n, step, at, called_at)
    select 'm' || x % 5, g, 's' || x, 5, 0 from generate_series(1190, 1190 + 10) g, generate_series(1, 50) x;
insert into outbox (task_n, step, kind, target, due_at)
    select g, 's', 'create', 'x', 5 from generate_series(1000, 1200) g;
insert into token (id, name, hash, old_until, roles, created_by, created_at, used_at)
    select 'id ' || g, 'n', 'hash ' || g, 0, '[]', 'x', 5, 5 from generate_series(1, 5000) g;
insert into audit (id, at, who, address, action, task_id, status, outcome)
    select 'id ' || g, g, 'who ' || g % 50, 'a', 'x', case when g % 2 = 0 then 'task ' || g % 500 end, 200, ''
    from generate_series(1, 50000) g;
insert into link (id, task_id, step, ask, who, created_by, created_at, expires_at)
    select 'id ' || g, 't', 's', 1, 'x', 'x', 5, g from generate_series(1, 20000) g;
insert into notice (workspace_id, delivery, name, sender, at, copied, payload)
    select 'w' || g % 5, 'd ' || g, 'ci', 'x', g, case when g % 5000 = 0 then 0 end, '{{}}'
    from generate_series(1, 20000) g;
insert into request select g, g, g, 200, 'who ' || g % 50, 'key ' || g, 'route', 'd', 'h', '{{}}'
    from generate_series(1, 20000) g;
"""


def grown(store: PostgresStore, line: psycopg.Connection[Any]) -> None:
    keys = [f"s{n:03}" for n in range(STEPS)]
    edges = [Edge(key, "gate.1") for key in keys]
    id_ = submit(
        store, 1, (*ready(*keys), blocked("gate.1", STEPS, kind=Kind.GATE)), edges, workspace_id="w", created_by="ann"
    )
    claim(store, id_, keys[0])
    for number in range(2, 12):  # open ones
        claim(store, submit(store, number, (*ready(*keys), *[blocked(f"b{n}") for n in range(50)])), keys[0])
    columns = {
        table: [name for (name,) in line.execute(
            b"select column_name from information_schema.columns where table_schema = current_schema() "
            b"and table_name = %s order by ordinal_position", (table,))]
        for table in ("task", "step")
    }  # fmt: skip
    task = {
        "n": "g",
        "id": "'id ' || g",
        "state": "'completed'",
        "ended_at": "g",
        "open": "0",
        "workspace_id": "'w' || g % 5",
        "idempotency_key": "'key ' || g",
        "parent": "case when g % 10 = 0 then 'id ' || g - 1 end",
    }
    step = {
        "task_n": "g",
        "state": "'completed'",
        "ended_at": "5",
        "told": "'ok'",
        "untold": "0",
        "worker": "'w'",
        "item": "case when s.key like 's00%' then 1 end",
        "owner": "case when s.key like 's00%' then 's011' end",
    }
    line.execute(COPIES.format(
        n=1, tasks=TASKS, steps=STEPS, task=", ".join(columns["task"]), step=", ".join(columns["step"]),
        task_copy=", ".join(task.get(c, f"t.{c}") for c in columns["task"]),
        step_copy=", ".join(step.get(c, f"s.{c}") for c in columns["step"]),
    ).encode())  # fmt: skip
    line.execute("analyze")


@pytest.fixture(scope="module")
def line() -> Iterator[psycopg.Connection[Any]]:
    url = postgres.fresh_url()
    store = PostgresStore(url)
    with psycopg.connect(postgres.shared_url(), autocommit=True) as made:
        made.execute(f"set search_path = {url.rpartition('schema=')[2]}".encode())
        for name, value in SETTINGS.items():
            made.execute(b"select set_config(%s, %s, false)", (name, value))
        grown(store, made)
        yield made
    store.close()
    postgres.drop(url)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def explained(line: psycopg.Connection[Any], name: str) -> list[dict[str, Any]]:
    sql, names = numbered(load("postgres")[name])
    line.execute(f"prepare {name} as {sql}".encode())
    try:
        values = ", ".join(["null"] * len(names))
        call = f"execute {name}({values})" if names else f"execute {name}"
        found = line.execute(f"explain (format json) {call}".encode()).fetchall()[0][0]
    finally:
        line.execute(f"deallocate {name}".encode())
    return list(nodes(found[0]["Plan"]))


def scans(plan: list[dict[str, Any]]) -> list[str]:
    """Of tables that grow: from end to end, or a whole index that is not the answer's own order."""
    found = []
    for node in plan:
        table = node.get("Relation Name")
        if node["Node Type"] == "Seq Scan" and table not in SMALL:
            found.append(f"all of {table}")
        if node["Node Type"] in ("Index Scan", "Index Only Scan") and "Index Cond" not in node and table not in SMALL:
            found.append(f"index {node['Index Name']}")
        if node["Node Type"] == "Bitmap Index Scan" and "Index Cond" not in node:
            found.append(f"index {node['Index Name']}")
    return sorted(found)


@pytest.mark.parametrize("name", sorted(load("postgres")))
def test_no_statement_reads_a_whole_table(line, name):
    plan = explained(line, name)
    if name not in CATALOG:
        assert "; ".join(scans(plan)) == SCANS.get(name, ""), json.dumps(plan[0], indent=1)
        assert any("Sort" in node["Node Type"] for node in plan) == (name in SORTS), json.dumps(plan[0], indent=1)


@pytest.mark.parametrize(
    ("name", "index", "condition"),
    [
        ("header", "task_id_key", "id"),
        ("header", "step_pkey", "task_n key"),
        ("header", "lease_pkey", "task_n step"),
        ("lock_task", "task_id_key", "id"),
        ("step", "step_pkey", "task_n key"),
        ("steps", "step_pkey", "task_n key"),
        ("dependents", "edge_pkey", "task_n need step"),
        ("owned_open", "step_open", "task_n owner"),
        ("completed_items", "step_item", "task_n owner item"),
        ("items_passed", "step_item", "task_n owner"),
        ("ready", "step_ready", "task_n pool due_at"),
        ("sweepable", "step_open", "task_n"),
        ("sweepable", "step_untold", "task_n"),
        ("running", "lease_pkey", "task_n"),
        ("unasked", "lease_pkey", "task_n"),
        ("waiters", "wait_name", "task_n name step"),
        ("done_op", "event_op", "task_n op"),
        ("rival", "offer_next", "pool priority"),
        ("rival", "offer_next", "pool priority served_at"),
        ("renew_offers", "step_ready", "task_n pool"),
        ("mutex_view", "mutex_ticket_next", "name"),
        ("close_leases", "lease_pkey", "task_n step"),
        ("close_waits", "wait_pkey", "task_n step"),
        ("claimable", "offer_next", "pool offer_at"),
        ("claimable", "step_ready", "task_n pool due_at"),
        ("overdue", "step_deadline", "due_at"),
        ("mergeable", "step_merging", "due_at"),
        ("expired", "lease_due", "due_at"),
        ("next_due_at", "step_delayed", "due_at"),
        ("beat", "lease_pkey", "task_n step"),
        ("put_chunks", "lease_pkey", "task_n step"),
        ("insert_events", "event_pkey", "task_n"),
        ("events", "event_pkey", "task_n seq"),
        ("feed", "event_feed", "xid"),
        ("edges", "edge_pkey", "task_n need step"),
        ("items", "step_item", "task_n owner item"),
        ("tasks_of_workspace_open", "task_open_of_workspace", "workspace_id n"),
        ("timed", "task_open", "n"),
        ("artifacts", "artifact_of_task", "task_n"),
        ("output", "chunk_pkey", "task_id step attempt n"),
        ("journal", "run_journal_pkey", "task_n step run"),
        ("checkpoint", "checkpoint_newest", "task_n step run"),
        ("blob_named", "artifact_digest", "digest"),
        ("prunable", "task_ended", "ended_at n"),
        ("stale_blobs", "blob_used", "used_at"),
        ("token_by_hash", "token_hash_key", "hash"),
        ("token_by_hash", "token_old_hash_key", "old_hash"),
        ("end_audit", "audit_pkey", "id"),
        ("audit", "audit_pkey", "id"),
        ("audit_of_task", "audit_of_task", "task_id id"),
        ("audit_of_person", "audit_of_person", "who id"),
        ("forget_audit", "audit_pkey", "id"),
        ("request", "request_pkey", "caller key route"),
        ("end_request", "request_pkey", "caller key route"),
        ("forget_requests", "request_expires", "expires_at"),
        ("link", "link_pkey", "id"),
        ("use_link", "link_pkey", "id"),
        ("forget_links", "link_expires", "expires_at"),
        ("notice", "notice_delivery", "delivery workspace_id"),
        ("forget_notices", "notice_at", "at"),
        ("open_tasks", "task_open", "n"),
        ("open_tasks_of_workspace", "task_open_of_workspace", "workspace_id n"),
        ("feed_probe", "event_feed", "xid"),
    ],
)
def test_what_a_statement_is_found_by(line, name, index, condition):
    found = [node["Index Cond"] for node in explained(line, name) if node.get("Index Name") == index]
    words = [set(re.findall(r"[a-z_]{1,}", text)) for text in found]
    assert any(set(condition.split()) <= some for some in words), found
