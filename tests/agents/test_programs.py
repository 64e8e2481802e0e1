"""Programs of agents: found, looked through, fetched once and whole.  By the real npm, from a registry on loopback."""

from __future__ import annotations

import concurrent.futures
import os
import platform
import shutil
from pathlib import Path

import pytest

from longtask.agents.programs import KINDS, fetch, find, machine
from longtask.core.errors import NotFound, Refused
from tests.agents.programs import Registry, claude_code, codex, opencode  # noqa: F401  fixtures
from tests.cli.shell import Shell

CODEX = KINDS["codex"]
PACKAGE, VERSION = "@openai/codex", f"{CODEX.version}-{machine(CODEX)}"
INSIDE = "vendor/some-machine/bin/codex"
TELLS = f"#!/bin/sh\necho codex-cli {CODEX.version}\n"
with_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not here")


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """`npm(files)`: from now on npm knows one package, of these files.  Its settings and cache are this test's."""
    where = str(shutil.which("npm"))
    monkeypatch.setenv("PATH", f"{Path(where).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    serving = []

    def begin(files):
        served = Registry({(PACKAGE, VERSION): files})
        serving.append(served.serving())
        serving[-1].__enter__()
        monkeypatch.setenv("npm_config_registry", served.url)
        return served

    yield begin
    for one in serving:
        one.__exit__(None, None, None)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A folder that alone is the PATH, but for the shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program_at(file: Path, text: str = TELLS) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


@with_npm
def test_what_is_fetched_is_told_pinned_and_found(npm, tmp_path):
    served = npm({INSIDE: TELLS})
    said: list[str] = []
    fetched = fetch("codex", tmp_path, said.append)
    assert fetched.path == tmp_path / "agents" / "codex" / CODEX.version / "node_modules" / PACKAGE / INSIDE
    assert (fetched.version, fetched.fetched) == (CODEX.version, True)
    assert [line for line in said if all(word in line for word in (f"{PACKAGE}@{VERSION}", "424 MB", "Apache-2.0"))]
    assert find("codex", tmp_path, path="/nowhere") == fetched
    assert fetch("codex", tmp_path, said.append) == fetched
    assert (len(said), served.given[PACKAGE]) == (1, 1)


@with_npm
def test_two_that_fetch_at_once_fetch_once(npm, tmp_path):
    served = npm({INSIDE: TELLS})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: fetch("codex", tmp_path), range(2))
    assert one == two
    assert served.given[PACKAGE] == 1


@with_npm
@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({INSIDE: "#!/bin/sh\necho codex-cli 0.0.1\n"}, "brought version 0.0.1"),
        ({"README": "nothing"}, "brought no program that this machine can run"),
    ],
)
def test_what_is_not_the_wanted_program_is_not_kept(npm, tmp_path, files, told):
    npm(files)
    with pytest.raises(Refused, match=told):
        fetch("codex", tmp_path)
    assert find("codex", tmp_path, path="/nowhere") is None
    assert list((tmp_path / "agents" / "codex").iterdir()) == []


@with_npm
def test_what_one_that_died_has_left_is_no_program_and_is_cleared(npm, tmp_path):
    npm({INSIDE: TELLS})
    left = program_at(tmp_path / "agents/codex/.fetching-x" / CODEX.version / "node_modules" / PACKAGE / INSIDE)
    broken = tmp_path / "agents/codex" / CODEX.version
    (broken / "node_modules").mkdir(parents=True)
    assert find("codex", tmp_path, path="/nowhere") is None
    assert fetch("codex", tmp_path).path.is_relative_to(broken)
    assert not left.exists()


@with_npm
def test_no_connection_is_told_as_one(npm, tmp_path, monkeypatch):
    npm({})
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    with pytest.raises(Refused, match=r"npm has no connection to its registry, so @openai/codex@.* cannot be fetched"):
        fetch("codex", tmp_path)


@with_npm
def test_a_package_that_is_not_there_is_told_by_npm(npm, tmp_path):
    npm({INSIDE: TELLS})
    with pytest.raises(Refused, match=r"npm could not fetch opencode-.*; npm says: .*404"):
        fetch("opencode", tmp_path)


def test_without_npm_it_is_told_what_to_do(path, tmp_path):
    with pytest.raises(Refused, match=r"npm is not here, which would fetch it; install Node\.js"):
        fetch("codex", tmp_path)


def test_a_program_on_the_path_comes_first(path, tmp_path):
    program_at(tmp_path / "agents/codex" / CODEX.version / "node_modules" / PACKAGE / INSIDE)
    own = program_at(path / "codex", "#!/bin/sh\necho codex-cli 9.8.7\n")
    found = find("codex", tmp_path)
    assert found is not None
    assert (found.path, found.version, found.fetched) == (own, "9.8.7", False)
    own.unlink()
    found = find("codex", tmp_path)
    assert found is not None and found.fetched


@pytest.mark.parametrize("inside", [f"node_modules/{PACKAGE}-linux-x64/{INSIDE}", f"../codex-linux-x64/{INSIDE}"])
def test_a_wrapper_in_node_is_looked_through(path, tmp_path, inside):
    package = tmp_path / "lib/node_modules" / PACKAGE
    wrapper = program_at(package / "bin/codex.js", "#!/usr/bin/env node\n")
    native = program_at(package / inside)
    (path / "codex").symlink_to(wrapper)
    found = find("codex", tmp_path)
    assert found is not None
    assert (found.path.resolve(), found.version) == (native.resolve(), CODEX.version)


def test_a_program_that_tells_no_version_is_found_all_the_same(path, tmp_path):
    program_at(path / "claude", "#!/bin/sh\nexit 3\n")
    found = find("claude-code", tmp_path)
    assert found is not None
    assert found.version == ""


def test_a_name_that_is_no_agents_is_told_with_the_nearest(tmp_path):
    for ask in (find, fetch):
        with pytest.raises(NotFound, match="no program of an agent 'codx'; did you mean 'codex'"):
            ask("codx", tmp_path)


@pytest.mark.parametrize(
    ("system", "processor", "name"),
    [("Linux", "x86_64", "linux-x64"), ("Linux", "aarch64", "linux-arm64"), ("Darwin", "arm64", "darwin-arm64")],
)
def test_a_machine_has_the_name_that_packages_give_it(monkeypatch, system, processor, name):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: processor)
    assert machine(CODEX) == name


def test_a_machine_that_there_is_no_package_for_is_told(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(Refused, match="there is no package for Linux on riscv64"):
        machine(CODEX)


def test_people_see_what_is_here_and_what_fetches_the_rest(path, tmp_path):
    program_at(path / "codex")
    shell = Shell(tmp_path / "home", tmp_path)
    environment = {"PATH": str(path)}
    rows = {one["name"]: one for one in shell.here("dev", "agents", "--json", env=environment).json}
    assert rows["codex"] == {"name": "codex", "path": str(path / "codex"), "version": CODEX.version, "fetched": False}
    assert rows["opencode"] == {"name": "opencode", "path": None, "version": None, "fetched": False}
    assert "longtask dev fetch opencode" in shell.here("dev", "agents", env=environment).out
    assert "npm is not here" in shell.here("dev", "fetch", "opencode", env=environment, code=1).err


@pytest.mark.parametrize("name", ["claude_code", "codex", "opencode"])
def test_the_real_ones_tell_their_version(name, request):
    assert request.getfixturevalue(name).version
