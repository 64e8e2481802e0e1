"""`kill -9` of whoever follows: what it had read is written, once, and the next one goes on there."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from longtask.telemetry.file import TraceFile
from longtask.telemetry.follower import Reader
from longtask.telemetry.settings import TraceSettings
from tests.cli.shell import until
from tests.engine.world import World, step
from tests.telemetry.conftest import Seen

FOLLOW = """
import sys
from functools import partial
from pathlib import Path
from longtask.store.sqlite import SqliteStore
from longtask.telemetry.file import TraceFile
from longtask.telemetry.follower import Reader
from longtask.telemetry.settings import TraceSettings
home = Path(sys.argv[1])
reader = Reader(SqliteStore(home / "longtask.db", lambda: int(sys.argv[2])), TraceFile.at(home), TraceSettings())
while reader.round(1):
    pass
"""
KILLS = 3


def test_a_killed_follower_leaves_nothing_out_and_counts_nothing_twice(tmp_path: Path):
    world = World(tmp_path / "longtask.db")
    try:
        for number in range(20):
            world.submit(step("a"), step("b", needs=["a"]), name=f"t{number}")
            world.run()
        database = world.store.identity()
        with TraceFile.at(tmp_path) as file:

            def read() -> int:
                return int(file.place(database)[0] or 0)

            def grown(before: int) -> bool:
                return read() > before + 10

            for _ in range(KILLS):
                before = read()
                words = [sys.executable, "-c", FOLLOW, str(tmp_path), str(world.now)]
                with subprocess.Popen(words) as following:
                    until(partial(grown, before))
                    following.kill()
            assert before > 0
            reader = Reader(world.store, file, TraceSettings())
            while reader.round():
                pass
            whole = Seen(world).follow()
            assert file.counters(database) == whole.file.counters(database)
            for task in range(len(world.tasks)):
                assert file.spans(world.tasks[task], 100) == whole.spans(task)
            whole.file.close()
    finally:
        world.store.close()
