-- What tasks have to tell each other: usage is told to every task above, by the number of its event.

alter table outbox add column seq integer not null default 0;     -- of the event that it was written with
alter table outbox add column tokens integer not null default 0;  -- of usage: what the task above does not count yet
alter table outbox add column micros integer not null default 0;
create index outbox_of_target on outbox (target) where kind = 'spent';
