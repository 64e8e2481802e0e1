"""A page as a person has it, and what it must never do: complain, break its own rules, or ask anybody else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.cli.shell import DEADLINE_S

ROOT = Path(__file__).parents[2]
AXE = ROOT / "ui/node_modules/axe-core/axe.min.js"
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")
COLOURS = ("color-contrast", "link-in-text-block")  # of them, those that look at colours
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
expect.set_options(timeout=DEADLINE_S * 1_000)


@contextmanager
def window(browser: Browser, url: str, **options: Any) -> Iterator[BrowserContext]:
    """Several pages of it are tabs of one browser.  At its end: nothing was asked of anybody but the server, and
    nobody complained."""
    context = browser.new_context(**{"viewport": DESKTOP, "base_url": url, **options})
    asked: list[str] = []
    said: list[str] = []

    def hear(page: Page) -> None:
        page.set_default_timeout(DEADLINE_S * 1_000)
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))

    context.on("page", hear)
    context.on("request", lambda request: asked.append(request.url))
    try:
        yield context
    finally:
        context.close()
    foreign = [address for address in asked if not address.startswith((url, "data:", "blob:"))]
    assert not foreign
    assert not [text for text in said if not text.startswith("Failed to load resource") and "net::ERR_" not in text]


def look_at(page: Page, address: str) -> None:
    """Goes there, and waits until what stands there is shown."""
    page.goto(address)
    page.wait_for_function("() => document.querySelector('h1') && !document.body.innerText.includes('Loading …')")


def complaints(page: Page, about: Sequence[str] = RULES) -> list[str]:
    """What axe finds, one line each."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("(about) => axe.run(document, {runOnly: about})", list(about))
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {node['html'][:200]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


def overflow(page: Page) -> int:
    """By how many pixels it is wider than its window."""
    return int(page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth"))
