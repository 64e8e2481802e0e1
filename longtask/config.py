"""Settings: where things are kept, and for how long.  The environment overrides a default, an option overrides both."""

from __future__ import annotations

import getpass
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from longtask.core.errors import BadPlan

HOME = "LONGTASK_HOME"
DATABASE = "LONGTASK_DATABASE"
ARTIFACTS = "LONGTASK_ARTIFACT_STORE"  # LONGTASK_ARTIFACTS is what a step is given
RETENTION = "LONGTASK_RETENTION"
HUB = "LONGTASK_HUB"
PUBLIC_URL = "LONGTASK_PUBLIC_URL"
ALLOW_PRIVATE = "LONGTASK_ALLOW_PRIVATE"

DAY_MS = 86_400_000
RETENTION_MS = 90 * DAY_MS
RETENTION_MAX_MS = 36_500 * DAY_MS  # a hundred years: beyond it somebody has mistyped a unit
UNITS_MS = {"w": 7 * DAY_MS, "d": DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1_000}


@dataclass(frozen=True, slots=True)
class Config:
    """`home` holds database, hubs, worktrees, artifacts and logs of one user, for all repositories.

    `artifacts`: a folder, or `s3://BUCKET/PREFIX`; "" is a folder in `home`.  One place belongs to one database.
    `retention_ms`: how long tasks are kept after they have ended; None: for ever.
    `hub`: where machines share code, the same on each (`workspace/remote.py`); None: there is one machine.
    `public_url`: how programs elsewhere reach the server, for callbacks and links; None: they cannot.
    `allow_private`: networks, addresses and names that calls and webhooks may reach though they are not public.
    """

    home: Path
    database: str
    artifacts: str = ""
    retention_ms: int | None = RETENTION_MS
    hub: str | None = None
    public_url: str | None = None
    allow_private: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.artifacts:
            object.__setattr__(self, "artifacts", str(self.home / "artifacts"))

    @property
    def database_shown(self) -> str:
        """Without a password: what may be printed."""
        if "://" not in self.database:
            return self.database
        parts = urlsplit(self.database)
        who, at, place = parts.netloc.rpartition("@")
        query = urlencode([pair for pair in parse_qsl(parts.query) if pair[0] not in ("password", "sslpassword")])
        return urlunsplit(parts._replace(netloc=f"{who.partition(':')[0]}{at}{place}", query=query))

    @property
    def artifact_cache(self) -> Path:
        """Local copies of artifacts that are kept in a bucket."""
        return self.home / "artifact-cache"

    @property
    def logs(self) -> Path:
        return self.home / "logs"


def load(database: str | None = None, home: Path | None = None) -> Config:
    """LONGTASK_HOME, else the state folder of the XDG standard; LONGTASK_DATABASE, else a file in it;
    LONGTASK_ARTIFACT_STORE, else a folder in it; LONGTASK_RETENTION, else 90 days; LONGTASK_HUB, else none;
    LONGTASK_PUBLIC_URL, else none; LONGTASK_ALLOW_PRIVATE (divided by commas), else nothing.  Raises BadPlan."""
    if home is None:
        given = os.environ.get(HOME)
        state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        home = Path(given) if given else Path(state) / "longtask"
    home = home.expanduser().absolute()
    chosen = database or os.environ.get(DATABASE) or str(home / "longtask.db")
    artifacts = os.environ.get(ARTIFACTS, "")
    if artifacts and "://" not in artifacts:
        artifacts = str(Path(artifacts).expanduser().absolute())
    kept = os.environ.get(RETENTION)
    keep_ms = RETENTION_MS if not kept else retention_ms(kept, RETENTION)
    inside = tuple(entry for entry in re.split(r"[,\s]+", os.environ.get(ALLOW_PRIVATE, "")) if entry)
    reached = public_url(os.environ.get(PUBLIC_URL), PUBLIC_URL)
    return Config(home, chosen, artifacts, keep_ms, os.environ.get(HUB) or None, reached, inside)


def public_url(text: str | None, setting: str) -> str | None:
    """Without a slash at its end.  Raises BadPlan, naming the setting."""
    if not text:
        return None
    try:
        parts = urlsplit(text.strip())
        fits = (
            parts.scheme in ("http", "https")
            and parts.hostname
            and not (parts.query or parts.fragment or parts.username)
        )
    except ValueError:
        fits = False
    if not fits:
        raise BadPlan(f"{setting}: not an address of a server; write such as https://longtask.example.com")
    return text.strip().rstrip("/")


def retention_ms(text: str, setting: str) -> int | None:
    """`90d`, `12h`, `4w` ...; `off`: None.  Raises BadPlan, naming the setting."""
    if text.strip().lower() == "off":
        return None
    found = re.fullmatch(r"([0-9]{1,9})([a-z])", text.strip())
    if not found or found[2] not in UNITS_MS:
        raise BadPlan(f"{setting} {text!r}: not a time to keep tasks for; write such as 90d, 12h or 4w, or off")
    ms = int(found[1]) * UNITS_MS[found[2]]
    if ms > RETENTION_MAX_MS:
        raise BadPlan(f"{setting} {text!r}: longer than a hundred years; is the unit right? off keeps all tasks")
    return ms


def person() -> str:
    """Who is at work: the name that stands in journals.  LONGTASK_USER, else the user of the system."""
    try:
        return os.environ.get("LONGTASK_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return f"uid-{os.getuid()}"
