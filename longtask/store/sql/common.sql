-- What both databases run word for word.  `s.*` and `t.*` come in the order of rows.STEP_COLUMNS and rows.TASK_COLUMNS.

-- --- a block: reads -----------------------------------------------------------------------------------------------

-- name: options
select body from task_options where task_n = :task_n

-- name: number_of
select n from task where id = :task_id

-- name: step
select s.* from step s where s.task_n = :task_n and s.key = :key

-- name: spec
select body from spec where task_n = :task_n and number = :number

-- name: lease
select attempt, worker, due_at, timeout_at, stop from lease where task_n = :task_n and step = :step

-- name: dependents
select s.* from edge e join step s on s.task_n = e.task_n and s.key = e.step
where e.task_n = :task_n and e.need = :key and e.step > :after order by e.step limit :limit

-- name: owned_open
select s.* from step s where s.task_n = :task_n and s.owner = :key and s.ended_at = 0 order by s.key limit :limit

-- name: completed_items
select s.item from step s
where s.task_n = :task_n and s.owner = :key and s.item is not null and s.item > :after and s.state = 'completed'
order by s.item limit :limit

-- name: ready
select s.* from step s where s.task_n = :task_n and s.pool = :pool and s.state = 'ready' and s.due_at <= :now
order by s.due_at, s.key limit :limit

-- name: sweepable
select s.* from step s left join lease l on l.task_n = s.task_n and l.step = s.key
where s.task_n = :task_n and s.ended_at = 0 and (s.state <> 'running' or l.stop is null or l.stop <> 'cancel')
union all
select s.* from step s where s.task_n = :task_n and s.untold = 1 and s.ended_at > 0
limit :limit

-- name: running
select s.* from lease l join step s on s.task_n = l.task_n and s.key = l.step
where l.task_n = :task_n order by s.key limit :limit

-- name: waiters
select s.* from wait w join step s on s.task_n = w.task_n and s.key = w.step
where w.task_n = :task_n and w.name = :name and w.step > :after order by w.step limit :limit

-- name: delivered
select number, delivery, name, payload, sender, at from inbox where task_n = :task_n and delivery = :delivery

-- name: signals
select number, delivery, name, payload, sender, at from inbox
where task_n = :task_n and name = :name and number > :after order by number limit :limit

-- name: unheard_signal
select number, delivery, name, payload, sender, at, heard from inbox
where task_n = :task_n and heard is not null order by number limit 1

-- name: last_signal
select coalesce(max(number), 0) from inbox where task_n = :task_n

-- name: done_op
select 1 from event where task_n = :task_n and op = :op

-- name: rival
select 1 where exists (
    select 1 from task t where t.admits = 2 and t.ready > t.ready_system and t.priority > :priority and t.n <> :task_n
    and exists (select 1 from step s where s.task_n = t.n and s.pool = :pool and s.state = 'ready' and s.due_at <= :now)
) or exists (
    select 1 from task t where t.admits = 2 and t.ready > t.ready_system and t.priority = :priority
    and t.served_at < :served_at and t.n <> :task_n
    and exists (select 1 from step s where s.task_n = t.n and s.pool = :pool and s.state = 'ready' and s.due_at <= :now)
)

-- name: rival_system
select 1 where exists (
    select 1 from task t where t.admits > 0 and t.ready_system > 0 and t.priority > :priority and t.n <> :task_n
    and exists (select 1 from step s where s.task_n = t.n and s.pool = :pool and s.state = 'ready' and s.due_at <= :now)
) or exists (
    select 1 from task t where t.admits > 0 and t.ready_system > 0 and t.priority = :priority
    and t.served_at < :served_at and t.n <> :task_n
    and exists (select 1 from step s where s.task_n = t.n and s.pool = :pool and s.state = 'ready' and s.due_at <= :now)
)

-- --- a block: writes ----------------------------------------------------------------------------------------------

-- name: task_there
select id from task where id = :id

-- name: insert_task
insert into task (id, name, workspace_id, created_by, created_at, idempotency_key, parent, state, seq, admits, priority,
    served_at, ended_at, steps, open, ready, ready_system, running, running_system, merging, wait_user, wait_ci,
    wait_event, wait_timer, wait_task, wait_mutex, bad, untold, gates, weight, weight_done, rest)
values (:id, :name, :workspace_id, :created_by, :created_at, :idempotency_key, :parent, :state, :seq, :admits,
    :priority, :served_at, :ended_at, :steps, :open, :ready, :ready_system, :running, :running_system, :merging,
    :wait_user, :wait_ci, :wait_event, :wait_timer, :wait_task, :wait_mutex, :bad, :untold, :gates, :weight,
    :weight_done, :rest)
returning n

-- name: insert_options
insert into task_options (task_n, body) values (:task_n, :body)

-- name: update_task
update task set state = :state, seq = :seq, admits = :admits, priority = :priority, served_at = :served_at,
    ended_at = :ended_at, steps = :steps, open = :open, ready = :ready, ready_system = :ready_system,
    running = :running, running_system = :running_system, merging = :merging, wait_user = :wait_user,
    wait_ci = :wait_ci, wait_event = :wait_event, wait_timer = :wait_timer, wait_task = :wait_task,
    wait_mutex = :wait_mutex, bad = :bad, untold = :untold, gates = :gates, weight = :weight,
    weight_done = :weight_done, rest = :rest
where n = :n

-- name: insert_signal
insert into inbox (task_n, number, delivery, name, sender, at, heard, payload)
values (:task_n, :number, :delivery, :name, :sender, :at, :heard, :payload)

-- name: hear
update inbox set heard = :heard where task_n = :task_n and number = :number

-- --- peeks --------------------------------------------------------------------------------------------------------

-- name: claimable
select t.id, s.key from task t join step s on s.task_n = t.n and s.key = (
    select r.key from step r where r.task_n = t.n and r.pool = :pool and r.state = 'ready' and r.due_at <= :now
    order by r.due_at, r.key limit 1)
where t.admits = 2 and t.ready > t.ready_system order by t.priority desc, t.served_at limit :limit

-- name: claimable_system
select t.id, s.key from task t join step s on s.task_n = t.n and s.key = (
    select r.key from step r where r.task_n = t.n and r.pool = :pool and r.state = 'ready' and r.due_at <= :now
    order by r.due_at, r.key limit 1)
where t.admits > 0 and t.ready_system > 0 order by t.priority desc, t.served_at limit :limit

-- name: unsettled
select t.id, s.key from step s join task t on t.n = s.task_n
where s.untold = 1 and t.state <> 'closing' limit :limit

-- name: overdue
select t.id, s.key from step s join task t on t.n = s.task_n
where s.state = 'waiting' and s.due_at > 0 and s.due_at <= :now and t.state in ('active', 'paused')
order by s.due_at limit :limit

-- name: unheard
select distinct t.id from inbox i join task t on t.n = i.task_n where i.heard is not null limit :limit

-- name: mergeable
select t.id, s.key from step s join task t on t.n = s.task_n
where s.state = 'merging' and s.due_at <= :now and t.state <> 'closing' order by s.due_at limit :limit

-- name: expired
select t.id, l.step, l.attempt, l.worker, l.due_at, l.timeout_at, l.stop from lease l join task t on t.n = l.task_n
where l.due_at <= :now order by l.due_at limit :limit

-- name: closing
select t.id from task t where t.state = 'closing' and (t.open = 0 or t.open > t.running + t.running_system
    or exists (select 1 from lease l where l.task_n = t.n and (l.stop is null or l.stop <> 'cancel'))
    or exists (select 1 from step s where s.task_n = t.n and s.untold = 1 and s.ended_at > 0))
order by t.n limit :limit

-- name: next_due_at
select min(q.at) from (
    select min(due_at) as at from step where state = 'ready' and delayed = 1 and due_at > :now
    union all select min(due_at) from step where state = 'waiting' and due_at > 0 and due_at > :now
    union all select min(due_at) from step where state = 'merging' and due_at > :now
    union all select min(due_at) from lease where due_at > :now
) q

-- --- a running attempt --------------------------------------------------------------------------------------------

-- name: beat
update lease set due_at = case when timeout_at < :due_at then timeout_at else :due_at end
where task_n = (select n from task where id = :task_id) and step = :step and attempt = :attempt
returning stop

-- name: holds
select 1 from lease l join task t on t.n = l.task_n
where t.id = :task_id and l.step = :step and l.attempt = :attempt

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

-- name: journal_row
select j.n, j.kind, j.name, j.fingerprint, j.attempt, j.body, j.tokens_in, j.tokens_out, j.micros, j.started_at,
    j.done_at
from run_journal j
where j.task_n = (select n from task where id = :task_id) and j.step = :step and j.run = :run and j.n = :n

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

-- --- reads --------------------------------------------------------------------------------------------------------

-- name: task_by_id
select t.*, o.body from task t join task_options o on o.task_n = t.n where t.id = :id

-- name: tasks_by_prefix
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.id >= :low and t.id < :high order by t.id limit 2

-- name: task_by_number
select t.*, o.body from task t join task_options o on o.task_n = t.n where t.n = :n

-- name: last_task
select t.*, o.body from task t join task_options o on o.task_n = t.n order by t.n desc limit 1

-- name: task_by_key
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.idempotency_key = :idempotency_key and t.idempotency_key is not null

-- name: tasks
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.n < :before order by t.n desc limit :limit

-- name: tasks_open
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.ended_at = 0 and t.n < :before order by t.n desc limit :limit

-- name: tasks_of_workspace
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.workspace_id = :workspace_id and t.n < :before order by t.n desc limit :limit

-- name: tasks_of_workspace_open
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.ended_at = 0 and t.workspace_id = :workspace_id and t.n < :before order by t.n desc limit :limit

-- name: steps_by_key
select s.* from step s where s.task_n = (select n from task where id = :task_id) and s.key > :after
order by s.key limit :limit

-- name: edges
select e.need, e.step from edge e where e.task_n = (select n from task where id = :task_id)
and (e.need, e.step) > (:need, :step) order by e.need, e.step limit :limit

-- name: needs
select e.need from edge e where e.task_n = (select n from task where id = :task_id) and e.step = :step
order by e.need limit :limit

-- name: items
select s.* from step s
where s.task_n = (select n from task where id = :task_id) and s.owner = :step and s.item is not null and s.item > :after
and (s.state = 'completed' or not exists (
    select 1 from step r where r.task_n = s.task_n and r.owner = s.owner and r.item is not null and r.item = s.item
    and (r.state = 'completed' or r.expansion > s.expansion)))
order by s.item limit :limit

-- name: asking
select t.id, s.* from step s join task t on t.n = s.task_n
where s.state = 'waiting' and s.waiting_for = 'user' order by s.began_at, s.task_n, s.key limit :limit

-- name: asking_of_task
select t.id, s.* from task t join step s on s.task_n = t.n
where t.id = :task_id and s.state = 'waiting' and s.waiting_for = 'user' order by s.began_at, s.key limit :limit

-- name: leases
select t.id, l.step, l.attempt, l.worker, l.due_at, l.timeout_at, l.stop from task t join lease l on l.task_n = t.n
where t.id = :task_id order by l.step limit :limit

-- name: events
select t.id, e.seq, e.at, e.kind, e.v, e.body, e.actor, e.op, e.pos from task t join event e on e.task_n = t.n
where t.id = :task_id and e.seq > :after order by e.seq limit :limit

-- name: feed
select t.id, e.seq, e.at, e.kind, e.v, e.body, e.actor, e.op, e.pos from event e join task t on t.n = e.task_n
where e.pos > :cursor order by e.pos limit :limit

-- name: journal
select j.n, j.kind, j.name, j.fingerprint, j.attempt, j.body, j.tokens_in, j.tokens_out, j.micros, j.started_at,
    j.done_at
from run_journal j where j.task_n = (select n from task where id = :task_id) and j.step = :step and j.run = :run
order by j.n

-- name: checkpoint
select c.run, c.position, c.tree, c.attempt, c.at from checkpoint c
where c.task_n = (select n from task where id = :task_id) and c.step = :step and c.run = :run
order by c.n desc limit 1

-- name: output
select c.n, c.stream, c.body, c.at from chunk c
where c.task_id = :task_id and c.step = :step and c.attempt = :attempt and c.n > :after order by c.n limit :limit

-- name: progress
select p.step, p.attempt, p.done, p.total, p.text, p.at from task t
join lease l on l.task_n = t.n
join progress p on p.task_n = l.task_n and p.step = l.step and p.attempt = l.attempt
where t.id = :task_id order by p.step limit :limit

-- name: inbox
select number, delivery, name, payload, sender, at from inbox
where task_n = (select n from task where id = :task_id) and number > :after order by number limit :limit

-- name: artifacts
select t.id, a.step, a.attempt, a.name, a.digest, a.size_bytes, a.media_type, a.at
from task t join artifact a on a.task_n = t.n where t.id = :task_id order by a.n limit :limit

-- name: artifacts_named
select t.id, a.step, a.attempt, a.name, a.digest, a.size_bytes, a.media_type, a.at
from task t join artifact a on a.task_n = t.n where t.id = :task_id and substr(a.name, 1, 7) <> 'output/'
and substr(a.name, 1, 10) <> 'leftovers/' and substr(a.name, 1, 11) <> 'transcript/' order by a.n limit :limit

-- name: get_plan
select p.body from task t join plan p on p.task_n = t.n where t.id = :task_id

-- name: put_plan
insert into plan (task_n, body) select n, :body from task where id = :task_id
on conflict (task_n) do update set body = excluded.body
returning 1

-- --- workers ------------------------------------------------------------------------------------------------------

-- name: worker_seen
insert into worker (id, host, pid, pools, slots, started_at, seen_at)
values (:id, :host, :pid, :pools, :slots, :started_at, :seen_at)
on conflict (id) do update set pools = excluded.pools, slots = excluded.slots, seen_at = excluded.seen_at

-- name: worker_gone
delete from worker where id = :id

-- name: workers
select id, host, pid, pools, slots, started_at, seen_at from worker order by seen_at desc limit :limit
