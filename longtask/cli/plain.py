"""A plain run: `longtask run -p "…"` is a task of one step, with all that tasks have."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from longtask.cli.session import Session
from longtask.cli.words import prompt_in
from longtask.core.errors import BadPlan
from longtask.core.policy import NAME_LENGTH_MAX

AGENT = "LONGTASK_AGENT"
STEP = "run"
WORDS_IN_NAME = 5


def plan_of(session: Session, prompt: str, agent: str | None, model: str | None) -> str:
    """The plan, as text.  `prompt` may be @FILE; `agent` None: LONGTASK_AGENT, or the first that is found here.

    Raises BadPlan, NotFound."""
    from longtask.agents.catalog import RUNTIMES

    text = prompt_in(prompt)
    if not text.strip():
        raise BadPlan("-p is empty; say what is to be done")
    runtime = agent or os.environ.get(AGENT) or _found(session)
    if runtime not in RUNTIMES:
        raise BadPlan(f"--agent {runtime!r}: there is {', '.join(RUNTIMES)}")
    words = {"prompt": text, "runtime": runtime} | ({"model": model} if model is not None else {})
    plan = {"longtask": 1, "name": name_of(text), "goal": text.strip().splitlines()[0][:200]}
    plan |= {"workspace": {"repo": "."}} if _in_repository(Path.cwd()) else {}
    return json.dumps({**plan, "steps": [{"id": STEP, "agent": words}]}, ensure_ascii=False, indent=1)


def name_of(text: str) -> str:
    """A few of its first words, as the name of a task."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:WORDS_IN_NAME]
    return "-".join(words)[:NAME_LENGTH_MAX] or STEP


def _in_repository(folder: Path) -> bool:
    from longtask.workspace.repo import git_folder

    return git_folder(folder) is not None


def _found(session: Session) -> str:
    from longtask.agents import programs

    for name in programs.KINDS:
        if programs.where(name, session.config.home) is not None:
            return name
    raise BadPlan(
        f"no agent was found here ({', '.join(programs.KINDS)}); name one: --agent NAME, or {AGENT}; "
        "`longtask dev fetch NAME` fetches a program"
    )
