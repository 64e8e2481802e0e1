"""opencode beside the protocol: a folder, settings and a key of its own for each run, and what its plug-in tells.

Measured with 1.18.33, and what is built on it:

- Settings are read once, before the session is there; so the file that holds them, and the key in them, is removed
  then.  Nothing of it is in the environment that the model's shell inherits.
- With `permission: {"*": "ask"}` it asks before each tool.  What is denied as a whole the model is not offered.
- A call that is refused ends its turn with `end_turn`, unless `continue_loop_on_deny` is set.
- It waits for a model that asks for a pause without a word of it, for hours if that is how long it is; what a turn has
  cost it tells for the last one alone.  Both are events inside it, which a plug-in hears (`WATCH`).
- Its sessions are in an SQLite database.  A session works in the folder that it began in, whatever folder it is resumed
  for, and then the answers to its questions are lost: so it is told in the database where it works now.
- It asks the model for a title, and a registry for packages, at each start: both are off here.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longtask.agents.contract import Brief
from longtask.agents.witness import VARIABLE
from longtask.core.errors import BadPlan
from longtask.core.model import JsonMap

from .agents import Agent, Broken, News, Own, Retried, Spent

FOLDERS = {"DATA": ".local/share", "CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache"}  # XDG_…_HOME
PROVIDERS: Mapping[str, tuple[str, ...]] = {  # by the variables that hold their keys
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "opencode": ("OPENCODE_API_KEY",),
}
ADDRESSES = {"anthropic": ("ANTHROPIC_BASE_URL", "/v1"), "openai": ("OPENAI_BASE_URL", "")}
TOOLS = {
    "bash": "shell", "read": "read", "list": "search", "glob": "search", "grep": "search", "edit": "edit",
    "write": "write", "apply_patch": "edit", "webfetch": "web_fetch", "websearch": "web_search", "skill": "skill",
    "todowrite": "", "todoread": "",
}  # fmt: skip
RULES = {"bash": "shell", "webfetch": "web_fetch", "websearch": "web_search", "skill": "skill"}  # denied as a whole
SHELL_MS = 7_200_000
WATCH = """
import { appendFileSync } from "node:fs"
const FILE = %s, SHELL = %s
const tell = (line) => appendFileSync(FILE, JSON.stringify(line) + "\\n")
export const LongTask = async () => ({
  event: async ({ event: { type, properties: p } }) => {
    if (type === "session.status" && p.status.type === "retry") tell({ retry: p.status })
    if (type === "message.updated" && p.info.role === "assistant" && p.info.time.completed) tell({ turn: p.info })
  },
  "shell.env": async (_, output) => { Object.assign(output.env, SHELL) },
})
"""


class Opencode(Own):
    databases = ("data/opencode/opencode.db",)
    tells_turns = True

    def __init__(self, folder: Path, brief: Brief, cwd: Path) -> None:
        super().__init__(folder, brief, cwd)
        self._settings = folder / "config" / "opencode" / "opencode.json"
        self._told = folder / "told.jsonl"
        self._read = 0
        self._over: set[str] = set()  # turns that were told

    @property
    def chooses_model(self) -> bool:
        return True

    def moved(self) -> None:
        database = self._folder / self.databases[0]
        try:
            with contextlib.closing(sqlite3.connect(database)) as sessions, sessions:
                place = str(self._cwd)
                sessions.execute("update session set directory = ?, path = ?", (place, place.removeprefix("/")))
        except sqlite3.Error:  # of a version that keeps them in another way: it begins anew
            database.unlink()

    def environment(self) -> dict[str, str]:
        self._settings.parent.mkdir(parents=True, exist_ok=True)
        watch = self._folder / "watch.js"
        watch.write_text(WATCH % (json.dumps(str(self._told)), json.dumps(_of_user())))
        self._settings.touch(0o600)
        self._settings.write_text(json.dumps(self._configuration(watch)))
        keys = {variable for variables in PROVIDERS.values() for variable in variables}
        env = {name: value for name, value in os.environ.items() if name not in keys and name != VARIABLE}
        return {
            **env,
            **{f"XDG_{name}_HOME": str(self._folder / name.lower()) for name in FOLDERS},
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_CLAUDE_CODE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS": str(SHELL_MS),
            "npm_config_fetch_retries": "0",  # for its plug-ins; there is none that needs a package
            "npm_config_registry": "http://127.0.0.1:9/",
        }

    def opened(self) -> None:
        self._settings.unlink(missing_ok=True)

    def news(self) -> Sequence[News]:
        if not self._told.exists():
            return ()
        with self._told.open("rb") as file:
            file.seek(self._read)
            lines = file.read().split(b"\n")[:-1]
        self._read += sum(len(line) + 1 for line in lines)
        return [news for line in lines for news in self._news(json.loads(line))]

    def _news(self, line: JsonMap) -> list[News]:
        if retry := line.get("retry"):
            return [Retried(int(retry["attempt"]), str(retry["message"]), int(retry["next"]))]
        turn = line["turn"]
        if turn["id"] in self._over:
            return []
        if error := turn.get("error"):
            about = error.get("data") or {}
            return [
                Broken(
                    str(about.get("message") or error.get("name")),
                    int(about.get("statusCode") or 0),
                    about.get("responseHeaders") or {},
                    str(about.get("responseBody") or ""),
                )
            ]
        if not turn.get("finish"):
            return []
        self._over.add(turn["id"])
        tokens, cache = turn["tokens"], turn["tokens"].get("cache") or {}
        tokens_in = tokens["input"] + sum(cache.values())
        micros = round(turn.get("cost", 0) * 1_000_000) or None  # of a model without a price it says 0
        end = "" if turn["finish"] in ("stop", "tool-calls") else str(turn["finish"])
        shown = "" if turn.get("summary") else turn["id"]  # of the talk, when it has grown too long
        return [Spent(shown, tokens_in, tokens["output"] + tokens.get("reasoning", 0), micros, end)]

    def _configuration(self, watch: Path) -> JsonMap:
        policy, model = self._brief.policy, self._brief.model
        providers: dict[str, Any] = {}
        for provider, variables in PROVIDERS.items():
            key = next((value for name in variables if (value := os.environ.get(name))), None)
            if key is not None:
                variable, path = ADDRESSES.get(provider, ("", ""))
                base = os.environ.get(variable, "").rstrip("/")
                providers[provider] = {"options": {"apiKey": key, **({"baseURL": f"{base}{path}"} if base else {})}}
        settings = _merged({"provider": providers}, self._given())
        if model:
            provider, _, name = model.partition("/")
            settings = _merged({"provider": {provider: {"models": {name: {}}}}, "model": model}, settings)
        texts = [str(file) for name in ("AGENTS.md", "CLAUDE.md") if (file := self._cwd / name).is_file()]
        skills = [str(folder) for name in (".agents", ".claude") if (folder := self._cwd / name / "skills").is_dir()]
        return {
            "agent": {"title": {"disable": True}},
            **settings,
            "enabled_providers": list(settings["provider"]),
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
            "experimental": {**settings.get("experimental", {}), "continue_loop_on_deny": True},
            "plugin": [*settings.get("plugin", ()), watch.as_uri()],
            "instructions": [*settings.get("instructions", ()), *texts[:1]],
            "skills": {"paths": skills},
            "permission": {
                "*": "ask",
                "todowrite": "allow",
                "todoread": "allow",
                "external_directory": "allow",  # the call itself is asked about
                "doom_loop": "allow",
                "question": "deny",
                "task": "deny",  # what a subagent does is not asked about call by call
                "plan_enter": "deny",
                "plan_exit": "deny",
                **{name: "deny" for name, tool in RULES.items() if not policy.offers(tool)},
            },
        }

    def _given(self) -> JsonMap:
        """Raises BadPlan."""
        given = self._brief.options.get("config", {})
        if not isinstance(given, dict):
            raise BadPlan(f"agent runtime 'opencode': option 'config': is a map, as in opencode.json, found {given!r}")
        return given


def _merged(one: JsonMap, other: JsonMap) -> JsonMap:
    """`other` goes before."""
    both = {
        name: _merged(one[name], value) if isinstance(value, dict) and isinstance(one.get(name), dict) else value
        for name, value in other.items()
    }
    return {**one, **both}


def _of_user() -> dict[str, str]:
    """What the model's shell is to find where the program has folders of its own."""
    home = Path.home()
    return {f"XDG_{name}_HOME": os.environ.get(f"XDG_{name}_HOME", str(home / path)) for name, path in FOLDERS.items()}


OPENCODE = Agent(
    program="opencode",
    words=("acp",),
    tools=TOOLS,
    answers={"fs/write_text_file": {}},  # it has written the file already
    own=Opencode,
    options=("config", "retries"),
)
