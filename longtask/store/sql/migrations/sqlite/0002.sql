-- Callers over HTTP: their tokens, what they have changed, and answers that a repeated request is given again.

-- `hash` is SHA-256 of the token, which nobody keeps; of one that was rotated, `old_hash` is good until `old_until`.
create table token (
    id         text    primary key,
    name       text    not null,        -- who calls: stands in the journal as the actor
    hash       text    not null unique,
    old_hash   text    unique,
    old_until  integer not null,
    roles      text    not null,        -- JSON
    workspaces text,                    -- JSON; null: all
    created_by text    not null,
    created_at integer not null,
    expires_at integer,                 -- null: never
    revoked_at integer,
    used_at    integer not null,        -- about; 0: never
    body       text
) strict, without rowid;

-- One row for each request that wants to change something, written before it is carried out.  `id` is a UUIDv7, so that
-- rows sort by their time.
create table audit (
    id      text    primary key,
    at      integer not null,
    who     text    not null,
    token   text,                       -- its id; null: none was needed
    address text    not null,
    action  text    not null,           -- the route, as `POST /v1/tasks/{task_id}/cancel`
    task_id text,
    step    text,
    status  integer not null,           -- of HTTP; 0: not known, the server ended before it was
    outcome text    not null,           -- of a refusal the type of its problem
    body    text
) strict, without rowid;
create index audit_of_person on audit (who, id);
create index audit_of_task on audit (task_id, id) where task_id is not null;

-- Requests that bear an idempotency key.  `holder` carries it out; `done_at` 0: it still does.
create table request (
    caller     text    not null,
    key        text    not null,
    route      text    not null,
    digest     text    not null,        -- of the body
    holder     text    not null,
    begun_at   integer not null,
    done_at    integer not null,
    expires_at integer not null,
    status     integer not null,
    answer     text,                    -- JSON: body and headers
    primary key (caller, key, route)
) strict, without rowid;
create index request_expires on request (expires_at);
