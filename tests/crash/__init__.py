"""Real processes, real git, kill -9 at named points; then the oracle, and evidence from outside the database.

    points   where a process can be killed: names, and how a process installs one in itself
    driver   the process that is killed: a worker with its scheduler, or a person's answer
    scene    a repository, a plan and a recording; starts drivers, and looks at what they leave

`make test` kills at some points of each kind, `make crash` at every point, several times over.
"""
