"""Agents that are the user's own code: found by import path in the attempt's worktree, or among what is installed.

The worktree comes first, as for a program that is started in it.  So the code that a run begins with is that of its
base; a run that goes on imports it anew, and repeats it between its seams.  `code_of` tells what was imported, so that
a run that goes another way can say what has changed.

Only the child of an attempt imports it, never the worker.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtask.agents.firm import Firm
from longtask.agents.journal import Answer
from longtask.core.errors import BadPlan
from longtask.core.graph import did_you_mean
from longtask.core.model import JsonMap

CODE = "code"
FILES_SHOWN = 10


def find(path: Any, option: str, root: Path) -> Any:
    """What `package.module:name` names.  Raises BadPlan."""
    module, _, name = path.partition(":") if isinstance(path, str) else ("", "", "")
    if not module or not name:
        raise BadPlan(f"option '{option}' is to be an import path 'package.module:name', found {path!r}")
    if (here := os.fspath(root)) not in sys.path:
        sys.path.insert(0, here)
        sys.dont_write_bytecode = True  # nothing of it belongs into a commit
        importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise BadPlan(f"option '{option}': '{module}' needs a module that is not here: {error}") from error
        where = "neither in the worktree nor installed beside LongTask (`env: {PYTHONPATH: src}` names other folders)"
        raise BadPlan(f"option '{option}': there is no module '{error.name}': {where}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            hint = did_you_mean(part, (known for known in dir(found) if not known.startswith("_")))
            raise BadPlan(f"option '{option}': '{module}' has no '{name}'{hint}")
        found = getattr(found, part)
    return found


async def made(found: Any) -> Any:
    """Itself, or what it returns if it is a function."""
    if inspect.isroutine(found):
        found = found()
    return await found if inspect.isawaitable(found) else found


def code_of(root: Path) -> Mapping[str, str]:
    """Digests of the files below `root` that have been imported."""
    files = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        path = Path(os.path.realpath(file)) if isinstance(file, str) else None
        if path is not None and path.is_relative_to(root) and path.is_file():
            files[path.relative_to(root).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return dict(sorted(files.items()))


def began_with(seams: Firm, path: str, library: str, root: Path) -> JsonMap:
    """{code, library} of the run's first attempt, written down by it."""
    body = {"text": path, "failed": False, "library": library, CODE: code_of(root)}
    return seams.tool("import", {"path": path}, lambda: Answer(body), repeatable=True, writes=False)


def why_diverged(began: JsonMap | None, library: str, root: Path) -> str:
    """Words for a run that has not come by its own calls again."""
    if began is None:
        return "the run does not name the agent that it began with"
    now = code_of(root)
    changed = [name for name, digest in began[CODE].items() if now.get(name) != digest]
    if changed:
        more = f" and {len(changed) - FILES_SHOWN} more" if len(changed) > FILES_SHOWN else ""
        return f"its code is not the one that the run began with: {', '.join(changed[:FILES_SHOWN])}{more} changed"
    if began["library"] != library:
        return f"the run began with {began['library']}, this worker has {library}"
    return "the same code went another way: between two calls of models and tools it must do the same each time"
