"""The demo's job with a real agent in place of the recording: `longtask demo --agent NAME`.

With `--model-server` only the model's words come from the recording: a model server on this machine says them, turn by
turn, and the agent's own program reads, edits and runs.  Without it, the agent talks to its model, by the user's key.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longtask.agents import programs
from longtask.agents.catalog import ACP, RUNTIMES
from longtask.boot import read_document
from longtask.cli.demo_input import PLAN, RECORDING
from longtask.core.errors import BadPlan, WorkspaceError
from longtask.core.model import JsonMap

RECORDED = "agent: {runtime: recorded, recording: recording.yaml}"
AGENTS = tuple(name for name, entry in RUNTIMES.items() if name not in ("recorded", ACP) and not entry.own_code)
MODELS = {  # that the model server plays; others have their own
    "builtin": "openai-chat:recorded",
    "codex": "gpt-5.5",
    "opencode": "anthropic/claude-sonnet-4-5",
}
# A run of the recording is known by what its prompt says.  The first fix is told of an import that fails.
PROMPTS = (
    ("core", "Make vobject/base.py"),
    ("calendar", "Make vobject/icalendar.py"),
    ("vcard", "Make vobject/vcard.py"),
    ("tests.fix.1", r"(?s)The tests of the joined change fail.*cannot import name"),
    ("tests.fix.2", "The tests of the joined change fail"),
)


def prepare_agent(agent: str, place: Path, home: Path, model: str | None, say: Any) -> None:
    """The plan in `place` names the agent, and its program is where the demo's workers look for it.

    `home`: the user's own, where a fetched program is kept for the next time.  Raises BadPlan, NotFound, Refused."""
    if agent not in AGENTS:
        raise BadPlan(f"--agent {agent!r}: there is {', '.join(AGENTS)}")
    plan = place / PLAN
    text = plan.read_text()
    if RECORDED not in text:
        raise WorkspaceError(f"demo: '{plan}' is not the demo's plan any more; choose another folder")
    named = f", model: {model!r}" if model else ""
    plan.write_text(text.replace(RECORDED, f"agent: {{runtime: {agent}{named}}}"))
    program = RUNTIMES[agent].program
    if program is None or programs.find(program, place / "home") is not None:
        return
    if programs.find(program, home) is None:
        programs.fetch(program, home, say)
    (place / "home").mkdir(mode=0o700, exist_ok=True)
    (place / "home" / "agents").symlink_to(home / "agents")


def script_of(place: Path, agent: str) -> JsonMap:
    """The recording as a script of the model server."""
    runs: Mapping[str, JsonMap] = {run["step"]: run for run in read_document(place / RECORDING)["runs"]}
    routes = [
        {"match": prompt, "aux": "The demo", "turns": [_turn(turn, agent) for turn in runs[step]["turns"]]}
        for step, prompt in PROMPTS
    ]
    return {"script": 1, "routes": routes}


def _turn(turn: JsonMap, agent: str) -> JsonMap:
    """Our own agent calls the very tools, one after another.  Others edit in ways of their own, which ask for a reading
    before, or for whole lines, and some do all of a turn at once: to them a turn is one command."""
    tools = turn.get("tools", ())
    if agent == "builtin":
        calls = [{"tool": tool["tool"], "args": _args(tool)} for tool in tools]
    else:
        calls = [{"shell": "\n".join(_command(tool["tool"], _args(tool)) for tool in tools)}] if tools else []
    return {
        "text": turn["text"],
        **({"calls": calls} if calls else {}),
        **({"output": turn["outputs"]} if "outputs" in turn else {}),
    }


def _args(tool: JsonMap) -> JsonMap:
    return {name: value for name, value in tool.items() if name not in ("tool", "fails")}


def _command(tool: str, args: JsonMap) -> str:
    """What a tool of the recording does, for a shell."""
    match tool:
        case "shell":
            return str(args["command"])
        case "read":
            return f"cat {shlex.quote(args['path'])}"
        case "search":
            return f"grep -rnE --include={shlex.quote(args.get('glob', '*'))} {shlex.quote(args['pattern'])} ."
        case "delete":
            return f"rm {shlex.quote(args['path'])}"
        case "write":
            return _python(f"path.write_text({args['content']!r})", args["path"])
        case "edit":
            old, new, count = args["old"], args["new"], args.get("count", 1)
            check = f"text = path.read_text(); assert text.count({old!r}) == {count}; "
            return _python(f"{check}path.write_text(text.replace({old!r}, {new!r}))", args["path"])
    raise BadPlan(f"the demo's recording calls {tool!r}, which no agent is told of")


def _python(code: str, path: str) -> str:
    return f"python3 -c {shlex.quote(f'from pathlib import Path; path = Path({path!r}); {code}')}"
