"""An environment for each peer, made once from its pinned requirements and used again until they change.

They lie in `.bench/` beside the sources, which git ignores; a peer that cannot be installed is told, the rest goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.plan import Peer

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / ".bench"
INSTALL_S_MAX = 600
STAMP = "stamp"


class NotInstalled(Exception):
    """The text says what failed."""


def prepared(peer: Peer) -> Path:
    """Its Python.  Raises NotInstalled."""
    sources = Path(__file__).parent / peer.name
    folder = FOLDER / peer.name
    python = folder / "bin" / "python"
    wanted = digest(sources, peer)
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return python
    print(f"{peer.title}: making its environment", file=sys.stderr, flush=True)
    stamp.unlink(missing_ok=True)
    uv = uv_program()
    run([uv, "venv", "--quiet", "--clear", "--no-python-downloads", "--python", python_for(peer), str(folder)])
    requirements = str(sources / "requirements.txt")
    try:
        run([uv, "pip", "sync", "--quiet", "--python", str(python), "--require-hashes", requirements])
    except NotInstalled:  # pip reads settings that uv does not know: where uv finds no registry, pip may
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
        run([*pip, "--require-hashes", "-r", requirements])
    if peer.npm:
        npm = shutil.which("npm")
        if npm is None:
            raise NotInstalled("npm is not installed")
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(sources / name, folder / name)
        run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], folder)
    stamp.write_text(wanted)
    return python


def digest(sources: Path, peer: Peer) -> str:
    """Of what an environment is made from; its place counts, since its programs name it."""
    parts = [str(FOLDER), python_for(peer)]
    parts += [
        (sources / name).read_text() for name in ("requirements.txt", *(["package-lock.json"] if peer.npm else []))
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def uv_program() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise NotInstalled("uv is not installed")
    return found


def python_for(peer: Peer) -> str:
    """This one if it is new enough, else the oldest of the newer ones that run.  Candidates are run, not looked up: a
    shim may exist for a Python that does not.  Raises NotInstalled."""
    if sys.version_info[:2] >= peer.python_min:
        return sys._base_executable  # type: ignore[attr-defined,no-any-return,unused-ignore]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(peer.python_min[1], peer.python_min[1] + 4):
        for candidate in (f"python3.{minor}", *sorted(map(str, pyenv.glob(f"3.{minor}.*/bin/python")))):
            found = shutil.which(candidate)
            if found and subprocess.run([found, "-c", "import venv"], capture_output=True).returncode == 0:
                return found
    raise NotInstalled(f"it needs Python {'.'.join(map(str, peer.python_min))} or later, and there is none")


def run(command: list[str], folder: Path | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S_MAX)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{Path(command[0]).name} did not end within {INSTALL_S_MAX} s") from None
    if done.returncode:
        raise NotInstalled(f"{Path(command[0]).name} failed: {' '.join(done.stderr.split())[-300:]}")


def versions(peer: Peer, python: Path) -> dict[str, str]:
    """Of what its requirements ask for by name, of its Python and, where it uses it, of its SQLite."""
    names = [line.split("==")[0].split("[")[0] for line in (sources_of(peer) / "requirements.in").read_text().split()]
    program = (
        "import json, platform, sqlite3, sys; from importlib.metadata import version; "
        "print(json.dumps({name: version(name) for name in sys.argv[1:]} "
        "| {'Python': platform.python_version(), 'SQLite': sqlite3.sqlite_version}))"
    )
    done = subprocess.run([str(python), "-c", program, *names], capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    if "sqlite" not in peer.databases:
        del found["SQLite"]
    if peer.npm:
        wanted: dict[str, str] = json.loads((sources_of(peer) / "package.json").read_text())["dependencies"]
        found |= {name.rpartition("/")[2]: version for name, version in wanted.items()}
    return found


def sources_of(peer: Peer) -> Path:
    return Path(__file__).parent / peer.name
