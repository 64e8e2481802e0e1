"""Errors over HTTP: each kind has its status and its word, and every word is told in docs/api.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import longtask.api
from longtask.api import problems
from longtask.api.problems import problem_of
from longtask.core import errors
from tests.api import plans
from tests.api.test_routes_tasks import PROBLEM, submit

ROOT = Path(longtask.api.__file__).parent
TOLD = Path(__file__).parents[2] / "docs" / "api.md"


def words() -> set[str]:
    """Of all problems that the code raises."""
    found = {row[2] for row in problems.KINDS} | {slug for slug, _ in problems.OF_HTTP.values()} | {"http"}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Problem") and len(node.args) > 1:
                match node.args[1]:
                    case ast.Constant(value=str(word)):
                        found.add(word)
    return found


def test_every_word_is_told_and_no_other():
    rows = [line.split("|") for line in TOLD.read_text().splitlines() if line.startswith("| `")]
    assert {row[1].strip().strip("`") for row in rows if "{" not in row[1]} == words()


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (errors.Refused("x"), 409, "refused"),
        (errors.LeaseLost("x"), 409, "lease-lost"),
        (errors.NotFound("x"), 404, "not-found"),
        (errors.BadPlan("x"), 422, "bad-plan"),
        (errors.StoreBusy("x"), 503, "busy"),
        (errors.TaskLocked("x"), 503, "busy"),
        (errors.StoreUnavailable("x"), 503, "store-unavailable"),
        (errors.StoreError("x"), 500, "store"),
        (errors.HubUnreachable("x"), 503, "hub-unreachable"),
        (errors.WorkspaceError("x"), 500, "workspace"),
        (errors.LongTaskError("x"), 500, "error"),
    ],
)
def test_each_error_has_its_status_and_its_word(error, status, word):
    found = problem_of(error)
    assert (found.status, found.document()["type"], found.detail) == (status, PROBLEM + word, "x")
    assert ("Retry-After" in found.headers) == (status == 503)


def test_what_nobody_foresaw_is_told_without_its_message(server, client, caplog):
    id = submit(client, plans.asking())
    server.parts.records.artifacts = None  # as broken as anything can be
    answer = client.get(f"/v1/tasks/{id}/artifacts")
    assert (answer.status_code, answer.json()["type"]) == (500, PROBLEM + "unexpected")
    assert "NoneType" not in answer.text and "NoneType" in caplog.text
