"""Session files of agents: kept in blocks that are shared, put back as they were."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from longtask.core.errors import Refused
from longtask.steps import session
from longtask.steps.session import SESSION, Keeper, newest, without


class Blocks:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.puts = 0

    def put(self, name: str, body: bytes, media_type: str) -> dict[str, object]:
        self.puts += 1
        digest = hashlib.sha256(body).hexdigest()
        self.kept[digest] = body
        return {"name": name, "digest": digest}

    def read(self, digest: str) -> bytes:
        return self.kept[digest]


@pytest.fixture
def blocks() -> Blocks:
    return Blocks()


def keeper(folder: Path, blocks: Blocks) -> Keeper:
    folder.mkdir(exist_ok=True)
    return Keeper(folder, blocks.put, blocks.read)


def test_what_was_kept_is_put_back_elsewhere(tmp_path, blocks):
    one, other = keeper(tmp_path / "one", blocks), keeper(tmp_path / "other", blocks)
    (one.folder / "deep" / "er").mkdir(parents=True)
    (one.folder / "a.jsonl").write_bytes(b"1\n2\n")
    (one.folder / "deep" / "er" / "b").write_bytes(b"")
    (one.folder / "deep" / "c").write_bytes(b"\0" * (session.BLOCK_BYTES * 2 + 1))
    (one.folder / "not asked for").write_bytes(b"x")
    kept = one.keep(["a.jsonl", "deep", "not there"], tmp_path)
    assert {name: len(digests) for name, digests in kept["files"].items()} == {
        "a.jsonl": 1,
        "deep/c": 3,
        "deep/er/b": 0,
    }
    other.restore(kept)
    for name in kept["files"]:
        assert (other.folder / name).read_bytes() == (one.folder / name).read_bytes()


def test_a_file_that_grows_shares_its_blocks(tmp_path, blocks):
    one = keeper(tmp_path / "one", blocks)
    file = one.folder / "s.jsonl"
    file.write_bytes(b"x" * session.BLOCK_BYTES + b"y\n")
    one.keep(["s.jsonl"], tmp_path)
    with file.open("ab") as more:
        more.write(b"z\n")
    before = blocks.puts
    one.keep(["s.jsonl"], tmp_path)
    assert (before, blocks.puts) == (2, 3)


def test_of_lines_the_beginning_of_one_is_left_out(tmp_path, blocks):
    one = keeper(tmp_path / "one", blocks)
    (one.folder / "s.jsonl").write_bytes(b"whole\nhalf")
    (one.folder / "s.bin").write_bytes(b"whole\nhalf")
    kept = one.keep(["s.jsonl", "s.bin"], tmp_path)
    assert [blocks.read(digests[0]) for digests in kept["files"].values()] == [b"whole\n", b"whole\nhalf"]


@pytest.mark.parametrize("path", ["../outside", "/etc/hostname"])
def test_nothing_outside_of_the_folder_is_kept_or_written(tmp_path, blocks, path):
    one = keeper(tmp_path / "one", blocks)
    with pytest.raises(Refused):
        one.keep([path], tmp_path)
    with pytest.raises(Refused):
        one.restore({"files": {path: []}})


def test_too_much_is_refused(tmp_path, blocks, monkeypatch):
    monkeypatch.setattr(session, "BYTES_MAX", 3)
    one = keeper(tmp_path / "one", blocks)
    (one.folder / "s").write_bytes(b"1234")
    with pytest.raises(Refused, match="more than 3 bytes"):
        one.keep(["s"], tmp_path)


def test_the_newest_counts_and_no_reader_sees_it():
    one: dict[str, Any] = {"files": {"a": []}}
    other: dict[str, Any] = {"files": {"b": []}}
    newer: dict[str, object] = {SESSION: other, "text": "t"}
    rows: list[dict[str, Any]] = [{"body": {SESSION: one}}, {"body": newer}, {"body": None}]
    assert newest(rows) == other
    assert without(newer) == {"text": "t"} and without(None) is None
