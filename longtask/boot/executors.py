"""Who carries out the work of which kind of step, made at its first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from longtask.boot.late import LOADING, Language, read_document, with_plans
from longtask.boot.parts import Parts
from longtask.config import ALLOW_PRIVATE, PUBLIC_URL, Config
from longtask.core.errors import Refused
from longtask.core.model import JsonMap, Kind, Outcome, StepSpec

if TYPE_CHECKING:
    from longtask.agents.native.installed import Installed
    from longtask.steps.contract import Assignment, Executor
    from longtask.steps.contract import Desk as StepDesk
    from longtask.steps.places import Places

PathOf = Callable[[str, str], Path]  # (workspace id, digest) -> a file with the bytes


class Executors(Mapping[Kind, "Executor"]):
    """Made at their first use: what they import would cost each short run a tenth of a second."""

    def __init__(self, makers: Mapping[Kind, Callable[[], Executor]]) -> None:
        self._makers, self._made = makers, dict[Kind, "Executor"]()

    def __getitem__(self, kind: Kind) -> Executor:
        with LOADING:
            if kind not in self._made:
                self._made[kind] = self._makers[kind]()
            return self._made[kind]

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class LaterPlaces:
    """`steps.places.Places`, made at its first use."""

    def __init__(self, config: Config) -> None:
        self.home = config.home
        self._config = config
        self._made: Places | None = None

    @property
    def _places(self) -> Places:
        with LOADING:
            from longtask.steps.places import Places

            if self._made is None:
                self._made = Places(self._config.home, self._config.hub)
            return self._made

    def prepare(self, assignment: Assignment, desk: StepDesk) -> Path:
        return self._places.prepare(assignment, desk)

    def keep(self, assignment: Assignment, place: Path, outcome: Outcome, desk: StepDesk) -> Outcome:
        return self._places.keep(assignment, place, outcome, desk)

    def save_tree(self, place: Path) -> str:
        return self._places.save_tree(place)


def carriers(expressions: Language, places: LaterPlaces, path_of: PathOf) -> dict[Kind, Callable[[], Executor]]:
    """Makers of what carries out the work of a plan, on any machine; all else is done beside the store."""

    def command() -> Executor:
        from longtask.steps.command import CommandExecutor

        return CommandExecutor(expressions.render, path_of, with_plans)

    def function() -> Executor:
        from longtask.steps.function import FunctionExecutor

        return FunctionExecutor(render=expressions.render, read_plans=with_plans)

    def agent() -> Executor:
        from longtask.steps.agent import AgentExecutor
        from longtask.steps.places import ToldConflicts

        made = AgentExecutor(
            save_tree=places.save_tree,
            render=expressions.render,
            read_document=read_document,
            program=installed(places.home).path,
            read_plans=with_plans,
        )
        return ToldConflicts(made)

    return {Kind.RUN: command, Kind.FUNCTION: function, Kind.AGENT: agent}


def executors(parts: Parts, places: LaterPlaces) -> Mapping[Kind, Executor]:
    language, records, workspace = parts.expressions, parts.records, parts.merger.workspace

    def stat(workspace_id: str, base: str, head: str) -> JsonMap:
        found = workspace(workspace_id).stat(base, head)
        return {
            "files": len(found.files),
            "insertions": found.insertions,
            "deletions": found.deletions,
            "paths": list(found.paths[:200]),
        }

    def diff(workspace_id: str, base: str, head: str) -> bytes:
        return workspace(workspace_id).diff(base, head)

    def approval() -> Executor:
        from longtask.steps.approval import ApprovalExecutor

        return ApprovalExecutor(language.render, records, stat)

    def wait() -> Executor:
        from longtask.steps.wait import WaitExecutor

        return WaitExecutor(language.render)

    def call() -> Executor:
        from longtask.steps.call import CallExecutor
        from longtask.steps.posting import Allowed

        allowed = Allowed.read(parts.config.allow_private, ALLOW_PRIVATE)
        return CallExecutor(language.render, callbacks(parts), allowed)

    def artifact() -> Executor:
        from longtask.steps.artifact import ArtifactExecutor

        return ArtifactExecutor(language.render, records, diff)

    def for_each() -> Executor:
        from longtask.steps.for_each import ForEachExecutor

        return ForEachExecutor(language.expand, records)

    def task() -> Executor:
        from longtask.steps.task import TaskExecutor

        return TaskExecutor(language.render, records)

    return Executors({
        **carriers(language, places, parts.artifacts.path), Kind.APPROVAL: approval, Kind.WAIT: wait,
        Kind.ARTIFACT: artifact, Kind.FOR_EACH: for_each, Kind.CALL: call, Kind.TASK: task,
    })  # fmt: skip


def callbacks(parts: Parts) -> Callable[[str, str, int], str]:
    """`steps.call.Reached`: the address where the callback of a step's run is awaited."""

    def address(task_id: str, step: str, run: int) -> str:
        base = parts.config.public_url
        if base is None:
            raise Refused(f"a call needs an address for its callback: set {PUBLIC_URL} to that of the server")
        with LOADING:
            from longtask.core.seal import seal
            from longtask.steps.call import PURPOSE

        return f"{base}/v1/callbacks/calls/{seal(parts.store.signing_key(PURPOSE), PURPOSE, [task_id, step, run])}"

    return address


def runtime_of(home: Path, spec: StepSpec) -> str | None:
    if spec.kind is not Kind.AGENT:
        return None
    with LOADING:
        from longtask.agents.catalog import RUNTIMES
        from longtask.agents.contract import library_version, runtime

    name = spec.body.get("runtime", "recorded")
    library = library_version(name)
    if library is not None:
        return f"{name} {library}"
    found = runtime(name)
    entry = RUNTIMES.get(found.name)
    version = found.version if entry is None or entry.program is None else installed(home).version(entry.program)
    return f"{found.name} {version}".rstrip()


@cache
def installed(home: Path) -> Installed:
    """Programs of agents on this machine."""
    with LOADING:
        from longtask.agents.native.installed import Installed

    return Installed(home)
