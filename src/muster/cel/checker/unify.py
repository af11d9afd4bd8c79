"""Assignability and unification of types.

The checker keeps one substitution: type variables to types. `Substitution.assign` tries to make one type assignable to
another; when that fails the substitution is as it was before. The rules, including which of two unified types wins
(the more general one) and that null goes into structs, times and opaque types, are those of the reference checker.
"""

from __future__ import annotations

from muster.cel.types import DYN, Type, list_type, map_type, type_type

_NULLABLE = frozenset({"opaque", "struct", "duration", "timestamp"})
_WILD = frozenset({"dyn", "error"})
_PARAMETRIC = frozenset({"opaque", "list", "map"})


def less_specific(first: Type, second: Type) -> bool:
    """Whether `first` is equal to `second` or more general."""
    if first.kind in ("dyn", "param"):
        return True
    if second.kind in ("dyn", "param") or first.kind != second.kind:
        return False
    if first.kind in _PARAMETRIC:
        return (
            first.name == second.name
            and len(first.params) == len(second.params)
            and all(map(less_specific, first.params, second.params))
        )
    return first.kind == "type" or first == second


def most_general(first: Type, second: Type) -> Type:
    return first if less_specific(first, second) else second


class Substitution:
    def __init__(self) -> None:
        self.bindings: dict[Type, Type] = {}
        self.changes: list[tuple[Type, Type | None]] = []
        self.variables = 0

    def fresh(self) -> Type:
        self.variables += 1
        return Type("param", f"_var{self.variables - 1}")

    def assign(self, left: list[Type], right: list[Type]) -> bool:
        """Whether each left type can be used as the right one; keeps what that binds."""
        self.changes.clear()
        if len(left) == len(right) and all(map(self._assignable, left, right)):
            return True
        for variable, before in reversed(self.changes):
            if before is None:
                del self.bindings[variable]
            else:
                self.bindings[variable] = before
        return False

    def _bind(self, variable: Type, type_: Type) -> None:
        self.changes.append((variable, self.bindings.get(variable)))
        self.bindings[variable] = type_

    def assign_one(self, left: Type, right: Type) -> bool:
        return self.assign([left], [right])

    def _assignable(self, left: Type, right: Type) -> bool:
        if right.kind == "param":
            valid, bound = self._substitutes(left, right)
            if valid:
                return True
            if bound:
                return False
        if left.kind == "param":
            return self._substitutes(right, left)[0]
        if left.kind in _WILD or right.kind in _WILD:
            return True
        if left.kind == "null":
            return right.kind == "null" or right.kind in _NULLABLE
        if right.kind == "null":
            return left.kind in _NULLABLE
        if left.kind == "type":
            return right.kind == "type"
        if left.kind in _PARAMETRIC:
            return (
                left.kind == right.kind
                and left.name == right.name
                and len(left.params) == len(right.params)
                and all(map(self._assignable, left.params, right.params))
            )
        return left == right

    def _substitutes(self, type_: Type, variable: Type) -> tuple[bool, bool]:
        """Whether the variable can stand for the type, and whether it was bound before."""
        if type_ == variable:
            return True, True
        bound = self.bindings.get(variable)
        if bound is not None:
            if type_ == bound:
                return True, True
            if not self._assignable(type_, bound):
                return False, True
            general = most_general(type_, bound)
            if self._free_of(variable, general):
                self._bind(variable, general)
            return True, True
        if self._free_of(variable, type_):
            self._bind(variable, type_)
            return True, False
        return False, False

    def _free_of(self, variable: Type, within: Type) -> bool:
        if variable == within:
            return False
        if within.kind == "param":
            bound = self.bindings.get(within)
            return bound is None or self._free_of(variable, bound)
        return all(self._free_of(variable, param) for param in within.params)

    def apply(self, type_: Type, close: bool = False) -> Type:
        """The type with bound variables replaced; with `close`, unbound ones become dyn."""
        bound = self.bindings.get(type_) if type_.kind == "param" else None
        if bound is not None:
            return self.apply(bound, close)
        if type_.kind == "param":
            return DYN if close else type_
        if not type_.params:
            return type_
        params = tuple(self.apply(param, close) for param in type_.params)
        if params == type_.params:
            return type_
        if type_.kind == "list":
            return list_type(params[0])
        if type_.kind == "map":
            return map_type(*params)
        if type_.kind == "type":
            return type_type(params[0])
        return Type(type_.kind, type_.name, params)


def instantiate(type_: Type, names: dict[str, Type]) -> Type:
    """A declaration's type with its parameters replaced by this call's variables."""
    if type_.kind == "param":
        return names[type_.name]
    if not type_.params:
        return type_
    return Type(type_.kind, type_.name, tuple(instantiate(param, names) for param in type_.params), type_.fields)


def parameters_of(type_: Type, into: set[str]) -> None:
    if type_.kind == "param":
        into.add(type_.name)
    for inner in type_.params:
        parameters_of(inner, into)
