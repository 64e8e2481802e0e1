"""`python -m bench.peers [--peer X] [--workload Y] [--rounds N] [--minutes M]`: a JSON line for each pair on stdout.

The lines are kept in `.bench/peers.jsonl`, so that workloads can be measured at different hours; `--write-doc` brings
docs/performance.md and its picture up to date from all that is there, `--report` does only that, `--fresh` forgets it.
The exit code is 0 though a goal is missed or a peer fails: the lines tell.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import apsw

from bench.peers.picture import picture
from bench.peers.plan import PEERS, WORKLOADS, plan, small
from bench.peers.report import document, rows, verdicts, written
from bench.peers.running import opened, pairs
from bench.peers.venvs import FOLDER, ROOT

LINES, VERSIONS = FOLDER / "peers.jsonl", FOLDER / "versions.json"
DOCUMENT, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance-peers.svg"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="measures LongTask beside its peers")
    parser.add_argument("--peer", action="append", choices=list(PEERS), help="several times for several; else all")
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3, help="long workloads have fewer of their own (default: 3)")
    parser.add_argument("--minutes", type=float, default=90, help="nothing is begun after these (default: 90)")
    parser.add_argument("--small", action="store_true", help="very little of each, kept nowhere: does everything run?")
    parser.add_argument("--fresh", action="store_true", help="forgets what was measured before")
    parser.add_argument("--write-doc", action="store_true", help="brings the document and its picture up to date")
    parser.add_argument("--report", action="store_true", help="measures nothing: --write-doc of what is there")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    FOLDER.mkdir(exist_ok=True)
    if asked.fresh:
        LINES.unlink(missing_ok=True)
    if not asked.report:
        measure(asked)
    lines = [json.loads(line) for line in LINES.read_text().splitlines()] if LINES.exists() else []
    for verdict in verdicts(lines):
        print(json.dumps(verdict.line()))
    if asked.write_doc or asked.report:
        found = json.loads(VERSIONS.read_text()) if VERSIONS.exists() else {}
        DOCUMENT.write_text(written(DOCUMENT.read_text(), document(lines, found)))
        PICTURE.write_text(picture(rows(lines)))


def measure(asked: argparse.Namespace) -> None:
    peers, workloads = asked.peer or list(PEERS), asked.workload or list(WORKLOADS)
    planned = list(plan(peers, workloads, asked.rounds, *([small] if asked.small else [])))
    on_server = any(side.database == "postgres" for pair in planned for side in (pair.theirs, pair.ours))
    with opened(peers, asked.minutes, with_postgres=on_server) as bench, LINES.open("a") as file:
        keep_versions(bench.versions)
        for line in pairs(bench, iter(planned)):
            text = json.dumps(line)
            print(text, flush=True)
            if not asked.small:
                print(text, file=file, flush=True)
            say(line)


def keep_versions(found: Mapping[str, Mapping[str, str]]) -> None:
    """Beside those of peers that were measured earlier."""
    known = json.loads(VERSIONS.read_text()) if VERSIONS.exists() else {}
    python = ".".join(map(str, sys.version_info[:3]))
    ours = {"LongTask": version("longtask"), "Python": python, "SQLite": apsw.sqlite_lib_version()}
    machine = {"cores": str(os.cpu_count()), platform.system(): platform.release()}
    VERSIONS.write_text(json.dumps({"machine": machine} | known | dict(found) | {"LongTask": ours}, indent=1))


def say(line: Mapping[str, Any]) -> None:
    shown = [f"{line['workload']} {line['database']} round {line['round']}:"]
    for name, side in ((line["peer"], line["theirs"]), ("longtask", line["ours"])):
        value = side.get("value")
        shown.append(
            f"{name} {side.get('error') or side.get('skipped') or (value if value is None else f'{value:,.4g}')}"
        )
    print(" ".join(shown), f"(other {line['theirs'].get('other')})", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
