"""What is measured: peers, workloads, and which goal a figure is held to.  Pure: reads and runs nothing.

A case is a workload on a database.  In it each peer is measured beside LongTask, round by round, peer and LongTask in
turn, and the median of the ratios of these pairs is what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

SQLITE, POSTGRES, OWN = "sqlite", "postgres", "own"
LONGTASK = "longtask"
TAKEOVER_S_MAX = 130.0  # who has not taken over by then counts as never


@dataclass(frozen=True, slots=True)
class Peer:
    """`databases`: where it can keep its tasks; `own`: with a server of its own, compared with ours on PostgreSQL."""

    name: str
    title: str
    databases: tuple[str, ...]
    python_min: tuple[int, int] = (3, 11)
    npm: bool = False


PEERS = {
    peer.name: peer
    for peer in (
        Peer("dbos", "DBOS", (SQLITE, POSTGRES)),
        Peer("langgraph", "LangGraph", (SQLITE, POSTGRES)),
        Peer("absurd", "Absurd", (POSTGRES,)),
        Peer("oban", "Oban", (POSTGRES,), python_min=(3, 12)),
        Peer("procrastinate", "procrastinate", (POSTGRES,)),
        Peer("restate", "Restate", (OWN,), npm=True),
    )
}


@dataclass(frozen=True, slots=True)
class Workload:
    """`driver`: the name that drivers know it by; `n_of`: smaller sizes for peers that would take minutes;
    `rounds_max`: of long ones (one: LongTask's side is measured once in a case too); `run_s_max`: of one whole run."""

    name: str
    driver: str
    unit: str
    more_is_better: bool
    n: int
    databases: tuple[str, ...] = (SQLITE, POSTGRES)
    processes: int = 1
    rounds_max: int = 99
    wait_s_max: float = 90.0
    run_s_max: float = 120.0
    n_of: Mapping[str, int] = field(default_factory=dict)
    across: bool = False  # one case: LongTask on SQLite against every peer, wherever that keeps its tasks


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("chain", "chain", "steps/s", True, 200, n_of={"procrastinate": 30}),
        Workload("many", "many", "steps/s", True, 500, n_of={"procrastinate": 200}),
        Workload("many_4", "many", "steps/s", True, 500, (POSTGRES,), processes=4, n_of={"procrastinate": 200}),
        Workload("fanout_1000", "fanout", "µs/step", False, 1_000),
        Workload("fanout_5000", "fanout", "µs/step", False, 5_000, rounds_max=2, wait_s_max=150, run_s_max=180),
        Workload("bytes", "bytes", "bytes/step", False, 4_000, rounds_max=1, wait_s_max=150, run_s_max=180),
        Workload("hello", "hello", "s", False, 1, (SQLITE,), across=True),
        Workload("takeover", "takeover", "s", False, 300, rounds_max=1, wait_s_max=TAKEOVER_S_MAX, run_s_max=300),
        Workload("parked", "parked", "wakes/s", True, 10_000, rounds_max=1, wait_s_max=120, run_s_max=600),
    )
}


Change = Callable[[Workload], Workload]
SMALLER, SMALL_WAIT_S_MAX = 20, 30.0


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a pair: who, where, how large."""

    name: str
    database: str
    n: int


@dataclass(frozen=True, slots=True)
class Pair:
    """`ours` is measured right after `theirs`; None: it has been measured before in this case, once is enough."""

    round: int
    workload: Workload
    database: str
    theirs: Side
    ours: Side


def small(workload: Workload) -> Workload:
    """To see that everything runs: figures of so little work mean nothing."""
    sizes = {name: max(n // SMALLER, 1) for name, n in workload.n_of.items()}
    n = workload.n if workload.name == "takeover" else max(workload.n // SMALLER, 1)
    wait_s = min(workload.wait_s_max, SMALL_WAIT_S_MAX)
    return replace(workload, n=n, n_of=sizes, rounds_max=1, wait_s_max=wait_s)


def plan(
    peers: list[str], workloads: list[str], rounds: int, change: Change = lambda workload: workload
) -> Iterator[Pair]:
    """Round by round over everything, so that a run that is cut short has something of each."""
    for number in range(1, rounds + 1):
        for name in workloads:
            workload = change(WORKLOADS[name])
            if number > workload.rounds_max:
                continue
            for database in workload.databases:
                for theirs in sides(workload, database, peers):
                    yield Pair(number, workload, database, theirs, Side(LONGTASK, database, workload.n))


def sides(workload: Workload, database: str, peers: list[str]) -> Iterator[Side]:
    for name in peers:
        where = PEERS[name].databases
        if workload.across:
            wanted = where[:1]
        elif database in where:
            wanted = (database,)
        else:
            wanted = tuple(own for own in where if own == OWN and database == POSTGRES)
        for own in wanted:
            yield Side(name, own, workload.n_of.get(name, workload.n))


# --- goals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Goal:
    """`figure` of LongTask, or `ratio` (LongTask / peer) to the best peer, or to the one that is named."""

    workload: str
    database: str
    what: str
    compare: str
    limit: float
    peer: str | None = None


GOALS = (
    Goal("chain", SQLITE, "ratio", ">=", 3),
    Goal("chain", POSTGRES, "ratio", ">=", 1, "absurd"),
    Goal("many", SQLITE, "ratio", ">=", 5),
    Goal("many", POSTGRES, "ratio", ">=", 1.4),
    Goal("many_4", POSTGRES, "ratio", ">=", 1.5),
    Goal("fanout_5000", SQLITE, "growth", "<=", 1.3),
    Goal("fanout_5000", POSTGRES, "growth", "<=", 1.3),
    Goal("takeover", SQLITE, "value", "<=", 20),
    Goal("takeover", SQLITE, "repeated", "<=", 0),
    Goal("takeover", POSTGRES, "value", "<=", 20),
    Goal("takeover", POSTGRES, "repeated", "<=", 0),
    Goal("parked", SQLITE, "idle_percent", "<=", 0.5),
    Goal("parked", SQLITE, "value", ">=", 2_000),
    Goal("parked", POSTGRES, "idle_percent", "<=", 0.5),
    Goal("parked", POSTGRES, "value", ">=", 2_000),
    Goal("bytes", SQLITE, "value", "<=", 400),
    Goal("bytes", POSTGRES, "value", "<=", 1_200),
    Goal("hello", SQLITE, "ratio", "<=", 0.6),
)
