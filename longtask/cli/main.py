"""`longtask`: finds the command and runs it.

Exit codes: 0 completed, 1 failed, 2 bad plan or usage, 3 waits for somebody, 4 cancelled, 130 detached.
The version is told before anything is imported.
"""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    if words in (["--version"], ["-V"]):
        from longtask import __version__

        sys.stdout.write(f"longtask {__version__}\n")
        return
    from longtask.cli.app import call

    sys.exit(call(words))


if __name__ == "__main__":
    main()
