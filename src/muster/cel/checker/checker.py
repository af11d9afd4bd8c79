"""The type checker: determines the type of every node and the candidate overloads of every call, or reports errors with positions.

Types are inferred bottom-up; type variables of generic overloads are unified in one substitution for the whole expression. `dyn` is
assignable to everything, so an expression over undeclared data is checked at run time instead. After an error the node gets the
error type, which is assignable to everything too, so that one error is reported once. Literals of mixed element types are lists or
maps of dyn here; `validators.py` refuses most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from muster.cel import types
from muster.cel.checker.unify import Substitution, instantiate, most_general
from muster.cel.errors import CompileError, Issue
from muster.cel.syntax.ast import Call, Comprehension, Ident, ListExpr, Literal, MapExpr, Node, Select, StructExpr, qualified_name
from muster.cel.syntax.parser import RESERVED
from muster.cel.types import BOOL, DYN, ERROR, INT, STRING, Type, is_optional, list_type, map_type, optional, signature
from muster.cel.values import type_of

if TYPE_CHECKING:
    from muster.cel.library.registry import Function, Overload


def check(
    source: str,
    tree: Node,
    variables: Mapping[str, Type],
    functions: Mapping[str, Function],
    structs: Mapping[str, Type],
) -> Type:
    """Annotates the tree and returns its type; raises CompileError."""
    checker = _Checker(variables, functions, structs)
    try:
        checker.check(tree)
    except RecursionError:
        raise CompileError(source, [Issue(-1, "expression recursion limit exceeded: 250")]) from None
    if checker.issues:
        raise CompileError(source, checker.issues)
    for node in checker.seen:
        if node.type is not None:
            node.type = checker.subst.apply(node.type, close=True)
    assert tree.type is not None
    return tree.type


def _of(node: Node) -> Type:
    return node.type if node.type is not None else ERROR


def field_type(struct: Type, field: str) -> Type | None:
    """The type of a field by its CEL name; reserved words may be written plainly after a dot."""
    fields = struct.fields or {}
    found = fields.get(field)
    if found is None and field in RESERVED:
        found = fields.get(f"__{field}__")
    return found


class _Checker:
    def __init__(self, variables: Mapping[str, Type], functions: Mapping[str, Function], structs: Mapping[str, Type]) -> None:
        self.scopes: list[Mapping[str, Type]] = [variables]
        self.functions = functions
        self.structs = structs
        self.subst = Substitution()
        self.issues: list[Issue] = []
        self.seen: list[Node] = []
        self.done: set[int] = set()

    def complain(self, offset: int, message: str) -> Type:
        self.issues.append(Issue(offset, message))
        return ERROR

    def undeclared(self, offset: int, name: str) -> Type:
        return self.complain(offset, f"undeclared reference to '{name}' (in container '')")

    def lookup(self, name: str) -> Type | None:
        if name.startswith("."):
            name = name[1:]
        for scope in reversed(self.scopes):
            found = scope.get(name)
            if found is not None:
                return found
        return None

    def function(self, name: str) -> Function | None:
        return self.functions.get(name.removeprefix("."))

    def check(self, node: Node) -> Type:
        if node.type is not None and id(node) in self.done:
            # Macros may use a node twice, always in one scope; without caching, nesting would double the work at each level.
            return node.type
        result = _CHECKS[node.__class__](self, node)
        node.type = result
        self.seen.append(node)
        self.done.add(id(node))
        return result

    def literal(self, node: Literal) -> Type:
        return type_of(node.value)

    def ident(self, node: Ident) -> Type:
        found = self.lookup(node.name)
        return self.undeclared(node.offset, node.name) if found is None else found

    def select(self, node: Select) -> Type:
        if not node.test:
            name = qualified_name(node)
            found = None if name is None else self.lookup(name)
            if found is not None:
                node.qualified = name
                return found
        selected = self.select_field(node.offset, node.operand, node.field, optional_select=False)
        return BOOL if node.test else self.subst.apply(selected)

    def select_field(self, offset: int, operand: Node, field: str, optional_select: bool) -> Type:
        target = self.subst.apply(self.check(operand))
        was_optional = is_optional(target)
        if was_optional:
            target = target.params[0]
        result = ERROR
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            found = field_type(target, field)
            if target.fields is None:
                self.complain(offset, f"unexpected failed resolution of '{target}'")
            elif found is None:
                self.complain(offset, f"undefined field '{field}'")
            else:
                result = found
        elif target.kind == "param":
            self.subst.assign_one(DYN, target)
            result = DYN
        else:
            if target.kind not in ("dyn", "error"):
                self.complain(offset, f"type '{target}' does not support field selection")
            result = DYN
        return optional(result) if was_optional or optional_select else result

    def call(self, node: Call) -> Type:
        if node.name == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal)
            selected = self.select_field(node.offset, node.args[0], field.value, optional_select=True)
            node.args[1].type = STRING
            return self.subst.apply(selected)
        for argument in node.args:
            self.check(argument)
        if node.target is None:
            function = self.function(node.name)
            if function is None:
                return self.undeclared(node.offset, node.name)
            return self.resolve(node, function, None)
        prefix = qualified_name(node.target)
        if prefix is not None:
            function = self.function(f"{prefix}.{node.name}")
            if function is not None:
                node.target = None
                node.name = function.name
                return self.resolve(node, function, None)
        self.check(node.target)
        function = self.function(node.name)
        if function is None:
            return self.undeclared(node.offset, node.name)
        return self.resolve(node, function, node.target)

    def resolve(self, node: Call, function: Function, target: Node | None) -> Type:
        node.function = function
        if node.name in ("_&&_", "_||_"):
            return self.logical(node)
        arguments = [_of(argument) for argument in ([target, *node.args] if target is not None else node.args)]
        result: Type | None = None
        matched: list[Overload] = []
        for candidate in function.overloads:
            if candidate.member != (target is not None) or len(candidate.params) != len(arguments):
                continue
            names = {name: self.subst.fresh() for name in candidate.type_params}
            parameters = [instantiate(parameter, names) for parameter in candidate.params]
            if not self.subst.assign(arguments, parameters):
                continue
            matched.append(candidate)
            outcome = self.subst.apply(instantiate(candidate.result, names))
            if result is None:
                result = outcome
            elif result.kind != "dyn" and outcome != result:
                result = DYN
        if result is None:
            shown = [self.subst.apply(argument, close=True) for argument in arguments]
            return self.complain(
                node.offset,
                f"found no matching overload for '{function.name}' applied to '{signature(shown, target is not None)}'",
            )
        node.overloads = matched
        return result

    def logical(self, node: Call) -> Type:
        sound = True
        for argument in node.args:
            if not self.subst.assign_one(_of(argument), BOOL):
                sound = False
                self.mismatch(argument.offset, BOOL, _of(argument))
        return BOOL if sound else ERROR

    def mismatch(self, offset: int, expected: Type, found: Type) -> Type:
        return self.complain(offset, f"expected type '{expected}' but found '{found}'")

    def join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.subst.assign_one(previous, current):
            return most_general(previous, current)
        return DYN

    def unwrap(self, node: Node, type_: Type) -> Type:
        if is_optional(type_):
            return type_.params[0]
        if type_.kind != "dyn":
            self.mismatch(node.offset, optional(type_), type_)
        return type_

    def list_literal(self, node: ListExpr) -> Type:
        element: Type | None = None
        for index, item in enumerate(node.elements):
            type_ = self.check(item)
            if index in node.optional:
                type_ = self.unwrap(item, type_)
            element = self.join(element, type_)
        return list_type(self.subst.fresh() if element is None else element)

    def map_literal(self, node: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self.join(key, self.check(entry.key))
            type_ = self.check(entry.value)
            if entry.optional:
                type_ = self.unwrap(entry.value, type_)
            value = self.join(value, type_)
        if key is None or value is None:
            return map_type(self.subst.fresh(), self.subst.fresh())
        return map_type(key, value)

    def struct_literal(self, node: StructExpr) -> Type:
        struct = self.structs.get(node.name.removeprefix("."))
        if struct is None:
            if self.lookup(node.name) is not None:
                return self.complain(node.offset, f"'{node.name}' is not a type")
            return self.undeclared(node.offset, node.name)
        for entry in node.entries:
            assert isinstance(entry.key, Literal)
            type_ = self.check(entry.value)
            name = entry.key.value
            declared = field_type(struct, name)
            if declared is None:
                self.complain(entry.offset, f"undefined field '{name}'")
                continue
            if entry.optional:
                type_ = self.unwrap(entry.value, type_)
            if not self.subst.assign_one(declared, type_):
                message = f"expected type of field '{name}' is '{declared}' but provided type is '{type_}'"
                self.complain(entry.offset, message)
        return struct

    def comprehension(self, node: Comprehension) -> Type:
        self.check(node.range)
        accumulated = self.check(node.init)
        ranged = self.subst.apply(_of(node.range))
        first, second = self.iteration_types(node, ranged)
        self.scopes.append({node.accumulator: accumulated})
        loop = {node.var: first}
        if node.var2 is not None:
            loop[node.var2] = second
        self.scopes.append(loop)
        self.check(node.condition)
        self.assert_type(node.condition, BOOL)
        self.check(node.step)
        self.assert_type(node.step, accumulated)
        self.scopes.pop()
        result = self.check(node.result)
        self.scopes.pop()
        return self.subst.apply(result)

    def iteration_types(self, node: Comprehension, ranged: Type) -> tuple[Type, Type]:
        if ranged.kind == "list":
            return (ranged.params[0], ERROR) if node.var2 is None else (INT, ranged.params[0])
        if ranged.kind == "map":
            return ranged.params[0], ranged.params[1]
        if ranged.kind in ("dyn", "error", "param"):
            self.subst.assign_one(DYN, ranged)
            return DYN, DYN
        self.complain(
            node.range.offset,
            f"expression of type '{ranged}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def assert_type(self, node: Node, expected: Type) -> None:
        if not self.subst.assign_one(expected, _of(node)):
            self.mismatch(node.offset, expected, _of(node))


_CHECKS: dict[type[Node], Callable[[_Checker, Any], Type]] = {
    Literal: _Checker.literal,
    Ident: _Checker.ident,
    Select: _Checker.select,
    Call: _Checker.call,
    ListExpr: _Checker.list_literal,
    MapExpr: _Checker.map_literal,
    StructExpr: _Checker.struct_literal,
    Comprehension: _Checker.comprehension,
}

TYPE_NAMES: dict[str, Type] = {
    "bool": BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "google.protobuf.Duration": types.DURATION,
    "int": INT,
    "list": types.LIST,
    "map": types.MAP,
    "null_type": types.NULL,
    "string": STRING,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "type": types.TYPE,
    "uint": types.UINT,
    "optional_type": types.OPTIONAL,
}
"""Types that expressions can name; as variables they have the type `type(T)`."""
