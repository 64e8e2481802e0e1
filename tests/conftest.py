"""What holds for every test.

- A test reads nothing of its user and leaves nothing behind: home, LongTask's own folder and git's settings are a
  temporary folder's.  Set before anything of ours is imported, so that child processes inherit it too.
- In CI nothing that must run is skipped unseen.  A skip fails there, unless its reason begins with `optional:`.
- Files that take long come first, so that at the end of `make test` nobody waits for the last one alone.
"""

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

OPTIONAL = "optional:"
# Those of twenty seconds and more, on a machine that has nothing else to do; the longest first.
LONG = (
    "agents/conformance/test_faults.py",
    "agents/conformance/test_killed.py",
    "sim/test_sim.py",
    "page/test_demo.py",
    "agents/conformance/test_asked.py",
    "agents/conformance/test_work.py",
    "agents/conformance/test_machines.py",
    "agents/test_opencode.py",
    "page/test_live.py",
    "examples/test_migrate_modules.py",
    "crash/test_points.py",
    "api/test_forges.py",
    "cli/test_hands.py",
    "workers/test_processes.py",
    "cli/test_serve.py",
    "load/test_load.py",
    "api/test_routes_code.py",
    "api/test_routes_tasks.py",
    "api/test_access_tokens.py",
    "cli/test_remote.py",
    "cli/test_remote_run.py",
    "cli/test_background.py",
    "api/test_schemathesis.py",
    "page/test_hands.py",
)


def pytest_configure(config: pytest.Config) -> None:
    home = tempfile.mkdtemp(prefix="longtask-tests-")
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    for name in [name for name in os.environ if name.startswith(("GIT_", "LONGTASK_", "XDG_", "COLUMNS"))]:
        if not name.startswith("LONGTASK_TEST_"):
            del os.environ[name]
    os.environ["HOME"] = home
    os.environ["LONGTASK_HOME"] = os.path.join(home, "longtask")
    os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
    # Who starts us in the background of a shell hands down an ignored SIGINT; the programs under test must hear theirs.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files, then those of many tests; within a file as it is written.  xdist gives out files in this order."""
    counts = Counter(item.path for item in items)
    places = {config.rootpath / "tests" / name: place for place, name in enumerate(LONG)}
    files = sorted(counts, key=lambda path: (places.get(path, len(LONG)), -counts[path]))
    order = {path: place for place, path in enumerate(files)}
    items.sort(key=lambda item: order[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return refuse_skip((yield))


def refuse_skip(report: Any) -> Any:
    """In CI, the report of a skipped test or file as a failure; every other report as it is."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return report
    reason = (
        report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else str(report.longrepr)
    )
    if not reason.startswith(OPTIONAL):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {reason!r}; make it run, or begin the reason with {OPTIONAL!r}"
    return report
