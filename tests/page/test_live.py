"""A task is watched and decided in the page, whatever happens to its server meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.page.browsing import PHONE, complaints, overflow, window
from tests.page.served import Served

TABS = 10
MARK = "() => { window.mark = 'the same page' }"
SAME = "() => window.mark === 'the same page'"


def waits_for(file: Path) -> str:
    return f"echo begun; until test -e '{file}'; do sleep 0.05; done; echo gone on"


def asking(file: Path) -> dict[str, Any]:
    steps = [
        {"id": "work", "run": waits_for(file)},
        {"id": "ok", "needs": ["work"], "approval": {"ask": "Shall it go on?"}},
        {"id": "after", "needs": ["ok"], "run": "echo done"},
    ]
    return {"longtask": 1, "name": "ask", "steps": steps}


def row(page: Page, step: str) -> Any:
    return page.get_by_role("treeitem").filter(has=page.get_by_role("link", name=step, exact=True))


def answer(page: Page, word: str) -> Any:
    """The button below what is asked; cards of the inbox have one of the same name."""
    return page.get_by_role("region", name="Your answer").get_by_role("button", name=word)


def test_a_killed_server_needs_no_reload_and_leaves_no_gap(browser: Browser, served: Served, tmp_path: Path):
    go = tmp_path / "go"
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto("/tasks")
        page.evaluate(MARK)
        task = served.submit(asking(go))
        page.get_by_role("link", name="ask-1").click()
        expect(row(page, "work")).to_contain_text("running")
        go.touch()
        expect(row(page, "ok")).to_contain_text("waiting")
        served.end()
        expect(page.get_by_text("Not live")).to_be_visible()
        served.shell("approve", task, "ok")  # of this the page hears nothing
        served.start()
        expect(page.get_by_text("Not live")).to_be_hidden()
        expect(row(page, "ok")).to_contain_text("completed")
        expect(row(page, "after")).to_contain_text("completed")
        assert page.evaluate(SAME)


def test_what_is_asked_is_found_in_the_inbox_and_decided_there(browser: Browser, served: Served, tmp_path: Path):
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto("/")
        page.evaluate(MARK)
        (tmp_path / "go").touch()
        task = served.submit(asking(tmp_path / "go"))
        page.get_by_role("link", name="Shall it go on?").click()
        answer(page, "Approve").click()
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        served.reaches(task, "completed")
        page.get_by_role("link", name="Inbox").first.click()
        expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        assert page.evaluate(SAME)


def test_ten_tabs_of_one_browser_are_all_live(browser: Browser, served: Served, tmp_path: Path):
    go = tmp_path / "go"
    task = served.submit(asking(go))
    served.reaches(task, "running")
    with window(browser, served.url) as context:
        pages = [context.new_page() for _ in range(TABS)]
        for page in pages:
            page.goto(f"/tasks/{task}")
        for page in pages:
            expect(row(page, "work")).to_contain_text("running")
        go.touch()
        for page in pages:
            expect(row(page, "ok")).to_contain_text("waiting")
        assert served.api.get("/metrics").text.count("longtask_sse_clients 1.0") == 1


def test_what_somebody_else_has_decided_is_not_decided_again(browser: Browser, served: Served, tmp_path: Path):
    (tmp_path / "go").touch()
    task = served.submit(asking(tmp_path / "go"))
    served.reaches(task, "waiting_user")
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto(f"/tasks/{task}/steps/ok/approval")
        answer(page, "Reject").click()
        page.get_by_role("dialog").get_by_role("textbox").fill("not like this")
        served.shell("approve", task, "ok", env={"LONGTASK_USER": "bob"})
        expect(page.get_by_role("dialog")).to_be_hidden()
        expect(page.get_by_text("bob")).to_be_visible()
        expect(answer(page, "Reject")).to_be_hidden()


def test_on_a_phone_one_reads_and_decides(browser: Browser, served: Served, tmp_path: Path):
    (tmp_path / "go").touch()
    task = served.submit(asking(tmp_path / "go"))
    served.reaches(task, "waiting_user")
    with window(browser, served.url, viewport=PHONE, has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        page.goto("/")
        page.get_by_role("link", name="Shall it go on?").wait_for()
        assert overflow(page) <= 0
        page.get_by_role("link", name="Shall it go on?").tap()
        answer(page, "Approve").wait_for()
        assert overflow(page) <= 0
        answer(page, "Approve").tap()
        page.get_by_role("dialog").get_by_role("button", name="Approve").tap()
        served.reaches(task, "completed")


def test_by_keyboard_alone_one_finds_and_decides(browser: Browser, served: Served, tmp_path: Path):
    (tmp_path / "go").touch()
    task = served.submit(asking(tmp_path / "go"))
    served.reaches(task, "waiting_user")
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto("/tasks")
        page.get_by_role("link", name="ask-1").wait_for()
        page.keyboard.press("g")
        page.keyboard.press("i")
        page.get_by_role("heading", name="Inbox").wait_for()  # the list that is left has such a link, too
        page.get_by_role("link", name="Shall it go on?").focus()
        page.keyboard.press("Enter")
        answer(page, "Approve").focus()
        page.keyboard.press("Enter")
        page.get_by_role("dialog").get_by_role("button", name="Approve").focus()
        page.keyboard.press("Enter")
        served.reaches(task, "completed")


def test_on_a_phone_the_theme_is_chosen_too(browser: Browser, served: Served):
    with window(browser, served.url, viewport=PHONE, has_touch=True, is_mobile=True, color_scheme="light") as context:
        page = context.new_page()
        page.goto("/inbox")
        page.get_by_role("button", name="More").tap()
        page.get_by_role("dialog").get_by_role("button", name="Dark").tap()
        assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
        assert not complaints(page)
        page.get_by_role("dialog").get_by_role("button", name="Close").tap()
        page.reload()
        assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
        assert overflow(page) <= 0
