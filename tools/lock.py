"""Writes requirements.lock (`make lock`) or checks it (`make check`).

The lock carries names, versions, hashes and no address: whoever installs uses the registry that their pip or uv is
set up for, and the hashes make the choice harmless.  uv.lock and pylock.toml are no substitute, they name a registry
on every line.  The check needs no network: the lock must fit pyproject.toml as it stands.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path("requirements.lock")
PROJECT = Path("pyproject.toml")
PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?P<rest>(?:.*\\\n)*.*)$", re.MULTILINE)


def resolve(arguments: list[str]) -> int:
    """Ask uv for versions that fit every supported Python and platform; versions locked before are kept."""
    command = [sys.executable, "-m", "uv", "pip", "compile", str(PROJECT), "--group", "dev", "--universal"]
    command += ["--python-version", "3.11", "--generate-hashes", "--quiet", "--output-file", str(LOCK)]
    # These keep addresses, and the command line itself, out of the file.
    command += ["--no-emit-index-url", "--no-emit-find-links", "--no-header", "--no-annotate"]
    return subprocess.run([*command, *arguments], stdout=subprocess.DEVNULL, check=False).returncode


def wanted() -> Iterator[Requirement]:
    """What pyproject.toml asks for, development tools included."""
    project = tomllib.loads(PROJECT.read_text())
    for line in [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]:
        yield Requirement(line)


def complaints(text: str) -> Iterator[str]:
    """What is wrong with the lock, one line each."""
    if "://" in text:
        yield f"{LOCK}: holds an address; write it with `make lock`"
    versions: dict[str, str] = {}
    for pin in PINNED.finditer(text):
        versions[canonicalize_name(pin["name"])] = pin["version"]
        if "--hash=sha256:" not in pin["rest"]:
            yield f"{LOCK}: {pin['name']} has no hash; run `make lock`"
    for requirement in wanted():
        version = versions.get(canonicalize_name(requirement.name))
        if version is None:
            yield f"{LOCK}: {requirement.name!r} of {PROJECT} is missing; run `make lock`"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield f"{LOCK}: {requirement.name} {version} is not {str(requirement)!r} of {PROJECT}; run `make lock`"


def main(arguments: list[str]) -> int:
    """`--check` looks only; any other argument goes to uv (`--upgrade`)."""
    if arguments != ["--check"]:
        return resolve(arguments)
    found = list(complaints(LOCK.read_text()))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
