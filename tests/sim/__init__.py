"""The simulator: one thread, one seed, virtual time, the real engine, real SQL.

    repo      git as sets: commits, merges, conflicts, ancestry
    plans     random plans, and the odds of a world
    actors    executors that do what their script says, and what they saw
    faults    a store that answers peeks from the past; named points at which a process dies
    people    what callers ask at random, and what they must be answered
    turns     mutexes across tasks, by their journals
    checks    the oracle over the store, and what only an onlooker can know
    hosting   processes on one store; what each does is an act, and acts go wrong
    world     time and rounds: safety with faults on, then liveness with faults off
    mutants   the code broken on purpose (`broken`); each must be found

`python -m tests.sim --seeds 300` plays fresh worlds, `--seed 4711` one of them again.
"""
