"""What makes a PostgreSQL server slow, full or forgetful though every row is in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from longtask.store.contract import Alarm
from longtask.store.rows import Row

OPEN_MAX_S = 60  # a transaction that is open for longer is in everybody's way
IN_USE_MAX = 0.85  # of the server's connections
NEEDED = {  # settings that are on, and what happens if not
    "fsync": "a crash of the server loses steps",
    "full_page_writes": "a crash of the server loses steps",
    "synchronous_commit": "a crash of the server loses steps",
    "autovacuum": "dead rows are never cleared away",
}

Select = Callable[[str, Mapping[str, Any]], list[Row]]


def look(select: Select, schema: str, open_max_s: int) -> list[Alarm]:
    found = [
        Alarm(
            f"{who} has kept a transaction open for {seconds:,} s",
            "no row that was replaced since then can be cleared away: claims slow down by the minute",
            f"end it: {mend};",
        )
        for who, seconds, mend in select("oldest_snapshots", {"seconds": open_max_s})
    ]
    settings: dict[str, str] = {row[0]: row[1] for row in select("settings", {})}
    for name, why in NEEDED.items():
        if settings.get(name) == "off":
            found.append(Alarm(f"the server runs with {name} off", why, f"alter system set {name} = on;"))
    used, most = select("connections", {})[0][0], int(settings["max_connections"])
    if used > IN_USE_MAX * most:
        what = f"{used} of the server's {most} connections are in use"
        found.append(Alarm(what, "workers and callers will be refused", "raise max_connections, or end some"))
    for table, live, dead in select("dead_rows", {}):
        what = f"table {table!r} has {dead:,} dead rows to {live:,} living ones"
        found.append(Alarm(what, "every search wades through them", f"vacuum {schema}.{table};"))
    return found
