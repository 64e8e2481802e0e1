"""People lay hands on steps in the page: one that has failed is taken over, given back, said anew; steps are added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect

from tests.page.browsing import PHONE, complaints, overflow, window
from tests.page.served import Served

PLANNED = 'echo \'steps=[{"id": "notes", "run": "echo noted"}]\' >> "$LONGTASK_OUTPUT"'


def plan(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"longtask": 1, "name": "hands", "steps": list(steps)}


def press(page: Page, word: str) -> None:
    page.get_by_role("button", name=word, exact=True).click()


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def agree(page: Page, word: str) -> None:
    dialog(page).get_by_role("button", name=word, exact=True).click()
    expect(dialog(page)).to_be_hidden()


def test_a_failed_step_is_taken_over_given_back_edited_and_completes(browser: Browser, served: Served):
    failing = {"id": "tests", "run": "exit 3", "when_failed": "stop"}
    task = served.submit(plan(failing, {"id": "after", "needs": ["tests"], "run": "true"}))
    served.reaches(task, "failed")
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto(f"/tasks/{task}/steps/tests")
        press(page, "Take over")
        agree(page, "Take over")
        expect(page.get_by_text("taken by ")).to_be_visible()
        expect(page.get_by_text("longtask done hands-1 tests", exact=True)).to_be_visible()
        assert not complaints(page)
        press(page, "Give back")
        agree(page, "Give back")
        expect(page.get_by_text("taken by ")).to_be_hidden()
        served.reaches(task, "failed")  # a worker has it again, and fails
        press(page, "Edit")
        assert not complaints(page)
        dialog(page).get_by_label("Command").fill("echo mended")
        expect(dialog(page).get_by_label("And retry now")).to_be_checked()
        agree(page, "Edit")
        served.reaches(task, "completed")
        expect(page.locator("header").get_by_text("completed").first).to_be_visible()


def test_what_was_done_by_hand_is_the_outcome(browser: Browser, served: Served):
    task = served.submit(plan({"id": "tests", "run": "exit 3", "when_failed": "ask"}))
    served.reaches(task, "waiting_user")
    with window(browser, served.url, viewport=PHONE, has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        page.goto(f"/tasks/{task}/steps/tests")
        page.get_by_role("button", name="Take over").tap()
        agree(page, "Take over")
        page.get_by_role("button", name="Done", exact=True).tap()
        dialog(page).get_by_label("Outputs, as JSON").fill('{"count": 3}')
        assert overflow(page) <= 0
        agree(page, "Done")
        served.reaches(task, "completed")
        assert served.api.get(f"/v1/tasks/{task}/steps/tests").json()["result"] == {"count": 3}


def test_steps_are_added_and_what_is_wrong_with_them_is_told(browser: Browser, served: Served, tmp_path: Path):
    go = tmp_path / "go"
    task = served.submit(plan({"id": "work", "run": f"until test -e '{go}'; do sleep 0.05; done"}))
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto(f"/tasks/{task}")
        press(page, "Add steps")
        steps = dialog(page).get_by_label("Steps, as JSON")
        steps.fill('[{"id": "docs", "runn": "true"}]')
        dialog(page).get_by_role("button", name="Add steps").click()
        expect(dialog(page).get_by_role("alert")).to_contain_text("runn")
        assert not complaints(page)
        expect(steps).to_have_value('[{"id": "docs", "runn": "true"}]')
        steps.fill('[{"id": "docs", "run": "true"}]')
        dialog(page).get_by_label("After").select_option("work")
        agree(page, "Add steps")
        expect(page.get_by_role("treeitem").filter(has=page.get_by_role("link", name="docs"))).to_be_visible()
        go.touch()
        served.reaches(task, "completed")


def test_a_planner_is_approved_with_its_steps_in_sight(browser: Browser, served: Served):
    task = served.submit(plan({"id": "plan", "run": PLANNED, "grow": {"approve": True}}))
    served.reaches(task, "waiting_user")
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto("/inbox")
        expect(page.get_by_text("Steps to add")).to_be_visible()
        page.get_by_role("link", name="it wants to add 1 step: notes").click()
        expect(page.get_by_role("region", name="The steps, one by one")).to_contain_text("echo noted")
        assert not complaints(page)
        page.get_by_role("region", name="Your answer").get_by_role("button", name="Approve").click()
        agree(page, "Approve")
        served.reaches(task, "completed")
        assert served.api.get(f"/v1/tasks/{task}/steps/notes").json()["state"] == "completed"
