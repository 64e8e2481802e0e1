"""`longtask` with another server's unfinished requests given up after a second, and not after a minute."""

from longtask.cli.main import main
from longtask.store import access

if __name__ == "__main__":
    vars(access)["REQUEST_LOST_MS"] = 1_000
    main()
