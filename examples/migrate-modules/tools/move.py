"""Moves one module from oldlog to logging.  Run twice, it moves it twice, and the module says so.

    python3 tools/move.py MODULE

With $MODULES_LEDGER, a folder, it writes down there when it begins and when it is through.
"""

import re
import sys
from pathlib import Path

from ledger import once, tell

IMPORT = re.compile(r"^import oldlog$", re.MULTILINE)
CALL = re.compile(r"^( +)oldlog\.write\(", re.MULTILINE)
MOVED = re.compile(r"^# moved: (\d+)\n", re.MULTILINE)

module = sys.argv[1]
path = Path("modules", f"{module}.py")
text = path.read_text()
tell("begun", module)
if "# flaky" in text and once(f"flaky.{module}"):
    sys.exit(f"{path}: the disk hiccuped")
moved = CALL.sub(r"\1logging.getLogger(__name__).info(", IMPORT.sub("import logging", text))
unknown = [line for line in moved.splitlines() if "oldlog" in line]
if unknown:
    sys.exit(f"{path}: no form that is known: {unknown[0].strip()}")
before = MOVED.search(moved)
path.write_text(f"# moved: {int(before[1]) + 1 if before else 1}\n" + MOVED.sub("", moved))
tell("moved", module)
