"""The process that is killed while it prunes: `python -m tests.crash.pruning HOME DATABASE POINT HIT`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from longtask import boot
from longtask.config import Config
from tests.crash import points


def main(home: str, database: str, point: str, hit: str) -> None:
    os.environ["LONGTASK_HOME"] = home
    parts = boot.open_parts(Config(Path(home), database))
    points.install(parts, point, int(hit))
    for _ in boot.make_upkeep(parts, 0).round():
        pass
    parts.store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
