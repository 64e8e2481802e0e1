"""Builds the page into the packages.

A checkout builds it anew; an unpacked sdist carries it built, and needs no Node.  Without npm, or with
LONGTASK_SKIP_PAGE set, the package is built with the page that is there, or without one: the server says so then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        ui, unpacked = root / "ui", (root / "PKG-INFO").exists()
        if version == "editable" or unpacked or not ui.is_dir() or os.environ.get("LONGTASK_SKIP_PAGE"):
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning("npm is not here: the page is not built; all else works without it")
            return
        subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=ui, check=True)
        subprocess.run([npm, "run", "build"], cwd=ui, check=True)
