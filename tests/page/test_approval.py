"""What is decided about code: files as they stood, and code that has moved since one looked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from tests.cli.conftest import make_repository
from tests.cli.shell import until
from tests.page.browsing import complaints, window
from tests.page.served import Served
from tests.page.test_live import answer

EDIT = "printf '# Notes\\n\\nAll is **well**.\\n' > notes.md; printf 'a\\0b' > bytes; echo two >> a.txt"


def plan(repository: Path, *first: dict[str, Any], needs: Sequence[str] = (), **approval: Any) -> dict[str, Any]:
    review = {"id": "ok", "needs": [*needs], "approval": {"ask": "Fine?", **approval}}
    return {"longtask": 1, "name": "code", "workspace": {"repo": str(repository)}, "steps": [*first, review]}


def test_files_are_read_as_they_stood_when_it_was_asked(browser: Browser, served: Served, tmp_path: Path):
    repository = make_repository(tmp_path / "repo")
    edit = {"id": "edit", "run": EDIT, "commit": True}
    task = served.submit(plan(repository, edit, needs=["edit"], show=["files:*"]))
    served.reaches(task, "waiting_user")
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto(f"/tasks/{task}/steps/ok/approval")
        files = page.get_by_role("region", name="Files")
        files.get_by_text("notes.md").click()
        expect(files.get_by_role("heading", name="Notes")).to_be_visible()
        files.get_by_text("bytes").click()
        expect(files.get_by_text("This kind of file is not shown.")).to_be_visible()
        files.get_by_text("a.txt").click()
        expect(files.get_by_text("two")).to_be_visible()
        assert not complaints(page)


def test_a_decision_on_code_that_has_moved_is_refused_and_the_new_version_shown(
    browser: Browser, served: Served, tmp_path: Path
):
    repository = make_repository(tmp_path / "repo")
    go = {"id": "go", "wait": {"signal": "go"}}
    edit = {"id": "edit", "needs": ["go"], "run": EDIT, "commit": True}
    task = served.submit(plan(repository, go, edit, show=["diff"], bind="head"))
    served.reaches(task, "waiting_user")
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto(f"/tasks/{task}/steps/ok/approval")
        expect(page.get_by_role("heading", name="Fine?")).to_be_visible()
        served.api.post("/v1/signals/go", json={"task": task}).raise_for_status()
        until(lambda: served.api.get(f"/v1/tasks/{task}/steps/edit").json()["state"] == "completed")
        answer(page, "Approve").click()
        page.get_by_role("dialog").get_by_role("textbox").fill("as far as I see")
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        expect(page.get_by_text("Nothing was decided").first).to_be_visible()
        since = page.get_by_role("region", name="What has changed since you looked")
        since.get_by_text("What has changed since you looked").click()
        expect(since.get_by_text("All is **well**.")).to_be_visible()
        assert not complaints(page)
        answer(page, "Approve").click()
        expect(page.get_by_role("dialog").get_by_role("textbox")).to_have_value("as far as I see")
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        served.reaches(task, "completed")


def test_a_part_that_the_server_has_no_more_is_told_and_the_page_is_not_loaded_again_and_again(
    browser: Browser, served: Served
):
    with window(browser, served.url) as context:
        page = context.new_page()
        loads: list[str] = []
        page.on("load", lambda loaded: loads.append(loaded.url))
        context.route("**/assets/FleetView-*.js", lambda route: route.fulfill(status=404))
        page.goto("/inbox")
        page.get_by_role("link", name="Fleet").click()
        expect(page.get_by_role("heading", name="This part of the page could not be loaded")).to_be_visible()
        page.get_by_role("button", name="Reload").click()
        expect(page.get_by_role("heading", name="This part of the page could not be loaded")).to_be_visible()
        assert len(loads) == 2
