"""Real output of pytest, made while the tests run; in forks of one process, since importing it takes longest."""

import os
import subprocess
import sys
from pathlib import Path

_RUNS = """
import os, sys, pytest
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
pytest.main(["--version", "--version"])  # imports all that it needs
for folder in sys.argv[1:]:
    if not (pid := os.fork()):
        os.chdir(folder)
        os.dup2(os.open("output", os.O_WRONLY | os.O_CREAT), 1)
        with open("arguments") as file:
            arguments = file.read().split("\\n")
        os._exit(pytest.main(["-p", "no:cacheprovider", *filter(None, arguments), "test_a.py"]))
    os.waitpid(pid, 0)
"""


def record(folder: Path, runs: dict[str, tuple[str, list[str]]]) -> dict[str, bytes]:
    """`runs`: by name, a test file and arguments. Returns what each has written."""
    folders = {name: folder / f"run{number}" for number, name in enumerate(runs)}
    for name, (suite, arguments) in runs.items():
        folders[name].mkdir()
        (folders[name] / "test_a.py").write_text(suite)
        (folders[name] / "arguments").write_text("\n".join(arguments))
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run([sys.executable, "-c", _RUNS, *map(str, folders.values())], check=True, cwd=folder, env=env)
    return {name: (place / "output").read_bytes() for name, place in folders.items()}
