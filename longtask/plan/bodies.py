"""What the words of a step or fix put into the body of its spec, and what must hold between them.

`body` by kind (a key is absent when the plan does not say it; `${{ … }}` is rendered for each attempt):

    run       command (text: a shell's; list: no shell), progress, junit, evidence, sandbox, network, silence_ms, env,
              secrets
    function  function ("package.module:name"), args, inline, progress, evidence, sandbox, network, silence_ms, env,
              secrets
    agent     prompt, runtime, model, recording, tools, ask, deny, options, evidence, sandbox, network, silence_ms, env,
              secrets; of one that may spawn, `item` is the spec of what it spawns, which has no prompt of its own
    approval  ask, show (`diff`, `artifacts.NAME`, or a glob of files), bind, who, expires_ms
    wait      signal, match, timeout_ms   or   timer_ms
    call      url, body, headers, secret_headers (header → name of a variable), timeout_ms (for the callback)
    artifact  kind (patch, report, files), name; of a report: title; of files: paths
    task      graph (of its plan, as `codec` writes it), inputs, results (name → template over the child's steps),
              sources (those steps)
    for_each  nothing: the list is the spec's `items`, the work is the spec with number `item`
"""

from __future__ import annotations

import re

from longtask.agents.catalog import ACP, RUNTIMES, TOOLS, named
from longtask.agents.policy import parse
from longtask.agents.spawning import SPAWN
from longtask.core.graph import did_you_mean
from longtask.core.model import Json

from . import expressions
from .check import VARIABLE, Checks, Section
from .model import Defaults, Plan
from .problems import Findings
from .step import Agent, AgentDefaults, Approval, Artifact, Call, Evidence, Wait, Work
from .suspicious import shown

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,79}")
HEADERS_OURS = frozenset(
    "host content-length transfer-encoding connection content-type idempotency-key longtask-callback expect".split()
)
_URL = re.compile(r"https?://[^/\s]")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_SHOWN = re.compile(r"diff|artifacts\.[A-Za-z0-9][A-Za-z0-9._-]*|files:\S.*")


class Bodies(Checks):
    """The bodies of one plan's specs, and what their expressions read."""

    def __init__(self, plan: Plan, findings: Findings) -> None:
        super().__init__(findings)
        self.plan = plan
        self.defaults: Defaults = plan.defaults

    # --- kinds ---

    def _approval(self, approval: Approval, place: Section) -> dict[str, Json]:
        self.template(approval.ask, place, "ask")
        for n, what in enumerate(approval.show):
            if not _SHOWN.fullmatch(what):
                hint = did_you_mean(what, ("diff",)) or "; write `diff`, `artifacts.NAME` or `files:GLOB`"
                self._say(place.below("show", n), f"cannot show {shown(what)}{hint}")
            elif what == "diff" and self.plan.workspace is None:
                self._say(place.below("show", n), "cannot show a diff: the plan has no `workspace`")
        body: dict[str, Json] = {
            "ask": approval.ask,
            "show": [what.removeprefix("files:") for what in approval.show],
            "bind": approval.bind,
        }
        if approval.who:
            body["who"] = list(approval.who)
        if approval.expires is not None:
            body["expires_ms"] = self._ms(approval.expires, place, "expires")
        return body

    def _wait(self, wait: Wait, place: Section) -> dict[str, Json]:
        body: dict[str, Json] = {}
        if (wait.signal is None) == (wait.timer is None):
            self._say(place, "a wait has either `signal` or `timer`")
        elif wait.timer is not None:
            body["timer_ms"] = self._ms(wait.timer, place, "timer")
            for word in ("match", "timeout"):
                if getattr(wait, word):
                    self._add(place, word, "belongs to a `signal`; a timer has only its time")
        else:
            if not WORD.fullmatch(str(wait.signal)):
                self._add(place, "signal", f"{shown(wait.signal)} is no name; write a word such as 'ci.completed'")
            self.template(wait.match, place, "match")
            body |= {"signal": wait.signal, "match": wait.match}
            if wait.timeout is not None:
                body["timeout_ms"] = self._ms(wait.timeout, place, "timeout")
        return body

    def _call(self, call: Call, place: Section) -> dict[str, Json]:
        for word in ("url", "body", "headers"):
            self.template(getattr(call, word), place, word)
        begins = call.url.split("${{", 1)[0]  # an expression may yield the rest, or all of it
        if "${{" not in call.url and not _URL.match(call.url):
            self._add(place, "url", f"{shown(call.url)} is no address; write https://HOST/PATH")
        elif "@" in begins.partition("://")[2].partition("/")[0]:
            self._add(place, "url", "holds a name or a password; write them as `secret_headers`")
        for word in ("headers", "secret_headers"):
            for name in getattr(call, word):
                if not _HEADER.fullmatch(name):
                    self._add(place, word, f"{shown(name)} is no name of a header; write letters, digits and dashes")
                elif name.lower() in HEADERS_OURS:
                    self._add(place, word, f"{shown(name)} is set by longtask itself; leave it out")
        for name in {header.lower() for header in call.headers} & {header.lower() for header in call.secret_headers}:
            self._add(place, "secret_headers", f"and headers both set {name!r}; one name, one value")
        for name in call.secret_headers.values():
            if not VARIABLE.fullmatch(name):
                self._add(
                    place,
                    "secret_headers",
                    "must name variables of the worker's environment, which hold the values; one of them is no name",
                    # which is not shown: it may be the secret itself
                )
        body: dict[str, Json] = {"url": call.url}
        if "body" in call.model_fields_set:
            body["body"] = call.body
        if call.headers:
            body["headers"] = dict(call.headers)
        if call.secret_headers:
            body["secret_headers"] = dict(call.secret_headers)
        if call.timeout is not None:
            body["timeout_ms"] = self._ms(call.timeout, place, "timeout")
        return body

    def _artifact(self, artifact: Artifact, step: str, place: Section) -> dict[str, Json]:
        """It is named after `step` if nothing else is said."""
        given = [word for word in ("patch", "report", "files") if getattr(artifact, word) is not None]
        if len(given) != 1:
            self._say(place, f"an artifact is one of patch, report, files; found {' and '.join(given) or 'none'}")
            return {}
        what = getattr(artifact, given[0]).model_dump(exclude_none=True)
        what.setdefault("name", step)
        for word in ("name", "title"):
            if word in what:
                self.template(what[word], place.below(given[0]), word)
        if not expressions.has_expression(what["name"]) and not WORD.fullmatch(what["name"]):
            self._add(
                place.below(given[0]),
                "name",
                f"{shown(what['name'])} is no name; write letters, digits, dots and dashes",
            )
        for n, path in enumerate(what.get("paths", ())):
            if path.startswith("/") or ".." in path.split("/"):
                self._say(
                    place.below("files", "paths", n), f"path {shown(path)} leaves the repository; write it from its top"
                )
        if given[0] != "report" and self.plan.workspace is None:
            self._say(place, f"a {given[0]} artifact is made of the code, and the plan has no `workspace`")
        return {"kind": given[0], **what}

    # --- words of several kinds ---

    def _below_the_top(self, globs: list[str], place: Section, word: str) -> list[str]:
        for glob in globs:
            if not glob.strip("/.") or glob.startswith("/") or ".." in glob.split("/"):
                self._add(place, word, f"{shown(glob)} is no path below the top of the repository")
        return globs

    def _command(self, command: str | list[str], place: Section) -> str | list[str]:
        if any("${{" in word for word in ([command] if isinstance(command, str) else command)):
            self._add(
                place,
                "run",
                "holds `${{ … }}`; what it yields would be read by the shell. Pass the value by `env` "
                'and use it as "$NAME"',
            )
            told = [(*place.loc, "run"), *((*place.loc, "run", n) for n in range(len(command)))]
            self.templates.update(told)  # so that nothing more is said about them
        return command

    def _environment(self, work: Work, place: Section) -> dict[str, Json]:
        body: dict[str, Json] = {}
        self.template(work.env, place, "env")
        self.variables(work.env, place.where, (*place.loc, "env"))
        if env := {**self.defaults.env, **work.env}:
            body["env"] = env
        if work.secrets:
            self.variables(work.secrets, place.where, (*place.loc, "secrets"))
            body["secrets"] = list(work.secrets)
            for name in set(work.secrets) & env.keys():
                self._add(place, "secrets", f"and env both set {name!r}; one name, one value")
        return body

    def _sandbox(self, work: Work, kind: str, place: Section) -> dict[str, Json]:
        sandbox = work.sandbox or self.defaults.sandbox or "none"
        network = self.defaults.network if work.network is None else work.network
        if sandbox == "none":
            if work.network is not None:
                self._add(
                    place, "network", "is a matter of the sandbox, and there is none; write `sandbox: bubblewrap`"
                )
            return {}
        if work.inline:
            self._add(place, "inline", "runs inside the worker: no sandbox is around it; leave one of the two out")
        if network is False and kind == "agent":
            runtime = self.settings(work.agent).get("runtime")
            if runtime == ACP or (runtime in RUNTIMES and RUNTIMES[runtime].program is not None):
                self._add(place, "network", f"runtime `{runtime}` is a program of its own and needs its model: true")
            elif runtime in RUNTIMES and RUNTIMES[runtime].own_code:
                self._add(place, "network", f"runtime `{runtime}` asks its model from inside of the sandbox: true")
        return {"sandbox": sandbox, **({} if network is None else {"network": network})}

    def _evidence(self, work: Work, evidence: Evidence, kind: str, place: Section) -> dict[str, Json]:
        """Numbers are shown by a command, changes are made by what commits; a word that could not fail is a mistake."""
        for word in ("tests_min", "coverage"):
            if getattr(evidence, word) is not None and kind != "run":
                self._say(
                    place, f"{word} is read from a command, this is a step of kind {kind}; put it on a `run` step"
                )
        if evidence.tests_min is not None and work.progress in (None, "n/m") and not work.junit:
            self._say(
                place, "tests_min is read from a test runner's output; write `progress: pytest` beside it, or another"
            )
        commits = work.commit if work.commit is not None else kind == "agent"
        for word in ("protect", "change"):
            if getattr(evidence, word) and not commits:
                self._say(place, f"{word} is about changes, and what this step changes is not committed")
        return evidence.model_dump(exclude_none=True)

    def _agent(self, agent: Agent, place: Section) -> dict[str, Json]:
        self.template(agent.prompt, place, "prompt")
        settings = self.settings(agent)
        self.agent_settings(agent, place)
        if agent.subagents is None and SPAWN in (agent.tools or ()):
            self._add(place, "tools", f"names `{SPAWN}`; that an agent may give out work, `subagents: {{max: 4}}` says")
        if agent.recording is not None:
            self.template(agent.recording, place, "recording")
        if settings.get("runtime") is None:
            known = ", ".join(RUNTIMES)
            self._say(
                place,
                f"no agent runtime is named; write `runtime` here or in `defaults.agent` (this version knows {known})",
            )
        elif settings["runtime"] == "recorded" and "recording" not in settings:
            self._say(place, "runtime `recorded` replays a recording; name its file: `recording: PATH`")
        return {"prompt": agent.prompt, **bounded(settings)}

    def agent_settings(self, agent: AgentDefaults, place: Section) -> None:
        """What must hold of an agent's runtime and tools, in a step or in the defaults."""
        runtime = agent.runtime
        if runtime is not None and runtime not in RUNTIMES:
            hint = did_you_mean(runtime, RUNTIMES) or f"; this version knows {', '.join(RUNTIMES)}"
            self._add(place, "runtime", f"{shown(runtime)} is not known{hint}")
        entry = RUNTIMES.get(str(self.settings(agent).get("runtime")))
        if agent.notes and entry is not None and not entry.notes:
            able = ", ".join(f"`{name}`" for name, entry in RUNTIMES.items() if entry.notes)
            self._add(place, "notes", f"are kept by {able} only")
        for word in ("tools", "ask", "deny"):
            rules = getattr(agent, word) or ()
            if rules and entry is not None and not entry.heeds_rules:
                self._add(place, word, "would not hold: a graph calls its tools itself; ask by `interrupt` in it")
            for n, rule in enumerate(rules):
                self._rule(rule, place.below(word, n), any_tool=entry is not None and entry.own_code)

    def _rule(self, rule: str, place: Section, *, any_tool: bool) -> None:
        try:
            tool, _ = parse(rule)
        except ValueError as error:
            self._say(place, str(error))
            return
        if not any_tool and "*" not in tool and "." not in tool and tool not in TOOLS:
            hint = did_you_mean(tool, TOOLS) or f"; there are {', '.join(TOOLS)}"
            self._say(place, f"tool {shown(tool)} is not known{hint}")

    def settings(self, agent: AgentDefaults | None) -> dict[str, Json]:
        """What is set of an agent beside its prompt: by the step, else by the defaults."""
        out: dict[str, Json] = {}
        for source in (self.defaults.agent, agent):
            if source is not None:
                out |= source.model_dump(include=set(AgentDefaults.model_fields), exclude_none=True)
        return named(out)


def bounded(settings: dict[str, Json]) -> dict[str, Json]:
    """Limits as the machine counts them: tokens, millionths of a dollar; requests are the agent's own."""
    given = settings.get("limits")
    if not isinstance(given, dict):
        return settings
    limits: dict[str, Json] = {"tokens": given["tokens"]} if "tokens" in given else {}
    limits |= {"micros": round(float(str(given["cost_usd"])) * 1_000_000)} if "cost_usd" in given else {}
    requests = {"requests_max": given["requests"]} if "requests" in given else {}
    others = {name: value for name, value in settings.items() if name != "limits"}
    return {**others, **({"limits": limits} if limits else {}), **requests}
