-- The first schema, complete: the tables of sqlite/0001.sql, where each is explained.  What is said here is what differs.
--
-- - Columns that a program compares or pages through have the collation "C": an order that every server shares, and
--   that Python's comparison of text shares too.
-- - Rows that are written again and again are vacuumed early and without pauses.  A header has room on its page
--   (fillfactor), since none of its indexes notices most of its writes.  A step, a lease and an offer have little or none:
--   each of their writes moves an indexed column, and room would be of no use to that.
-- - Wide columns first: none is padded, which in `step` saves one byte in ten.  Every index on `step` is partial, so that
--   a finished step stands in none but its key.
-- - `event.xid`: numbers are given out before the commit, so that a reader by number alone may pass over one that comes
--   later.  A feed reads by (xid, pos), and only below the oldest transaction that is still under way.

create table task (
    n               bigint  primary key generated always as identity,
    id              text    collate "C" not null unique,
    name            text    not null,
    workspace_id    text    collate "C" not null,
    created_by      text    collate "C" not null,
    created_at      bigint  not null,
    idempotency_key text    collate "C",
    parent          text    collate "C",
    state           text    not null,
    seq             integer not null,
    admits          smallint not null,
    priority        integer not null,
    served_at       bigint  not null,
    ended_at        bigint  not null,
    steps           integer not null,
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
    weight          bigint  not null,
    weight_done     bigint  not null,
    rest            text
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
create unique index task_idempotency on task (idempotency_key) where idempotency_key is not null;
create index task_of_workspace on task (workspace_id, n);
create index task_of_person on task (created_by, n);
create index task_of_parent on task (parent) where parent is not null;
create index task_open on task (n) where ended_at = 0;
create index task_open_of_workspace on task (workspace_id, n) where ended_at = 0;
create index task_closing on task (n) where state = 'closing';
create index task_ended on task (ended_at, n) where ended_at > 0;

create table task_options (
    task_n bigint primary key,
    body   text   not null
);

create table plan (
    task_n bigint primary key,
    body   text   not null
);

create table spec (
    task_n bigint  not null,
    number integer not null,
    body   text    not null,
    primary key (task_n, number)
);

create table step (
    task_n      bigint   not null,
    weight      bigint   not null,
    due_at      bigint   not null,
    began_at    bigint   not null,
    ended_at    bigint   not null,
    timeout_at  bigint,
    stage       integer  not null,
    spec        integer  not null,
    expansion   integer  not null,
    attempt     integer  not null,
    item        integer,
    delayed     smallint not null,
    untold      smallint not null,
    key         text     collate "C" not null,
    kind        text     not null,
    owner       text     collate "C",
    pool        text     collate "C" not null,
    state       text     not null,
    told        text     not null,
    worker      text,
    base        text,
    waiting_for text     not null,
    rest        text,
    primary key (task_n, key)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
create index step_open on step (task_n, owner) where ended_at = 0;
create index step_ready on step (task_n, pool, due_at) where state = 'ready';
create index step_delayed on step (due_at) where state = 'ready' and delayed = 1;
create index step_deadline on step (due_at) where state = 'waiting' and due_at > 0;
create index step_merging on step (due_at) where state = 'merging';
create index step_asking on step (task_n, began_at) where state = 'waiting' and waiting_for = 'user';
create index step_untold on step (task_n) where untold = 1;
create index step_value on step (task_n) where replace(rest, '"$artifact"', '') <> rest;
create index step_item on step (task_n, owner, item, expansion) where item is not null;

create table edge (
    task_n bigint not null,
    need   text   collate "C" not null,
    step   text   collate "C" not null,
    primary key (task_n, need, step)
);

create table event (
    pos    bigint   not null generated always as identity,
    xid    xid8     not null default pg_current_xact_id(),
    task_n bigint   not null,
    at     bigint   not null,
    seq    integer  not null,
    v      smallint not null,
    kind   text     not null,
    actor  text     not null,
    op     text     collate "C",
    body   text     not null,
    primary key (task_n, seq)
);
create index event_feed on event (xid);
create unique index event_op on event (task_n, op) where op is not null;

create table lease (
    task_n     bigint  not null,
    step       text    collate "C" not null,
    attempt    integer not null,
    worker     text    collate "C" not null,
    due_at     bigint  not null,
    timeout_at bigint,
    stop       text,
    primary key (task_n, step)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
create index lease_due on lease (due_at);

create table wait (
    task_n bigint  not null,
    step   text    collate "C" not null,
    n      integer not null,
    name   text    collate "C" not null,
    ask    integer not null,
    kind   text    not null,
    body   text,
    primary key (task_n, step, n)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index wait_name on wait (name, task_n, step);  -- not by task first: a step's own waits are found by the key

create table inbox (
    task_n   bigint  not null,
    number   integer not null,
    delivery text    collate "C" not null,
    name     text    collate "C" not null,
    sender   text    not null,
    at       bigint  not null,
    heard    text    collate "C",
    payload  text    not null,
    primary key (task_n, number)
);
create unique index inbox_delivery on inbox (task_n, delivery);
create index inbox_name on inbox (task_n, name, number);
create index inbox_unheard on inbox (task_n, number) where heard is not null;

create table outbox (
    n      bigint primary key generated always as identity,
    task_n bigint not null,
    step   text   collate "C" not null,
    kind   text   not null,
    target text   collate "C" not null,
    due_at bigint not null,
    body   text
);
create index outbox_of_task on outbox (task_n, step);
create index outbox_due on outbox (due_at);

create table offer (
    task_n    bigint  not null,
    pool      text    collate "C" not null,
    priority  integer not null,
    served_at bigint  not null,
    offer_at  bigint,
    primary key (task_n, pool)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
create index offer_next on offer (pool, priority desc, served_at, offer_at) where offer_at is not null;

create table mutex (
    name    text    collate "C" primary key,
    task_n  bigint  not null,
    step    text    collate "C" not null,
    attempt integer not null,
    at      bigint  not null
);
create index mutex_of_step on mutex (task_n, step);

create table mutex_ticket (
    n         bigint primary key generated always as identity,
    name      text   collate "C" not null,
    task_n    bigint not null,
    step      text   collate "C" not null,
    at        bigint not null,
    called_at bigint not null
);
create unique index mutex_ticket_of_step on mutex_ticket (task_n, step);
create index mutex_ticket_next on mutex_ticket (name, n);
create index mutex_ticket_of_task on mutex_ticket (name, task_n, n);
create index mutex_ticket_called on mutex_ticket (called_at, name) where called_at > 0;

create table run_journal (
    task_n      bigint  not null,
    step        text    collate "C" not null,
    run         integer not null,
    n           integer not null,
    kind        text    not null,
    name        text    not null,
    fingerprint text    not null,
    attempt     integer not null,
    tokens_in   bigint  not null,
    tokens_out  bigint  not null,
    micros      bigint,
    started_at  bigint  not null,
    done_at     bigint  not null,
    body        text,
    primary key (task_n, step, run, n)
);

create table checkpoint (
    n        bigint  primary key generated always as identity,
    task_n   bigint  not null,
    step     text    collate "C" not null,
    run      integer not null,
    attempt  integer not null,
    position integer not null,
    tree     text,
    at       bigint  not null,
    body     text
);
create index checkpoint_newest on checkpoint (task_n, step, run, n);

create table progress (
    task_n  bigint  not null,
    step    text    collate "C" not null,
    attempt integer not null,
    done    bigint  not null,
    total   bigint  not null,
    at      bigint  not null,
    text    text    not null,
    primary key (task_n, step)
) with (fillfactor = 50);

-- Output as it comes; sealed into an artifact at the end of its attempt.
create table chunk (
    task_id text    collate "C" not null,
    step    text    collate "C" not null,
    attempt integer not null,
    n       integer not null,
    stream  text    not null,
    at      bigint  not null,
    body    bytea   not null,
    primary key (task_id, step, attempt, n)
);

create table artifact (
    n          bigint  primary key generated always as identity,
    task_n     bigint  not null,
    step       text    collate "C" not null,
    attempt    integer not null,
    name       text    not null,
    digest     text    collate "C" not null,
    size_bytes bigint  not null,
    media_type text    not null,
    at         bigint  not null,
    body       text
);
create index artifact_of_task on artifact (task_n, n);
create index artifact_digest on artifact (digest);

create table blob (
    workspace_id text   collate "C" not null,
    digest       text   collate "C" not null,
    size_bytes   bigint not null,
    created_at   bigint not null,
    used_at      bigint not null,
    primary key (workspace_id, digest)
);
create index blob_used on blob (used_at);

create table workspace (
    id         text   collate "C" primary key,
    name       text   not null,
    created_at bigint not null,
    body       text   not null
);

create table worker (
    id         text    collate "C" primary key,
    host       text    not null,
    pid        bigint  not null,
    pools      text    not null,
    slots      integer not null,
    started_at bigint  not null,
    seen_at    bigint  not null,
    body       text
);
create index worker_seen on worker (seen_at);
