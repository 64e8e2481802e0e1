"""Bytes by the hash of their content: whole or not at all, checked when read, apart for each workspace."""

import hashlib
import io
import os
import resource
import stat
import threading

import pytest

from longtask.core.errors import NotFound, StoreError
from longtask.store.artifacts import BLOCK_BYTES, ArtifactStore, Stored


@pytest.fixture
def artifacts(tmp_path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"a" * (2 * BLOCK_BYTES + 1)])
def test_what_was_put_is_read(artifacts, content):
    stored = artifacts.put("w", content, "text/plain")
    assert stored == Stored(sha256(content), len(content), "text/plain")
    assert artifacts.has("w", stored.digest)
    assert artifacts.read("w", stored.digest) == content
    assert artifacts.path("w", stored.digest).read_bytes() == content
    assert list(artifacts.digests("w")) == [stored.digest]
    assert artifacts.put("w", io.BytesIO(content)).digest == stored.digest, "putting it again is free"


def test_files_are_read_only_and_their_owners_alone(artifacts):
    stored = artifacts.put("w", b"x")
    place = artifacts.path("w", stored.digest)
    assert stat.S_IMODE(place.stat().st_mode) == 0o400
    for folder in (place.parent, place.parent.parent, artifacts.root):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [file.name for file in artifacts.root.rglob(".*")] == [], "no temporary file is left"


def test_workspaces_do_not_see_each_other(artifacts):
    stored = artifacts.put("one", b"x")
    assert not artifacts.has("two", stored.digest)
    with pytest.raises(NotFound, match=r"no artifact .* in workspace 'two'"):
        artifacts.open("two", stored.digest)


@pytest.mark.parametrize(
    "workspace_id", ["", "none", "../up", "/etc", "a/b", ".", "..", "ü", "~x", "A" * 200, "nul\0", "\udcff"]
)
def test_a_workspaces_name_is_never_a_path(artifacts, workspace_id):
    stored = artifacts.put(workspace_id, b"x")
    place = artifacts.path(workspace_id, stored.digest)
    assert place.resolve().parent.parent.parent == artifacts.root
    others = ["", "none", "w", "up"]
    assert [other for other in others if artifacts.has(other, stored.digest)] == [
        x for x in others if x == workspace_id
    ]


@pytest.mark.parametrize(
    "digest", ["", "../../etc/passwd", "AB" * 32, "ab" * 31, "ab" * 32 + "\n", "gg" * 32, "ab/" + "c" * 61]
)
def test_what_is_no_digest_finds_nothing(artifacts, digest):
    with pytest.raises(NotFound, match="a digest is 64 characters of 0-9 and a-f"):
        artifacts.open("w", digest)
    with pytest.raises(NotFound):
        artifacts.path("w", digest)


def test_damage_is_told_and_mended_by_putting_again(artifacts):
    stored = artifacts.put("w", b"hello")
    place = artifacts.path("w", stored.digest)
    place.chmod(0o600)
    place.write_bytes(b"hullo")
    with pytest.raises(StoreError, match=r"is damaged: its bytes have the hash .*; restore .* from a backup"):
        artifacts.read("w", stored.digest)
    artifacts.put("w", b"hello")
    assert artifacts.read("w", stored.digest) == b"hello"


def test_what_cannot_be_written_whole_is_not_there(artifacts):
    class Breaks(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(StoreError, match="Input/output error"):
        artifacts.put("w", Breaks())
    assert [file for file in artifacts.root.rglob("*") if file.is_file()] == []


def test_a_full_disk_is_told(artifacts):
    artifacts.put("w", b"small")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(StoreError, match=r"the disk is full \(.*\), nothing was kept; free space and try again"):
            artifacts.put("w", os.urandom(1 << 17))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len([file for file in artifacts.root.rglob("*") if file.is_file()]) == 1


def test_many_may_put_the_same_at_once(artifacts):
    content = os.urandom(300_000)
    digests: list[str] = []
    threads = [threading.Thread(target=lambda: digests.append(artifacts.put("w", content).digest)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(digests) == {sha256(content)} and len(digests) == 6
    assert artifacts.read("w", sha256(content)) == content


def test_what_is_collected_is_gone(artifacts):
    stored = artifacts.put("w", b"x")
    artifacts.drop("w", stored.digest)
    artifacts.drop("w", stored.digest)
    assert not artifacts.has("w", stored.digest)


def test_what_a_crash_left_half_written_is_swept(artifacts):
    stored = artifacts.put("w", b"x")
    half = artifacts.root / "w" / ".new-abc"
    half.write_bytes(b"ha")
    assert artifacts.sweep(3_600) == 0, "it may still be written"
    os.utime(half, (0, 0))
    assert artifacts.sweep(3_600) == 1
    assert artifacts.has("w", stored.digest) and not half.exists()
