"""Optional values: `optional.of`, `.hasValue()`, `.orValue()` and their kin, `?.` and `[?]`."""

from __future__ import annotations

from typing import Any

from muster.cel import types
from muster.cel.errors import EvaluationError, no_such_overload
from muster.cel.interpreter.operators import at_index, optional_at_index, optional_select
from muster.cel.library.registry import Library, method, overload
from muster.cel.syntax.macros import OPTIONAL_MACROS
from muster.cel.types import BOOL, DYN, INT, STRING, list_type, map_type
from muster.cel.values import NONE, Optional, elements, is_zero

_K, _V = types.param("K"), types.param("V")
_OPTIONAL, _LIST, _MAP = types.optional(_V), list_type(_V), map_type(_K, _V)


def _of_non_zero(value: Any) -> Optional:
    return NONE if is_zero(value) else Optional(True, value)


def _value(option: Optional) -> Any:
    if not option.present:
        raise EvaluationError("optional.none() dereference")
    return option.value


def _or(option: Optional, other: Any) -> Any:
    raise no_such_overload()


def _edge(position: int) -> Any:
    def edge(value: Any) -> Optional:
        items = elements(value)
        return Optional(True, items[position]) if items else NONE

    return edge


def _unwrap(value: Any) -> list[Any]:
    items = elements(value)
    for item in items:
        if item.__class__ is not Optional:
            raise EvaluationError(f"value {item} is not optional")
    return [item.value for item in items if item.present]


OPTIONALS = Library(
    "optional",
    overloads=(
        ("optional.of", overload("optional_of", (_V,), _OPTIONAL, lambda value: Optional(True, value))),
        ("optional.ofNonZeroValue", overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, _of_non_zero)),
        ("optional.none", overload("optional_none", (), _OPTIONAL, lambda: NONE)),
        ("value", method("optional_value", (_OPTIONAL,), _V, _value)),
        ("hasValue", method("optional_hasValue", (_OPTIONAL,), BOOL, lambda option: option.present)),
        ("or", method("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, _or)),
        ("orValue", method("optional_orValue_value", (_OPTIONAL, _V), _V, _or)),
        ("_?._", overload("select_optional_field", (DYN, STRING), _OPTIONAL, optional_select)),
        ("_[?_]", overload("list_optindex_optional_int", (_LIST, INT), _OPTIONAL, optional_at_index)),
        ("_[?_]", overload("optional_list_optindex", (types.optional(_LIST), INT), _OPTIONAL, optional_at_index)),
        ("_[?_]", overload("map_optindex_optional_value", (_MAP, _K), _OPTIONAL, optional_at_index)),
        ("_[?_]", overload("optional_map_optindex", (types.optional(_MAP), _K), _OPTIONAL, optional_at_index)),
        ("_[_]", overload("optional_list_index_int", (types.optional(_LIST), INT), _OPTIONAL, at_index)),
        ("_[_]", overload("optional_map_index_value", (types.optional(_MAP), _K), _OPTIONAL, at_index)),
        ("last", method("list_last", (_LIST,), _OPTIONAL, _edge(-1))),
        ("first", method("list_first", (_LIST,), _OPTIONAL, _edge(0))),
        ("optional.unwrap", overload("optional_unwrap", (list_type(_OPTIONAL),), _LIST, _unwrap)),
        ("unwrapOpt", method("optional_unwrapOpt", (list_type(_OPTIONAL),), _LIST, _unwrap)),
    ),
    macros=OPTIONAL_MACROS,
)
