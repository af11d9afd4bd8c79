"""Template functions and their Go signatures.

Go checks the arguments of a template function against its parameter types: `upper 5` is an error. `Func` gives a Python callable
such a signature, with Go's names for types. For a plain callable the annotations are used (`str` is string, `int` int, `dict[...]`
a map, `Any` or none interface {}), and a parameter with a default is left out of the Go signature unless it is `*args`.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from muster.gotemplate.values import ANY_MAP, ANY_SLICE, NIL_MAP, nil_slice

ANY = "interface {}"
VALUE = "reflect.Value"
_NILLABLE = {ANY, VALUE, ANY_MAP, ANY_SLICE}
_ANNOTATIONS: dict[Any, str] = {
    str: "string",
    bool: "bool",
    int: "int",
    float: "float64",
    dict: ANY_MAP,
    Mapping: ANY_MAP,
    list: ANY_SLICE,
    Any: ANY,
    object: ANY,
    inspect.Parameter.empty: ANY,
}


@dataclass(frozen=True, eq=False, slots=True)
class Func:
    """A callable with a Go signature. `late` functions are bound per execution (see `Template.render`)."""

    call: Callable[..., Any]
    params: tuple[str, ...] = (ANY,)
    variadic: bool = False
    result: str = ANY
    late: bool = False

    @property
    def go_type(self) -> str:
        """The Go type of the function, as in `func(string, ...int) string`."""
        names = list(self.params)
        if self.variadic:
            names[-1] = "..." + names[-1]
        return f"func({', '.join(names)}) {self.result}"

    @property
    def go_kind(self) -> str:
        return "func"

    def param(self, index: int) -> str:
        """The type that argument `index` must have."""
        return self.params[min(index, len(self.params) - 1)] if self.variadic else self.params[index]

    def arity_problem(self, given: int, explicit: int) -> str:
        """The error for the number of arguments, or ""; `explicit` excludes one from the pipeline."""
        if self.variadic:
            if given < len(self.params) - 1:
                return f"want at least {len(self.params) - 1} got {explicit}"
        elif given != len(self.params):
            return f"want {len(self.params)} got {given}"
        return ""


def nillable(type_name: str) -> bool:
    """Whether nil can be assigned to the type."""
    return type_name in _NILLABLE or type_name.startswith(("map[", "[]", "*", "func("))


def zero(type_name: str) -> Any:
    """The zero value of a nillable type other than reflect.Value."""
    if type_name == ANY_MAP:
        return NIL_MAP
    return nil_slice(type_name) if type_name.startswith("[]") else None


def _go_name(annotation: Any) -> tuple[str, bool]:
    """Go's type for a Python annotation, and whether None is part of it."""
    optional = False
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [item for item in typing.get_args(annotation) if item is not type(None)]
        optional = len(members) < len(typing.get_args(annotation))
        annotation = members[0] if len(members) == 1 else Any
    annotation = typing.get_origin(annotation) or annotation
    name = _ANNOTATIONS.get(annotation) or getattr(annotation, "go_type", None)
    return (name if isinstance(name, str) else ANY), optional


def func(call: Callable[..., Any] | Func) -> Func:
    """The callable as a `Func`, with the signature of its annotations."""
    if isinstance(call, Func):
        return call
    try:
        signature = inspect.signature(call, eval_str=True)
    except (TypeError, ValueError, NameError):
        return Func(call, (ANY,), variadic=True)
    params, variadic = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            params.append(_go_name(parameter.annotation)[0])
            variadic = True
        elif parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            params.append(_go_name(parameter.annotation)[0])
    returns = signature.return_annotation
    result, optional = (ANY, False) if returns is signature.empty else _go_name(returns)
    if optional and result in (ANY_MAP, ANY_SLICE):
        return Func(_nil_as(call, result), tuple(params), variadic, result)
    return Func(call, tuple(params), variadic, ANY if optional else result)


def _nil_as(call: Callable[..., Any], result: str) -> Callable[..., Any]:
    def wrapped(*args: Any) -> Any:
        value = call(*args)
        return zero(result) if value is None else value

    return wrapped


_Call = TypeVar("_Call", bound=Callable[..., Any])
_SHORT_NAMES = {"any": ANY, "value": VALUE, "map": ANY_MAP, "list": ANY_SLICE, "time": "time.Time"}


class FuncTable(dict[str, Func]):
    """Functions by name; `add` is a decorator that takes the signature as Go would write it.

    `@table.add("substr", "int, int, string", "string")`, a last parameter with dots (`...any`) is variadic, and several
    names may be given at once, separated by spaces.
    """

    def add(self, names: str, params: str, result: str = ANY) -> Callable[[_Call], _Call]:
        parts = [part.strip() for part in params.split(",") if part.strip()]
        variadic = bool(parts) and parts[-1].startswith("...")
        types_ = tuple(_SHORT_NAMES.get(part.removeprefix("..."), part.removeprefix("...")) for part in parts)

        def register(call: _Call) -> _Call:
            for name in names.split():
                self[name] = Func(call, types_, variadic, _SHORT_NAMES.get(result, result))
            return call

        return register
