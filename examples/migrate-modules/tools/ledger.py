"""What was done, written down outside of the repository and of LongTask's database: in the folder $MODULES_LEDGER."""

import os
from pathlib import Path

FOLDER = os.environ.get("MODULES_LEDGER")


def tell(what, module):
    """A line WHAT MODULE; lines of processes side by side are whole."""
    if FOLDER:
        with open(Path(FOLDER, "ledger"), "a") as ledger:
            ledger.write(f"{what} {module}\n")


def once(name):
    """True the first time, whichever process asks."""
    if not FOLDER:
        return False
    try:
        Path(FOLDER, name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
