"""Where a database may lie, and what is told where it may not."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from longtask.core.errors import StoreError
from longtask.store import place
from longtask.store.sqlite import SqliteStore, refuse_old
from tests.conformance.play import ready, submit

NOBODY = 65534

MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:40 / /mnt/team\\040share rw,relatime shared:5 - nfs4 server:/x rw
31 22 0:41 / /mnt/ssh rw shared:6 - fuse.sshfs me@there: rw
32 22 0:42 / /mnt rw shared:7 - tmpfs tmpfs rw
33 32 0:43 / /mnt/c rw - 9p C:\\134 rw
34 22 0:44 / /home/me rw - cifs //nas/me rw
35 34 254:3 / /home/me/local rw - ext4 /dev/vdb rw
broken line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/mnt/team share/x", "nfs4"),
        ("/mnt/ssh", "fuse.sshfs"),
        ("/mnt/sshd", "tmpfs"),
        ("/mnt/c/Users", "9p"),
        ("/home/me", "cifs"),
        ("/home/me/local/deep", "ext4"),
        ("/home/melon", "ext4"),
    ],
)
def test_the_innermost_mount_counts(folder, kind):
    assert place.file_system(Path(folder), MOUNTS) == kind


def test_a_later_mount_hides_an_earlier_one_at_the_same_place():
    assert place.file_system(Path("/srv"), "1 0 0:1 / /srv rw - ext4 a rw\n2 1 0:2 / /srv rw - nfs b rw\n") == "nfs"


def test_without_a_list_of_mounts_nothing_is_known():
    assert place.file_system(Path("/srv"), "") == ""
    place.refuse_network(Path("/srv"), "")


def test_a_network_file_system_is_refused_unless_told_otherwise(monkeypatch):
    with pytest.raises(StoreError, match=r"'/home/me/x' is on a network file system \(cifs\).*use a local disk"):
        place.refuse_network(Path("/home/me/x"), MOUNTS)
    monkeypatch.setenv("LONGTASK_ALLOW_NETWORK_FS", "1")
    place.refuse_network(Path("/home/me/x"), MOUNTS)


def test_this_machines_own_mounts_can_be_read(tmp_path):
    if not place.MOUNTS.exists():
        pytest.skip("optional: no /proc on this system")
    assert place.file_system(tmp_path, place.MOUNTS.read_text()) != ""


def test_a_database_and_its_folder_are_their_owners_alone(tmp_path):
    folder = tmp_path / "new"
    store = SqliteStore(folder / "longtask.db")
    submit(store, 1, ready("a"))
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in [folder, *folder.iterdir()]}
    assert modes.pop("new") == 0o700
    assert "longtask.db-wal" in modes
    assert set(modes.values()) == {0o600}
    store.close()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no/such/longtask.db", r"there is no folder '.*/no'; create it or name another place"),
        ("", r"it is no file; name another place"),
        ("file/longtask.db", r"(?i)not a directory"),
    ],
)
def test_a_place_that_cannot_be_is_told(tmp_path, name, says):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=says):
        SqliteStore(tmp_path / name)
    assert not (tmp_path / "no").exists()


@pytest.fixture
def folder_of_another_user():
    """A folder in which this process is an ordinary user, also if it is root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() != 0:
            yield folder
        else:
            folder.chmod(0o755)
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
            try:
                yield folder
            finally:
                os.seteuid(0)
        folder.chmod(0o755)


def test_a_read_only_file_or_folder_is_told(folder_of_another_user):
    folder = folder_of_another_user
    path = folder / "longtask.db"
    SqliteStore(path).close()
    path.chmod(0o400)
    with pytest.raises(
        StoreError, match=r"the file '.*longtask.db' is read-only for this user; change its permissions"
    ):
        SqliteStore(path)
    path.chmod(0o600)
    folder.chmod(0o500)
    with pytest.raises(StoreError, match=r"the folder '.*' is read-only for this user; change its permissions"):
        SqliteStore(path)
    with pytest.raises(StoreError, match=r"(?i)permission denied"):
        SqliteStore(folder / "other.db")
    folder.chmod(0o700)
    SqliteStore(path).close()


def test_an_old_sqlite_is_refused():
    with pytest.raises(StoreError, match=r"SQLite 3\.40\.1 can corrupt.*3\.51\.3 is needed: upgrade 'apsw'"):
        refuse_old("3.40.1")
    refuse_old("3.51.3")
    refuse_old("3.100.0.1")
