"""Opens the page in the browser of whoever sits at the terminal."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path

import longtask

INDEX = Path(longtask.__file__).parent / "api/static/index.html"


def page_is_built() -> bool:
    return INDEX.exists()


def open_page(url: str) -> bool:
    """Whether a browser with a window was asked to; one that would take the terminal is not."""
    if not page_is_built() or not (sys.platform == "darwin" or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}):
        return False
    with suppress(webbrowser.Error, OSError):
        return webbrowser.open(url)
    return False
