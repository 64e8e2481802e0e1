-- What tasks have to tell each other: the columns of sqlite/0004.sql, where each is explained.

alter table outbox add column seq bigint not null default 0;
alter table outbox add column tokens bigint not null default 0;
alter table outbox add column micros bigint not null default 0;
create index outbox_of_target on outbox (target) where kind = 'spent';
create index task_of_parent_newest on task (parent, n) where parent is not null;  -- an index of SQLite ends with `n` anyway
