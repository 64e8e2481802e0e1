"""The script: what the model says, turn by turn, and what goes wrong meanwhile.

    script: 1
    aux: A title                       # what requests are told that offer no tools, such as for a title
    turns:
      - text: First I look.
        calls: [{read: {path: hello.txt}}]
      - calls: [{shell: make test}]
        faults: [{status: 529, times: 2}, {cut: 3}]      # in this order, and then it is answered
      - text: All done.
        output: {files: [hello.txt]}   # the structured answer, by the way that the request asks for it
        usage: {tokens_in: 1200, tokens_out: 30}

Sessions that one server is to tell apart are `routes`, each with turns of its own; the first that fits is taken:

    routes:
      - match: write the parser        # a regular expression, found in what the user has said
        turns: [...]
      - turns: [...]                   # without `match` and `model`: any

`mode` says which turn comes next.  `history`: the one after as many as the request's own history holds, so that a
request which is repeated (after a crash, by a retry) gets the same answer; `sequence`: the next that was not told yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationError, model_validator

from longtask.core.errors import BadPlan
from longtask.core.model import Json
from longtask.plan.duration import duration_ms
from longtask.plan.fields import Count, Duration, Positive, Text, Words, wrong
from longtask.plan.problems import Findings, Places
from longtask.plan.shape import misfits, nulls
from longtask.plan.suspicious import shown
from longtask.plan.yaml import parse, place_all, read_file

LANGUAGE = 1
ALWAYS = "always"
STALL_AFTER = 1  # events of the stream, if the script does not say
PORTABLE = ("shell", "write", "edit", "read")
FAULTS = ("status", "hang", "stall", "cut", "malformed")


def _times(value: Any) -> Any:
    if value == ALWAYS or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise wrong(f"must be a number of times, from 1, or `{ALWAYS}`; found {shown(value)}")


def _lasting(value: Any) -> Any:
    if value == ALWAYS:
        return value
    try:
        duration_ms(str(value))
    except BadPlan as error:
        raise wrong(f"must be a duration or `{ALWAYS}`: {error}") from None
    return str(value)


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise wrong(f"is no regular expression: {error}") from None
    return value


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, Mapping) else value


def _arguments(value: Any) -> Any:
    if isinstance(value, str | Mapping):
        return value
    raise wrong(f"must be a mapping, or a text for a tool that takes free text; found {shown(value)}")


def _path_alone(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


def _exactly_one(words: Words, names: Sequence[str]) -> str:
    given = [name for name in names if getattr(words, name) is not None]
    if len(given) != 1:
        found = " and ".join(f"`{name}`" for name in given) or "none"
        raise wrong(f"must have one of {', '.join(names)}; found {found}")
    return given[0]


Times = Annotated[int | Literal["always"], PlainValidator(_times)]
Lasting = Annotated[str, BeforeValidator(_lasting)]


class Writing(Words):
    path: Text
    content: str


class Editing(Words):
    """Codex changes whole lines: for it, `old` and `new` are whole lines."""

    path: Text
    old: Text
    new: str


class Reading(Words):
    path: Text


class Call(Words):
    """A portable call, or any tool by its name."""

    shell: Text | None = None
    write: Writing | None = None
    edit: Editing | None = None
    read: Annotated[Reading | None, BeforeValidator(_path_alone)] = None
    tool: Text | None = None
    args: Annotated[Any, PlainValidator(_arguments)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _whole(self) -> Call:
        kind = _exactly_one(self, (*PORTABLE, "tool"))
        if kind != "tool" and "args" in self.model_fields_set:
            raise wrong("has `args`, which belong to `tool`")
        return self

    @property
    def portable(self) -> tuple[str, dict[str, str]] | None:
        """Its name and its words; None for a tool by its name."""
        if self.shell is not None:
            return "shell", {"command": self.shell}
        for name, words in (("write", self.write), ("edit", self.edit), ("read", self.read)):
            if words is not None:
                return name, words.model_dump()
        return None


class Fault(Words):
    """One way of going wrong."""

    status: Annotated[int, Field(ge=400, le=599)] | None = Field(
        default=None, description="An error of HTTP; with `after`, an error inside the stream."
    )
    hang: Lasting | None = Field(default=None, description="So long no answer, not even its head; then the end.")
    stall: Lasting | None = Field(default=None, description="So long silence inside the answer; then the end.")
    cut: Count | None = Field(default=None, description="The connection ends after so many events of the stream.")
    malformed: Positive | None = Field(default=None, description="This event of the stream is no JSON.")
    after: Count | None = Field(default=None, description="Of `status` and `stall`: events that come before it.")
    retry_after: Duration | None = Field(default=None, description="Of `status`: when to ask again.")
    resets_in: Duration | None = Field(default=None, description="Of `status`: when the limit is lifted.")
    message: Text | None = Field(default=None, description="Of `status`.")
    times: Times = Field(default=1, description="How often, one request after another, or `always`.")

    @model_validator(mode="after")
    def _whole(self) -> Fault:
        kind = _exactly_one(self, FAULTS)
        belong = {"status": ("after", "retry_after", "resets_in", "message"), "stall": ("after",)}
        for name in ("after", "retry_after", "resets_in", "message"):
            if getattr(self, name) is not None and name not in belong.get(kind, ()):
                raise wrong(f"has `{name}`, which does not belong to `{kind}`")
        return self

    @property
    def kind(self) -> str:
        return _exactly_one(self, FAULTS)

    @property
    def lasts_s(self) -> float | None:
        """Of `hang` and `stall`; None: until the other side goes."""
        told = self.hang or self.stall
        return None if told is None or told == ALWAYS else duration_ms(told) / 1000


class Usage(Words):
    """Tokens; `tokens_in` holds those that came from a cache."""

    tokens_in: Count = 100
    tokens_out: Count = 20
    tokens_cached: Count = 0

    @model_validator(mode="after")
    def _whole(self) -> Usage:
        if self.tokens_cached > self.tokens_in:
            raise wrong(f"has more tokens_cached ({self.tokens_cached}) than tokens_in ({self.tokens_in})")
        return self


class Turn(Words):
    """One answer of the model."""

    about: str = ""
    text: Text | None = None
    reasoning: Text | None = None
    calls: list[Call] = Field(default_factory=list)
    output: Any = None
    usage: Usage = Field(default_factory=Usage)
    stop: Literal["length", "refusal"] | None = Field(default=None, description="Ends early, for this reason.")
    delay: Duration | None = Field(default=None, description="Before anything is answered.")
    pace: Duration | None = Field(default=None, description="Between two events of the stream.")
    faults: Annotated[list[Fault], BeforeValidator(_one_or_many)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _whole(self) -> Turn:
        if self.text is None and self.reasoning is None and self.output is None and not self.calls:
            raise wrong("says nothing; give it text, calls or output")
        for fault in self.faults[:-1]:
            if fault.times == ALWAYS:
                raise wrong(f"has a fault after one that comes `{ALWAYS}`")
        return self


class Route(Words):
    """Turns for the sessions that it fits."""

    about: str = ""
    match: Annotated[Text, AfterValidator(_pattern)] | None = None
    model: Text | None = Field(default=None, description="Name of the model that is asked, or a pattern of it.")
    mode: Literal["history", "sequence"] = "history"
    aux: Text | None = None
    beyond: Text | None = Field(default=None, description="What is said after the last turn; absent: an error.")
    turns: list[Turn] = Field(default_factory=list)


class Script(Route):
    script: int = LANGUAGE
    routes: list[Route] = Field(default_factory=list)

    @model_validator(mode="after")
    def _whole(self) -> Script:
        if self.script != LANGUAGE:
            raise wrong(f"has `script: {self.script}`; this version knows {LANGUAGE}")
        beside = self.model_fields_set & set(Route.model_fields) - {"about"}
        if self.routes and beside:
            raise wrong(f"has `routes`, and beside them {', '.join(sorted(beside))}, which belong into a route")
        if not self.routes and not self.turns and self.aux is None:
            raise wrong("has no turns")
        return self

    def parts(self) -> list[Route]:
        return self.routes or [self]


def load_file(path: str | os.PathLike[str]) -> Script:
    """Read and check a script.  Raises BadPlan."""
    return load(read_file(path), os.fspath(path))


def load(text: str | bytes, file: str = "script") -> Script:
    """Read and check a script: YAML, or JSON.  Raises BadPlan with every problem: file:line:column, found, allowed."""
    raw, places, findings = parse(text, file, empty="the script is empty; begin with `turns:`")
    try:
        return _checked(raw, findings)
    except BadPlan:
        if places.values:
            raise
    place_all(text if isinstance(text, str) else text.decode("utf-8"), places)  # JSON was read without places
    return _checked(raw, Findings(places))


def from_values(raw: Json) -> Script:
    """A script made in Python, as plain values.  Raises BadPlan."""
    return _checked(raw, Findings(Places()))


def _checked(raw: Json, findings: Findings) -> Script:
    if not isinstance(raw, dict):
        findings.add(f"a script is a mapping with `turns` or `routes`, found {shown(raw)}")
        findings.raise_if_any()
    _tell_nulls(raw, findings)
    script: Script | None = None
    try:
        script = Script.model_validate(raw)
    except ValidationError as error:
        misfits(error, Script, raw, findings)
    findings.raise_if_any()
    assert script is not None
    return script


def _tell_nulls(raw: Json, findings: Findings) -> None:
    """A key without a value is a slip, but for one inside an output, which is the model's own."""
    found = Findings(findings.places)
    nulls(raw, found)
    findings.found |= {key: problem for key, problem in found.found.items() if "output" not in key[0][:-1]}
