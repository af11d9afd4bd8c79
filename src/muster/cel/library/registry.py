"""How functions are declared: overloads with types, an implementation and a cost.

A library is a plain object: functions, named types and macros, merged by the environment. An overload's
implementation receives CEL values of the declared parameter types, target first. `cost` is the run-time cost as a
function of arguments and result, None for the constant 1; `estimate` names the rule the static estimator uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.cel import types
from muster.cel.macros import MacroTable
from muster.cel.types import Type
from muster.cel.unify import parameters_of
from muster.cel.values import Duration, Opaque, Optional, Timestamp, Uint, is_list, is_map

Cost = Callable[[list[Any], Any], int]


@dataclass(frozen=True, slots=True)
class Overload:
    id: str
    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    member: bool = False
    cost: Cost | None = None
    type_params: tuple[str, ...] = ()

    def accepts(self, arguments: list[Any]) -> bool:
        return len(arguments) == len(self.params) and all(map(holds, self.params, arguments))


@dataclass(slots=True)
class Function:
    name: str
    overloads: list[Overload] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Library:
    """A named set of declarations. `checks` validates literal arguments at compile time."""

    name: str
    overloads: tuple[tuple[str, Overload], ...] = ()
    types: Mapping[str, Type] = field(default_factory=dict)
    macros: MacroTable = field(default_factory=dict)


def overload(
    id: str,
    params: Iterable[Type],
    result: Type,
    call: Callable[..., Any],
    member: bool = False,
    cost: Cost | None = None,
) -> Overload:
    listed = tuple(params)
    names: set[str] = set()
    for type_ in (*listed, result):
        parameters_of(type_, names)
    return Overload(id, listed, result, call, member, cost, tuple(sorted(names)))


def method(id: str, params: Iterable[Type], result: Type, call: Callable[..., Any], cost: Cost | None = None) -> Overload:
    return overload(id, params, result, call, True, cost)


_CLASSES: dict[str, type] = {
    "bool": bool,
    "int": int,
    "uint": Uint,
    "double": float,
    "string": str,
    "bytes": bytes,
    "null": type(None),
    "timestamp": Timestamp,
    "duration": Duration,
    "type": Type,
}


def holds(type_: Type, value: Any) -> bool:
    """Whether a run-time value may be passed where the type is declared; element types are not looked at."""
    expected = _CLASSES.get(type_.kind)
    if expected is not None:
        return value.__class__ is expected
    if type_.kind == "list":
        return is_list(value)
    if type_.kind == "map" or (type_.kind == "struct" and type_.fields is not None):
        return is_map(value)
    if type_.kind in ("opaque", "struct"):
        if type_.name == types.OPTIONAL.name:
            return value.__class__ is Optional
        return isinstance(value, Opaque) and value.cel_type.name == type_.name
    return True
