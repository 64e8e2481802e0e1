"""The demo job over HTTP only: a server with a home of its own, and a checkout that knows nothing but its address."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longtask.cli.demo_input import FOLDER, PLAN, prepare, registry_settings
from tests.cli.shell import DEADLINE_S, LONGTASK, Shell
from tests.cli.test_serve import started

END_S = 900  # on a machine that has much else to do


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library as a repository, the plan and its recording; its steps find the registry that pip has found."""
    folder = tmp_path_factory.mktemp("job")
    prepare(folder, print)
    with (folder / PLAN).open("a") as plan:
        plan.write(f"\nsecrets: [{', '.join(registry_settings())}]\n")
    return folder


@pytest.mark.slow  # tests/page does the same with the page in the place of the terminal
@pytest.mark.parametrize("hub", ["bare", "none"])
def test_up_serves_the_demo_job_to_its_end_over_http_only(shell: Shell, job: Path, tmp_path: Path, hub: str):
    env = {"LONGTASK_SERVER": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    there = replace(shell, home=tmp_path / "server", env=dict(env))
    if hub == "bare":
        subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "hub.git")], check=True)
        there.env["LONGTASK_HUB"] = f"file://{tmp_path / 'hub.git'}"
    here = replace(shell, cwd=tmp_path / "job", env=env)
    shutil.copytree(job, here.cwd, symlinks=True)
    with started(there, "up", "--no-browser") as (process, told):

        def call(*words: str, code: int = 0) -> Any:
            """The last JSON document that it has told."""
            done = subprocess.run(
                [LONGTASK, "--server", told["url"], *words, "--json"], cwd=here.cwd, env=here.environment(),
                stdin=subprocess.DEVNULL, capture_output=True, timeout=END_S, check=False,
            )  # fmt: skip
            assert done.returncode == code, (words, done.stdout[-2_000:], done.stderr)
            return json.loads(done.stdout.splitlines()[-1])

        call("workspace", "add", FOLDER)
        assert call("run", PLAN, code=3)["status"] == "waiting_user"
        assert call("approve", "@last", "review")["answer"] == "approve"
        assert call("watch")["status"] == "completed"
        steps = {step["key"]: step for step in call("show")["steps"]}
        summary = steps["proof"]["result"]["summary"]
        assert "passed" in summary and "failed" not in summary and steps["tests"]["state"] == "completed"
        assert call("artifacts", "@last", "vobject.patch", "-o", "vobject.patch")["size_bytes"] > 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    subprocess.run(
        ["git", "apply", "--check", "--whitespace=nowarn", "../vobject.patch"], cwd=here.cwd / FOLDER, check=True
    )
    assert not (here.home / "longtask.db").exists() and not here.workers()
