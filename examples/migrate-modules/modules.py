"""Moves 200 modules, each as a task of its own, while things go wrong; then counts what was done how often.

    python examples/migrate-modules/modules.py [--modules 200] [--folder PATH]

Ten modules are made so that they fail: six at their first attempt, which a retry mends; two in a form that the program
does not know, which the (recorded) agent mends; two in a form that neither knows, for which a person is asked.  One of
these is taken and done by hand.  The other one is given up when half of all is done: so the task fails, after what it
had begun has ended.  A fork of it takes over what was done and does the rest, and of the module that was given up the
step is said anew.  Three worker processes are killed with SIGKILL on the way.

It is counted outside of LongTask's database, in what git holds and in a ledger that the programs in `tools` write:

- on the fork's branch every module is moved exactly once, on the first one's none more than once;
- no module that was done has been begun again, by a killed worker's successor or by the fork.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORKERS, SLOTS, LEASE = 3, 3, "5s"
KILLS = 3
FLAKY, ODD = 6, 2  # and two strange ones
LOOK_EVERY_S = 4.0  # each look is a program that starts
POLL_S = 0.1
LIMIT_S = 1_800
HIRED_MAX = 10  # beyond those that were killed

PLAIN = '''\
"""Module {name}."""

import oldlog


def total(numbers):
    oldlog.write("{name}: %d numbers" % len(numbers))
    return sum(numbers)
'''
FORMS = {  # kind of failure: what stands in the place of what
    "flaky": [("import oldlog\n", "import oldlog\n\n# flaky\n")],
    "odd": [("import oldlog\n", "from oldlog import write\n"), ("    oldlog.write(", "    write(")],
    "strange": [
        ("import oldlog\n", 'log = __import__("oldlog")\n'),
        ("    oldlog.write(", '    getattr(log, "write")('),
    ],
}
BY_SED = """s/^log = .*/import oldlog/; s/^    getattr(log, "write")(/    oldlog.write(/"""  # the strange one


class Wrong(Exception):
    """It has not come to the end that it should; the message says what to look at."""


# --- what is worked on ------------------------------------------------------------------------------------------------


def planted(count: int) -> dict[str, str]:
    """By name of the module, how it fails; spread over all of them, the strange ones first and halfway."""
    kinds = ["flaky"] * FLAKY + ["odd"] * ODD
    for at in (0, (len(kinds) + 2) // 2):
        kinds.insert(at, "strange")
    return {f"m{n * count // len(kinds):03}": kind for n, kind in enumerate(kinds)}


def text_of(name: str, kind: str | None) -> str:
    text = PLAIN.format(name=name)
    for old, new in FORMS.get(kind or "", ()):
        text = text.replace(old, new)
    return text


def make(folder: Path, count: int) -> Path:
    """The repository of the modules, with the plans beside them."""
    repo, ledger = folder / "repo", folder / "ledger"
    ledger.mkdir(parents=True)
    shutil.copytree(HERE / "tools", repo / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (repo / "modules").mkdir()
    failing = planted(count)
    for name in names(count):
        (repo / "modules" / f"{name}.py").write_text(text_of(name, failing.get(name)))
    git(repo, "init", "-q", "-b", "main")
    git(repo, "config", "user.name", "ann")
    git(repo, "config", "user.email", "ann@example.com")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Modules that write with oldlog")
    for plan in HERE.glob("*.yaml"):
        shutil.copy(plan, repo)
    plan = repo / "longtask.yaml"
    plan.write_text(plan.read_text().replace("env: {", f"env: {{MODULES_LEDGER: {json.dumps(str(ledger))}, ", 1))
    return repo


def names(count: int) -> list[str]:
    return [f"m{n:03}" for n in range(count)]


def git(repo: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True, text=True).stdout


# --- who works on it --------------------------------------------------------------------------------------------------


@dataclass
class Site:
    """A folder with the repository, a LONGTASK_HOME and the ledger."""

    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    hired: int = 0
    killed: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def ledger(self) -> list[list[str]]:
        """[what, module], in the order in which it was written."""
        path = self.folder / "ledger" / "ledger"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LONGTASK_")}
        return {**kept, "PATH": path, "LONGTASK_HOME": str(self.folder / "home"), "LONGTASK_USER": "ann"}

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f}s  {text}", flush=True)

    def longtask(self, *words: str) -> Any:
        """The document that it prints."""
        command = [sys.executable, "-m", "longtask.cli.main", *words, "--json"]
        done = subprocess.run(
            command, cwd=self.repo, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise Wrong(f"longtask {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def hire(self) -> None:
        """Up to the number of workers."""
        self.workers[:] = [worker for worker in self.workers if worker.poll() is None]
        command = [sys.executable, "-m", "longtask.cli.main", "worker", "--slots", str(SLOTS), "--lease", LEASE]
        with open(self.folder / "worker.log", "ab") as log:
            while len(self.workers) < WORKERS:
                self.hired += 1
                if self.hired - self.killed > HIRED_MAX:
                    raise Wrong(f"workers end again and again; {log.name} tells why")
                self.workers.append(
                    subprocess.Popen(
                        [*command, "--idle-exit", "5m"],
                        cwd=self.folder,
                        env=self.environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )

    def kill_one(self) -> None:
        worker = self.workers.pop(0)
        worker.kill()
        worker.wait()
        self.killed += 1
        self.say(f"killed worker {worker.pid} with SIGKILL")

    def dismiss(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for worker in self.workers:
                worker.send_signal(number)
            for worker in self.workers:
                try:
                    worker.wait(10)
                except subprocess.TimeoutExpired:
                    continue


# --- on the way -------------------------------------------------------------------------------------------------------


def carry(site: Site, count: int) -> tuple[str, str]:
    """Handles of the task that was given up, and of its fork, which has moved them all."""
    site.hire()
    while sum(worker["alive"] for worker in site.longtask("fleet")["workers"]) < WORKERS:  # else `run` starts another
        time.sleep(POLL_S)
        site.hire()
    first = site.longtask("run", "--detach", "--attended")["handle"]
    site.say(f"{first}: {count} modules")
    by_hand, given_up = [name for name, kind in planted(count).items() if kind == "strange"]
    watch(site, first, count, "failed", {by_hand: do_by_hand, given_up: give_up})
    fork = site.longtask("fork", first, "--from", "check")["handle"]
    site.say(f"{fork} is forked from {first}")
    watch(site, fork, count, "completed", {given_up: say_anew})
    return first, fork


Deed = Callable[[Site, str, str, bool], bool]  # (site, task of the module, module, half of all is done): it was done


def watch(site: Site, handle: str, count: int, end: str, people: dict[str, Deed]) -> None:
    """To this end; kills workers as it comes on.  `people`: what they do about a module, once."""
    look_at = 0.0
    while True:
        done = len({module for what, module in site.ledger if what == "checked"})
        if site.killed < KILLS and done >= count * (site.killed + 1) // (KILLS + 1):
            site.kill_one()
        site.hire()
        if time.monotonic() >= look_at:
            tasks = {task["handle"]: task for task in site.longtask("ls", "--children", "--limit", "1000")}
            status = tasks[handle]["status"]
            if status == end:
                site.say(f"{handle} has {end}, {done} of {count} modules are done")
                break
            if status in ("completed", "failed", "cancelled") or time.monotonic() - site.began > LIMIT_S:
                raise Wrong(f"{handle} is {status}, {done} of {count} modules are done; look into {site.folder}")
            for child in tasks.values():
                if (child["asks"] or {}).get("step") == "move":
                    module = names(count)[int(re.findall(r"\d+", child["parent_step"])[0])]
                    if module in people and people[module](site, child["id"], module, done >= count // 2):
                        del people[module]
            look_at = time.monotonic() + LOOK_EVERY_S
        time.sleep(POLL_S)
    if people:
        raise Wrong(f"nobody was asked about {', '.join(people)}")


def do_by_hand(site: Site, task: str, module: str, half: bool) -> bool:
    folder = Path(site.longtask("take", task, "move", "--no-shell")["folder"])
    path = folder / "modules" / f"{module}.py"
    text = path.read_text()
    for old, new in FORMS["strange"]:
        text = text.replace(new, old)
    path.write_text(text)
    ledger = {"MODULES_LEDGER": str(site.folder / "ledger"), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(
        [sys.executable, "tools/move.py", module], cwd=folder, env={**site.environment, **ledger}, check=True
    )
    site.longtask("done", task, "move", "--message", f"Move {module} by hand")
    site.say(f"{module}: taken, and done by hand")
    return True


def give_up(site: Site, task: str, module: str, half: bool) -> bool:
    if half:
        site.longtask("reject", task, "move", "--message", "nobody knows this form")
        site.say(f"{module}: given up")
    return half


def say_anew(site: Site, task: str, module: str, half: bool) -> bool:
    run = f"sed -i '{BY_SED}' modules/$MODULE.py && python3 tools/move.py $MODULE"
    site.longtask("edit", task, "move", "--run", run, "--retry-now")
    site.say(f"{module}: its step was said anew, and goes on")
    return True


# --- what was done, and how often -------------------------------------------------------------------------------------


def count_outside(site: Site, modules: Sequence[str], first: str, fork: str) -> dict[str, Any]:
    """`wrong`: what is not as it should be, in words."""
    wrong: list[str] = []
    found = {task: moved(site.repo, f"longtask/{task}") for task in (first, fork)}
    for task, (marked, moves) in found.items():
        for name in modules:
            if not marked[name] == moves[name] <= 1 or (task == fork and not marked[name]):
                wrong.append(f"{task}: {name} was moved by {moves[name]} commits; its file says one: {name in marked}")
    done: set[str] = set()
    for what, module in site.ledger:
        if what == "checked":
            done.add(module)
        elif what == "begun" and module in done:
            wrong.append(f"{module} was begun again after it had been done")
    if missing := set(modules) - done:
        wrong.append(f"never done: {', '.join(sorted(missing))}")
    told = Counter(what for what, _ in site.ledger)
    return {
        "modules": len(modules),
        "done_before_the_fork": found[first][1].total(),
        "done": found[fork][1].total(),
        "begun": told["begun"],
        "through": told["moved"],
        "kills": site.killed,
        "wrong": wrong,
    }


def moved(repo: Path, branch: str) -> tuple[Counter[str], Counter[str]]:
    """By module: whether its file says that it was moved once, and how many commits have moved it."""
    marked = git(repo, "grep", "-lE", "^# moved: 1$", branch, "--", "modules")
    moves = git(repo, "log", "--no-merges", "--format=", "--name-only", "-G^# moved: ", branch, "--", "modules")
    return stems(marked), stems(moves)


def stems(lines: str) -> Counter[str]:
    """How often each module is named, by lines of paths."""
    return Counter(Path(line).stem for line in lines.splitlines() if line)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--modules", type=int, default=200, help="how many; at least 20, at most 900")
    parser.add_argument(
        "--folder", type=Path, help="a new one; default: a temporary one, which is removed when all is well"
    )
    asked = parser.parse_args()
    if not 20 <= asked.modules <= 900:
        parser.error("--modules: 20 to 900")
    site = Site((asked.folder or Path(tempfile.mkdtemp(prefix="longtask-modules-"))).absolute())
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that no worker outlives it
    try:
        make(site.folder, asked.modules)
        first, fork = carry(site, asked.modules)
    except Wrong as wrong:
        print(f"modules: {wrong}", file=sys.stderr)
        return 1
    finally:
        site.dismiss()
    counted = count_outside(site, names(asked.modules), first, fork)
    counted["seconds"] = round(time.monotonic() - site.began, 1)
    print(json.dumps(counted))
    if counted["wrong"]:
        print(f"modules: look into {site.folder}", file=sys.stderr)
        return 1
    if asked.folder is None:
        shutil.rmtree(site.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
