"""Facts and other values as compact JSON, old versions included.

- A value is an object of its fields by name; a field equal to its default is left out, so that a small fact is small.
- Enums stand by value, tuples as arrays, nested values by the same rule, an edge as `[need, step]`.  Rows of a graph
  that differ in their key alone share one object.
- Every stored fact carries its version `v`.  A fact whose form changes gets the next number in `VERSIONS` and a step in
  `UPGRADES`; what an old version wrote is read for ever (`tests/golden/`).
- The text is UTF-8; what UTF-8 cannot hold (a file name that is no text) stands as an escape and comes back as it was.
- NaN and infinity are refused: they are not JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from itertools import groupby
from operator import attrgetter, itemgetter
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from longtask.core.errors import StoreError
from longtask.core.events import FACTS, Fact, NewStep
from longtask.core.model import Edge, Json, StepSpec, TaskOptions

VERSIONS: dict[str, int] = {}  # facts whose form has changed: the version that is written now; all others: 1

# (kind, version) -> what turns a body of that version into one of the next.
UPGRADES: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}

T = TypeVar("T")
Convert = Callable[[Any], Any]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot write {type(value).__name__!r} as JSON; use text, numbers, lists and objects")


_compact = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False, default=_plain
)
_ascii = json.JSONEncoder(
    ensure_ascii=True, separators=(",", ":"), allow_nan=False, check_circular=False, default=_plain
)


def dump_json(value: Json) -> str:
    """Compact JSON that any database can keep as text."""
    text = _compact.encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # lone surrogates: bytes of a file name that are no UTF-8
            return _ascii.encode(value)
    return text


load_json = json.loads


class Form:
    """How the values of one class are written.  `only`: no more than these of its fields."""

    def __init__(self, cls: type[Any], only: Collection[str] | None = None) -> None:
        hints = get_type_hints(cls)
        self.cls = cls
        self._dumps: list[tuple[str, Any, Convert | None]] = []
        self._loads: dict[str, Convert | None] = {}
        for name, default in _defaults(cls):
            if only is None or name in only:
                self._dumps.append((name, default, _dumper(hints[name])))
                self._loads[name] = _loader(hints[name])
        self.needed = frozenset(name for name, default, _ in self._dumps if default is MISSING)
        self._usual = tuple(default for _, default, _ in self._dumps)
        self._pick = _picker(cls, list(self._loads))

    def dump(self, value: Any) -> dict[str, Json]:
        """The fields that differ from their defaults."""
        body: dict[str, Json] = {}
        picked = self._pick(value)
        if picked == self._usual:
            return body
        for (name, default, convert), field in zip(self._dumps, picked, strict=True):
            if field is not default and field != default:
                body[name] = field if convert is None else convert(field)
        return body

    def load(self, body: Json) -> dict[str, Any]:
        """The fields as keyword arguments of the class.  Raises StoreError if they are not its fields."""
        loads = self._loads
        arguments: dict[str, Any] = {}
        try:
            for name, field in body.items():
                convert = loads[name]
                arguments[name] = field if convert is None or field is None else convert(field)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(_misfit(self, body, error)) from error
        return arguments


def _defaults(cls: type[Any]) -> list[tuple[str, Any]]:
    """The fields of a dataclass or a named tuple with their defaults; MISSING: it must be given."""
    if issubclass(cls, tuple):
        known: dict[str, Any] = cls._field_defaults  # type: ignore[attr-defined]
        return [(name, known.get(name, MISSING)) for name in cls._fields]  # type: ignore[attr-defined]
    return [(f.name, f.default if f.default_factory is MISSING else f.default_factory()) for f in fields(cls)]


def _picker(cls: type[Any], names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads all the fields at once."""
    if len(names) < 2:
        return lambda value: tuple([getattr(value, name) for name in names])
    if issubclass(cls, tuple):
        return itemgetter(*[cls._fields.index(name) for name in names])  # type: ignore[attr-defined]
    return attrgetter(*names)


_forms: dict[type[Any], Form] = {}


def form(cls: type[Any]) -> Form:
    shape = _forms.get(cls)
    if shape is None:
        shape = _forms[cls] = Form(cls)
    return shape


def _dumper(hint: Any) -> Convert | None:
    """What JSON cannot write by itself: nested values.  None: as it is."""
    hint = _bare(hint)
    if hint == tuple[NewStep, ...]:
        return _dump_new_steps
    if hint == tuple[Edge, ...]:
        return _dump_edges
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: form(hint).dump(value)
    if get_origin(hint) is tuple and (inner := _dumper(get_args(hint)[0])) is not None:
        return lambda values: [inner(value) for value in values]
    return None


def _loader(hint: Any) -> Convert | None:
    """What JSON has lost: enums, tuples, nested values.  None: as it is."""
    hint = _bare(hint)
    if hint == tuple[NewStep, ...]:
        return _load_new_steps
    if hint == tuple[Edge, ...]:
        return _load_edges
    if get_origin(hint) is tuple:
        inner = _loader(get_args(hint)[0])
        return tuple if inner is None else lambda values: tuple([inner(value) for value in values])
    if not isinstance(hint, type):
        return None
    if issubclass(hint, StrEnum):
        return {member.value: member for member in hint}.__getitem__
    if is_dataclass(hint):
        return lambda body: load(hint, body)
    if issubclass(hint, tuple):  # a NamedTuple
        return lambda values: hint(*values)
    return None


def _dump_new_steps(steps: Iterable[NewStep]) -> list[Json]:
    """Neighbours that differ in nothing but their key stand once, with all their keys: a wide fan-out stays small."""
    out: list[dict[str, Json]] = []
    keys: list[str] = []
    before: dict[str, Json] | None = None
    for step in steps:
        body = form(NewStep).dump(step)
        key = body.pop("key")
        if body == before:
            keys.append(key)
            out[-1]["key"] = keys
        else:
            keys, before = [key], body
            out.append({"key": key, **body})
    return out


def _load_new_steps(bodies: Iterable[dict[str, Json]]) -> tuple[NewStep, ...]:
    steps: list[NewStep] = []
    for body in bodies:
        key = body["key"]
        if isinstance(key, str):
            steps.append(load(NewStep, body))
        else:
            steps += [load(NewStep, {**body, "key": one}) for one in key]
    return tuple(steps)


def _dump_edges(edges: Iterable[Edge]) -> list[Json]:
    """`[need, step]`; neighbours of one step (a gate) stand as `[[need, need ...], step]`."""
    out: list[Json] = []
    for step, run in groupby(edges, key=itemgetter(1)):
        needs = [edge[0] for edge in run]
        out.append([needs[0] if len(needs) == 1 else needs, step])
    return out


def _load_edges(bodies: Iterable[list[Json]]) -> tuple[Edge, ...]:
    edges: list[Edge] = []
    for needs, step in bodies:
        edges += [Edge(need, step) for need in ([needs] if isinstance(needs, str) else needs)]
    return tuple(edges)


def _bare(hint: Any) -> Any:
    """`X | None` as `X`."""
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else Any
    return hint


def load(cls: type[T], body: Json) -> T:
    """Raises StoreError if the fields are not those of the class."""
    shape = form(cls)
    arguments = shape.load(body)
    try:
        return cls(**arguments)
    except TypeError as error:
        raise StoreError(_misfit(shape, body, error)) from error


def _misfit(shape: Form, body: Json, error: Exception) -> str:
    name = shape.cls.__name__
    if not isinstance(body, dict):
        return f"stored {name}: is no object; the database is damaged, run longtask doctor"
    if unknown := sorted(set(body) - set(shape._loads)):
        return f"stored {name}: unknown fields {unknown}; it was written by a newer version, upgrade longtask"
    if missing := sorted(shape.needed - set(body)):
        return f"stored {name}: fields {missing} are missing; the database is damaged, run longtask doctor"
    if isinstance(error, KeyError):
        word = error.args[0]
        return f"stored {name}: the word {word!r} is not known; it was written by a newer version, upgrade longtask"
    return (
        f"stored {name}: cannot be read ({type(error).__name__}: {error}); the database is damaged, run longtask doctor"
    )


def dump_fact(fact: Fact) -> tuple[str, int, str]:
    """(kind, version, JSON text)."""
    cls = type(fact)
    kind = cls.__name__
    return kind, VERSIONS.get(kind, 1), dump_json(form(cls).dump(fact))


def load_fact(kind: str, v: int, text: str) -> Fact:
    """Raises StoreError: unknown fact, newer version, damaged text."""
    cls = FACTS.get(kind)
    if cls is None:
        raise StoreError(f"fact {kind!r} is not known; it was written by a newer version, upgrade longtask")
    newest = VERSIONS.get(kind, 1)
    if v > newest:
        raise StoreError(f"fact {kind!r} has version {v}, this program knows {newest}; upgrade longtask")
    try:
        body = json.loads(text)
    except ValueError as error:
        raise StoreError(
            f"fact {kind!r} is not JSON ({error}); the database is damaged, run longtask doctor"
        ) from error
    for old in range(v, newest):
        body = UPGRADES[kind, old](body)
    return load(cls, body)


def dump_spec(spec: StepSpec) -> str:
    return dump_json(form(StepSpec).dump(spec))


def load_spec(text: str) -> StepSpec:
    return load(StepSpec, json.loads(text))


def dump_options(options: TaskOptions) -> str:
    return dump_json(form(TaskOptions).dump(options))


def load_options(text: str) -> TaskOptions:
    return load(TaskOptions, json.loads(text))
