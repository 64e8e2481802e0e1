"""One durable step in a database that is made for it: `python -m bench.hello FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.tasks import all_ended, chain
from longtask import boot
from longtask.config import Config


def main() -> None:
    folder = Path(sys.argv[1])
    parts = boot.open_parts(Config(folder, str(folder / "tasks.db")))
    parts.desk.submit(chain(1))
    running = boot.make_loop(parts)
    running.loop.run(lambda: all_ended(parts))
    running.close()


if __name__ == "__main__":
    main()
