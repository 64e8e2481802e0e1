-- Callers over HTTP: the tables of sqlite/0002.sql, where each is explained.

create table token (
    created_at bigint not null,
    old_until  bigint not null,
    expires_at bigint,
    revoked_at bigint,
    used_at    bigint not null,
    id         text   collate "C" primary key,
    name       text   not null,
    hash       text   collate "C" not null unique,
    old_hash   text   collate "C" unique,
    roles      text   not null,
    workspaces text,
    created_by text   not null,
    body       text
) with (fillfactor = 50);

create table audit (
    at      bigint  not null,
    status  integer not null,
    id      text    collate "C" primary key,
    who     text    collate "C" not null,
    token   text,
    address text    not null,
    action  text    not null,
    task_id text    collate "C",
    step    text,
    outcome text    not null,
    body    text
) with (fillfactor = 90);  -- the second write of a row changes no index
create index audit_of_person on audit (who, id);
create index audit_of_task on audit (task_id, id) where task_id is not null;

create table request (
    begun_at   bigint  not null,
    done_at    bigint  not null,
    expires_at bigint  not null,
    status     integer not null,
    caller     text    collate "C" not null,
    key        text    collate "C" not null,
    route      text    collate "C" not null,
    digest     text    not null,
    holder     text    not null,
    answer     text,
    primary key (caller, key, route)
) with (autovacuum_vacuum_scale_factor = 0.05);
create index request_expires on request (expires_at);
