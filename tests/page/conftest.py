"""Debian's Chromium, and the page as `make page` has built it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from longtask.api.page import FOLDER
from tests.page.served import Served, serving, shell_in
from tools.chromium import chromium


@pytest.fixture(scope="module")  # no longer: while it is there, the thread has an event loop that runs
def browser() -> Iterator[Browser]:
    found = chromium()
    if found is None:
        pytest.skip("no Chromium on the PATH: install your system's package `chromium`")
    if not (FOLDER / "index.html").exists():
        pytest.skip("the page is not built: make page (it takes npm)")
    with sync_playwright() as playwright:
        # Tests may run as root, whom Chromium gives no sandbox; it loads nothing but our own page.
        made = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(shell_in(tmp_path)) as made:
        yield made
