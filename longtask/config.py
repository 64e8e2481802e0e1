"""Settings: where things are kept.  The environment overrides a default, an option overrides both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HOME = "LONGTASK_HOME"
DATABASE = "LONGTASK_DATABASE"


@dataclass(frozen=True, slots=True)
class Config:
    """`home` holds database, hubs, worktrees, artifacts and logs of one user, for all repositories."""

    home: Path
    database: str

    @property
    def artifacts(self) -> Path:
        return self.home / "artifacts"

    @property
    def logs(self) -> Path:
        return self.home / "logs"


def load(database: str | None = None, home: Path | None = None) -> Config:
    """LONGTASK_HOME, else the state folder of the XDG standard; LONGTASK_DATABASE, else a file in it."""
    if home is None:
        given = os.environ.get(HOME)
        state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        home = Path(given) if given else Path(state) / "longtask"
    home = home.expanduser().absolute()
    chosen = database or os.environ.get(DATABASE) or str(home / "longtask.db")
    return Config(home, chosen)
