-- What stands here under the name that it has in the other dialect too: locking reads, and bulk rows as one statement.
-- A list of rows comes as one JSON text: an array of arrays in the order of the columns.  (`jsonb_each`, because
-- `json_each` would hand out each row as text and read it anew for every column: 3 steps in 27 µs, not in 98.)

-- name: header
select t.*, s.*, l.attempt, l.worker, l.due_at, l.timeout_at, l.stop from task t
left join step s on s.task_n = t.n and s.key = :key
left join lease l on l.task_n = t.n and l.step = :key
where t.id = :id

-- name: claimable_within
select t.id, s.key from offer o join task t on t.n = o.task_n join step s on s.task_n = o.task_n and s.key = (
    select r.key from step r where r.task_n = o.task_n and r.pool = o.pool and r.state = 'ready' and r.due_at <= :now
    order by r.due_at, r.key limit 1)
where o.pool = :pool and o.offer_at is not null and o.offer_at <= :now
and t.workspace_id in (select value from json_each(:workspaces))
order by o.priority desc, o.served_at limit :limit

-- name: steps
select s.* from json_each(:keys) k cross join step s on s.task_n = :task_n and s.key = k.value

-- name: update_task
update task set state = :state, seq = :seq, admits = :admits, priority = :priority, served_at = :served_at,
    ended_at = :ended_at, steps = :steps, open = :open, ready = :ready, ready_system = :ready_system,
    running = :running, running_system = :running_system, merging = :merging, wait_user = :wait_user,
    wait_ci = :wait_ci, wait_event = :wait_event, wait_timer = :wait_timer, wait_task = :wait_task,
    wait_mutex = :wait_mutex, bad = :bad, untold = :untold, gates = :gates, weight = :weight,
    weight_done = :weight_done, rest = :rest
where n = :n

-- name: upsert_steps
insert into step (task_n, key, kind, stage, spec, owner, item, expansion, weight, pool, state, due_at, delayed, told,
    untold, attempt, worker, base, began_at, ended_at, timeout_at, waiting_for, rest)
select :task_n, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5,
    r.value ->> 6, r.value ->> 7, r.value ->> 8, r.value ->> 9, r.value ->> 10, r.value ->> 11, r.value ->> 12,
    r.value ->> 13, r.value ->> 14, r.value ->> 15, r.value ->> 16, r.value ->> 17, r.value ->> 18, r.value ->> 19,
    r.value ->> 20, r.value ->> 21
from jsonb_each(:rows) r where true
on conflict (task_n, key) do update set spec = excluded.spec, expansion = excluded.expansion,
    weight = excluded.weight, state = excluded.state, due_at = excluded.due_at, delayed = excluded.delayed,
    told = excluded.told, untold = excluded.untold, attempt = excluded.attempt, worker = excluded.worker,
    base = excluded.base, began_at = excluded.began_at, ended_at = excluded.ended_at,
    timeout_at = excluded.timeout_at, waiting_for = excluded.waiting_for, rest = excluded.rest

-- name: insert_events
insert into event (task_n, seq, at, kind, v, actor, op, body)
select :task_n, r.value ->> 0, :at, r.value ->> 1, r.value ->> 2, :actor, r.value ->> 3, r.value ->> 4
from jsonb_each(:rows) r

-- name: insert_edges
insert into edge (task_n, need, step) select :task_n, r.value ->> 0, r.value ->> 1 from jsonb_each(:rows) r

-- name: insert_specs
insert into spec (task_n, number, body) select :task_n, r.value ->> 0, r.value ->> 1 from jsonb_each(:rows) r

-- name: close_leases
delete from lease where task_n = :task_n and step in (select value from json_each(:keys))

-- name: open_leases
insert into lease (task_n, step, attempt, worker, due_at, timeout_at, stop)
select :task_n, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5
from jsonb_each(:rows) r

-- name: stop_leases
update lease set stop = :why where task_n = :task_n and step in (select value from json_each(:keys))

-- name: close_waits
delete from wait where task_n = :task_n and step in (select value from json_each(:keys))

-- name: open_waits
insert into wait (task_n, step, n, name, ask, kind)
select :task_n, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, '' from jsonb_each(:rows) r

-- name: open_errands
insert into outbox (task_n, step, kind, target, due_at, seq, tokens, micros, body)
select :task_n, r.value ->> 0, r.value ->> 1, r.value ->> 2, :at, r.value ->> 3, r.value ->> 4, r.value ->> 5,
    r.value ->> 6
from jsonb_each(:rows) r

-- name: insert_artifacts
insert into artifact (task_n, step, attempt, name, digest, size_bytes, media_type, at, body)
select :task_n, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5, :at,
    r.value ->> 6
from jsonb_each(:rows) r

-- --- a running attempt: one writer at a time, so that nobody closes a lease in the middle of a statement --------------

-- name: tell_progress
insert into progress (task_n, step, attempt, done, total, at, text)
select l.task_n, l.step, l.attempt, :done, :total, :at, :text from lease l
where l.task_n = (select n from task where id = :task_id) and l.step = :step and l.attempt = :attempt
on conflict (task_n, step) do update set attempt = excluded.attempt, done = excluded.done, total = excluded.total,
    at = excluded.at, text = excluded.text
returning 1

-- name: journal_started
insert into run_journal (task_n, step, run, n, kind, name, fingerprint, attempt, tokens_in, tokens_out, micros,
    started_at, done_at, body)
select l.task_n, l.step, :run, :n, :kind, :name, :fingerprint, l.attempt, 0, 0, 0, :at, 0, null from lease l
where l.task_n = (select n from task where id = :task_id) and l.step = :step and l.attempt = :attempt
and (l.stop is null or :kind <> 'turn')
on conflict (task_n, step, run, n) do update set attempt = excluded.attempt, started_at = excluded.started_at
where run_journal.fingerprint = excluded.fingerprint and run_journal.done_at = 0
returning 1

-- name: journal_done
insert into run_journal (task_n, step, run, n, kind, name, fingerprint, attempt, tokens_in, tokens_out, micros,
    started_at, done_at, body)
select l.task_n, l.step, :run, :n, :kind, :name, :fingerprint, l.attempt, :tokens_in, :tokens_out, :micros,
    :started_at, :done_at, :body from lease l
where l.task_n = (select n from task where id = :task_id) and l.step = :step and l.attempt = :attempt
on conflict (task_n, step, run, n) do update set attempt = excluded.attempt, tokens_in = excluded.tokens_in,
    tokens_out = excluded.tokens_out, micros = excluded.micros, done_at = excluded.done_at, body = excluded.body
where run_journal.fingerprint = excluded.fingerprint and run_journal.done_at = 0
returning 1

-- name: put_checkpoint
insert into checkpoint (task_n, step, run, attempt, position, tree, at)
select l.task_n, l.step, :run, l.attempt, :position, :tree, :at from lease l
where l.task_n = (select n from task where id = :task_id) and l.step = :step and l.attempt = :attempt
returning 1

-- name: put_chunk
insert into chunk (task_id, step, attempt, n, stream, at, body)
select t.id, l.step, l.attempt, :n, :stream, :at, :body from task t join lease l on l.task_n = t.n
where t.id = :task_id and l.step = :step and l.attempt = :attempt
on conflict (task_id, step, attempt, n) do update set n = excluded.n
returning 1

-- name: drop_chunks
delete from chunk where task_id = :task_id and step = :step and attempt = :attempt and n >= :first and n < :end
and exists (select 1 from task t join lease l on l.task_n = t.n
    where t.id = :task_id and l.step = :step and l.attempt = :attempt)

-- name: feed
select t.id, e.seq, e.at, e.kind, e.v, e.body, e.actor, e.op, e.pos from event e join task t on t.n = e.task_n
where e.pos > :cursor order by e.pos limit :limit

-- name: feed_end
select coalesce(max(pos), 0) from event

-- name: heads
select t.id, t.seq from json_each(:ids) k cross join task t on t.id = k.value

-- name: progress_of
select t.id, p.step, p.attempt, p.done, p.total, p.text, p.at from json_each(:ids) k cross join task t on t.id = k.value
cross join lease l on l.task_n = t.n
cross join progress p on p.task_n = l.task_n and p.step = l.step and p.attempt = l.attempt limit :limit

-- name: take_mutex
-- One row if it was taken, none if it is not free: without waiting for another transaction, here as in the other dialect.
insert into mutex (name, task_n, step, attempt, at) values (:name, :task_n, :step, :attempt, :at)
on conflict (name) do nothing
returning 1

-- name: open_tickets
-- In the order of the rows.  Who queues already keeps its place.
insert into mutex_ticket (name, task_n, step, at, called_at)
select r.value ->> 1, :task_n, r.value ->> 0, :at, 0 from jsonb_each(:rows) r where true
on conflict (task_n, step) do update set called_at = 0

-- name: close_tickets
delete from mutex_ticket where task_n = :task_n and step in (select value from json_each(:keys))

-- name: newest_event
select task_n from event order by pos desc limit 1

-- name: insert_audit
insert into audit (id, at, who, token, address, action, task_id, step, status, outcome)
select r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5, r.value ->> 6,
    r.value ->> 7, r.value ->> 8, r.value ->> 9
from jsonb_each(:rows) r where true
on conflict (id) do nothing

-- name: end_audit
update audit set status = r.value ->> 1, outcome = r.value ->> 2, task_id = coalesce(task_id, r.value ->> 3)
from jsonb_each(:rows) r where audit.id = r.value ->> 0

-- name: feed_probe
-- (number, cursor before it, instant) of the first event whose number is not below.
select pos, cast(pos - 1 as text), at from event where pos >= :number order by pos limit 1

-- name: first_event
select pos from event order by pos limit 1

-- name: bring_events
-- What has happened elsewhere is no news: it stands before the first number that the feed tells, downwards from `below`.
-- A number above zero is never given here, and the first of an empty table is 0, so that the next own event gets 1.
insert into event (pos, task_n, seq, at, kind, v, actor, op, body)
select :below - r.key, :task_n, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5,
    r.value ->> 6
from jsonb_each(:rows) r

-- name: bring_calls
insert into run_journal (task_n, step, run, n, kind, name, fingerprint, attempt, body, tokens_in, tokens_out, micros,
    started_at, done_at)
select :task_n, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5, r.value ->> 6,
    r.value ->> 7, r.value ->> 8, r.value ->> 9, r.value ->> 10, r.value ->> 11, r.value ->> 12
from jsonb_each(:rows) r where true
returning 1

-- name: bring_artifacts
insert into artifact (task_n, step, attempt, name, digest, size_bytes, media_type, body, at)
select :task_n, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5, r.value ->> 6,
    r.value ->> 7
from jsonb_each(:rows) r

-- name: bring_chunk
insert into chunk (task_id, step, attempt, n, stream, at, body)
values (:task_id, :step, :attempt, :n, :stream, :at, :body)
on conflict (task_id, step, attempt, n) do nothing
