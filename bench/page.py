"""The page, in a browser on this machine, on a task of a thousand steps: its first picture, how late an event is seen,
and its frames while a hundred events a second are written, every tenth of which ends a step.

Server, browser and writer are processes of their own.  All instants are of one clock.
"""

from __future__ import annotations

import statistics
import time
from functools import cache
from typing import Any, NamedTuple

from playwright.sync_api import Page, sync_playwright

from bench import beds
from bench.result import Result, judged
from bench.streams import EVENTS_PER_S, paced, say, server
from bench.tasks import approvals, parts_at
from longtask import boot
from longtask.store.contract import Ref
from tools.chromium import chromium

STEPS = 1_000
LOOKS = 30
BUSY_S = 60
CALM_S = 0.5  # between two looks: twice what the page waits to see several changes at once
STEP_EVERY = 10
FIRST_MS_MAX, SEEN_MS_MAX, FRAME_MS_MAX = 1_000, 300, 100
ROW = '[role="treeitem"]'
# When a row was there first, and every change of what the page shows of the task's status.
WATCH = f"""
window.first = 0; window.changes = [];
new MutationObserver(() => {{
  if (!window.first && document.querySelector('{ROW}')) window.first = performance.now();
  const told = /\\bpaused\\b/.test(document.querySelector('main')?.innerText.slice(0, 300) ?? '') ? 'paused' : 'on';
  if (window.changes.at(-1)?.[0] !== told) window.changes.push([told, Date.now()]);
}}).observe(document, {{subtree: true, childList: true, characterData: true}});
"""
FRAMES = """
() => {
  window.longest = 0;
  window.frames = 0;
  let last = performance.now();
  const look = (now) => {
    window.longest = Math.max(window.longest, now - last);
    window.frames += 1;
    last = now;
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}
"""


class Measured(NamedTuple):
    first_ms: float
    seen_ms: float
    frame_ms: float


def first() -> Result:
    return judged("page_first", measured().first_ms, "ms", FIRST_MS_MAX, f"value <= {FIRST_MS_MAX}")


def seen() -> Result:
    return judged("page_event", measured().seen_ms, "ms", SEEN_MS_MAX, f"value <= {SEEN_MS_MAX}")


def frames() -> Result:
    return judged("page_frame", measured().frame_ms, "ms", FRAME_MS_MAX, f"value <= {FRAME_MS_MAX}")


@cache
def measured() -> Measured:
    with beds.folder() as at, sync_playwright() as playwright:
        parts = parts_at(at)
        task = parts.desk.submit(approvals(STEPS))
        try:
            with server(at) as (_, port):
                browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
                address = f"http://127.0.0.1:{port}/tasks/{task.id}"
                firsts = []
                for _ in range(3):  # each in a window of its own: nothing is cached
                    with browser.new_context() as context:
                        firsts.append(_first(context.new_page(), address))
                with browser.new_context() as context:
                    page = context.new_page()
                    _first(page, address)
                    lags = sorted(_lag(page, parts, task.id, pause) for pause in [True, False] * (LOOKS // 2))
                    worst, count, took_s = _busy(page, parts, task.id)
                browser.close()
        finally:
            parts.store.close()
    say(
        f"page: first picture {[round(ms) for ms in firsts]} ms; an event is seen after {lags[len(lags) // 2]:.0f} ms, "
        f"{lags[-1]:.0f} at the latest; {count} frames in {took_s:.0f} s, the longest {worst:.0f} ms"
    )
    return Measured(statistics.median(firsts), statistics.median(lags), worst)


def _first(page: Page, address: str) -> float:
    page.add_init_script(WATCH)
    page.goto(address)
    page.wait_for_function("() => window.first > 0")
    return float(page.evaluate("() => window.first"))


def _lag(page: Page, parts: boot.Parts, task_id: str, pause: bool) -> float:
    """From the commit to the picture, in ms."""
    told = "paused" if pause else "on"
    (parts.desk.pause if pause else parts.desk.resume)(task_id, "bench")
    at = time.time() * 1_000
    page.wait_for_function("told => window.changes.at(-1)?.[0] === told", arg=told)
    changed: list[Any] = page.evaluate("() => window.changes.at(-1)")
    time.sleep(CALM_S)
    return max(float(changed[1]) - at, 0.0)


def _busy(page: Page, parts: boot.Parts, task_id: str) -> tuple[float, int, float]:
    """The longest frame in ms, how many there were, and the seconds that it took."""
    page.evaluate(FRAMES)
    begun = time.perf_counter()
    for n in paced(EVENTS_PER_S * BUSY_S):
        if n % STEP_EVERY == 0:
            parts.desk.cancel_step(Ref(task_id, f"step_{n // STEP_EVERY:05}"), "bench")
        else:
            (parts.desk.pause if n % 2 else parts.desk.resume)(task_id, "bench")
    took_s = time.perf_counter() - begun
    longest, count = page.evaluate("() => [window.longest, window.frames]")
    return float(longest), int(count), took_s
