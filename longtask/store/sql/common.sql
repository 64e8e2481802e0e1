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

-- name: spent
select coalesce(sum(tokens_in + tokens_out), 0), coalesce(sum(micros), 0),
    count(case when kind = 'turn' and run = :run then 1 end)
from run_journal where task_n = :task_n and step = :step and not (run = :run and n = :but)

-- name: dependents
select s.* from edge e join step s on s.task_n = e.task_n and s.key = e.step
where e.task_n = :task_n and e.need = :key and e.step > :after order by e.step limit :limit

-- name: needs_of
select e.need from edge e where e.task_n = :task_n and e.step = :key order by e.need limit :limit

-- name: spec_count
select coalesce(max(number), -1) + 1 from spec where task_n = :task_n

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

-- name: unasked
select l.step from lease l where l.task_n = :task_n and l.stop is null order by l.step limit :limit

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
    select 1 from offer o where o.pool = :pool and o.priority > :priority and o.offer_at is not null
    and o.offer_at <= :now and o.task_n <> :task_n
) or exists (
    select 1 from offer o where o.pool = :pool and o.priority = :priority and o.served_at < :served_at
    and o.offer_at is not null and o.offer_at <= :now and o.task_n <> :task_n
)

-- name: mutex_view
select h.id, m.step, k.n, k.called_at, (select min(o.n) from mutex_ticket o where o.name = :name)
from (select 1 as one) x
left join mutex m on m.name = :name
left join task h on h.n = m.task_n
left join mutex_ticket k on k.task_n = :task_n and k.step = :step and k.name = :name

-- --- a block: writes ----------------------------------------------------------------------------------------------

-- name: insert_task
insert into task (id, name, workspace_id, created_by, created_at, idempotency_key, parent, state, seq, admits, priority,
    served_at, ended_at, steps, open, ready, ready_system, running, running_system, merging, wait_user, wait_ci,
    wait_event, wait_timer, wait_task, wait_mutex, bad, untold, gates, weight, weight_done, rest)
values (:id, :name, :workspace_id, :created_by, :created_at, :idempotency_key, :parent, :state, :seq, :admits,
    :priority, :served_at, :ended_at, :steps, :open, :ready, :ready_system, :running, :running_system, :merging,
    :wait_user, :wait_ci, :wait_event, :wait_timer, :wait_task, :wait_mutex, :bad, :untold, :gates, :weight,
    :weight_done, :rest)
on conflict do nothing
returning n

-- name: insert_options
insert into task_options (task_n, body) values (:task_n, :body)

-- name: insert_signal
insert into inbox (task_n, number, delivery, name, sender, at, heard, payload)
values (:task_n, :number, :delivery, :name, :sender, :at, :heard, :payload)

-- name: hear
update inbox set heard = :heard where task_n = :task_n and number = :number

-- name: drop_errand
delete from outbox where n = :n

-- name: free_mutex
delete from mutex where name = :name and task_n = :task_n and step = :step

-- name: hand_on_mutex
update mutex set step = :step, attempt = :attempt, at = :at where name = :name and task_n = :task_n

-- name: call_ticket
update mutex_ticket set called_at = :at where task_n = :task_n and step = :step

-- name: open_offer
insert into offer (task_n, pool, priority, served_at, offer_at) values (:task_n, :pool, :priority, :served_at, null)
on conflict (task_n, pool) do nothing

-- name: renew_offers
update offer set priority = :priority, served_at = :served_at,
    offer_at = case when :admits = 2 or (:admits = 1 and pool = 'system') then (
        select min(s.due_at) from step s
        where s.task_n = offer.task_n and s.pool = offer.pool and s.state = 'ready') end
where task_n = :task_n

-- name: close_offers
delete from offer where task_n = :task_n

-- --- peeks --------------------------------------------------------------------------------------------------------

-- name: claimable
select t.id, s.key from offer o join task t on t.n = o.task_n join step s on s.task_n = o.task_n and s.key = (
    select r.key from step r where r.task_n = o.task_n and r.pool = o.pool and r.state = 'ready' and r.due_at <= :now
    order by r.due_at, r.key limit 1)
where o.pool = :pool and o.offer_at is not null and o.offer_at <= :now
order by o.priority desc, o.served_at limit :limit

-- name: callable
with recursive names (name) as (
    select (select min(f.name) from mutex_ticket f)
    union all
    select (select min(f.name) from mutex_ticket f where f.name > a.name) from names a where a.name is not null
), queues (name, task_n) as (
    select a.name, (select min(f.task_n) from mutex_ticket f where f.name = a.name) from names a
    where a.name is not null and not exists (select 1 from mutex m where m.name = a.name)
    and not exists (select 1 from mutex_ticket c where c.called_at > 0 and c.called_at > :called_after
        and c.name = a.name)
    union all
    select q.name, (select min(f.task_n) from mutex_ticket f where f.name = q.name and f.task_n > q.task_n)
    from queues q where q.task_n is not null
)
select t.id, k.step from (
    select min(w.n) as n from (
        select q.name, (
            select k.n from mutex_ticket k join step s on s.task_n = k.task_n and s.key = k.step
            where k.name = q.name and k.task_n = q.task_n and s.state = 'waiting'
            and (t.admits = 2 or s.pool = 'system') order by k.n limit 1) as n
        from queues q join task t on t.n = q.task_n where t.admits > 0
    ) w group by w.name
) f join mutex_ticket k on k.n = f.n join task t on t.n = k.task_n
order by k.n limit :limit

-- name: unsettled
select t.id, s.key from step s join task t on t.n = s.task_n
where s.untold = 1 and t.state <> 'closing' limit :limit

-- name: overdue
select t.id, s.key from step s join task t on t.n = s.task_n
where s.state = 'waiting' and s.due_at > 0 and s.due_at <= :now and t.state in ('active', 'paused')
order by s.due_at limit :limit

-- name: unheard
select distinct (select t.id from task t where t.n = i.task_n) from inbox i where i.heard is not null limit :limit

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

-- name: errands
select x.n, t.id, x.step, x.kind, x.target, x.seq, x.tokens, x.micros, x.body from outbox x join task t on t.n = x.task_n
where x.due_at <= :now and not (x.kind = 'cancel' and exists (
    select 1 from outbox c
    where c.task_n = x.task_n and c.step = x.step and c.kind = 'create' and c.target = x.target))
order by x.due_at, x.n limit :limit

-- name: next_due_at
select min(q.at) from (
    select min(due_at) as at from step where state = 'ready' and delayed = 1 and due_at > :now
    union all select min(due_at) from step where state = 'waiting' and due_at > 0 and due_at > :now
    union all select min(due_at) from step where state = 'merging' and due_at > :now
    union all select min(due_at) from lease where due_at > :now
    union all select min(called_at) + :call_ms from mutex_ticket where called_at > 0 and called_at > :now - :call_ms
) q

-- --- a running attempt --------------------------------------------------------------------------------------------

-- name: beat
update lease set due_at = case when timeout_at < :due_at then timeout_at else :due_at end
where task_n = (select n from task where id = :task_id) and step = :step and attempt = :attempt
returning stop

-- name: holds
select 1 from lease l join task t on t.n = l.task_n
where t.id = :task_id and l.step = :step and l.attempt = :attempt

-- name: journal_row
select j.n, j.kind, j.name, j.fingerprint, j.attempt, j.body, j.tokens_in, j.tokens_out, j.micros, j.started_at,
    j.done_at
from run_journal j
where j.task_n = (select n from task where id = :task_id) and j.step = :step and j.run = :run and j.n = :n

-- --- reads --------------------------------------------------------------------------------------------------------

-- name: task_by_id
select t.*, o.body from task t join task_options o on o.task_n = t.n where t.id = :id

-- name: tasks_by_prefix
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.id >= :low and t.id < :high order by t.id limit 2

-- name: task_by_number
select t.*, o.body from task t join task_options o on o.task_n = t.n where t.n = :n

-- name: last_task
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.parent is null order by t.n desc limit 1

-- name: task_by_key
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.idempotency_key = :idempotency_key and t.idempotency_key is not null

-- name: tasks
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.n < :before and (:children = 1 or t.parent is null)
order by t.n desc limit :limit

-- name: tasks_open
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.ended_at = 0 and t.n < :before and (:children = 1 or t.parent is null)
order by t.n desc limit :limit

-- name: timed
select t.*, (select o.body from task_options o where o.task_n = t.n) from task t
where t.ended_at = 0 and t.n < :before and (select o.body from task_options o where o.task_n = t.n) like :pattern
order by t.n desc limit :limit

-- name: tasks_of_workspace
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.workspace_id = :workspace_id and t.n < :before and (:children = 1 or t.parent is null)
order by t.n desc limit :limit

-- name: tasks_of_workspace_open
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.ended_at = 0 and t.workspace_id = :workspace_id and t.n < :before and (:children = 1 or t.parent is null)
order by t.n desc limit :limit

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

-- name: items_passed
select count(*) from task t
join step f on f.task_n = t.n and f.key = :step
join step s on s.task_n = t.n and s.owner = f.key and s.item is not null
where t.id = :task_id and s.state = 'completed' and s.expansion < f.expansion

-- name: over
-- What is told to a task counts in it from the transaction that has the operation of that name; its errand is taken away
-- in a later one.
with recursive up (id, far) as (
    select id, 0 from task where id = :task_id
    union all select (select t.parent from task t where t.id = u.id), u.far + 1 from up u where u.id is not null
)
select t.*, o.body, (
    select coalesce(sum(x.tokens), 0) from outbox x join task c on c.n = x.task_n
    where x.target = t.id and x.kind = 'spent' and not exists (
        select 1 from event e where e.task_n = t.n and e.op = 'spent ' || c.id || ' ' || x.seq and e.op is not null)
), (
    select coalesce(sum(x.micros), 0) from outbox x join task c on c.n = x.task_n
    where x.target = t.id and x.kind = 'spent' and not exists (
        select 1 from event e where e.task_n = t.n and e.op = 'spent ' || c.id || ' ' || x.seq and e.op is not null)
)
from up u cross join task t cross join task_options o where t.id = u.id and o.task_n = t.n order by u.far

-- name: has_heard
select 1 from inbox i where i.task_n = (select n from task where id = :task_id) and i.delivery = :delivery

-- name: newest_children
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.parent = :parent order by t.n desc limit :limit

-- name: errands_of
select x.n, :task_id, x.step, x.kind, x.target, x.seq, x.tokens, x.micros, x.body from outbox x
where x.task_n = (select n from task where id = :task_id) order by x.n limit :limit

-- name: awaited
select w.step, substr(w.name, 12) from wait w
where w.task_n = (select n from task where id = :task_id) and w.step > :after
and substr(w.name, 1, 11) = 'task.ended:' order by w.step limit :limit

-- name: asking
select t.id, s.* from step s join task t on t.n = s.task_n
where s.state = 'waiting' and s.waiting_for = 'user' order by s.began_at, s.task_n, s.key limit :limit

-- name: asking_of_task
select :task_id, s.* from step s where s.task_n = (select n from task where id = :task_id)
and s.state = 'waiting' and s.waiting_for = 'user' order by s.began_at, s.key limit :limit

-- name: leases
select t.id, l.step, l.attempt, l.worker, l.due_at, l.timeout_at, l.stop from task t join lease l on l.task_n = t.n
where t.id = :task_id order by l.step limit :limit

-- name: leases_of_worker
select t.id, l.step, l.attempt, l.worker, l.due_at, l.timeout_at, l.stop from lease l join task t on t.n = l.task_n
where l.worker = :worker order by l.task_n, l.step limit :limit

-- name: mutex
select m.name, t.id, m.step, m.attempt, m.at from mutex m join task t on t.n = m.task_n where m.name = :name

-- name: mutexes
select m.name, t.id, m.step, m.attempt, m.at from task t join mutex m on m.task_n = t.n
where t.id = :task_id order by m.step limit :limit

-- name: queue
select k.n, k.name, t.id, k.step, k.at, k.called_at from mutex_ticket k join task t on t.n = k.task_n
where k.name = :name order by k.n limit :limit

-- name: tickets
select k.n, k.name, :task_id, k.step, k.at, k.called_at from mutex_ticket k
where k.task_n = (select n from task where id = :task_id) order by k.n limit :limit

-- name: offers
select o.pool, o.priority, o.served_at, o.offer_at from task t join offer o on o.task_n = t.n
where t.id = :task_id order by o.pool limit :limit

-- name: events
select :task_id, e.seq, e.at, e.kind, e.v, e.body, e.actor, e.op, e.pos from event e
where e.task_n = (select n from task where id = :task_id) and e.seq > :after order by e.seq limit :limit

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
select :task_id, a.step, a.attempt, a.name, a.digest, a.size_bytes, a.media_type, a.at
from artifact a where a.task_n = (select n from task where id = :task_id) order by a.n limit :limit

-- name: artifacts_named
select :task_id, a.step, a.attempt, a.name, a.digest, a.size_bytes, a.media_type, a.at
from artifact a where a.task_n = (select n from task where id = :task_id) and substr(a.name, 1, 7) <> 'output/'
and substr(a.name, 1, 10) <> 'leftovers/' and substr(a.name, 1, 11) <> 'transcript/' order by a.n limit :limit

-- name: get_plan
select p.body from task t join plan p on p.task_n = t.n where t.id = :task_id

-- name: put_plan
insert into plan (task_n, body) select n, :body from task where id = :task_id
on conflict (task_n) do update set body = excluded.body
returning 1

-- --- workers ------------------------------------------------------------------------------------------------------

-- name: worker_seen
insert into worker (id, host, pid, pools, slots, started_at, seen_at, body)
values (:id, :host, :pid, :pools, :slots, :started_at, :seen_at, :body)
on conflict (id) do update set pools = excluded.pools, slots = excluded.slots, seen_at = excluded.seen_at,
    body = excluded.body

-- name: worker_gone
delete from worker where id = :id

-- name: workers
select id, host, pid, pools, slots, started_at, seen_at, body from worker order by seen_at desc limit :limit

-- name: forget_workers
delete from worker where id in (select id from worker where seen_at < :before order by seen_at limit :limit)
returning 1

-- name: worker_loads
select worker, count(*) from lease group by worker order by worker limit :limit

-- name: pool_loads
select o.pool, count(*), min(s.due_at) from offer o
join step s on s.task_n = o.task_n and s.pool = o.pool and s.state = 'ready' and s.due_at <= :now
where o.offer_at is not null group by o.pool order by o.pool limit :limit

-- name: pool_named
select 1 from task t where t.ended_at = 0
and exists (select 1 from step s where s.task_n = t.n and s.ended_at = 0 and s.pool = :pool) limit 1

-- --- upkeep -------------------------------------------------------------------------------------------------------

-- name: identify
insert into workspace (id, name, created_at, body) values ('', :identity, :now, '{}')
on conflict (id) do nothing

-- name: identity
select name from workspace where id = ''

-- name: use_blob
insert into blob (workspace_id, digest, size_bytes, created_at, used_at)
values (:workspace_id, :digest, :size_bytes, :now, :now)
on conflict (workspace_id, digest) do update set used_at = excluded.used_at where blob.used_at > :condemned
returning 1

-- name: stale_blobs
select workspace_id, digest, size_bytes, used_at from blob where used_at <= :before order by used_at limit :limit

-- name: blob_named
select 1 from artifact a join task t on t.n = a.task_n
where a.digest = :digest and t.workspace_id = :workspace_id limit 1

-- name: stored_values
select t.workspace_id, s.task_n, s.key, s.rest from step s join task t on t.n = s.task_n
where replace(s.rest, '"$artifact"', '') <> s.rest and (s.task_n, s.key) > (:task_n, :key) order by s.task_n, s.key limit :limit

-- name: kept_sessions
select t.workspace_id, s.task_n, s.key, (
    select j.body from run_journal j
    where j.task_n = s.task_n and j.step = s.key and replace(j.body, '"$session":', '') <> j.body
    order by j.run desc, j.n desc limit 1)
from step s join task t on t.n = s.task_n
where s.ended_at = 0 and s.kind = 'agent' and (s.task_n, s.key) > (:task_n, :key) order by s.task_n, s.key limit :limit

-- name: condemn_blob
update blob set used_at = :stamp
where workspace_id = :workspace_id and digest = :digest and used_at = :used_at and not exists (
    select 1 from artifact a join task t on t.n = a.task_n
    where a.digest = :digest and t.workspace_id = :workspace_id)
returning 1

-- name: forget_blob
delete from blob where workspace_id = :workspace_id and digest = :digest and used_at = :stamp
returning 1

-- name: prunable
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.ended_at > 0 and t.ended_at <= :before and (t.ended_at, t.n) > (:ended_at, :n)
and (t.parent is null or not exists (select 1 from task p where p.id = t.parent))
and not exists (select 1 from task c where c.parent = t.id and c.ended_at = 0)
and not exists (select 1 from outbox x where x.task_n = t.n)
order by t.ended_at, t.n limit :limit

-- name: children
select t.*, o.body from task t join task_options o on o.task_n = t.n
where t.parent = :parent and t.n > :after order by t.n limit :limit

-- name: prune_task
delete from task where id = :id and ended_at > 0 and ended_at <= :before
and not exists (select 1 from task c where c.parent = :id)
and not exists (select 1 from outbox x where x.task_n = task.n)
returning n

-- name: bury
update task_options set body = :body where task_n = :task_n

-- name: half_pruned
select o.task_n, o.body from task_options o left join task t on t.n = o.task_n
where o.task_n > :after and t.n is null order by o.task_n limit :limit

-- name: end_pruning
delete from task_options where task_n = :task_n and not exists (select 1 from task t where t.n = :task_n)
returning 1

-- name: prune_step
delete from step where task_n = :task_n and key in (select key from step where task_n = :task_n limit :limit)
returning 1

-- name: prune_event
delete from event where task_n = :task_n and seq in (select seq from event where task_n = :task_n limit :limit)
returning 1

-- name: prune_edge
delete from edge where task_n = :task_n
and (need, step) in (select need, step from edge where task_n = :task_n limit :limit)
returning 1

-- name: prune_spec
delete from spec where task_n = :task_n and number in (select number from spec where task_n = :task_n limit :limit)
returning 1

-- name: prune_plan
delete from plan where task_n = :task_n
returning 1

-- name: prune_artifact
delete from artifact where n in (select n from artifact where task_n = :task_n limit :limit)
returning 1

-- name: prune_run_journal
delete from run_journal where task_n = :task_n
and (step, run, n) in (select step, run, n from run_journal where task_n = :task_n limit :limit)
returning 1

-- name: prune_checkpoint
delete from checkpoint where n in (select n from checkpoint where task_n = :task_n limit :limit)
returning 1

-- name: prune_progress
delete from progress where task_n = :task_n and step in (select step from progress where task_n = :task_n limit :limit)
returning 1

-- name: prune_inbox
delete from inbox where task_n = :task_n and number in (select number from inbox where task_n = :task_n limit :limit)
returning 1

-- name: prune_wait
delete from wait where task_n = :task_n
and (step, n) in (select step, n from wait where task_n = :task_n limit :limit)
returning 1

-- name: prune_lease
delete from lease where task_n = :task_n and step in (select step from lease where task_n = :task_n limit :limit)
returning 1

-- name: prune_offer
delete from offer where task_n = :task_n
returning 1

-- name: prune_mutex
delete from mutex where task_n = :task_n
returning 1

-- name: prune_mutex_ticket
delete from mutex_ticket where task_n = :task_n
and step in (select step from mutex_ticket where task_n = :task_n limit :limit)
returning 1

-- name: prune_output
delete from chunk where task_id = :task_id
and (step, attempt, n) in (select step, attempt, n from chunk where task_id = :task_id limit :limit)
returning 1

-- --- callers ------------------------------------------------------------------------------------------------------

-- name: token_by_hash
select id, name, roles, workspaces, created_by, created_at, expires_at, revoked_at, used_at, hash, null
from token where hash = :hash
union all
select id, name, roles, workspaces, created_by, created_at, expires_at, revoked_at, used_at, old_hash, old_until
from token where old_hash = :hash

-- name: tokens
select id, name, roles, workspaces, created_by, created_at, expires_at, revoked_at, used_at
from token where id > :after order by id limit :limit

-- name: insert_token
insert into token (id, name, hash, old_hash, old_until, roles, workspaces, created_by, created_at, expires_at,
    revoked_at, used_at, body)
values (:id, :name, :hash, null, 0, :roles, :workspaces, :created_by, :created_at, :expires_at, null, 0, null)
on conflict (id) do nothing

-- name: rotate_token
update token set old_hash = case when hash = :hash then old_hash else hash end, hash = :hash, old_until = :old_until,
    expires_at = :expires_at
where id = :id and revoked_at is null
returning 1

-- name: revoke_token
update token set revoked_at = coalesce(revoked_at, :now) where id = :id
returning 1

-- name: touch_token
update token set used_at = :now where id = :id and used_at < :before

-- name: audit
select id, at, who, token, address, action, task_id, step, status, outcome from audit
where id < :before order by id desc limit :limit

-- name: audit_of_task
select id, at, who, token, address, action, task_id, step, status, outcome from audit
where task_id = :task_id and task_id is not null and id < :before and (cast(:who as text) is null or who = :who)
order by id desc limit :limit

-- name: audit_of_person
select id, at, who, token, address, action, task_id, step, status, outcome from audit
where who = :who and id < :before order by id desc limit :limit

-- name: forget_audit
delete from audit where id in (select id from audit where id < :before order by id limit :limit)
returning 1

-- name: begin_request
insert into request (caller, key, route, digest, holder, begun_at, done_at, expires_at, status, answer)
values (:caller, :key, :route, :digest, :holder, :now, 0, :expires_at, 0, null)
on conflict (caller, key, route) do update set digest = excluded.digest, holder = excluded.holder,
    begun_at = excluded.begun_at, done_at = 0, expires_at = excluded.expires_at, status = 0, answer = null
where request.expires_at <= :now or request.holder = :holder
    or (request.done_at = 0 and request.begun_at <= :lost and request.digest = :digest)
returning 1

-- name: request
select caller, key, route, digest, holder, begun_at, done_at, expires_at, status, answer from request
where caller = :caller and key = :key and route = :route

-- name: end_request
update request set done_at = :now, status = :status, answer = :answer
where caller = :caller and key = :key and route = :route and holder = :holder
returning 1

-- name: drop_request
delete from request where caller = :caller and key = :key and route = :route and holder = :holder and done_at = 0
returning 1

-- name: forget_requests
delete from request where (caller, key, route) in (
    select caller, key, route from request where expires_at <= :now order by expires_at limit :limit)
returning 1

-- --- programs elsewhere -------------------------------------------------------------------------------------------

-- name: insert_webhook
insert into webhook (id, url, secret, types, workspace_id, created_by, created_at, version, cursor, part, since,
    failures, due_at, holder, held_until, delivered_at, disabled_at, said)
values (:id, :url, :secret, :types, :workspace_id, :created_by, :now, 1, :cursor, 0, :since, 0, 0, '', 0, 0, null, null)
on conflict (id) do nothing

-- name: webhook
select id, url, secret, types, workspace_id, created_by, created_at, version, cursor, part, since, failures, due_at,
    delivered_at, disabled_at, said
from webhook where id = :id

-- name: webhooks
select id, url, secret, types, workspace_id, created_by, created_at, version, cursor, part, since, failures, due_at,
    delivered_at, disabled_at, said
from webhook where id > :after order by id limit :limit

-- name: hold_webhook
update webhook set holder = :holder, held_until = :held_until
where id = :id and disabled_at is null and (holder = :holder or held_until <= :now)
returning id, url, secret, types, workspace_id, created_by, created_at, version, cursor, part, since, failures, due_at,
    delivered_at, disabled_at, said

-- name: let_webhook_go
update webhook set held_until = 0 where id = :id and holder = :holder

-- name: move_webhook
update webhook set cursor = :cursor, part = :part, failures = 0, due_at = 0, said = null,
    delivered_at = case when :delivered_at > 0 then :delivered_at else delivered_at end
where id = :id and holder = :holder and version = :version
returning 1

-- name: fail_webhook
update webhook set failures = :failures, due_at = :due_at, said = :said, disabled_at = cast(:disabled_at as bigint)
where id = :id and holder = :holder and version = :version
returning 1

-- name: replay_webhook
update webhook set cursor = :cursor, part = 0, since = :since, failures = 0, due_at = 0, disabled_at = null, said = null,
    version = version + 1
where id = :id
returning 1

-- name: enable_webhook
update webhook set part = 0, failures = 0, due_at = 0, disabled_at = null, said = null, version = version + 1
where id = :id
returning 1

-- name: remove_webhook
delete from webhook where id = :id
returning 1

-- name: insert_link
insert into link (id, task_id, step, ask, digest, who, created_by, created_at, expires_at, used_at, answer)
values (:id, :task_id, :step, :ask, :digest, :who, :created_by, :now, :expires_at, null, null)
on conflict (id) do nothing

-- name: link
select id, task_id, step, ask, digest, who, created_by, created_at, expires_at, used_at, answer from link where id = :id

-- name: use_link
update link set used_at = :now, answer = :answer where id = :id and used_at is null
returning 1

-- name: forget_links
delete from link where id in (select id from link where expires_at < :before order by expires_at limit :limit)
returning 1

-- name: insert_notice
insert into notice (workspace_id, delivery, name, sender, at, copied, payload)
values (:workspace_id, :delivery, :name, :sender, :now, 0, :payload)
on conflict (delivery, workspace_id) do nothing
returning n

-- name: notice
select n, workspace_id, delivery, name, sender, at, copied, payload from notice
where delivery = :delivery and workspace_id = :workspace_id

-- name: open_notices
select n, workspace_id, delivery, name, sender, at, copied, payload from notice
where copied is not null order by n limit :limit

-- name: move_notice
update notice set copied = cast(:copied as bigint) where n = :n

-- name: forget_notices
delete from notice where n in (
    select n from notice where at < :before and copied is null order by at limit :limit)
returning 1

-- name: open_tasks
select t.n, t.id from task t where t.ended_at = 0 and t.n > :after order by t.n limit :limit

-- name: open_tasks_of_workspace
select t.n, t.id from task t
where t.ended_at = 0 and t.workspace_id = :workspace_id and t.n > :after order by t.n limit :limit

-- name: insert_signing_key
insert into signing_key (name, body, created_at) values (:name, :body, :now) on conflict (name) do nothing

-- name: signing_key
select body from signing_key where name = :name

-- --- gauges -------------------------------------------------------------------------------------------------------

-- name: open_counts
select count(*), sum(case when state = 'paused' then 1 else 0 end), sum(case when state = 'closing' then 1 else 0 end),
    sum(t.open), sum(ready), sum(running), sum(running_system), sum(merging), sum(wait_user), sum(wait_ci),
    sum(wait_event), sum(wait_timer), sum(wait_task), sum(wait_mutex)
from (
    select state, open, ready, running, running_system, merging, wait_user, wait_ci, wait_event, wait_timer, wait_task,
        wait_mutex
    from task where ended_at = 0 order by n limit :limit
) t

-- name: queues
select o.pool, count(*), min(o.offer_at)
from (select pool, offer_at from offer where offer_at is not null and offer_at <= :now limit :limit) o
group by o.pool order by o.pool

-- name: calls
select j.run, j.n, j.kind, j.name, j.tokens_in, j.tokens_out, j.micros, j.started_at, j.done_at,
    case when :bodies = 1 then j.body end
from run_journal j where j.task_n = (select n from task where id = :task_id) and j.step = :step
    and j.attempt = :attempt
order by j.run, j.n limit :limit

-- --- archives -----------------------------------------------------------------------------------------------------

-- name: calls_of_task
select j.step, j.run, j.n, j.kind, j.name, j.fingerprint, j.attempt, j.body, j.tokens_in, j.tokens_out, j.micros,
    j.started_at, j.done_at
from run_journal j where j.task_n = (select n from task where id = :task_id) and (j.step, j.run, j.n) > (:step, :run, :n)
order by j.step, j.run, j.n limit :limit

-- name: output_of_task
select c.step, c.attempt, c.n, c.stream, c.body, c.at from chunk c
where c.task_id = :task_id and (c.step, c.attempt, c.n) > (:step, :attempt, :n)
order by c.step, c.attempt, c.n limit :limit
