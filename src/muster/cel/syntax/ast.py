"""The syntax tree.

Nodes are small slotted objects. `offset` is where cel-go would put the caret: the operator for operators and
selections, the opening parenthesis for calls. The checker fills in `type`, and for calls the overloads that may
apply, and rewrites qualified names (`a.b.c`) in place of selections; nothing else ever changes a node. Macros are
expanded by the parser into `Comprehension`, which keeps the macro's name and arguments beside the general fold form:
the checker reads the fold, the compiler the macro.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.cel.library.registry import Function, Overload
    from muster.cel.types import Type


class Node:
    __slots__ = ("offset", "type")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.type: Type | None = None


class Literal(Node):
    __slots__ = ("value",)

    def __init__(self, offset: int, value: Any) -> None:
        super().__init__(offset)
        self.value = value


class Ident(Node):
    __slots__ = ("name",)

    def __init__(self, offset: int, name: str) -> None:
        super().__init__(offset)
        self.name = name


class Select(Node):
    """`operand.field`, or `has(operand.field)` when `test` is set; `qualified` names the variable it turned out to be."""

    __slots__ = ("field", "operand", "qualified", "test")

    def __init__(self, offset: int, operand: Node, field: str, test: bool = False) -> None:
        super().__init__(offset)
        self.operand = operand
        self.field = field
        self.test = test
        self.qualified: str | None = None


class Call(Node):
    """A function, method or operator call; `function` and `overloads` are set by the checker."""

    __slots__ = ("args", "function", "name", "overloads", "target")

    def __init__(self, offset: int, name: str, args: list[Node], target: Node | None = None) -> None:
        super().__init__(offset)
        self.name = name
        self.args = args
        self.target = target
        self.function: Function | None = None
        self.overloads: list[Overload] = []


class ListExpr(Node):
    __slots__ = ("elements", "optional")

    def __init__(self, offset: int, elements: list[Node], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(offset)
        self.elements = elements
        self.optional = optional


class Entry:
    """One `key: value` of a map or message literal; the key of a message field is a Literal."""

    __slots__ = ("key", "offset", "optional", "value")

    def __init__(self, offset: int, key: Node, value: Node, optional: bool) -> None:
        self.offset = offset
        self.key = key
        self.value = value
        self.optional = optional


class MapExpr(Node):
    __slots__ = ("entries",)

    def __init__(self, offset: int, entries: list[Entry]) -> None:
        super().__init__(offset)
        self.entries = entries


class StructExpr(Node):
    __slots__ = ("entries", "name")

    def __init__(self, offset: int, name: str, entries: list[Entry]) -> None:
        super().__init__(offset)
        self.name = name
        self.entries = entries


class Comprehension(Node):
    """A fold over `range`, together with the macro it came from.

    `macro` is one of all, exists, exists_one, map, filter, transformList, transformMap, transformMapEntry, bind;
    `body` is the predicate or transform, `guard` the filtering predicate of the longer macro forms. For `bind`,
    `init` is the bound value and `body` the expression that sees it.
    """

    __slots__ = ("accumulator", "body", "condition", "guard", "init", "macro", "range", "result", "step", "var", "var2")

    def __init__(
        self,
        offset: int,
        macro: str,
        range_: Node,
        var: str,
        var2: str | None,
        accumulator: str,
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
        body: Node,
        guard: Node | None = None,
    ) -> None:
        super().__init__(offset)
        self.macro = macro
        self.range = range_
        self.var = var
        self.var2 = var2
        self.accumulator = accumulator
        self.init = init
        self.condition = condition
        self.step = step
        self.result = result
        self.body = body
        self.guard = guard


_LINKS = frozenset({"_[_]", "_?._", "_[?_]"})


def is_chain(node: Node) -> bool:
    """Whether the node is a variable or a selection, which the cost model treats as one access."""
    return isinstance(node, Ident | Select) or (isinstance(node, Call) and node.name in _LINKS)


def qualified_name(node: Node) -> str | None:
    """`a.b.c` as one name, if the node is nothing but identifiers and selections."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test:
        prefix = qualified_name(node.operand)
        return None if prefix is None else f"{prefix}.{node.field}"
    return None
