"""Which agent a plan means: by its runtime's name, by `options.agent`, or by `options.command`."""

from __future__ import annotations

from pathlib import Path

from longtask.core.errors import BadPlan
from longtask.core.model import JsonMap

from .agents import AGENTS, Agent
from .opencode import OPENCODE

NAMED = {"opencode": OPENCODE}  # runtimes of their own
OPTIONS: tuple[str, ...] = ("stall_s", "mcp")


def agent_of(runtime: str, options: JsonMap) -> tuple[str, Agent]:
    """(what it is called, the agent).  Raises BadPlan."""
    if runtime in NAMED:
        name, agent, known = runtime, NAMED[runtime], OPTIONS
    else:
        name, agent = _chosen(runtime, options)
        known = ("agent", "command", *OPTIONS)
    known = (*known, *agent.options)
    for option in options:
        if option not in known:
            listed = ", ".join(f"'{one}'" for one in known)
            raise BadPlan(f"agent runtime '{runtime}': option {option!r}: there is {listed}")
    for option in ("stall_s", "retries"):
        value = options.get(option, 0)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise BadPlan(f"agent runtime '{runtime}': option {option!r} is a number, found {value!r}")
    mcp = options.get("mcp", [])
    if not isinstance(mcp, list) or not all(isinstance(server, str) for server in mcp):
        raise BadPlan(f"agent runtime '{runtime}': option 'mcp' is a list of names, found {mcp!r}")
    return name, agent


def _chosen(runtime: str, options: JsonMap) -> tuple[str, Agent]:
    command, named = options.get("command"), options.get("agent")
    there = {**NAMED, **AGENTS}
    if (command is None) == (named is None):
        raise BadPlan(
            f"agent runtime '{runtime}': which agent? say `options: {{agent: NAME}}`, of {', '.join(there)}, or "
            "`options: {command: [PROGRAM, WORD, …]}`"
        )
    if named is not None:
        if named not in there:
            raise BadPlan(f"agent runtime '{runtime}': no agent {named!r} is known; there is {', '.join(there)}")
        return str(named), there[named]
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise BadPlan(f"agent runtime '{runtime}': option 'command' is a list of words, found {command!r}")
    return Path(command[0]).name, Agent(command[0], tuple(command[1:]))
