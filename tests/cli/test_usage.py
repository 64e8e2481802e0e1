"""How the command line is understood, and what it says about itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from longtask import __version__
from longtask.cli.app import COMMANDS, make_app
from longtask.cli.help import reference
from tests.cli.shell import LONGTASK, Shell

GROUPS = {
    "dev": "model-server agents fetch",
    "plan": "check show schema",
    "token": "create list rotate revoke",
    "webhook": "add list remove replay enable",
    "workspace": "add list show",
}
ALL = [name for name in COMMANDS if name not in GROUPS]
ALL += [f"{group} {name}" for group, names in GROUPS.items() for name in names.split()]


def test_every_command_is_there():
    words = "run plan ls show why watch events logs trace diff approve reject signal pause resume cancel retry skip"
    words += " add edit take done fork"
    words += " artifacts files worker health fleet doctor init demo migrate prune export import up server token audit"
    words += " webhook login logout dev workspace"
    assert set(words.split()) == set(COMMANDS)


@pytest.mark.parametrize("name", ALL)
def test_help_teaches_with_examples_on_lines_of_their_own(world: Shell, name: str):
    text = world.here(*name.split(), "--help").out
    assert text.startswith(f"Usage: longtask {name}")
    examples = text.partition("\nExamples:\n")[2].partition("\n\n")[0].splitlines()
    assert examples and all(line.startswith(f"  longtask {name}") for line in examples)
    for option in re.findall(r"^  (?:-\w, )?--\w[\w-]*.*$", text, re.M):
        assert re.search(r"\S  +\S|^  --ready", option) or len(option) > 20, option
    assert "--json" in text and "--database PATH" in text and "╭" not in text


def test_the_first_help_keeps_its_lines(world: Shell):
    text = world.here("--help").out
    assert (
        "\n  longtask init                 write a starter plan\n  longtask run longtask.yaml    run it, and watch\n"
        in text
    )
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert world.here("-h").out == text


def test_help_fits_a_narrow_terminal(world: Shell):
    text = world.here("run", "--help", env={"COLUMNS": "40"}).out
    wide = [line for line in text.splitlines() if len(line) > 40 and not line.startswith(("  longtask", "Usage"))]
    assert not wide


def test_wrong_usage_ends_with_2_and_the_next_step(world: Shell):
    assert "no command 'shw'; did you mean 'show'?" in world.here("shw", code=2).err
    assert "see: longtask show --help" in world.here("show", "a", "b", code=2).err
    assert "see: longtask ls --help" in world.here("ls", "--bogus", code=2).err
    assert "missing argument" in world.here("approve", code=2).err.lower()
    assert "see: longtask ls --help" in world.here("ls", "-n", "0", code=2).err
    assert "no such command" in world.here("plan", "chek", code=2).err
    assert "needs a path" in world.here("ls", "--database", code=2).err
    assert "needs a path" in world.here("--database", "--json", "ls", code=2).err
    assert world.here("ls", "--bogus", "--json", code=2).json["error"] == "usage"
    assert all(line.startswith("longtask: ") for line in world.here("shw", code=2).err.splitlines())


def test_no_command_at_all_shows_the_help(world: Shell):
    assert world.here(code=2).out == world.here("--help").out
    assert "check" in world.here("plan", code=2).out


def test_a_database_that_cannot_be_used_is_told_with_what_to_do(world: Shell, tmp_path: Path):
    (tmp_path / "text.db").write_text("this is no database, but a text that is long enough to look like one" * 40)
    for place in (str(tmp_path / "text.db"), str(tmp_path / "no" / "such" / "x.db"), "postgresql://me:secret@host/db"):
        told = world.here("ls", "--database", place, code=1)
        assert told.err.startswith("longtask: database") and "secret" not in told.err and "Traceback" not in told.err
    assert world.here("ls", "--database", "/dev/null/x.db", "--json", code=1).json["error"] == "store"
    assert world.here("ls", env={"LONGTASK_HOME": "/dev/null/x"}, code=1).err.startswith(
        "longtask: folder '/dev/null/x'"
    )
    url = f"sqlite:///{tmp_path / 'url.db'}"
    assert "no tasks yet" in world.here("ls", "--database", url).out and (tmp_path / "url.db").exists()


def test_the_version_costs_little_more_than_python(world: Shell):
    for words in (["--version"], ["-V"], ["--json", "--version"]):
        done = subprocess.run([LONGTASK, *words], capture_output=True, text=True, check=True)
        assert done.stdout == f"longtask {__version__}\n"
    tell = "; import sys; print(len(sys.modules))"
    bare, ours = (
        int(subprocess.run([sys.executable, "-c", text + tell], capture_output=True, check=True).stdout.split()[-1])
        for text in ("pass", "from longtask.cli.main import main; main(['--version'])")
    )
    assert ours <= bare + 5


def test_looking_does_not_load_what_works(world: Shell):
    code = "import sys; from longtask.cli.app import call; call(['ls']); print(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=world.environment(), capture_output=True, text=True, check=True
    )
    loaded = done.stderr.split()
    for heavy in (
        "rich.console",
        "longtask.plan",
        "cel",
        "ruamel.yaml",
        "longtask.engine.worker",
        "longtask.steps.process",
    ):
        assert heavy not in loaded


def test_the_reference_names_every_command():
    text = reference(make_app())
    assert all(f"## longtask {name}\n" in text for name in ALL)


def test_stdout_may_be_closed(world: Shell):
    done = subprocess.run(
        ["bash", "-c", f"exec {LONGTASK} ls >&-"], env=world.environment(), capture_output=True, cwd=world.cwd
    )
    assert done.returncode == 0 and done.stderr == b""
