"""The demo where it cannot run to its end: the whole of it is run by `make test`, beside the tests."""

from __future__ import annotations

import signal
import subprocess

from tests.cli.shell import LONGTASK, Shell, until

NOWHERE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}


def test_without_a_registry_it_says_what_it_needs_and_ends_with_1(shell: Shell):
    place = shell.cwd.parent / "demo"
    failed = shell("demo", "--folder", str(place), env=NOWHERE, code=1)
    assert failed.out.startswith("the model's words are a recording; all else is real\n")
    assert "pip could not fetch" in failed.err and "package registry" in failed.err


def test_a_folder_that_is_something_else_is_left_alone(shell: Shell):
    place = shell.cwd.parent / "demo"
    place.mkdir()
    (place / "vobject-0.9.6.1.tar.gz").write_text("something else")
    failed = shell("demo", "--json", "--folder", str(place), code=1)
    assert failed.json["error"] == "workspace" and failed.json["exit_code"] == 1
    assert "remove the file" in failed.err and (place / "vobject-0.9.6.1.tar.gz").read_text() == "something else"


def test_ended_early_it_leaves_no_process(shell: Shell):
    """SIGTERM, as Ctrl-C; at whatever it is then."""
    shell.env.update(NOWHERE)
    place = shell.cwd.parent / "demo"
    started = subprocess.Popen(
        [LONGTASK, "demo", "--folder", str(place)], cwd=shell.cwd, env=shell.environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert started.stdout is not None
    started.stdout.readline()
    started.send_signal(signal.SIGTERM)
    started.communicate()
    assert started.returncode in (1, 130)
    until(lambda: not shell.processes())
