"""A task that is exported and imported is the same task, whatever the two databases are."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from longtask import boot
from longtask.boot.archives import make_exporter, make_importer
from longtask.config import Config
from longtask.core.errors import Refused
from longtask.core.events import TaskSubmitted
from longtask.store.contract import Ref, Store
from tests.archive.conftest import KEY
from tests.archive.rewriting import members
from tests.conformance.play import ready, submit


def whole(store: Store, id: str) -> dict[str, object]:
    """All that can be seen of a task, but what counts within one database."""
    task = store.get_task(id)
    events = [event._replace(pos=0) for event in store.events(id, 0, 10_000)]
    submitted = events[0].fact
    assert isinstance(submitted, TaskSubmitted) and submitted.number == task.number
    events[0] = events[0]._replace(fact=replace(submitted, number=0))
    steps = store.steps(id, "", 1_000)
    return {
        "task": task._replace(number=0),
        "events": events,
        "steps": steps,
        "edges": store.edges(id, ("", ""), 1_000),
        "specs": [store.spec(id, step.spec) for step in steps if not step.gate],
        "artifacts": [
            entry._replace() if hasattr(entry, "_replace") else entry for entry in store.artifacts(id, 1_000)
        ],
        "calls": [
            (call.step, call.run, call.n, call.attempt, call.micros, call.started_at)
            for call in store.calls_of_task(id, ("", 0, 0), 1_000)
        ],
        "output": store.output_of_task(id, ("", 0, 0), 1_000),
        "plan": store.get_plan(id),
    }


def test_everything_of_it_is_there(origin, archive, elsewhere, bring):
    done = bring(archive)
    task = done.task
    assert (task.name, task.number, str(task.state), done.again, done.told) == ("kept", 1, "completed", False, ())
    assert whole(elsewhere.store, task.id) == whole(origin.store, task.id)
    store = elsewhere.store
    assert {call.kind for call in store.calls_of_task(task.id, ("", 0, 0), 99)} >= {"turn", "tool"}
    assert b"".join(c.body for c in store.output(Ref(task.id, "edit"), 1, 0, 9)) == b"said\nalso\n"
    assert [entry["name"] for entry in elsewhere.records.artifacts(task.id, named=True)] == ["change.patch"]
    for entry in store.artifacts(task.id, 99):
        assert elsewhere.artifacts.read(task.workspace_id, entry.digest)
    big = elsewhere.records.value(task.workspace_id, store.get_step(Ref(task.id, "big")).result)
    assert big["text"] == "x" * 9_000


def test_its_code_is_there_with_the_base_and_without_the_history_before(origin, archive, elsewhere, bring):
    task = bring(archive).task
    workspace = elsewhere.merger.workspace(task.workspace_id)
    assert workspace.diff(task.base, task.head) == origin.merger.workspace(task.workspace_id).diff(task.base, task.head)
    assert workspace.head(task.id) == task.head
    assert workspace.read_file(task.head, "a.txt") == b"one\ntwo\n"
    assert workspace.hub.host, "its repository is another machine's: nothing is fetched from there, or published"


def test_who_has_brought_it_and_from_where_stands_in_its_inbox(origin, archive, elsewhere, bring):
    task = bring(archive, "bob").task
    [note] = elsewhere.store.inbox(task.id, 0, 9)
    assert (note.name, note.sender, note.payload["handle"]) == ("task.imported", "bob", "kept-1")
    assert note.payload["database"] == origin.store.identity()
    assert elsewhere.store.unheard(9) == []


def test_what_has_happened_elsewhere_is_no_news_here_and_what_comes_then_is(archive, elsewhere, bring):
    before = elsewhere.store.feed_end()
    bring(archive)
    assert elsewhere.store.feed("", 99)[0] == elsewhere.store.feed(before, 99)[0] == []
    id = submit(elsewhere.store, 2, ready("a"))
    for cursor in ("", before):
        assert [event.task_id for event in elsewhere.store.feed(cursor, 99)[0]] == [id]
    assert elsewhere.store.get_task("@last").number == 2


def test_the_same_file_may_come_again_and_changes_nothing(archive, elsewhere, bring):
    first = bring(archive)
    seen = whole(elsewhere.store, first.task.id)
    again = bring(archive, "carl")
    assert again.again and again.task == first.task
    assert whole(elsewhere.store, first.task.id) == seen
    assert len(elsewhere.store.inbox(first.task.id, 0, 9)) == 1


def test_a_task_is_refused_where_it_is_at_home(origin, archive):
    seen = whole(origin.store, origin.store.get_task("@last").id)
    with pytest.raises(Refused, match=r"task kept-1 .* is here already; nothing was imported"):
        make_importer(origin).read(archive, "bob")
    assert whole(origin.store, origin.store.get_task("@last").id) == seen


def test_of_one_task_an_archive_has_the_same_bytes_every_time(origin, archive, tmp_path):
    made = make_exporter(origin).write(origin.store.get_task("@last").id, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == archive.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert made.size_bytes == archive.stat().st_size
    said = subprocess.run(["sha256sum", tmp_path / "x"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(made.sha256)


def test_exported_again_elsewhere_it_differs_by_the_note_that_it_was_brought(archive, elsewhere, bring, tmp_path):
    make_exporter(elsewhere).write(bring(archive).task.id, tmp_path / "x")
    one, two = members(archive), members(tmp_path / "x")
    assert one.keys() == two.keys()
    assert {name for name in one if one[name] != two[name]} <= {"manifest.json", "inbox.jsonl", "task.json"}
    assert one["code.bundle"] == two["code.bundle"]
    third = boot.open_parts(Config(tmp_path / "third", str(tmp_path / "third.db")))
    try:
        assert len(third.store.inbox(make_importer(third).read(tmp_path / "x", "eve").task.id, 0, 9)) == 2
    finally:
        third.store.close()


def test_the_file_is_a_plain_tar_with_sums_that_other_programs_read(archive, tmp_path):
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path], check=True)
    told = json.loads((tmp_path / "manifest.json").read_text())
    assert (told["format"], told["version"]) == ("longtask-archive", 1)
    sums = "".join(f"{file['sha256']}  {file['name']}\n" for file in told["files"])
    subprocess.run(["sha256sum", "-c", "--quiet"], input=sums.encode(), cwd=tmp_path, check=True)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        "manifest.json", *(file["name"] for file in told["files"]),
    }  # fmt: skip


def test_what_looks_like_a_key_is_taken_out_of_what_agents_have_done(origin, archive):
    content = members(archive)
    kept = origin.store.calls_of_task(origin.store.get_task("@last").id, ("", 0, 0), 99)
    assert KEY in json.dumps([call.body for call in kept]), "the model is shown what it has done"
    assert not [name for name, body in content.items() if KEY.encode() in body]
    assert b"***" in content["calls.jsonl"]


def test_an_open_task_is_not_exported(elsewhere, tmp_path):
    id = submit(elsewhere.store, 1, ready("a"))
    with pytest.raises(Refused, match="export it when it has ended"):
        make_exporter(elsewhere).write(id, tmp_path / "x")
    assert not (tmp_path / "x").exists()
