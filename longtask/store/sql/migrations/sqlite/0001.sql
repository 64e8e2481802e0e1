-- The first schema, complete.  What holds in it:
--
-- - `task.n` counts the tasks of this database and is never used twice; rows of a task carry it as `task_n`.  Outside,
--   a task is known by its `id` (UUIDv7).
-- - Fields that a search looks at, and those that a finished step needs, are columns.  All others of a step or a
--   header stand in `rest`, a JSON object that leaves out defaults and is null when nothing is left.  So a finished
--   step costs few bytes, and a field that comes later needs no migration.
-- - Empty text, null, 0 and 1 cost no bytes; so pool 'default', owner none and stage 1 are kept as such.
-- - Every index on `step` is partial: a finished step stands in none (an item of a for_each in one).
-- - Instants are ms since 1970 UTC, money is micro-dollars.  No foreign keys: nothing but the store writes here, and a
--   check of every row would cost more than the row; `longtask doctor` looks instead.
-- - Retention may delete events, but never the one with the highest `pos`: SQLite would give its number out again.

create table task (
    n               integer primary key autoincrement,
    id              text    not null unique,
    name            text    not null,
    workspace_id    text    not null,
    created_by      text    not null,
    created_at      integer not null,
    idempotency_key text,
    parent          text,
    state           text    not null,
    seq             integer not null,
    admits          integer not null,  -- 0: no claims, 1: of pool 'system' only, 2: any
    priority        integer not null,
    served_at       integer not null,
    ended_at        integer not null,
    steps           integer not null,  -- from here to `weight_done`: the counters, in the order of model.Tally
    open            integer not null,
    ready           integer not null,
    ready_system    integer not null,
    running         integer not null,
    running_system  integer not null,
    merging         integer not null,
    wait_user       integer not null,
    wait_ci         integer not null,
    wait_event      integer not null,
    wait_timer      integer not null,
    wait_task       integer not null,
    wait_mutex      integer not null,
    bad             integer not null,
    untold          integer not null,
    gates           integer not null,
    weight          integer not null,
    weight_done     integer not null,
    rest            text
) strict;
create unique index task_idempotency on task (idempotency_key) where idempotency_key is not null;
create index task_of_workspace on task (workspace_id, n);
create index task_of_person on task (created_by, n);
create index task_of_parent on task (parent) where parent is not null;
create index task_open on task (n) where ended_at = 0;
create index task_open_of_workspace on task (workspace_id, n) where ended_at = 0;
create index task_closing on task (n) where state = 'closing';
create index task_ended on task (ended_at, n) where ended_at > 0;  -- for retention

-- What the submitter chose; apart from `task`, whose rows are written again and again.
create table task_options (
    task_n integer primary key,
    body   text    not null
) strict;

create table plan (
    task_n integer primary key,
    body   text    not null
) strict;

create table spec (
    task_n integer not null,
    number integer not null,
    body   text    not null,
    primary key (task_n, number)
) strict;

create table step (
    task_n      integer not null,
    key         text    not null,
    kind        text    not null,
    stage       integer not null,
    spec        integer not null,
    owner       text,
    item        integer,
    expansion   integer not null,
    weight      integer not null,
    pool        text    not null,  -- '': default
    state       text    not null,
    due_at      integer not null,
    delayed     integer not null,  -- 1: `due_at` lay ahead when the row was written
    told        text    not null,
    untold      integer not null,  -- 1: dependents do not know its verdict
    attempt     integer not null,
    worker      text,
    base        text,
    began_at    integer not null,
    ended_at    integer not null,  -- 0: open
    timeout_at  integer,
    waiting_for text    not null,
    rest        text,
    primary key (task_n, key)
) strict, without rowid;
create index step_open on step (task_n, owner) where ended_at = 0;
create index step_ready on step (task_n, pool, due_at) where state = 'ready';
create index step_delayed on step (due_at) where state = 'ready' and delayed = 1;
create index step_deadline on step (due_at) where state = 'waiting' and due_at > 0;
create index step_merging on step (due_at) where state = 'merging';
create index step_asking on step (task_n, began_at) where state = 'waiting' and waiting_for = 'user';
create index step_untold on step (task_n) where untold = 1;
create index step_item on step (task_n, owner, item, expansion) where item is not null;
create index step_value on step (task_n) where replace(rest, '"$artifact"', '') <> rest;  -- names bytes

-- `step` needs `need`.  No index the other way: no decision asks for a step's needs (it counts its blockers), a view
-- may read the edges of its task, and one byte in ten of a finished step would go into it.
create table edge (
    task_n integer not null,
    need   text    not null,
    step   text    not null,
    primary key (task_n, need, step)
) strict, without rowid;

-- The journal.
create table event (
    pos    integer primary key,
    task_n integer not null,
    seq    integer not null,
    at     integer not null,
    kind   text    not null,
    v      integer not null,
    actor  text    not null,
    op     text,                    -- on the first event of its transaction
    body   text    not null
) strict;
create unique index event_seq on event (task_n, seq);
create unique index event_op on event (task_n, op) where op is not null;

-- The time-bound right of one attempt to its step: a beat touches nothing else.
create table lease (
    task_n     integer not null,
    step       text    not null,
    attempt    integer not null,
    worker     text    not null,
    due_at     integer not null,
    timeout_at integer,
    stop       text,                -- why the attempt is asked to stop
    primary key (task_n, step)
) strict, without rowid;
create index lease_due on lease (due_at);

-- What a waiting step can be woken by.
create table wait (
    task_n integer not null,
    step   text    not null,
    n      integer not null,        -- counts the waits of one park
    name   text    not null,
    ask    integer not null,
    kind   text    not null,        -- '': a signal
    body   text,
    primary key (task_n, step, n)
) strict, without rowid;
create index wait_name on wait (task_n, name, step);

create table inbox (
    task_n   integer not null,
    number   integer not null,
    delivery text    not null,
    name     text    not null,
    sender   text    not null,
    at       integer not null,
    heard    text, -- key of the last waiter that has heard it; null: all have
    payload  text    not null,
    primary key (task_n, number)
) strict;
create unique index inbox_delivery on inbox (task_n, delivery);
create index inbox_name on inbox (task_n, name, number);
create index inbox_unheard on inbox (task_n, number) where heard is not null;

-- What one task has to do to another one: done in a transaction of its own, then deleted in another.
create table outbox (
    n      integer primary key autoincrement,
    task_n integer not null,
    step   text    not null,
    kind   text    not null,
    target text    not null,        -- id of the other task
    due_at integer not null,
    body   text
) strict;
create index outbox_of_task on outbox (task_n, step);
create index outbox_due on outbox (due_at);

-- What a task has for the workers of a pool: its earliest ready step falls due at `offer_at`, null while nothing is
-- ready or the task admits no claim.  A row per task and pool that ever had something ready, until the task ends.
create table offer (
    task_n    integer not null,
    pool      text    not null,
    priority  integer not null,
    served_at integer not null,
    offer_at  integer,
    primary key (task_n, pool)
) strict, without rowid;
-- whom a worker, or a scheduler, serves next; a task whose steps are all in backoff is passed over within the index
create index offer_next on offer (pool, priority desc, served_at, offer_at) where offer_at is not null;

-- Held by a running attempt.  The key is the exclusion.
create table mutex (
    name    text    primary key,
    task_n  integer not null,
    step    text    not null,
    attempt integer not null,
    at      integer not null
) strict, without rowid;
create index mutex_of_step on mutex (task_n, step);

-- First come, first served: `n` is the order.
create table mutex_ticket (
    n         integer primary key autoincrement,
    name      text    not null,
    task_n    integer not null,
    step      text    not null,
    at        integer not null,
    called_at integer not null      -- 0: not called
) strict;
create unique index mutex_ticket_of_step on mutex_ticket (task_n, step);
create index mutex_ticket_next on mutex_ticket (name, n);
create index mutex_ticket_of_task on mutex_ticket (name, task_n, n);
create index mutex_ticket_called on mutex_ticket (called_at, name) where called_at > 0;

-- Turns and tool calls of a run, begun or finished.
create table run_journal (
    task_n      integer not null,
    step        text    not null,
    run         integer not null,
    n           integer not null,
    kind        text    not null,
    name        text    not null,
    fingerprint text    not null,
    attempt     integer not null,
    tokens_in   integer not null,
    tokens_out  integer not null,
    micros      integer,            -- null: no price known
    started_at  integer not null,
    done_at     integer not null,   -- 0: begun, its end is not known
    body        text,
    primary key (task_n, step, run, n)
) strict;

create table checkpoint (
    n        integer primary key,
    task_n   integer not null,
    step     text    not null,
    run      integer not null,
    attempt  integer not null,
    position integer not null,
    tree     text,
    at       integer not null,
    body     text
) strict;
create index checkpoint_newest on checkpoint (task_n, step, run, n);

create table progress (
    task_n  integer not null,
    step    text    not null,
    attempt integer not null,
    done    integer not null,
    total   integer not null,
    at      integer not null,
    text    text    not null,
    primary key (task_n, step)
) strict, without rowid;

-- What accepted outcomes name.
create table artifact (
    n          integer primary key,
    task_n     integer not null,
    step       text    not null,
    attempt    integer not null,
    name       text    not null,
    digest     text    not null,
    size_bytes integer not null,
    media_type text    not null,
    at         integer not null,
    body       text
) strict;
create index artifact_of_task on artifact (task_n, n);
create index artifact_digest on artifact (digest);

-- The bytes that are there; collected a while after their last use, this row first.
create table blob (
    workspace_id text    not null,
    digest       text    not null,
    size_bytes   integer not null,
    created_at   integer not null,
    used_at      integer not null,
    primary key (workspace_id, digest)
) strict, without rowid;
create index blob_used on blob (used_at);

create table workspace (
    id         text    primary key,
    name       text    not null,
    created_at integer not null,
    body       text    not null
) strict, without rowid;

create table worker (
    id         text    primary key,
    host       text    not null,
    pid        integer not null,
    pools      text    not null,    -- JSON
    slots      integer not null,
    started_at integer not null,
    seen_at    integer not null,
    body       text
) strict, without rowid;
create index worker_seen on worker (seen_at);

-- What the planner is to think of the sizes: a big database with few open steps.  Without it SQLite guesses that a task
-- has ten steps, and reads all of them rather than a partial index.  Fixed, so that a plan never changes by itself.
analyze sqlite_schema;
delete from sqlite_stat1;
insert into sqlite_stat1 (tbl, idx, stat) values
    ('task', 'sqlite_autoindex_task_1', '20000 1'),
    ('task', 'task_idempotency', '5000 1'),
    ('task', 'task_of_workspace', '20000 2000 1'),
    ('task', 'task_of_person', '20000 2000 1'),
    ('task', 'task_of_parent', '1000 5'),
    ('task', 'task_open', '500 1'),
    ('task', 'task_open_of_workspace', '500 50 1'),
    ('task', 'task_closing', '2 1'),
    ('task', 'task_ended', '19500 1 1'),
    ('step', 'step', '2000000 20000 1'),
    ('step', 'step_open', '50000 1000 100'),
    ('step', 'step_ready', '5000 500 400 5'),
    ('step', 'step_delayed', '50 1'),
    ('step', 'step_deadline', '500 1'),
    ('step', 'step_merging', '20 1'),
    ('step', 'step_asking', '200 10 1'),
    ('step', 'step_untold', '50 5'),
    ('step', 'step_item', '20000 5000 500 2 1'),
    ('step', 'step_value', '5000 5'),
    ('edge', 'edge', '2000000 20000 10 1'),
    ('event', 'event_seq', '9000000 90000 1'),
    ('event', 'event_op', '90000 900 1'),
    ('lease', 'lease', '200 10 1'),
    ('lease', 'lease_due', '200 1'),
    ('wait', 'wait', '20000 2000 1 1'),
    ('wait', 'wait_name', '20000 2000 20 1'),
    ('offer', 'offer', '1000 2 1'),
    ('offer', 'offer_next', '200 50 40 1 1'),
    ('mutex', 'mutex', '50 1'),
    ('mutex', 'mutex_of_step', '50 5 1'),
    ('mutex_ticket', 'mutex_ticket_of_step', '2000 100 1'),
    ('mutex_ticket', 'mutex_ticket_next', '2000 200 1'),
    ('mutex_ticket', 'mutex_ticket_of_task', '2000 200 20 1'),
    ('mutex_ticket', 'mutex_ticket_called', '10 2 1'),
    ('inbox', 'sqlite_autoindex_inbox_1', '10000 100 1'),
    ('inbox', 'inbox_delivery', '10000 100 1'),
    ('inbox', 'inbox_name', '10000 100 20 1'),
    ('inbox', 'inbox_unheard', '10 1 1'),
    ('progress', 'progress', '20000 200 1'),
    ('artifact', 'artifact_of_task', '50000 20 1');
analyze sqlite_schema;
