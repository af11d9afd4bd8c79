"""Macros: calls that the parser rewrites into folds, presence tests and bindings.

Each expander receives the call's place, target and arguments and returns the node that replaces the call, or raises
`MacroError` with the place of the bad argument. The expansions are the reference ones, so that type errors inside
them name the same operators at the same places; `@result` cannot be written by users and so never collides.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.cel.syntax.ast import Call, Comprehension, Ident, ListExpr, Literal, MapExpr, Node, Select

ACCUMULATOR = "@result"
UNUSED = "#unused"


class MacroError(Exception):
    """A macro was called with arguments it cannot expand."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


Expander = Callable[[int, Node | None, list[Node]], Node | None]


def expand_has(offset: int, target: Node | None, args: list[Node]) -> Node:
    operand = args[0]
    if not isinstance(operand, Select):
        raise MacroError(operand.offset, "invalid argument to has() macro")
    return Select(offset, operand.operand, operand.field, test=True)


def _variable(node: Node, complaint: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.offset, complaint)
    if node.name in (ACCUMULATOR, "__result__"):
        raise MacroError(node.offset, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(args: list[Node], count: int, complaint: str) -> tuple[str, str | None]:
    first = _variable(args[0], complaint)
    if count == 1:
        return first, None
    second = _variable(args[1], complaint)
    if first == second:
        raise MacroError(args[1].offset, f"duplicate variable name: {first}")
    return first, second


def _conditional(at: int, guard: Node, step: Node) -> Node:
    return Call(at, "_?_:_", [guard, step, Ident(at, ACCUMULATOR)])


def _quantifier(macro: str, variables: int) -> Expander:
    def expand(at: int, target: Node | None, args: list[Node]) -> Node:
        assert target is not None
        first, second = _variables(args, variables, "argument must be a simple name")
        body = args[variables]
        accumulated = Ident(at, ACCUMULATOR)
        init, condition, step, result = _QUANTIFIERS[macro](at, accumulated, body)
        return Comprehension(
            at, macro, target, first, second, ACCUMULATOR, init, condition, step, result, body
        )  # fmt: skip

    return expand


def _all_parts(at: int, accumulated: Node, body: Node) -> tuple[Node, Node, Node, Node]:
    going = Call(at, "@not_strictly_false", [accumulated])
    return Literal(at, True), going, Call(at, "_&&_", [accumulated, body]), accumulated


def _exists_parts(at: int, accumulated: Node, body: Node) -> tuple[Node, Node, Node, Node]:
    going = Call(at, "@not_strictly_false", [Call(at, "!_", [accumulated])])
    return Literal(at, False), going, Call(at, "_||_", [accumulated, body]), accumulated


def _exists_one_parts(at: int, accumulated: Node, body: Node) -> tuple[Node, Node, Node, Node]:
    counted = Call(at, "_+_", [accumulated, Literal(at, 1)])
    result = Call(at, "_==_", [accumulated, Literal(at, 1)])
    return Literal(at, 0), Literal(at, True), _conditional(at, body, counted), result


_QUANTIFIERS = {"all": _all_parts, "exists": _exists_parts, "exists_one": _exists_one_parts}


def _list_builder(macro: str, variables: int) -> Expander:
    complaint = "argument is not an identifier" if variables == 1 else "argument must be a simple name"

    def expand(at: int, target: Node | None, args: list[Node]) -> Node:
        assert target is not None
        first, second = _variables(args, variables, complaint)
        guard = args[variables] if macro == "filter" or len(args) == variables + 2 else None
        body = args[0] if macro == "filter" else args[-1]
        step: Node = Call(at, "_+_", [Ident(at, ACCUMULATOR), ListExpr(at, [body])])
        if guard is not None:
            step = _conditional(at, guard, step)
        return Comprehension(
            at, macro, target, first, second, ACCUMULATOR, ListExpr(at, []), Literal(at, True), step,
            Ident(at, ACCUMULATOR), body, guard,
        )  # fmt: skip

    return expand


def _map_builder(macro: str) -> Expander:
    def expand(at: int, target: Node | None, args: list[Node]) -> Node:
        assert target is not None
        first, second = _variables(args, 2, "argument must be a simple name")
        guard, body = (args[2] if len(args) == 4 else None), args[-1]
        inserted = [body] if macro == "transformMapEntry" else [Ident(at, first), body]
        step: Node = Call(at, "cel.@mapInsert", [Ident(at, ACCUMULATOR), *inserted])
        if guard is not None:
            step = _conditional(at, guard, step)
        return Comprehension(
            at, macro, target, first, second, ACCUMULATOR, MapExpr(at, []), Literal(at, True), step,
            Ident(at, ACCUMULATOR), body, guard,
        )  # fmt: skip

    return expand


def bind(at: int, name: str, value: Node, body: Node) -> Comprehension:
    """`body` with `name` bound to `value`: a fold over nothing whose accumulator is the variable."""
    return Comprehension(at, "bind", ListExpr(at, []), UNUSED, None, name, value, Literal(at, False), Ident(at, name), body, body)


def _optional_map(macro: str) -> Expander:
    def expand(at: int, target: Node | None, args: list[Node]) -> Node:
        assert target is not None
        if not isinstance(args[0], Ident):
            raise MacroError(args[0].offset, f"{macro}() variable name must be a simple identifier")
        bound: Node = bind(at, args[0].name, Call(at, "value", [], target), args[1])
        if macro == "optMap":
            bound = Call(at, "optional.of", [bound])
        return Call(at, "_?_:_", [Call(at, "hasValue", [], target), bound, Call(at, "optional.none", [])])

    return expand


def expand_bind(at: int, target: Node | None, args: list[Node]) -> Node | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].offset, "cel.bind() variable names must be simple identifiers")
    return bind(at, args[0].name, args[1], args[2])


MacroTable = dict[tuple[str, int, bool], Expander]

STANDARD_MACROS: MacroTable = {
    ("has", 1, False): expand_has,
    ("all", 2, True): _quantifier("all", 1),
    ("exists", 2, True): _quantifier("exists", 1),
    ("exists_one", 2, True): _quantifier("exists_one", 1),
    ("map", 2, True): _list_builder("map", 1),
    ("map", 3, True): _list_builder("map", 1),
    ("filter", 2, True): _list_builder("filter", 1),
}
OPTIONAL_MACROS: MacroTable = {
    ("optMap", 2, True): _optional_map("optMap"),
    ("optFlatMap", 2, True): _optional_map("optFlatMap"),
}
TWO_VARIABLE_MACROS: MacroTable = {
    ("all", 3, True): _quantifier("all", 2),
    ("exists", 3, True): _quantifier("exists", 2),
    ("exists_one", 3, True): _quantifier("exists_one", 2),
    ("existsOne", 3, True): _quantifier("exists_one", 2),
    ("transformList", 3, True): _list_builder("transformList", 2),
    ("transformList", 4, True): _list_builder("transformList", 2),
    ("transformMap", 3, True): _map_builder("transformMap"),
    ("transformMap", 4, True): _map_builder("transformMap"),
    ("transformMapEntry", 3, True): _map_builder("transformMapEntry"),
    ("transformMapEntry", 4, True): _map_builder("transformMapEntry"),
}
BINDING_MACROS: MacroTable = {("bind", 3, True): expand_bind}
