"""`python -m bench [WORKLOAD ...]`: one JSON line for each workload on stdout, progress on stderr.

The exit code is 0 though a goal is missed: the lines tell.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from bench.postgres import NoServer
from bench.result import Result, written
from bench.workloads import WORKLOADS, say

DOCUMENT = Path(__file__).parent.parent / "docs" / "performance.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="measures LongTask against what it could be")
    parser.add_argument("workload", nargs="*", choices=[[], *WORKLOADS], help=f"of: {', '.join(WORKLOADS)}")
    parser.add_argument("--json-file", type=Path, help="writes the lines into this file too")
    parser.add_argument("--write-doc", action="store_true", help="brings the table of docs/performance.md up to date")
    asked = parser.parse_args()
    results: list[Result] = []
    for name in asked.workload or WORKLOADS:
        begun = time.monotonic()
        load = os.getloadavg()[0]
        try:
            results.append(WORKLOADS[name]())
        except NoServer as reason:
            say(f"{name}: skipped: {reason}")
            continue
        say(f"{name}: {time.monotonic() - begun:.0f} s, load {load:.1f} before and {os.getloadavg()[0]:.1f} after")
        print(results[-1].line(), flush=True)
    if asked.json_file:
        asked.json_file.write_text("".join(result.line() + "\n" for result in results))
    if asked.write_doc:
        DOCUMENT.write_text(written(DOCUMENT.read_text(), results, list(WORKLOADS)))


if __name__ == "__main__":
    main()
