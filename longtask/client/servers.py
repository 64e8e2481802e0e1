"""Which server is meant, and the token for it.

The token is the one that is given, else LONGTASK_TOKEN, else what `longtask login` has kept for this server, in a file
that only its owner can read.  It is sent to that server and shown nowhere.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from longtask.core.errors import BadPlan, Refused

SERVER = "LONGTASK_SERVER"
TOKEN = "LONGTASK_TOKEN"
USUAL = "http://127.0.0.1:8700"  # where `longtask up` listens
HERE = frozenset({"localhost", "127.0.0.1", "::1"})
PORTS = {"http": 80, "https": 443}
MODE = 0o600
_VISIBLE = re.compile(r"[!-~]{1,1000}")


def server_url(given: str | None = None) -> str:
    """LONGTASK_SERVER, else this machine's, where none is given; always written in one way.  Raises BadPlan."""
    text = (given or os.environ.get(SERVER) or USUAL).strip()
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise _no_address(text) from None
    if parts.scheme not in PORTS or not host or parts.query or parts.fragment:
        raise _no_address(text)
    if parts.username is not None:
        raise BadPlan("the server's address holds a name or a password: write it without; a token is given by login")
    shown = f"[{host}]" if ":" in host else host
    where = shown if port in (None, PORTS[parts.scheme]) else f"{shown}:{port}"
    return f"{parts.scheme}://{where}{parts.path.rstrip('/')}"


def _no_address(text: str) -> BadPlan:
    return BadPlan(f"server {text[:200]!r}: no address; write such as https://longtask.example.com")


def is_here(url: str) -> bool:
    """On this machine."""
    return (urlsplit(url).hostname or "") in HERE


def token_for(url: str, given: str | None = None) -> str | None:
    """None: it is asked without one.  Raises BadPlan, Refused."""
    found = given or os.environ.get(TOKEN) or Logins().token(url)
    return None if found is None else checked(found)


def checked(token: str) -> str:
    """Raises BadPlan, which does not show it."""
    if not _VISIBLE.fullmatch(token.strip()):
        raise BadPlan("the token is none: it holds blanks, or characters that are not ASCII; it looks like lt_…")
    return token.strip()


class Logins:
    """The servers that this user has logged in to.

    {"servers": {"https://longtask.example.com": {"token": …, "name": "ann", "kept_at": 1767225600000}}}
    """

    def __init__(self, file: Path | None = None) -> None:
        """LONGTASK_HOME says where tasks are kept; logins are of the user, and stand in the configuration."""
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "longtask"
        self.file = file or folder / "servers.json"

    def token(self, url: str) -> str | None:
        """Raises Refused when others can read the file."""
        found = self._read().get(url)
        token = found.get("token") if isinstance(found, dict) else None
        return token if isinstance(token, str) else None

    def servers(self) -> dict[str, str]:
        """The addresses, and as whom."""
        return {url: str(kept.get("name", "")) for url, kept in self._read().items() if isinstance(kept, dict)}

    def keep(self, url: str, token: str, name: str) -> None:
        with self._changing() as servers:
            servers[url] = {"token": token, "name": name, "kept_at": int(time.time() * 1000)}

    def forget(self, url: str) -> bool:
        """False: it was not there."""
        if url not in self._read():
            return False
        with self._changing() as servers:
            return servers.pop(url, None) is not None

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.file, encoding="utf-8") as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                if mode & 0o077:
                    told = f"{self.file} holds tokens, and others can read it (mode {mode:o})"
                    raise Refused(f"{told}; close it: chmod 600 {self.file}")
                servers = json.load(file)["servers"]
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Refused(f"{self.file} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise Refused(f"{self.file} is damaged; remove it, and log in again") from None
        if not isinstance(servers, dict):
            raise Refused(f"{self.file} is damaged; remove it, and log in again")
        return servers

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """What is changed within is written when that ends, whole or not at all."""
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self.file.with_suffix(".lock"), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                servers = self._read()
                yield servers
                self._write({"servers": servers})
        except OSError as error:
            raise Refused(f"{self.file} cannot be written: {error.strerror}") from None

    def _write(self, value: dict[str, Any]) -> None:
        number, name = tempfile.mkstemp(prefix=".servers-", dir=self.file.parent)  # with mode 0600
        try:
            with open(number, "w", encoding="utf-8") as file:
                json.dump(value, file, indent=2)
                file.flush()
                os.fsync(number)
            os.chmod(name, MODE)
            os.replace(name, self.file)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise
