"""The whole demo job, watched and approved in the page, and every view of it looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.page.browsing import COLOURS, PHONE, complaints, look_at, overflow, window
from tests.page.job import demo_job
from tests.page.served import Served

END_S = 600  # on a machine that has much else to do
VIEWS = (
    "", "/graph", "/timeline", "/cost", "/artifacts", "/artifacts/vobject.patch", "/events", "/trace", "/steps/core",
    "/steps/tests", "/steps/review/approval",
)  # fmt: skip
ELSEWHERE = ("/inbox", "/tasks", "/events", "/fleet")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[Served, str]]:
    with demo_job(tmp_path_factory.mktemp("demo")) as made:
        yield made


def test_the_whole_job_is_watched_and_approved_in_the_page(browser: Browser, job: tuple[Served, str]):
    served, task = job
    with window(browser, served.url) as context:
        page = context.new_page()
        page.goto(f"/tasks/{task}")
        expect(page.get_by_role("treeitem").first).to_be_visible()
        page.get_by_role("link", name=re.compile("1 waiting for you")).click(timeout=END_S * 1_000)
        page.get_by_role("link", name="Look").click()
        answers = page.get_by_role("region", name="Your answer")
        expect(answers.get_by_role("button", name="Approve")).to_be_visible()
        expect(page.get_by_role("button", name="Comment on vobject").first).to_be_visible()  # the diff
        answers.get_by_role("button", name="Approve").click()
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        page.goto(f"/tasks/{task}")
        expect(page.get_by_role("main").get_by_text("completed", exact=True).first).to_be_visible(timeout=END_S * 1_000)
        served.reaches(task, "completed", END_S)


def test_every_view_is_accessible_and_fits_in_light_and_dark(browser: Browser, job: tuple[Served, str]):
    served, task = job
    if served.status(task) != "completed":  # the test that comes before has failed, or was left out
        served.reaches(task, "waiting_user", END_S)
        served.shell("approve", task, "review")
        served.reaches(task, "completed", END_S)
    found: dict[str, list[str]] = {}
    with window(browser, served.url) as context:
        page = context.new_page()
        for address in (*ELSEWHERE, *(f"/tasks/{task}{view}" for view in VIEWS)):
            page.emulate_media(color_scheme="light")
            look_at(page, address)
            found[address] = complaints(page)
            if wider := overflow(page):
                found[address].append(f"it is {wider} pixels wider than its window")
            page.emulate_media(color_scheme="dark")
            found[address] += [f"when it is dark: {told}" for told in complaints(page, COLOURS)]
    assert not {address: told for address, told in found.items() if told}


def test_inbox_and_approval_are_accessible_and_fit_on_a_phone(browser: Browser, job: tuple[Served, str]):
    served, task = job
    found: dict[str, list[str]] = {}
    with window(browser, served.url, viewport=PHONE, has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        for address in ("/inbox", "/tasks", f"/tasks/{task}", f"/tasks/{task}/steps/review/approval"):
            look_at(page, address)
            found[address] = complaints(page)
            if wider := overflow(page):
                found[address].append(f"it is {wider} pixels wider than its window")
    assert not {address: told for address, told in found.items() if told}
