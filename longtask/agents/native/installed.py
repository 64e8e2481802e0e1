"""The programs of agents as one worker knows them.

A claim asks for their version, under a lock: so it is read off the files beside the program, where npm and the
program's own installer write it.  Where they do not, the program is asked, aside; until it has told, none is known.
"""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

from longtask.agents.programs import kind_of, version_of, where

VERSION = re.compile(r"\d+\.\d+\.\d+[0-9A-Za-z.+-]*")
PARENTS = 5  # of the program, up to the package that it came in

_Identity = tuple[Path, int, int, int]


class Installed:
    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[_Identity, str] = {}

    def path(self, name: str) -> Path | None:
        """None: it is not on this machine.  Raises NotFound for a name that is no agent's."""
        found = where(name, self._home)
        return None if found is None else found[0]

    def version(self, name: str) -> str:
        """ "" when it is not known, or not yet."""
        found = where(name, self._home)
        if found is None:
            return ""
        program, fetched = found
        if fetched:
            return kind_of(name).version
        now = program.stat()
        identity = (program, now.st_mtime_ns, now.st_size, now.st_ino)
        if identity not in self._known:
            self._known[identity] = _beside(program)
            if not self._known[identity]:
                threading.Thread(target=self._ask, args=(identity,), name="version", daemon=True).start()
        return self._known[identity]

    def _ask(self, identity: _Identity) -> None:
        self._known[identity] = version_of(identity[0])


def _beside(program: Path) -> str:
    if VERSION.fullmatch(program.name):  # `claude/versions/2.1.332`
        return program.name
    for folder in list(program.parents)[:PARENTS]:
        if folder.name == "node_modules":
            break
        try:
            told = json.loads((folder / "package.json").read_bytes())["version"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(told, str) and (version := VERSION.match(told)):
            return version[0]
    return ""
