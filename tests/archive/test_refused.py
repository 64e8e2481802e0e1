"""A file that is not what it says is refused, with a word that tells why, and nothing of it is stored."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtask import boot
from longtask.archive import manifest as m
from longtask.archive.container import BadArchive, header
from longtask.core.errors import Refused
from tests.archive.rewriting import Contents, edit_line, edit_value, members, rewritten, write

SOME = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
OTHER = "0" * 40
# Nothing comes as far as a database.
pytestmark = pytest.mark.parametrize("elsewhere", ["sqlite"], indirect=True)


def is_empty(parts: boot.Parts) -> bool:
    """Nothing was stored: no row, no bytes, no commit."""
    rows = parts.store.tasks(open_only=False, workspace_id=None, before=0, limit=1)
    files = [path for path in parts.config.home.rglob("*") if path.is_file() and "longtask.db" not in path.name]
    return not rows and not parts.store.stale_blobs(2**62, 1) and not files


def refused(parts: boot.Parts, bring: Callable[[Path], Any], file: Path, match: str) -> None:
    with pytest.raises(BadArchive, match=match):
        bring(file)
    assert is_empty(parts)


@SOME
@given(data=st.data())
def test_cut_anywhere_it_is_refused(archive, elsewhere, bring, tmp_path, data):
    content = archive.read_bytes()
    file = tmp_path / "cut"
    file.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    refused(elsewhere, bring, file, "cut|damaged|no archive")


@SOME
@given(data=st.data())
def test_with_any_byte_changed_it_is_refused_or_says_the_same(archive, elsewhere, bring, tmp_path, data):
    content = bytearray(archive.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    file = tmp_path / "changed"
    file.write_bytes(content)
    try:
        bring(file)
    except BadArchive:
        assert is_empty(elsewhere) or bring(archive).again  # an example before this one was taken
    else:  # the last bits of what is packed mean nothing
        assert members(file) == members(archive)


@pytest.mark.parametrize("content", [b"", b"x" * 2_000, gzip.compress(b"x" * 2_000, mtime=0), bytes(2_000)])
def test_what_is_no_archive_is_told_as_such(elsewhere, bring, tmp_path, content):
    file = tmp_path / "x"
    file.write_bytes(content)
    refused(elsewhere, bring, file, "no archive of a task")


@pytest.mark.parametrize("more", [b"\0", b"x", gzip.compress(b"more", mtime=0)])
def test_nothing_stands_behind_its_end(archive, elsewhere, bring, tmp_path, more):
    file = tmp_path / "x"
    file.write_bytes(archive.read_bytes() + more)
    refused(elsewhere, bring, file, "behind its end")


def test_a_newer_version_is_told_as_such(archive, elsewhere, bring, tmp_path):
    file = rewritten(archive, tmp_path / "x", told=lambda told: told.update(version=2))
    refused(elsewhere, bring, file, "has version 2, this program reads 1")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "blobs/../../x", "blobs/" + "a" * 63, "x/y", "", "a\0b"])
def test_a_file_that_would_lead_elsewhere_has_no_place_in_it(archive, elsewhere, bring, tmp_path, name):
    def told(manifest: dict[str, Any]) -> None:
        manifest["files"].append({"name": name, "size_bytes": 1, "sha256": "0" * 64})

    refused(elsewhere, bring, rewritten(archive, tmp_path / "x", told=told), "is no part of an archive")
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("x", "elsewhere")] == []


def test_a_member_that_its_manifest_does_not_name_is_refused(archive, elsewhere, bring, tmp_path):
    contents = members(archive)
    refused(elsewhere, bring, write({**contents, "x": b"more"}, tmp_path / "x"), "more in it than its manifest names")
    contents["journal.jsonl"], contents["steps.jsonl"] = contents["steps.jsonl"], contents["journal.jsonl"]
    refused(elsewhere, bring, write(contents, tmp_path / "y"), "damaged: journal.jsonl is not where")
    names = list(members(archive))
    names[1], names[2] = names[2], names[1]
    refused(elsewhere, bring, write({n: contents[n] for n in names}, tmp_path / "z"), "is not where")


def test_a_link_in_the_place_of_a_file_is_refused(archive, elsewhere, bring, tmp_path):
    contents = members(archive)
    content = b"".join(
        header(name, len(body)) + body + bytes(-len(body) % 512) for name, body in contents.items()
    ) + bytes(1_024)
    at = content.index(b"journal.jsonl\0")
    entry = bytearray(content[at : at + 512])
    entry[156:157], entry[157:161] = b"2", b"/etc"
    entry[148:156] = b"%06o\0 " % (sum(entry[:148]) + 8 * 32 + sum(entry[156:]))
    changed = content[:at] + bytes(entry) + content[at + 512 :]
    packer = zlib.compressobj(6, wbits=16 + zlib.MAX_WBITS)
    packed = packer.compress(changed) + packer.flush()
    file = tmp_path / "x"
    file.write_bytes(archive.read_bytes()[:10] + packed[10:])
    refused(elsewhere, bring, file, "journal.jsonl is not where its manifest says")


@pytest.mark.parametrize("size", [10**12, 2**70, -1, 1.5, "7", None])
def test_what_would_unpack_without_end_is_refused_before_it_does(archive, elsewhere, bring, tmp_path, size):
    def told(manifest: dict[str, Any]) -> None:
        manifest["files"][-1]["size_bytes"] = size

    refused(elsewhere, bring, rewritten(archive, tmp_path / "x", told=told), "more than|nothing sound|cannot be read")


def test_a_manifest_without_end_is_refused_before_it_is_read(elsewhere, bring, tmp_path):
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    packed = packer.compress(header(m.NAME, m.BYTES_MAX + 1) + bytes(50_000_000)) + packer.flush()
    file = tmp_path / "x"
    file.write_bytes(b"\x1f\x8b\x08" + bytes(6) + b"\xff" + packed[10:])
    refused(elsewhere, bring, file, "does not begin with manifest.json")


def test_no_room_for_it_is_told_before_it_is_unpacked(archive, elsewhere, bring, tmp_path):
    def told(manifest: dict[str, Any]) -> None:
        manifest["files"][-1]["size_bytes"] = m.FILES_BYTES_MAX - 100_000

    with pytest.raises(Refused, match="has no room for it: set TMPDIR"):
        bring(rewritten(archive, tmp_path / "x", told=told))
    assert is_empty(elsewhere)


def drop(name: str) -> Callable[[Contents], None]:
    return lambda contents: contents.__delitem__(name)


def put(name: str, body: bytes) -> Callable[[Contents], None]:
    return lambda contents: contents.__setitem__(name, body)


def drop_line(name: str, number: int) -> Callable[[Contents], None]:
    def edit(contents: Contents) -> None:
        lines = contents[name].splitlines(keepends=True)
        del lines[number]
        contents[name] = b"".join(lines)

    return edit


def drop_blobs(contents: Contents) -> None:
    for name in [name for name in contents if name.startswith("blobs/")]:
        del contents[name]


LIES: dict[str, tuple[Callable[[Contents], None], str]] = {
    "a step that has failed, told as completed": (
        edit_line("steps.jsonl", 0, lambda row: row.update(state="completed")),
        "does not give what it tells",
    ),
    "a result that nobody reported": (
        edit_line("steps.jsonl", 1, lambda row: row.update(result={"n": 1})),
        "does not give what it tells",
    ),
    "a step less": (drop_line("steps.jsonl", 0), "does not give what it tells"),
    "an event less": (drop_line("journal.jsonl", 4), "cannot be folded|does not give"),
    "the last event less": (drop_line("journal.jsonl", -1), "does not give what it tells"),
    "an event twice": (
        lambda contents: contents.__setitem__(
            "journal.jsonl", contents["journal.jsonl"] + contents["journal.jsonl"].splitlines(keepends=True)[-1]
        ),
        "cannot be folded|does not give",
    ),
    "a number of the journal skipped": (
        edit_line("journal.jsonl", -1, lambda row: row.update(seq=row["seq"] + 1)),
        "does not give what it tells",
    ),
    "a fact of a newer version": (
        edit_line("journal.jsonl", 3, lambda row: row.update(kind="StepPraised")),
        "journal.jsonl, line 4: fact 'StepPraised' is not known; .* upgrade longtask",
    ),
    "a fact in a newer form": (edit_line("journal.jsonl", 3, lambda row: row.update(v=99)), "upgrade longtask"),
    "an instant that is none": (edit_line("journal.jsonl", 3, lambda row: row.update(at="now")), "'now' is not int"),
    "an empty journal": (put("journal.jsonl", b""), "is empty"),
    "a journal that is no JSON": (put("journal.jsonl", b"{]\n"), "journal.jsonl, line 1"),
    "a line without end": (put("inbox.jsonl", b"{}"), "inbox.jsonl, line 1: it is cut"),
    "JSON without a bottom": (put("inbox.jsonl", b"[" * 200_000 + b"\n"), "inbox.jsonl, line 1"),
    "not a number": (put("calls.jsonl", b'{"n": NaN}\n'), "calls.jsonl, line 1: NaN"),
    "a call of no step": (put("calls.jsonl", b"{}\n"), "calls.jsonl, line 1"),
    "output that is no base64": (
        edit_line("output.jsonl", 0, lambda row: row.update(body="§")),
        "output.jsonl, line 1",
    ),
    "other money": (edit_value("task.json", lambda task: task.update(spent_micros=1)), "does not give what it tells"),
    "other counters": (edit_value("task.json", lambda task: task["counts"].__setitem__(0, 99)), "does not give"),
    "another head": (edit_value("task.json", lambda task: task.update(head=OTHER)), "tell of different tasks"),
    "an open task": (edit_value("task.json", lambda task: task.update(state="active")), "tell of different tasks"),
    "no header": (put("task.json", b"[]"), "task.json"),
    "a plan that is no text": (put("plan.txt", b"\xff"), "plan.txt is no text"),
    "no bundle": (put("code.bundle", b"PACK"), "code.bundle is no sound bundle"),
    "artifacts less": (drop_blobs, "lacks the bytes of artifact"),
    "no journal": (drop("journal.jsonl"), "lacks journal.jsonl"),
    "no code, though it has some": (drop("code.bundle"), "either code.bundle or a word"),
}


@pytest.mark.parametrize("lie", LIES)
def test_sums_that_fit_do_not_help_a_lie(archive, elsewhere, bring, tmp_path, lie):
    change, match = LIES[lie]
    refused(elsewhere, bring, rewritten(archive, tmp_path / "x", change), match)


def test_a_bundle_of_other_commits_is_refused(archive, elsewhere, bring, tmp_path):
    def change(contents: Contents) -> None:
        lines = contents["code.bundle"].split(b"\n")
        head = next(n for n, line in enumerate(lines) if line.endswith(b"/head"))
        lines[head] = json.loads(contents["task.json"])["base"].encode() + lines[head][40:]
        contents["code.bundle"] = b"\n".join(lines)

    refused(elsewhere, bring, rewritten(archive, tmp_path / "x", change), "no sound bundle: .*another head")


def test_a_bundle_that_lacks_an_object_is_refused(archive, elsewhere, bring, tmp_path):
    def change(contents: Contents) -> None:
        contents["code.bundle"] = contents["code.bundle"][:-30]

    refused(elsewhere, bring, rewritten(archive, tmp_path / "x", change), "no sound bundle")


def test_a_task_that_is_told_as_open_throughout_is_refused(archive, elsewhere, bring, tmp_path):
    file = rewritten(
        archive,
        tmp_path / "x",
        edit_value("task.json", lambda task: task.update(state="active")),
        lambda told: told["task"].update(state="active"),
    )
    refused(elsewhere, bring, file, "one that has not ended is not imported")


@pytest.mark.parametrize("code", [{"repository": "/x"}, {"url": 1}, [], {"url": "x", "reach": "anywhere"}, 7, {}])
def test_what_it_says_of_the_repository_is_looked_at(archive, elsewhere, bring, tmp_path, code):
    file = rewritten(archive, tmp_path / "x", told=lambda told: told.update(code=code))
    refused(elsewhere, bring, file, "nothing sound about the repository|cannot be read")


@pytest.mark.parametrize("workspace", ["../../x", "/tmp/x", "x" * 16])
def test_a_workspace_that_is_no_id_leads_nowhere(archive, elsewhere, bring, tmp_path, workspace):
    def journal(row: dict[str, Any]) -> None:
        row["body"]["workspace_id"] = workspace

    def change(contents: Contents) -> None:
        edit_value("task.json", lambda task: task.update(workspace_id=workspace))(contents)
        edit_line("journal.jsonl", 0, journal)(contents)

    file = rewritten(archive, tmp_path / "x", change, lambda told: told["task"].update(workspace=workspace))
    refused(elsewhere, bring, file, "is no id")
