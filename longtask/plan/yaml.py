"""Text to plain values with the place of each: YAML 1.2 as far as plans need it, and JSON.

Built on the parser's events, not on its objects, so that nothing is ever constructed by a tag, every problem of a
text is told at once, and a small text cannot grow large (no anchors, aliases or merges; depth and size are bounded).

Plain scalars follow the core schema of YAML 1.2: only `true` and `false` are booleans (`yes`, `on` and dates are text).
Two deviations, both so that a value stays as written: digits may be grouped (`3_000_000`), and a number with leading
zeros (`0755`) is text.  Under the keys that the caller names, every plain scalar is text: `env: {PORT: 8080}`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from longtask.core.errors import BadPlan
from longtask.core.model import Json
from longtask.core.policy import PLAN_BYTES_MAX

from .problems import Findings, Loc, Place, Places, Refused, in_order
from .suspicious import shown

NODES_MAX = 250_000  # read as YAML; about 20 s.  JSON, a hundred times faster, has no such limit
FINDINGS_MAX = 500  # then the rest of the text is not read
DEPTH_MAX = 50  # of nested mappings and lists; a plan of any use stays below 15
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_RADIX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9_]*)(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_TRUE, _FALSE = frozenset(("true", "True", "TRUE")), frozenset(("false", "False", "FALSE"))
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
# Control characters, what YAML 1.1 took for line ends, lone surrogates, and marks that reorder the text on a reader's
# screen: a plan must be what the person who approves it sees.
_UNWANTED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
_NAMED = {0: "NUL", 7: "BEL", 8: "backspace", 0x1B: "ESC", 0x7F: "DEL", 0x85: "NEL", 0xFEFF: "byte order mark"}


def read_file(path: str | os.PathLike[str], name: str | None = None) -> bytes:
    """The bytes of a file, never more than the limit.  `name`: as messages call it.  Raises BadPlan."""
    name = os.fspath(path) if name is None else name
    try:
        with open(path, "rb") as file:
            content = file.read(PLAN_BYTES_MAX + 1)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise BadPlan(f"cannot read {name!r}: {(error.strerror or str(error)).lower()}") from error
    if len(content) > PLAN_BYTES_MAX:
        raise BadPlan(_too_large(max(size, len(content))))
    return content


def parse(
    text: str | bytes, file: str = "", *, text_under: tuple[str, ...] = (), empty: str = "the file is empty"
) -> tuple[Json, Places, Findings]:
    """The value, the places, and what was found wrong so far.  Raises BadPlan when there is no value to go on with.

    `text_under`: keys below which plain scalars are text.  `empty`: what to say of a file without content.
    """
    places = Places(file)
    findings = Findings(places)
    text = _decoded(text, findings)
    _no_unwanted(text, findings)
    if not text.strip():
        findings.add(empty, place=(1, 1))
        findings.raise_if_any()
    if text.lstrip()[:1] == "{" or file.endswith(".json"):
        value = _json(text, file, findings)
        if value is not None:
            return value, places, findings
    places.keys.clear()
    return _Builder(findings, text_under, empty).build(text), places, findings


def _too_large(size: int) -> str:
    return (
        f"the file has {size:,} bytes, the limit is {PLAN_BYTES_MAX:,}; put large texts into files of the repository "
        "and many like steps into for_each"
    )


def _decoded(text: str | bytes, findings: Findings) -> str:
    # A character has at least one byte, so a text over the limit is refused before it is encoded or parsed.
    if len(text) > PLAN_BYTES_MAX:
        raise BadPlan(_too_large(len(text)))
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadPlan("the file is UTF-16; save it as UTF-8")
    try:
        return text.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = text[: error.start].decode("utf-8")
        message = f"byte 0x{text[error.start]:02x} is not UTF-8; save the file as UTF-8"
        findings.add(message, place=_place_in(before, len(before)))
        raise BadPlan(in_order(findings.found.values())) from None


def _place_in(text: str, index: int) -> Place:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _no_unwanted(text: str, findings: Findings) -> None:
    for count, found in enumerate(_UNWANTED.finditer(text)):
        if count == 20:
            break
        code = ord(found.group())
        name = _NAMED.get(code, "lone surrogate" if 0xD800 <= code < 0xE000 else "")
        message = f"character U+{code:04X}{f' ({name})' if name else ''} is not allowed; remove it"
        findings.add(message, place=_place_in(text, found.start()))
    findings.raise_if_any()


# --- JSON ---------------------------------------------------------------------------------------------------------


def _json(text: str, file: str, findings: Findings) -> Json:
    """The value of a JSON text; None if it is to be read as YAML: it is no JSON, or has problems that need places."""
    repeated = False

    def mapping(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        nonlocal repeated
        repeated = repeated or len(dict(pairs)) < len(pairs)
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=mapping, parse_constant=_no_constant)
    except RecursionError:
        value = None  # the event builder says where it is too deep
    except json.JSONDecodeError as error:
        if file.endswith(".json"):
            message = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
            findings.add(message, place=(error.lineno, error.colno))
            findings.raise_if_any()
        return None
    except ValueError:
        return None  # an integer of thousands of digits, NaN
    if repeated or value is None or not shallow(value):
        return None
    for inner in _strings(value):
        if found := _UNWANTED.search(inner):
            raise BadPlan(f"character U+{ord(found.group()):04X} is not allowed, escaped or not; remove it")
    return value


def _strings(value: Json) -> Iterator[str]:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            stack += [*one, *one.values()]
        elif isinstance(one, list):
            stack += one


def _no_constant(word: str) -> None:
    raise ValueError(word)


def shallow(value: Json) -> bool:
    """Whether it is nested at most DEPTH_MAX deep."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [
            inner for v in level if isinstance(v, dict | list) for inner in (v.values() if isinstance(v, dict) else v)
        ]
        if not level:
            return True
    return False


def place_all(text: str, places: Places) -> None:
    """Fill the places of a text that was read as JSON; leaves them empty if it cannot be read as YAML."""
    builder = _Builder(Findings(places))
    try:
        builder.build(text)
    except BadPlan:
        places.values.clear()
        places.keys.clear()


# --- YAML ---------------------------------------------------------------------------------------------------------


class _Builder:
    """Builds the value from the parser's events."""

    def __init__(self, findings: Findings, text_under: tuple[str, ...] = (), empty: str = "") -> None:
        self.text_under = text_under
        self.empty = empty
        self.findings = findings
        self.places = findings.places
        self.events: Iterator[Event] = iter(())
        self.nodes = 0

    def build(self, text: str) -> Json:
        yaml = YAML(typ="safe", pure=True)
        yaml.allow_duplicate_keys = True  # told by us, with the rest
        self.events = iter(yaml.parse(text))
        documents = 0
        value: Json = None
        try:
            for event in self.events:
                if isinstance(event, DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        message = "the file holds more than one document (`---`); write one in one file"
                        self.findings.add(message, place=_place(event))
                        break
                elif isinstance(event, NodeEvent):
                    value = self._node(event, (), text_only=False)
        except MarkedYAMLError as error:
            self._not_yaml(error)
        except YAMLError as error:
            raise BadPlan(f"not valid YAML: {str(error).splitlines()[0][:200]}") from error
        except (ValueError, ArithmeticError, TypeError, AttributeError, LookupError, AssertionError) as error:
            # The parser itself trips over some malformed texts (a bad %YAML directive, an impossible escape).
            raise BadPlan(f"not valid YAML: the parser gave up ({type(error).__name__})") from error
        if value is None:
            self.findings.add(self.empty, place=(1, 1))
            self.findings.raise_if_any()
        return value

    def _not_yaml(self, error: MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(error.problem or error.context or "cannot be read").split())
        hint = ""
        if "'\\t'" in problem or "\t" in problem:
            problem, hint = "a tab cannot indent", "; use spaces"
        elif problem.startswith("mapping values are not allowed"):
            problem, hint = "a second `: ` on one line", "; put the text in quotes, or start a new line"
        elif "could not find expected ':'" in problem:
            hint = "; is a `:` missing, or an indent wrong?"
        elif "block end" in problem or "expected the node content" in problem:
            hint = "; is an indent, a quote or a bracket wrong?"
        elif error.context and mark is not None and error.context_mark is not None:
            hint = f" ({' '.join(str(error.context).split())} from line {error.context_mark.line + 1})"
        place = (mark.line + 1, mark.column + 1) if mark is not None else None
        self.findings.add(f"not valid YAML: {problem}{hint}", place=place)
        self.findings.raise_if_any()

    def _node(self, event: NodeEvent, loc: Loc, text_only: bool) -> Json:
        self.places.values[loc] = _place(event)
        self.nodes += 1
        if self.nodes > NODES_MAX:
            message = f"it has more than {NODES_MAX:,} parts; write a plan of this size as JSON or in Python"
            self.findings.add(message, place=_place(event))
        if len(loc) > DEPTH_MAX:
            self.findings.add(f"it is nested deeper than {DEPTH_MAX} levels", place=_place(event))
        if self.nodes > NODES_MAX or len(loc) > DEPTH_MAX or len(self.findings.found) > FINDINGS_MAX:
            self.findings.raise_if_any()
        if isinstance(event, AliasEvent):
            self.findings.add(f"aliases (`*{event.anchor}`) are not taken; write it out", loc)
            return Refused()
        if event.anchor is not None:
            self.findings.add(f"anchors (`&{event.anchor}`) are not taken; remove it", loc)
        tag = getattr(event, "ctag", None)
        if tag is not None and str(tag) not in ("", "None", "!"):
            self.findings.add(f"tags ({shown(str(tag))}) are not taken; remove it", loc)
        if isinstance(event, ScalarEvent):
            return self._scalar(event, loc, text_only)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(loc, text_only)
        assert isinstance(event, MappingStartEvent), event
        return self._mapping(loc, text_only)

    def _sequence(self, loc: Loc, text_only: bool) -> list[Json]:
        out: list[Json] = []
        for event in self.events:
            if isinstance(event, CollectionEndEvent):
                break
            assert isinstance(event, NodeEvent), event
            out.append(self._node(event, (*loc, len(out)), text_only))
        return out

    def _mapping(self, loc: Loc, text_only: bool) -> dict[str, Json]:
        out: dict[str, Json] = {}

        for event in self.events:
            if isinstance(event, CollectionEndEvent):
                break
            if not isinstance(event, ScalarEvent):
                self.findings.add("a key must be text, not a list, a mapping or an alias", loc, place=_place(event))
                self.findings.raise_if_any()  # what follows cannot be told apart
            assert isinstance(event, ScalarEvent)
            key = str(event.value)
            at = (*loc, key)
            if key in out:
                message = f"{shown(key)} is there twice; the first stands in line {self.places.keys[at][0]}"
                self.findings.add(message, at, place=_place(event))
                at = (*at, "")  # keeps the places of the first
            else:
                self.places.keys[at] = _place(event)
            value_event = next(self.events)
            assert isinstance(value_event, NodeEvent), value_event
            value = self._node(value_event, at, text_only or key in self.text_under)
            if key == "<<":
                self.findings.add("merges (`<<`) are not taken; write it out", at, key=True)
            else:
                out.setdefault(key, value)
        return out

    def _scalar(self, event: ScalarEvent, loc: Loc, text_only: bool) -> Json:
        text = str(event.value)
        found = _UNWANTED.search(text)
        if found is not None:  # written as an escape
            self.findings.add(f"character U+{ord(found.group()):04X} is not allowed, escaped or not; remove it", loc)
        plain = event.implicit[0] if event.implicit else False
        if not plain:
            return text
        if text in _NULL:
            return None
        if text_only:
            return text
        try:
            return plain_value(text)
        except ValueError:
            self.findings.add(f"the number {text[:20]}… is too large", loc)
            return 0


def _place(event: Event) -> Place:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1)


def plain_value(text: str) -> Any:
    """A plain scalar as the core schema reads it.  Raises ValueError for a number beyond 64 bits."""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INT.fullmatch(text):
        digits = text.replace("_", "")
        if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
            raise ValueError("too large")
        return int(digits)
    if _RADIX.fullmatch(text):
        if len(text) > 18:
            raise ValueError("too large")
        return int(text, 0)
    if text[:1] in "+-.0123456789" and _FLOAT.fullmatch(text):
        number = float(text.replace("_", ""))
        if abs(number) == float("inf"):
            raise ValueError("too large")
        return number
    return text
