"""Which secret belongs to which forge, and to which workspace: by the name of a variable of the server's environment.

    LONGTASK_HOOK_SECRETS="github=GITHUB_HOOK, github:WORKSPACE=OTHER_HOOK, gitlab=GITLAB_TOKEN, gitlab-signing=KEY"

A workspace that has a secret of its own is told things by that alone.  A variable may hold several secrets, divided by
blanks: the new one and the old one, while a forge is being moved to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from longtask.core.errors import BadPlan

SETTING = "LONGTASK_HOOK_SECRETS"
FORGES = ("github", "gitlab", "gitlab-signing")
_ENTRY = re.compile(r"(?P<forge>[a-z-]+)(:(?P<workspace>[^=\s,]+))?=(?P<name>[A-Za-z_][A-Za-z0-9_]*)")


class HookSecrets:
    def __init__(self, names: Mapping[tuple[str, str], str]) -> None:
        """(forge, workspace id or "") -> name of a variable."""
        self._names = dict(names)

    @classmethod
    def read(cls, text: str | None) -> HookSecrets:
        """Raises BadPlan.  What is wrong is not repeated: somebody may have written the secret itself."""
        names: dict[tuple[str, str], str] = {}
        for n, entry in enumerate(filter(None, re.split(r"[,\s]+", text or "")), 1):
            found = _ENTRY.fullmatch(entry)
            if found is None or found["forge"] not in FORGES:
                raise BadPlan(
                    f"{SETTING}: entry {n} is none of FORGE=VARIABLE and FORGE:WORKSPACE=VARIABLE, where FORGE is "
                    f"{', '.join(FORGES)} and VARIABLE the name of a variable that holds the secret"
                )
            names[found["forge"], found["workspace"] or ""] = found["name"]
        return cls(names)

    def of(self, forge: str, workspace_id: str) -> list[str]:
        """Looked up at each use, so that a server whose environment was set late is mended by nothing but that."""
        name = self._names.get((forge, workspace_id)) or self._names.get((forge, ""))
        return os.environ.get(name, "").split() if name else []
