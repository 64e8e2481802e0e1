"""`longtask`: finds the command and runs it.

Exit codes: 0 completed, 1 failed, 2 bad plan or usage, 3 waits for somebody, 4 cancelled, 130 detached.
`--database` and `--json` may stand before or after the command.  The version is told before anything is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-V"]):
        from longtask import __version__

        print(f"longtask {__version__}")
        return
    from longtask.cli.app import call

    sys.exit(call(words))


if __name__ == "__main__":
    main()
