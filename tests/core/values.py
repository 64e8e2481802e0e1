"""Any value of a class of ours, for property tests: built from the types of its fields."""

from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from longtask.core.model import Json, JsonMap

INTEGERS = st.one_of(st.sampled_from([0, 1, 2]), st.integers(min_value=0, max_value=2**62))
# bytes of a file name that are no UTF-8 come as lone low surrogates
TEXTS = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)),
    max_size=12,
)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
_SHALLOW = _SCALARS | st.lists(_SCALARS, max_size=2) | st.dictionaries(TEXTS, _SCALARS, max_size=2)
JSON = _SHALLOW | st.dictionaries(TEXTS, _SHALLOW, max_size=2)
JSON_MAPS = st.dictionaries(TEXTS, _SHALLOW, max_size=2)


def of_hint(hint: Any, text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    if hint is Json:
        return JSON
    if hint == JsonMap:
        return JSON_MAPS
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*[of_hint(kind, text) for kind in get_args(hint)])
    if get_origin(hint) is tuple:
        return st.lists(of_hint(get_args(hint)[0], text), max_size=2).map(tuple)
    if hint is type(None):
        return st.none()
    if hint is bool:
        return st.booleans()
    if hint is int:
        return INTEGERS
    if hint is str:
        return text
    if issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    return of_class(hint, text)


def of_class(cls: type[Any], text: st.SearchStrategy[str] = TEXTS, **fixed: Any) -> st.SearchStrategy[Any]:
    """`text`: what stands in its text fields; `fixed`: strategies for fields by name.  Every second default stays."""
    hints = get_type_hints(cls)
    if is_dataclass(cls):
        defaults = {f.name: f.default for f in fields(cls)}
    else:
        defaults = {name: cls._field_defaults.get(name, MISSING) for name in cls._fields}
    choices = {}
    for name, default in defaults.items():
        any_value = fixed[name] if name in fixed else of_hint(hints[name], text)
        choices[name] = any_value if default is MISSING else st.just(default) | any_value
    return st.builds(cls, **choices)
