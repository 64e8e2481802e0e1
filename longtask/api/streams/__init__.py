"""Streams of events to whoever watches: one of a task, one of all tasks, one of a step's output.

A stream is told twice over: *catching up* reads what is stored, page by page, as fast as its client takes it; *live* is
handed what the one reader of the process has read for everybody.  Only the first must be right: whoever is in doubt
(a number is missing, a task may have ended, the reader fell behind) catches up again.

- sse      the wire: messages, marks, and a response that carries them
- channel  what is watched, and those who watch it; the seam between catching up and live
- hub      the reader of the journal, the clock of heartbeats, beginning and end
- journal  events as messages; tasks, and all tasks
- output   what a step writes
- routes   the addresses
"""
