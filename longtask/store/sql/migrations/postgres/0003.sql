-- What goes out and what comes in from programs elsewhere: the tables of sqlite/0003.sql, where each is explained.

create table webhook (
    id           text    collate "C" primary key,
    url          text    not null,
    secret       text    not null,
    types        text    not null,
    workspace_id text    collate "C",
    created_by   text    not null,
    created_at   bigint  not null,
    version      bigint  not null,
    cursor       text    not null,
    part         integer not null,
    since        bigint  not null,
    failures     integer not null,
    due_at       bigint  not null,
    holder       text    collate "C" not null,
    held_until   bigint  not null,
    delivered_at bigint  not null,
    disabled_at  bigint,
    said         text
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);

create table link (
    id         text    collate "C" primary key,
    task_id    text    collate "C" not null,
    step       text    collate "C" not null,
    ask        integer not null,
    digest     text,
    who        text    not null,
    created_by text    not null,
    created_at bigint  not null,
    expires_at bigint  not null,
    used_at    bigint,
    answer     text
);
create index link_expires on link (expires_at);

create table notice (
    n            bigint primary key generated always as identity,
    workspace_id text   collate "C" not null,
    delivery     text   collate "C" not null,
    name         text   not null,
    sender       text   not null,
    at           bigint not null,
    copied       bigint,
    payload      text   not null
);
create unique index notice_delivery on notice (delivery, workspace_id);
create index notice_open on notice (n) where copied is not null;
create index notice_at on notice (at);

create table signing_key (
    name       text   collate "C" primary key,
    body       text   not null,
    created_at bigint not null
);
