"""A fleet on PostgreSQL while everything goes wrong, and then the proof that nothing was lost or done twice.

    shapes    the tasks: plans of many shapes, each with the end that it must come to
    link      a proxy before the database, one port for each worker: cut, go silent, drop what it carries
    fleet     the server, the machines (each with a small disk and a clock of its own), and their workers
    people    submits, answers, sends signals, pauses, cancels, retries
    trouble   what goes wrong, and when: chosen by a seed
    verdict   what must hold afterwards: told from the database, git, /proc, and a file outside all of them

`make chaos MINUTES=2 SEED=7`, or `python -m tests.chaos --minutes 2 --seed 7`.  Beside it, by hand, with figures in
docs/reliability.md:

    takeover    how soon a dead worker's step runs elsewhere, with default settings
    two_hosts   a network that is cut and healed between a worker and the database
    parked      ten thousand approvals, and a restart of everything
"""
