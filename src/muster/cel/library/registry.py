"""How functions are declared: overloads with types, an implementation and a cost.

A library is a plain object: functions, named types and macros, merged by the environment. An overload's
implementation receives CEL values of the declared parameter types, target first. `cost` is the run-time cost as a
function of arguments and result, None for the constant 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from muster.cel import types
from muster.cel.checker.unify import parameters_of
from muster.cel.syntax.macros import MacroTable
from muster.cel.types import Type
from muster.cel.values import Duration, Opaque, Optional, Timestamp, Uint, is_list, is_map

Cost = Callable[[list[Any], Any], int]


class Overload(NamedTuple):
    id: str
    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    member: bool = False
    cost: Cost | None = None
    type_params: tuple[str, ...] = ()

    def accepts(self, arguments: list[Any]) -> bool:
        return len(arguments) == len(self.params) and all(map(holds, self.params, arguments))


class Function:
    """All overloads of one name, in the order of their declaration."""

    __slots__ = ("name", "overloads")

    def __init__(self, name: str) -> None:
        self.name = name
        self.overloads: list[Overload] = []


class Library:
    """A named set of declarations: functions, type names, macros."""

    __slots__ = ("macros", "name", "overloads", "types")

    def __init__(
        self,
        name: str,
        overloads: tuple[tuple[str, Overload], ...] = (),
        types: Mapping[str, Type] | None = None,
        macros: MacroTable | None = None,
    ) -> None:
        self.name = name
        self.overloads = overloads
        self.types = types or {}
        self.macros = macros or {}


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
