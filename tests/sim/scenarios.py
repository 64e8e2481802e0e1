"""What the simulator's model leaves out, with the real parts.  A scenario answers what is wrong, None if nothing is."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from longtask.core.model import Kind, StepSpec
from longtask.steps.contract import Assignment
from longtask.steps.places import Places
from longtask.workspace import Workspace

TASK = "01890a5d-ac96-774b-bcce-b302099a8057"
GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")


class Silent:
    """A desk that agrees with everything."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: True


def an_edit_survives_its_worker() -> str | None:
    """An attempt that continues a run works on the files as its predecessor's last checkpoint left them."""
    with tempfile.TemporaryDirectory(prefix="longtask-sim-") as folder:
        home, repository = Path(folder) / "home", Path(folder) / "repository"
        repository.mkdir()
        (repository / "a.txt").write_text("before\n")
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "first")):
            subprocess.run([*GIT, *words], cwd=repository, env=env, check=True)
        workspace = Workspace.open(home, repository)
        base = workspace.base().commit
        spec = StepSpec(Kind.AGENT, commits=True)
        desk: Any = Silent()
        first = Assignment(TASK, "task", "edit", 1, 1, spec, base, workspace.id, None)
        dying = Places(home)
        place = dying.prepare(first, desk)
        (place / "a.txt").write_text("after\n")
        calls: list[dict[str, Any]] = [
            {"n": n, "kind": "tool", "name": "write", "fingerprint": "", "body": {}, "done": True} for n in (1, 2)
        ]
        second = replace(first, attempt=2, journal=tuple(calls), checkpoint=(2, dying.save_tree(place)))
        found = (Places(home).prepare(second, desk) / "a.txt").read_text()
        return None if found == "after\n" else f"[checkpoint] the next attempt of the run finds {found!r}"
