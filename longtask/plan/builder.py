"""Steps from Python: one method per kind, on a stage or on a plan without stages.

Each appends a step and returns it, so that others can need it and read its outputs:

    plan = Plan(name="upgrade", workspace=Workspace(repo="."))
    analyse = plan.stage("analyse").agent("analysis", "List the modules.", outputs={"modules": "list"})
    plan.stage("change").agent("modules", "Migrate ${{ item }}", for_each=analysis.output("modules"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, Unpack

from pydantic import ValidationError

from .shape import bad_plan
from .step import Fix, OnFailure, Step

Time = str | timedelta


class Common(TypedDict, total=False):
    """Words that every kind of step takes; they mean what they mean in YAML."""

    needs: Sequence[str | Step] | str | Step
    if_: str
    for_each: str | Sequence[Any]
    parallel_max: int
    retry: int | Mapping[str, Any]
    timeout: Time
    env: Mapping[str, str | int | bool]
    secrets: Sequence[str]
    pool: str
    outputs: Mapping[str, str]
    run_when: str
    when_failed: str
    commit: bool
    repeatable: bool
    progress: str
    junit: Sequence[str] | str
    weight: int
    silence: Time
    losses_max: int
    on_failure: Mapping[str, Any] | OnFailure


class Adds:
    """Appends steps to the `steps` of the class that it is mixed into.

    It declares no field of its own: the validator would put it before the others.
    """

    def run(self, id: str, command: str | Sequence[str], **words: Unpack[Common]) -> Step:
        return self._add(id, {"run": command}, words)

    def function(
        self,
        id: str,
        name: str,
        *,
        args: Mapping[str, Any] | None = None,
        inline: bool = False,
        **words: Unpack[Common],
    ) -> Step:
        """`name`: `package.module:function`."""
        body = {"function": name, "inline": inline}
        return self._add(id, body if args is None else {**body, "args": dict(args)}, words)

    def agent(
        self,
        id: str,
        prompt: str,
        *,
        runtime: str | None = None,
        model: str | None = None,
        recording: str | None = None,
        tools: Sequence[str] | None = None,
        ask: Sequence[str] | None = None,
        deny: Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        **words: Unpack[Common],
    ) -> Step:
        given = {
            "prompt": prompt,
            "runtime": runtime,
            "model": model,
            "recording": recording,
            "tools": tools,
            "ask": ask,
            "deny": deny,
            "options": options,
        }
        return self._add(id, {"agent": {k: v for k, v in given.items() if v is not None}}, words)

    def approval(
        self,
        id: str,
        ask: str,
        *,
        show: Sequence[str] = (),
        bind: str = "frozen",
        who: Sequence[str] = (),
        expires: Time | None = None,
        on_reject: Mapping[str, Any] | None = None,
        **words: Unpack[Common],
    ) -> Step:
        body = {
            "ask": ask,
            "show": list(show),
            "bind": bind,
            "who": list(who),
            "expires": expires,
            "on_reject": on_reject,
        }
        return self._add(id, {"approval": {k: v for k, v in body.items() if v is not None}}, words)

    def wait(
        self,
        id: str,
        signal: str | None = None,
        *,
        match: Mapping[str, Any] | None = None,
        timer: Time | None = None,
        deadline: Time | None = None,
        **words: Unpack[Common],
    ) -> Step:
        """`deadline` is the `timeout` of the wait: how long to wait for the signal."""
        body = {"signal": signal, "match": match and dict(match), "timer": timer, "timeout": deadline}
        return self._add(id, {"wait": {k: v for k, v in body.items() if v is not None}}, words)

    def call(
        self,
        id: str,
        url: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        secret_headers: Mapping[str, str] | None = None,
        deadline: Time | None = None,
        **words: Unpack[Common],
    ) -> Step:
        """`deadline` is the `timeout` of the call: how long to wait for the callback."""
        given = {"url": url, "body": body, "timeout": deadline}
        given |= {"headers": headers and dict(headers), "secret_headers": secret_headers and dict(secret_headers)}
        return self._add(id, {"call": {k: v for k, v in given.items() if v is not None}}, words)

    def patch(self, id: str, name: str | None = None, **words: Unpack[Common]) -> Step:
        return self._add(id, {"artifact": {"patch": {"name": name or id}}}, words)

    def report(self, id: str, name: str | None = None, title: str | None = None, **words: Unpack[Common]) -> Step:
        return self._add(
            id, {"artifact": {"report": {"name": name or id, **({"title": title} if title else {})}}}, words
        )

    def files(self, id: str, paths: Sequence[str], name: str | None = None, **words: Unpack[Common]) -> Step:
        return self._add(id, {"artifact": {"files": {"name": name or id, "paths": list(paths)}}}, words)

    def _add(self, id: str, body: dict[str, Any], words: Common) -> Step:
        """Raises BadPlan for words that do not fit; what must hold between steps is checked when it is compiled."""
        try:
            step = Step.model_validate({"id": id, **body, **words})
        except ValidationError as error:
            raise bad_plan(error, Step, f"step {id!r}") from None
        steps: list[Step] = self.steps  # type: ignore[attr-defined]
        steps.append(step)
        return step


def fix(rounds_max: int | None = None, **work: Any) -> OnFailure:
    """`on_failure=fix(agent={"prompt": …}, rounds_max=3)`"""
    body = {"fix": work} if rounds_max is None else {"fix": work, "rounds_max": rounds_max}
    try:
        return OnFailure.model_validate(body)
    except ValidationError as error:
        raise bad_plan(error, OnFailure, "on_failure") from None


__all__ = ["Adds", "Common", "Fix", "fix"]
