"""The browser of the page's tests, pictures and figures: Chromium, as the system has it."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Its program; None: there is none on the PATH."""
    return next(filter(None, map(shutil.which, NAMES)), None)
