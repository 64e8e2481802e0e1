-- What goes out and what comes in from programs elsewhere: webhooks, links, signals to a whole workspace.

-- Where events are sent.  `cursor` is a place in the feed: what stands before it was delivered, or did not fit; of the
-- event behind it the first `part` public events were.  `holder` sends, until `held_until`; every write of a holder names
-- the `version` that it read, which a replay or a change moves on.
create table webhook (
    id           text    primary key,
    url          text    not null,
    secret       text    not null,      -- whsec_…; or env:NAME, a variable of the server
    types        text    not null,      -- JSON, patterns of event types; []: all
    workspace_id text,                  -- null: all
    created_by   text    not null,
    created_at   integer not null,
    version      integer not null,
    cursor       text    not null,
    part         integer not null,
    since        integer not null,      -- events before that instant are passed over
    failures     integer not null,      -- in a row, of the delivery that comes next
    due_at       integer not null,      -- not sent to before
    holder       text    not null,
    held_until   integer not null,
    delivered_at integer not null,      -- 0: nothing yet
    disabled_at  integer,
    said         text                   -- what came of the last failure
) strict, without rowid;

-- Single-use links that answer one question.  Whoever has the address may; the address is not kept.
create table link (
    id         text    primary key,
    task_id    text    not null,
    step       text    not null,
    ask        integer not null,
    digest     text,                    -- of what is shown
    who        text    not null,        -- decides in this name
    created_by text    not null,
    created_at integer not null,
    expires_at integer not null,
    used_at    integer,
    answer     text
) strict, without rowid;
create index link_expires on link (expires_at);

-- A signal to all open tasks of a workspace, copied into their inboxes one after another.
create table notice (
    n            integer primary key autoincrement,
    workspace_id text    not null,      -- '': of every one
    delivery     text    not null,
    name         text    not null,
    sender       text    not null,
    at           integer not null,
    copied       integer,               -- number of the last task that has it; null: all have
    payload      text    not null
) strict;
create unique index notice_delivery on notice (delivery, workspace_id);
create index notice_open on notice (n) where copied is not null;
create index notice_at on notice (at);

-- What tokens in addresses are signed with, the same for every server and worker of this database.
create table signing_key (
    name       text    primary key,
    body       text    not null,
    created_at integer not null
) strict, without rowid;
