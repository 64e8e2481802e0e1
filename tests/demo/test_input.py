"""How the demo gets its library: what is refused, and what a second time does.  No network."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from longtask.cli import demo_input
from longtask.core.errors import WorkspaceError
from longtask.workspace.git import Place, git


def archive(folder: Path, *members: tuple[str, bytes], link: str = "") -> Path:
    path = folder / "made.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.uid = member.gid = 12345
            member.mode = 0o4777
            tar.addfile(member, io.BytesIO(content))
        if link:
            member = tarfile.TarInfo(f"{demo_input.STEM}/link")
            member.type, member.linkname = tarfile.SYMTYPE, link
            tar.addfile(member)
    return path


def test_the_assets_are_found() -> None:
    assert {path.name for path in demo_input.assets().iterdir()} >= {
        "README.md",
        "input.lock",
        "longtask.yaml",
        "recording.yaml",
        "requirements.lock",
    }


def test_no_registry_is_named() -> None:
    for name in ("input.lock", "requirements.lock"):
        assert "://" not in (demo_input.assets() / name).read_text()


def test_regular_files_alone_are_taken(tmp_path: Path) -> None:
    made = archive(tmp_path, (f"{demo_input.STEM}/a/b.txt", b"b\r\n"), link="/etc/passwd")
    demo_input._unpack(made, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["a", "b.txt"]
    found = tmp_path / "out" / "a" / "b.txt"
    assert found.read_bytes() == b"b\r\n"
    assert (found.stat().st_mode & 0o7777, found.stat().st_uid) == (0o755, os.getuid())


@pytest.mark.parametrize("name", ["../x", f"{demo_input.STEM}/../../x", "other/x", demo_input.STEM, "/etc/x"])
def test_a_name_outside_of_the_one_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkspaceError, match="outside of"):
        demo_input._unpack(archive(tmp_path, (name, b"x")), tmp_path / "out")


def test_a_kept_archive_with_another_digest_is_refused(tmp_path: Path) -> None:
    (tmp_path / demo_input.ARCHIVE).write_bytes(b"not it")
    with pytest.raises(WorkspaceError, match=r"has sha256 .* asks for 96512aec.*remove the file"):
        demo_input.prepare(tmp_path, print)
    assert not (tmp_path / demo_input.FOLDER).exists()


def test_without_a_registry_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(
        WorkspaceError, match=r"could not fetch 'vobject-0.9.6.1': .*reach a package registry once"
    ) as error:
        demo_input.prepare(tmp_path / "demo", print)
    assert "://" not in str(error.value)
    assert list((tmp_path / "demo").iterdir()) == []


def test_the_repository_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two words"):
        folder = tmp_path / name
        (folder / "vobject").mkdir(parents=True)
        (folder / "vobject" / "setup.py").write_bytes(b"pass\n")
        (folder / ".gitignore").write_text("vobject\n")
        found.append(demo_input._commit(folder))
    assert found[0] == found[1]
    assert git(Place(cwd=tmp_path / "one"), "ls-files").line.split() == [
        ".gitignore",
        "vobject/setup.py",
    ]
