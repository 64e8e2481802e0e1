-- What stands here under the name that it has in the other dialect too: locking reads, bulk rows as one statement, and
-- the writes of a running attempt, which hold its lease row for the length of their statement: who closes the lease
-- waits for them, and they wait for who closes it and then find none.
-- A list of rows comes as one JSON text: an array of arrays in the order of the columns.  Those of `save` (fusing.py) come
-- by block, [task_n, at, actor, rows], so that one statement writes for many tasks.

-- name: lock_task
select n from task where id = :id for no key update

-- name: lock_task_now
select n from task where id = :id for no key update skip locked

-- name: header
select t.*, s.*, l.attempt, l.worker, l.due_at, l.timeout_at, l.stop,
    array(select row_to_json(x) from (
        select s.* from edge e join step s on s.task_n = e.task_n and s.key = e.step
        where e.task_n = t.n and e.need = :key order by e.step limit :telling
    ) x),
    cast(extract(epoch from clock_timestamp()) * 1000 as bigint), cast(pg_current_xact_id() as text)
from task t
left join lateral (select * from step r where r.task_n = t.n and r.key = :key limit 1) s on true
left join lateral (select * from lease r where r.task_n = t.n and r.step = :key limit 1) l on true
where t.id = :id

-- name: lock_ahead
select id from task where id = any (cast(:ids as text[])) for no key update skip locked

-- name: header_ahead
select t.*, s.*, l.attempt, l.worker, l.due_at, l.timeout_at, l.stop,
    array(select row_to_json(x) from (
        select s.* from edge e join step s on s.task_n = e.task_n and s.key = e.step
        where e.task_n = t.n and e.need = p.key order by e.step limit :telling
    ) x),
    cast(extract(epoch from clock_timestamp()) * 1000 as bigint), cast(pg_current_xact_id() as text)
from unnest(cast(:ids as text[]), cast(:steps as text[])) p (id, key) join task t on t.id = p.id
left join lateral (select * from step r where r.task_n = t.n and r.key = p.key limit 1) s on true
left join lateral (select * from lease r where r.task_n = t.n and r.step = p.key limit 1) l on true

-- name: known_ahead
select p.id, o.body, x.number, x.body
from unnest(cast(:ids as text[]), cast(:steps as text[])) p (id, key) join task t on t.id = p.id
join task_options o on o.task_n = t.n
left join step s on s.task_n = t.n and s.key = p.key
left join spec x on x.task_n = t.n and x.number = s.spec

-- name: claimable_within
select t.id, s.key from offer o join task t on t.n = o.task_n join step s on s.task_n = o.task_n and s.key = (
    select r.key from step r where r.task_n = o.task_n and r.pool = o.pool and r.state = 'ready' and r.due_at <= :now
    order by r.due_at, r.key limit 1)
where o.pool = :pool and o.offer_at is not null and o.offer_at <= :now
and t.workspace_id = any (array(select jsonb_array_elements_text(cast(:workspaces as jsonb))))
order by o.priority desc, o.served_at limit :limit

-- name: steps
select s.* from step s where s.task_n = :task_n
and s.key = any (array(select jsonb_array_elements_text(cast(:keys as jsonb))))

-- name: update_task
update task t set state = r.v ->> 0, seq = cast(r.v ->> 1 as integer), admits = cast(r.v ->> 2 as smallint),
    priority = cast(r.v ->> 3 as integer), served_at = cast(r.v ->> 4 as bigint),
    ended_at = cast(r.v ->> 5 as bigint), steps = cast(r.v ->> 6 as integer), open = cast(r.v ->> 7 as integer),
    ready = cast(r.v ->> 8 as integer), ready_system = cast(r.v ->> 9 as integer),
    running = cast(r.v ->> 10 as integer), running_system = cast(r.v ->> 11 as integer),
    merging = cast(r.v ->> 12 as integer), wait_user = cast(r.v ->> 13 as integer),
    wait_ci = cast(r.v ->> 14 as integer), wait_event = cast(r.v ->> 15 as integer),
    wait_timer = cast(r.v ->> 16 as integer), wait_task = cast(r.v ->> 17 as integer),
    wait_mutex = cast(r.v ->> 18 as integer), bad = cast(r.v ->> 19 as integer), untold = cast(r.v ->> 20 as integer),
    gates = cast(r.v ->> 21 as integer), weight = cast(r.v ->> 22 as bigint),
    weight_done = cast(r.v ->> 23 as bigint), rest = r.v ->> 24
from jsonb_array_elements(cast(:rows as jsonb)) b (v) cross join lateral jsonb_array_elements(b.v -> 3) r (v)
where t.n = cast(b.v ->> 0 as bigint)

-- name: upsert_steps
insert into step (task_n, key, kind, stage, spec, owner, item, expansion, weight, pool, state, due_at, delayed, told,
    untold, attempt, worker, base, began_at, ended_at, timeout_at, waiting_for, rest)
select cast(b.v ->> 0 as bigint), r.v ->> 0, r.v ->> 1, cast(r.v ->> 2 as integer), cast(r.v ->> 3 as integer), r.v ->> 4,
    cast(r.v ->> 5 as integer), cast(r.v ->> 6 as integer), cast(r.v ->> 7 as bigint), r.v ->> 8, r.v ->> 9,
    cast(r.v ->> 10 as bigint), cast(r.v ->> 11 as smallint), r.v ->> 12, cast(r.v ->> 13 as smallint),
    cast(r.v ->> 14 as integer), r.v ->> 15, r.v ->> 16, cast(r.v ->> 17 as bigint), cast(r.v ->> 18 as bigint),
    cast(r.v ->> 19 as bigint), r.v ->> 20, r.v ->> 21
from jsonb_array_elements(cast(:rows as jsonb)) b (v) cross join lateral jsonb_array_elements(b.v -> 3) r (v)
on conflict (task_n, key) do update set spec = excluded.spec, expansion = excluded.expansion,
    weight = excluded.weight, state = excluded.state, due_at = excluded.due_at, delayed = excluded.delayed,
    told = excluded.told, untold = excluded.untold, attempt = excluded.attempt, worker = excluded.worker,
    base = excluded.base, began_at = excluded.began_at, ended_at = excluded.ended_at,
    timeout_at = excluded.timeout_at, waiting_for = excluded.waiting_for, rest = excluded.rest

-- name: insert_events
-- `xid` never falls within a task: a later block of a group may write after a transaction with a higher number, and the
-- feed, which is in the order of `xid`, tells a task's events in theirs.
insert into event (task_n, seq, at, kind, v, actor, op, body, xid)
select cast(b.v ->> 0 as bigint), cast(r.v ->> 0 as integer), cast(b.v ->> 1 as bigint), r.v ->> 1, cast(r.v ->> 2 as smallint),
    b.v ->> 2, r.v ->> 3, r.v ->> 4,
    greatest(pg_current_xact_id(), (select e.xid from event e where e.task_n = cast(b.v ->> 0 as bigint)
        order by e.seq desc limit 1))
from jsonb_array_elements(cast(:rows as jsonb)) b (v) cross join lateral jsonb_array_elements(b.v -> 3) r (v)

-- name: insert_edges
insert into edge (task_n, need, step)
select :task_n, r.v ->> 0, r.v ->> 1 from jsonb_array_elements(cast(:rows as jsonb)) r (v)

-- name: insert_specs
insert into spec (task_n, number, body)
select :task_n, cast(r.v ->> 0 as integer), r.v ->> 1 from jsonb_array_elements(cast(:rows as jsonb)) r (v)

-- name: close_leases
delete from lease using (
    select cast(b.v ->> 0 as bigint) as task_n, r.v as step
    from jsonb_array_elements(cast(:rows as jsonb)) b (v) cross join lateral jsonb_array_elements_text(b.v -> 3) r (v)
    offset 0
) x where lease.task_n = x.task_n and lease.step = x.step

-- name: open_leases
insert into lease (task_n, step, attempt, worker, due_at, timeout_at, stop)
select cast(b.v ->> 0 as bigint), r.v ->> 0, cast(r.v ->> 1 as integer), r.v ->> 2, cast(r.v ->> 3 as bigint),
    cast(r.v ->> 4 as bigint), r.v ->> 5
from jsonb_array_elements(cast(:rows as jsonb)) b (v) cross join lateral jsonb_array_elements(b.v -> 3) r (v)

-- name: stop_leases
update lease set stop = :why where task_n = :task_n
and step = any (array(select jsonb_array_elements_text(cast(:keys as jsonb))))

-- name: close_waits
delete from wait where task_n = :task_n
and step = any (array(select jsonb_array_elements_text(cast(:keys as jsonb))))

-- name: open_waits
insert into wait (task_n, step, n, name, ask, kind)
select :task_n, r.v ->> 0, cast(r.v ->> 1 as integer), r.v ->> 2, cast(r.v ->> 3 as integer), ''
from jsonb_array_elements(cast(:rows as jsonb)) r (v)

-- name: open_errands
insert into outbox (task_n, step, kind, target, due_at, seq, tokens, micros, body)
select :task_n, r.v ->> 0, r.v ->> 1, r.v ->> 2, :at, cast(r.v ->> 3 as bigint), cast(r.v ->> 4 as bigint),
    cast(r.v ->> 5 as bigint), r.v ->> 6
from jsonb_array_elements(cast(:rows as jsonb)) with ordinality r (v, n) order by r.n

-- name: insert_artifacts
insert into artifact (task_n, step, attempt, name, digest, size_bytes, media_type, at, body)
select :task_n, r.v ->> 0, cast(r.v ->> 1 as integer), r.v ->> 2, r.v ->> 3, cast(r.v ->> 4 as bigint), r.v ->> 5,
    :at, r.v ->> 6
from jsonb_array_elements(cast(:rows as jsonb)) r (v)

-- --- a running attempt --------------------------------------------------------------------------------------------

-- name: tell_progress
insert into progress (task_n, step, attempt, done, total, at, text)
select l.task_n, l.step, l.attempt, :done, :total, :at, :text from lease l
where l.task_n = (select n from task where id = :task_id) and l.step = :step and l.attempt = :attempt
for share of l
on conflict (task_n, step) do update set attempt = excluded.attempt, done = excluded.done, total = excluded.total,
    at = excluded.at, text = excluded.text
returning 1

-- name: journal_started
insert into run_journal (task_n, step, run, n, kind, name, fingerprint, attempt, tokens_in, tokens_out, micros,
    started_at, done_at, body)
select l.task_n, l.step, :run, :n, :kind, :name, :fingerprint, l.attempt, 0, 0, 0, :at, 0, null from lease l
where l.task_n = (select n from task where id = :task_id) and l.step = :step and l.attempt = :attempt
and (l.stop is null or :kind <> 'turn')
for share of l
on conflict (task_n, step, run, n) do update set attempt = excluded.attempt, started_at = excluded.started_at
where run_journal.fingerprint = excluded.fingerprint and run_journal.done_at = 0
returning 1

-- name: journal_done
insert into run_journal (task_n, step, run, n, kind, name, fingerprint, attempt, tokens_in, tokens_out, micros,
    started_at, done_at, body)
select l.task_n, l.step, :run, :n, :kind, :name, :fingerprint, l.attempt, :tokens_in, :tokens_out,
    cast(:micros as bigint), :started_at, :done_at, :body from lease l
where l.task_n = (select n from task where id = :task_id) and l.step = :step and l.attempt = :attempt
for share of l
on conflict (task_n, step, run, n) do update set attempt = excluded.attempt, tokens_in = excluded.tokens_in,
    tokens_out = excluded.tokens_out, micros = excluded.micros, done_at = excluded.done_at, body = excluded.body
where run_journal.fingerprint = excluded.fingerprint and run_journal.done_at = 0
returning 1

-- name: put_checkpoint
insert into checkpoint (task_n, step, run, attempt, position, tree, at)
select l.task_n, l.step, :run, l.attempt, :position, :tree, :at from lease l
where l.task_n = (select n from task where id = :task_id) and l.step = :step and l.attempt = :attempt
for share of l
returning 1

-- name: put_chunks
insert into chunk (task_id, step, attempt, n, stream, at, body)
select t.id, l.step, l.attempt, c.n, c.stream, c.at, c.body
from task t join lease l on l.task_n = t.n
cross join unnest(cast(:numbers as integer[]), cast(:streams as text[]), cast(:ats as bigint[]),
    cast(:bodies as bytea[])) c (n, stream, at, body)
where t.id = :task_id and l.step = :step and l.attempt = :attempt
for share of l
on conflict (task_id, step, attempt, n) do update set n = excluded.n
returning 1

-- name: drop_chunks
with held as (
    select 1 from task t join lease l on l.task_n = t.n
    where t.id = :task_id and l.step = :step and l.attempt = :attempt for share of l
), dropped as (
    delete from chunk where task_id = :task_id and step = :step and attempt = :attempt and n >= :first and n < :end
    and exists (select 1 from held)
)
select 1 from held

-- --- mutexes ------------------------------------------------------------------------------------------------------

-- name: take_mutex
-- Waits for nobody: a name that another transaction takes just now is under its advisory lock, one that it gives back is
-- still seen here.
insert into mutex (name, task_n, step, attempt, at) select :name, :task_n, :step, :attempt, :at
where not exists (select 1 from mutex m where m.name = :name)
and pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' ' || :name, 0))
on conflict (name) do nothing
returning 1

-- name: open_tickets
insert into mutex_ticket (name, task_n, step, at, called_at)
select r.v ->> 1, :task_n, r.v ->> 0, :at, 0 from jsonb_array_elements(cast(:rows as jsonb)) with ordinality r (v, n)
order by r.n
on conflict (task_n, step) do update set called_at = 0

-- name: close_tickets
delete from mutex_ticket where task_n = :task_n
and step = any (array(select jsonb_array_elements_text(cast(:keys as jsonb))))

-- --- reads --------------------------------------------------------------------------------------------------------

-- name: feed
select t.id, e.seq, e.at, e.kind, e.v, e.body, e.actor, e.op, e.pos, cast(e.xid as text)
from event e join task t on t.n = e.task_n
where e.xid >= cast(cast(:xid as text) as xid8) and (e.xid > cast(cast(:xid as text) as xid8) or e.pos > :pos)
and e.xid < pg_snapshot_xmin(pg_current_snapshot())
order by e.xid, e.pos limit :limit

-- name: feed_end
select cast(pg_snapshot_xmin(pg_current_snapshot()) as text)

-- name: heads
select id, seq from task where id = any (array(select jsonb_array_elements_text(cast(:ids as jsonb))))

-- name: progress_of
select t.id, p.step, p.attempt, p.done, p.total, p.text, p.at from task t
join lease l on l.task_n = t.n
join progress p on p.task_n = l.task_n and p.step = l.step and p.attempt = l.attempt
where t.id = any (array(select jsonb_array_elements_text(cast(:ids as jsonb)))) limit :limit

-- --- the server ---------------------------------------------------------------------------------------------------

-- name: clock
select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)

-- name: transaction
select cast(pg_current_xact_id() as text)

-- name: fate
select pg_xact_status(cast(cast(:xid as text) as xid8))

-- name: event_there
select 1 from event where task_n = :task_n and seq = :seq and at = :at and actor = :actor and body = :body

-- name: damage
select 'index ' || c.relname || ' is not valid: run reindex index ' || c.relname from pg_index i
join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
where not i.indisvalid and n.nspname = current_schema()
union all
select 'the server has met ' || checksum_failures || ' broken pages of this database: look at its disk, restore a backup'
from pg_stat_database where datname = current_database() and checksum_failures > 0
limit 100

-- name: oldest_snapshots
-- Whoever keeps dead rows alive: transactions of this database, and prepared ones.
select 'process ' || a.pid || ' (' || coalesce(nullif(a.application_name, ''), 'unnamed') || ', ' || a.state || ')',
    cast(extract(epoch from clock_timestamp() - a.xact_start) as bigint), 'select pg_terminate_backend(' || a.pid || ')'
from pg_stat_activity a
where a.datname = current_database() and a.backend_type = 'client backend'
and (a.backend_xmin is not null or a.backend_xid is not null)
and a.xact_start < clock_timestamp() - make_interval(secs => cast(:seconds as integer))
union all
select 'prepared transaction ' || quote_literal(p.gid),
    cast(extract(epoch from clock_timestamp() - p.prepared) as bigint), 'rollback prepared ' || quote_literal(p.gid)
from pg_prepared_xacts p
where p.database = current_database()
and p.prepared < clock_timestamp() - make_interval(secs => cast(:seconds as integer))
order by 2 desc limit 20

-- name: settings
select name, setting from pg_settings
where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'max_connections')

-- name: connections
select count(*) from pg_stat_activity where backend_type = 'client backend'

-- name: dead_rows
select relname, n_live_tup, n_dead_tup from pg_stat_user_tables
where schemaname = current_schema() and n_dead_tup > 20000 and n_dead_tup > 4 * n_live_tup
order by n_dead_tup desc limit 20

-- name: insert_audit
insert into audit (id, at, who, token, address, action, task_id, step, status, outcome)
select r.v ->> 0, cast(r.v ->> 1 as bigint), r.v ->> 2, r.v ->> 3, r.v ->> 4, r.v ->> 5, r.v ->> 6, r.v ->> 7,
    cast(r.v ->> 8 as integer), r.v ->> 9
from jsonb_array_elements(cast(:rows as jsonb)) r (v)
on conflict (id) do nothing

-- name: end_audit
update audit set status = cast(r.v ->> 1 as integer), outcome = r.v ->> 2, task_id = coalesce(task_id, r.v ->> 3)
from jsonb_array_elements(cast(:rows as jsonb)) r (v) where audit.id = r.v ->> 0

-- name: feed_probe
-- (number, cursor before it, instant) of the first event whose number, that of its transaction, is not below.
select cast(cast(e.xid as text) as bigint), cast(e.xid as text) || '.' || (e.pos - 1), e.at from event e
where e.xid >= cast(cast(:number as text) as xid8) order by e.xid, e.pos limit 1

-- --- archives -----------------------------------------------------------------------------------------------------

-- name: bring_events
-- What has happened elsewhere is no news: transaction 0 and number 0 stand before all that the feed tells.
insert into event (pos, xid, task_n, seq, at, kind, v, actor, op, body) overriding system value
select 0, cast('0' as xid8), :task_n, cast(r.v ->> 0 as integer), cast(r.v ->> 1 as bigint), r.v ->> 2,
    cast(r.v ->> 3 as smallint), r.v ->> 4, r.v ->> 5, r.v ->> 6
from jsonb_array_elements(cast(:rows as jsonb)) r (v)
returning 1

-- name: bring_calls
insert into run_journal (task_n, step, run, n, kind, name, fingerprint, attempt, body, tokens_in, tokens_out, micros,
    started_at, done_at)
select :task_n, r.v ->> 0, cast(r.v ->> 1 as integer), cast(r.v ->> 2 as integer), r.v ->> 3, r.v ->> 4, r.v ->> 5,
    cast(r.v ->> 6 as integer), r.v ->> 7, cast(r.v ->> 8 as bigint), cast(r.v ->> 9 as bigint),
    cast(r.v ->> 10 as bigint), cast(r.v ->> 11 as bigint), cast(r.v ->> 12 as bigint)
from jsonb_array_elements(cast(:rows as jsonb)) r (v)
returning 1

-- name: bring_artifacts
insert into artifact (task_n, step, attempt, name, digest, size_bytes, media_type, body, at)
select :task_n, r.v ->> 0, cast(r.v ->> 1 as integer), r.v ->> 2, r.v ->> 3, cast(r.v ->> 4 as bigint), r.v ->> 5,
    r.v ->> 6, cast(r.v ->> 7 as bigint)
from jsonb_array_elements(cast(:rows as jsonb)) r (v)

-- name: bring_chunks
insert into chunk (task_id, step, attempt, n, stream, at, body)
select :task_id, c.step, c.attempt, c.n, c.stream, c.at, c.body
from unnest(cast(:steps as text[]), cast(:attempts as integer[]), cast(:numbers as integer[]),
    cast(:streams as text[]), cast(:ats as bigint[]), cast(:bodies as bytea[])) c (step, attempt, n, stream, at, body)
on conflict (task_id, step, attempt, n) do nothing
returning 1
