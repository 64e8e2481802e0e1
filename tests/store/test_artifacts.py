"""Bytes by the hash of their content: whole or not at all, checked when read, apart for each workspace.

The same tests in a folder and in a bucket of a real server.
"""

import hashlib
import io
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from longtask.core.errors import NotFound, StoreError, StoreUnavailable
from longtask.store.artifacts import BLOCK_BYTES, ArtifactStore, Stored, bucket
from longtask.store.artifacts.bucket import PART_BYTES, Bucket
from longtask.store.artifacts.folder import Folder
from longtask.store.sqlite import SqliteStore
from tests import s3
from tests.conformance.databases import Clock


@dataclass
class House:
    """Where the bytes of a test lie, as files: `kept` is what everybody sees."""

    store: ArtifactStore
    kept: Path
    local: Path

    def files(self) -> list[Path]:
        """Of artifacts, whole or half, wherever they are."""
        found = {f for root in (self.kept, self.local) for f in root.rglob("*") if f.is_file()}
        return sorted(f for f in found if ".nanio-meta" not in f.parts)

    def again(self) -> "House":
        """As another machine sees it."""
        if self.kept == self.local:
            return House(ArtifactStore(self.kept), self.kept, self.local)
        place = self.store.place
        assert isinstance(place, Bucket)
        cache = self.local.with_name(uuid.uuid4().hex)
        return House(ArtifactStore(Bucket(place.where, Folder(cache))), self.kept, cache)


@pytest.fixture
def server(monkeypatch) -> s3.Server:
    found = s3.server()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def in_bucket(server, tmp_path) -> House:
    name = f"b-{uuid.uuid4().hex}"
    kept = server.bucket(name) / "team" / "artifacts"
    return House(ArtifactStore(Bucket(f"s3://{name}/team/artifacts/", Folder(tmp_path / "c"))), kept, tmp_path / "c")


@pytest.fixture(params=["folder", "bucket"])
def house(request, tmp_path) -> House:
    if request.param == "bucket":
        found: House = request.getfixturevalue("in_bucket")
        return found
    return House(ArtifactStore(tmp_path / "a"), tmp_path / "a", tmp_path / "a")


@pytest.fixture
def artifacts(house) -> ArtifactStore:
    return house.store


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"a" * (2 * BLOCK_BYTES + 1), b"b" * (PART_BYTES + 1)])
def test_what_was_put_is_read(house, content):
    artifacts = house.store
    stored = artifacts.put("w", content, "text/plain")
    assert stored == Stored(sha256(content), len(content), "text/plain")
    for seen in (artifacts, house.again().store):
        assert seen.has("w", stored.digest)
        assert seen.read("w", stored.digest) == content
        assert seen.path("w", stored.digest).read_bytes() == content
        assert list(seen.digests("w")) == [stored.digest]
    assert artifacts.put("w", io.BytesIO(content)).digest == stored.digest, "putting it again is free"


def test_files_are_read_only_and_their_owners_alone(house):
    stored = house.store.put("w", b"x")
    place = house.store.path("w", stored.digest)
    assert stat.S_IMODE(place.stat().st_mode) == 0o400
    for folder in (place.parent, place.parent.parent, house.local):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [file.name for file in house.local.rglob(".*")] == [], "no temporary file is left"


def test_workspaces_do_not_see_each_other(house):
    artifacts = house.store
    stored = artifacts.put("one", b"x")
    assert not artifacts.has("two", stored.digest)
    with pytest.raises(NotFound, match=r"no artifact .* in workspace 'two'"):
        artifacts.open("two", stored.digest)


@pytest.mark.parametrize(
    "workspace_id", ["", "none", "../up", "/etc", "a/b", ".", "..", "ü", "~x", "A" * 200, "nul\0", "\udcff"]
)
def test_a_workspaces_name_is_never_a_path(house, workspace_id):
    artifacts = house.store
    stored = artifacts.put(workspace_id, b"x")
    place = artifacts.path(workspace_id, stored.digest)
    assert place.resolve().parent.parent.parent == house.local
    assert len([f for f in house.kept.rglob(stored.digest[2:]) if f.parent.parent.parent == house.kept]) == 1
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


def test_damage_is_told_and_mended_by_putting_again(house):
    stored = house.store.put("w", b"hello")
    [place] = house.kept.rglob(stored.digest[2:])
    place.chmod(0o600)
    place.write_bytes(b"hullo")
    elsewhere = house.again().store
    with pytest.raises(StoreError, match=r"is damaged: its bytes have the hash .*(backup|delete it and run again)"):
        elsewhere.read("w", stored.digest)
    house.store.put("w", b"hello")
    assert elsewhere.read("w", stored.digest) == b"hello"


def test_what_cannot_be_written_whole_is_not_there(house):
    class Breaks(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(StoreError, match="Input/output error"):
        house.store.put("w", Breaks())
    assert house.files() == []


def test_a_full_disk_is_told(house):
    house.store.put("w", b"small")
    before = house.files()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(StoreUnavailable, match=r"the disk is full \(.*\), nothing was kept; free space and try"):
            house.store.put("w", os.urandom(1 << 17))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert house.files() == before


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


def test_what_is_collected_is_gone(house):
    stored = house.store.put("w", b"x")
    house.store.drop("w", stored.digest)
    house.store.drop("w", stored.digest)
    assert not house.store.has("w", stored.digest)
    with pytest.raises(NotFound):
        house.store.read("w", stored.digest)


def test_what_a_crash_left_half_written_is_swept(house):
    stored = house.store.put("w", b"x")
    half = house.local / "w" / ".new-abc"
    half.write_bytes(b"ha")
    assert house.store.sweep(3_600) == 0, "it may still be written"
    os.utime(half, (0, 0))
    assert house.store.sweep(3_600) == 1
    assert house.store.has("w", stored.digest) and not half.exists()


def test_a_place_knows_which_databases_keep_bytes_there(house, tmp_path):
    ledgers = [SqliteStore(tmp_path / f"{n}.db", Clock()) for n in (1, 2)]
    one, two = (ArtifactStore(house.store.place, ledger) for ledger in ledgers)
    stored = one.put("w", b"x")
    assert house.store.place.owners() == {ledgers[0].identity()}
    assert not one.shared()
    two.put("w", b"x")
    assert one.shared() and two.shared()
    assert list(one.digests("w")) == [stored.digest], "the mark of a database is no artifact"
    for ledger in ledgers:
        ledger.close()


# --- a bucket alone ---------------------------------------------------------------------------------------------------


def test_a_killed_upload_in_parts_is_never_seen(in_bucket, server):
    """The server stands still in the middle of an upload, and the process that uploads is killed."""
    content = os.urandom(5 * PART_BYTES)
    place = in_bucket.store.place
    assert isinstance(place, Bucket)
    code = f"""
import io, os
from longtask.store.artifacts import ArtifactStore
from longtask.store.artifacts.bucket import Bucket
from longtask.store.artifacts.folder import Folder
store = ArtifactStore(Bucket({place.where!r}, Folder({str(in_bucket.local)!r})))
content = open({str(in_bucket.local.with_name("content"))!r}, "rb").read()
print("go", flush=True)
store.put("w", content)
"""
    in_bucket.local.with_name("content").write_bytes(content)
    parts = server.folder / ".nanio" / "multipart"
    before = set(parts.rglob("*"))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"go\n"
    while not any(f.is_file() and f.stat().st_size > 0 for f in set(parts.rglob("*")) - before):
        assert process.poll() is None, "it was uploaded before a part was seen"
    process.kill()
    process.wait()
    process.stdout.close()
    other = in_bucket.again().store
    assert not other.has("w", sha256(content))
    assert list(other.digests("w")) == []
    other.put("w", content)
    assert other.read("w", sha256(content)) == content


def test_a_damaged_local_copy_is_fetched_anew(in_bucket):
    stored = in_bucket.store.put("w", b"hello")
    copy = in_bucket.store.path("w", stored.digest)
    copy.chmod(0o600)
    copy.write_bytes(b"hullo")
    assert in_bucket.store.read("w", stored.digest) == b"hello"
    assert copy.read_bytes() == b"hello"


def test_local_copies_are_trimmed_to_a_size_those_used_longest_ago_first(in_bucket):
    cache = in_bucket.store.place.cache
    stored = [in_bucket.store.put("w", bytes([n]) * 100) for n in range(4)]
    for n, one in enumerate(stored):
        os.utime(cache.path("w", one.digest), (1_000 * (n + 1), 1_000 * (n + 1)))
    in_bucket.store.path("w", stored[0].digest)  # used now
    assert cache.trim(200, 3_600) == 2
    assert [cache.has("w", one.digest) for one in stored] == [True, False, False, True]
    assert cache.trim(0, 3_600) == 1, "what was used a moment ago stays"
    assert in_bucket.store.read("w", stored[1].digest) == bytes([1]) * 100


@pytest.mark.parametrize("act", ["put", "read", "drop", "digests"])
def test_a_bucket_that_is_not_there_is_told(server, tmp_path, act):
    store = ArtifactStore(Bucket("s3://nowhere-at-all/x", Folder(tmp_path)))
    calls = {
        "put": lambda: store.put("w", b"x"),
        "read": lambda: store.read("w", "ab" * 32),
        "drop": lambda: store.drop("w", "ab" * 32),
        "digests": lambda: list(store.digests("w")),
    }
    with pytest.raises(StoreError, match=r"'s3://nowhere-at-all/x': there is no such bucket; make it, or name another"):
        calls[act]()


@pytest.mark.parametrize("act", ["put", "has", "read", "drop", "digests"])
def test_missing_rights_are_told_and_no_key(in_bucket, monkeypatch, act):
    stored = in_bucket.store.put("w", b"x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-fake-secret")
    store = in_bucket.again().store
    calls = {
        "put": lambda: store.put("w", b"y"),
        "has": lambda: store.has("w", stored.digest),
        "read": lambda: store.read("w", stored.digest),
        "drop": lambda: store.drop("w", stored.digest),
        "digests": lambda: list(store.digests("w")),
    }
    with pytest.raises(StoreError, match=r"no right to do this \(.*\); look at AWS_ACCESS_KEY_ID") as told:
        calls[act]()
    assert "another-fake-secret" not in repr(told.value) and s3.KEY not in repr(told.value)
    assert told.value.__cause__ is None, "what the library says may hold an address with a password"


def test_an_endpoint_out_of_reach_is_told_in_bounded_time(in_bucket, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:hidden@127.0.0.1:{taken.getsockname()[1]}")
        store = in_bucket.again().store
        with pytest.raises(StoreUnavailable, match="its endpoint cannot be reached") as told:
            store.put("w", b"x")
    assert "hidden" not in str(told.value)


def test_a_server_that_does_not_answer_is_waited_for_and_not_for_ever(in_bucket, server, monkeypatch):
    for name, value in (("REQUEST_S", 1), ("RETRY_S", 1), ("RETRIES_MAX", 1)):
        monkeypatch.setattr(bucket, name, value)
    store = in_bucket.again().store
    server.freeze()
    try:
        with pytest.raises(StoreUnavailable, match="its endpoint cannot be reached"):
            store.put("w", b"x")
    finally:
        server.thaw()
    assert store.put("w", b"x").size_bytes == 1, "and afterwards it goes on"


def test_plain_http_must_be_asked_for(in_bucket, monkeypatch):
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(StoreError, match="its endpoint is not https; set AWS_ALLOW_HTTP=true"):
        in_bucket.again().store.put("w", b"x")


@pytest.mark.parametrize("where", ["s3://", "s3:///x", "s3://key:secret@bucket/x"])
def test_what_names_no_bucket_is_refused_and_not_repeated(tmp_path, where):
    with pytest.raises(StoreError, match="no bucket's name; write s3://BUCKET/PREFIX") as told:
        Bucket(where, Folder(tmp_path))
    assert "secret" not in str(told.value)


def test_a_damaged_object_never_becomes_a_local_file(in_bucket):
    stored = in_bucket.store.put("w", b"hello")
    [kept] = in_bucket.kept.rglob(stored.digest[2:])
    kept.write_bytes(b"hullo")
    elsewhere = in_bucket.again()
    with pytest.raises(StoreError, match=r"is damaged: .*; restore object '.*' of 's3://.*', or delete it and run"):
        elsewhere.store.path("w", stored.digest)
    assert elsewhere.files() == in_bucket.again().files(), "nothing of it lies about here"
