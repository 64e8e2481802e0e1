"""`python -m tests.page.screenshots`: pictures of every view of the demo job, for docs/page.md."""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.page.browsing import PHONE, ROOT, look_at, window
from tests.page.job import demo_job
from tests.page.served import Served
from tools.chromium import chromium

FOLDER = ROOT / "docs/page"
END_S = 900
SIZE = {"width": 1280, "height": 760}
AFTERWARDS = {
    "tasks": "/tasks",
    "task": "/tasks/{task}",
    "graph": "/tasks/{task}/graph",
    "timeline": "/tasks/{task}/timeline",
    "cost": "/tasks/{task}/cost",
    "artifacts": "/tasks/{task}/artifacts/report.md",
    "events": "/tasks/{task}/events",
    "trace": "/tasks/{task}/trace",
    "step": "/tasks/{task}/steps/tests",
    "agent-run": "/tasks/{task}/steps/core",
    "fleet": "/fleet",
}


PICTURES = "() => [...document.images].every((one) => one.complete && one.naturalWidth)"


def shoot(page: Page, address: str, name: str) -> None:
    look_at(page, address)
    page.wait_for_function(PICTURES)
    page.screenshot(path=FOLDER / f"{name}.png")
    print(name)


def take(browser: Browser, served: Served, task: str) -> None:
    approval = f"/tasks/{task}/steps/review/approval"
    with window(browser, served.url, viewport=SIZE, color_scheme="light") as context:
        page = context.new_page()
        served.reaches(task, "running")
        shoot(page, f"/tasks/{task}", "running")
        served.reaches(task, "waiting_user", END_S)
        shoot(page, "/inbox", "inbox")
        shoot(page, approval, "approval")
    with window(browser, served.url, viewport=PHONE, is_mobile=True, color_scheme="dark") as context:
        page = context.new_page()
        shoot(page, "/inbox", "inbox-phone")
        shoot(page, approval, "approval-phone")
    served.shell("approve", task, "review")
    served.reaches(task, "completed", END_S)
    for scheme in ("light", "dark"):
        with window(browser, served.url, viewport=SIZE, color_scheme=scheme) as context:
            page = context.new_page()
            for name, address in AFTERWARDS.items():
                if scheme == "light" or name in ("task", "graph"):
                    shoot(page, address.format(task=task), name if scheme == "light" else f"{name}-dark")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        with demo_job(Path(folder)) as (served, task):
            take(browser, served, task)
        browser.close()


if __name__ == "__main__":
    main()
