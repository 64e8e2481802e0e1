-- Output of attempts, in a file of its own: it is written often, and the loss of its last second with the machine's
-- power would hurt nobody.  It names tasks by their id, since it may outlive the other file.
create table chunk (
    task_id text    not null,
    step    text    not null,
    attempt integer not null,
    n       integer not null,
    stream  text    not null,
    at      integer not null,
    body    blob    not null,
    primary key (task_id, step, attempt, n)
) strict;
