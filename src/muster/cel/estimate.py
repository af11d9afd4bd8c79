"""The maximum cost of an expression, from its text and the bounds in a schema.

Kubernetes refuses a CRD whose rules may cost too much, so that authors bound their lists and strings. The estimate walks the
checked tree and computes for each node a range of costs and, for values with a size, a range of sizes: from literals, from
`maxItems`, `maxLength` and `maxProperties` of the declaration at the end of a path of selections, from the functions that produced
them. CRD authors rely on the results, so they follow cel-go's, including its oddities: a path that starts at a computed value is
looked up as if it started at `self`.
"""

from __future__ import annotations

from typing import Any

from muster.cel.bounds import NOTHING, ONE, UNBOUNDED, UNKNOWN, Bounds, exactly
from muster.cel.library.costs import LIST_CREATE, MAP_CREATE, STRUCT_CREATE
from muster.cel.library.estimates import estimate_call
from muster.cel.schema_declarations import MAX_REQUEST
from muster.cel.syntax.ast import Call, Comprehension, Ident, ListExpr, Literal, MapExpr, Node, Select, StructExpr
from muster.cel.syntax.macros import ACCUMULATOR
from muster.cel.types import DYN, Type, is_optional
from muster.cel.views import Declaration

Path = tuple[str, ...]
Entry = tuple[str, Bounds, Bounds]
_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_KEY = Declaration(DYN, lambda value: value, bound=0)

STATIC_COST_LIMIT = 10_000_000
"""The maximum cost of one rule."""
STATIC_CRD_COST_LIMIT = 100_000_000
"""The maximum cost of all rules of a CRD."""


def maximum_cost(tree: Node, root: Declaration | None) -> int:
    """The maximum cost of an evaluation if `self` is declared as `root`; UNBOUNDED without a limit."""
    return Estimator(root).cost(tree).most


def maximum_cardinality(declaration: Declaration) -> int:
    """The maximum number of values of the declaration in one request, without maxItems."""
    return MAX_REQUEST // (declaration.smallest + 1)


def cost_complaint(what: str, cost: int, limit: int) -> str:
    """The server's message for an estimate over its limit."""
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and"
        " maxLength where arrays, maps, and strings are declared)"
    )


class _Local:
    __slots__ = ("entry", "path", "size")

    def __init__(self, path: Path, size: Bounds | None, entry: Entry | None) -> None:
        self.path = path
        self.size = size
        self.entry = entry


class Estimator:
    def __init__(self, root: Declaration | None) -> None:
        self.root = root
        self.known: dict[int, Bounds] = {}
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Bounds] = {}
        self.entries: dict[int, Entry] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Bounds:
        known = self.known.get(id(node))
        if known is None:
            estimate: Any = _COSTS[node.__class__]
            known = self.known[id(node)] = estimate(self, node)
        return known

    def local(self, node: Node) -> _Local | None:
        if isinstance(node, Ident):
            stack = self.locals.get(node.name)
            return stack[-1] if stack else None
        return None

    def path(self, node: Node) -> Path:
        local = self.local(node)
        return local.path if local is not None else self.paths.get(id(node), ())

    def argument_path(self, node: Node) -> Path:
        """The path that functions may use: accumulators have none."""
        path = self.path(node)
        return () if path and path[0] == ACCUMULATOR else path

    def declared_size(self, path: Path) -> Bounds | None:
        if not path or self.root is None:
            return None
        found = self.root
        for step in path[1:]:
            inner = _step(found, step)
            if inner is None:
                return None
            found = inner
        return Bounds(0, found.bound or 0)

    def size(self, node: Node) -> Bounds | None:
        known = self.sizes.get(id(node))
        if known is not None:
            return known
        written = _written_size(node)
        if written is not None:
            return exactly(written)
        declared = self.declared_size(self.path(node))
        if declared is not None:
            self.sizes[id(node)] = declared
            return declared
        if node.type is not None and _is_scalar(node.type):
            return ONE
        local = self.local(node)
        return None if local is None else local.size

    def size_or_unknown(self, node: Node) -> Bounds:
        return self.size(node) or UNKNOWN

    def size_of(self, node: Node) -> Bounds:
        """The size as the function library asks for it."""
        known = self.size(node)
        if known is not None:
            return known
        return self.declared_size(self.argument_path(node)) or UNKNOWN

    def element_size(self, node: Node) -> Bounds:
        path = self.argument_path(node)
        return (self.declared_size((*path, "@items")) if path else None) or UNKNOWN

    def entry(self, node: Node) -> Entry | None:
        known = self.entries.get(id(node))
        if known is not None:
            return known
        local = self.local(node)
        return None if local is None else local.entry

    def push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def literal(self, node: Literal) -> Bounds:
        return NOTHING

    def ident(self, node: Ident) -> Bounds:
        local = self.local(node)
        self.paths[id(node)] = local.path if local is not None else (node.name,)
        return ONE

    def select(self, node: Select) -> Bounds:
        if node.qualified is not None:
            self.paths[id(node)] = (node.qualified,)
            return ONE
        cost = self.cost(node.operand)
        if node.test:
            return cost
        self.paths[id(node)] = (*self.path(node.operand), node.field)
        operand = node.operand.type
        return cost.plus(ONE) if operand is not None and operand.kind in ("map", "struct") else cost

    def list_literal(self, node: ListExpr) -> Bounds:
        cost, items = NOTHING, Bounds(UNBOUNDED if node.elements else 0, 0)
        for element in node.elements:
            cost = cost.plus(self.cost(element))
            items = items.union(self.size_or_unknown(element))
        self.entries[id(node)] = ("list", ONE, items)
        return cost.plus(exactly(LIST_CREATE))

    def map_literal(self, node: MapExpr) -> Bounds:
        start = Bounds(UNBOUNDED if node.entries else 0, 0)
        cost, keys, values = NOTHING, start, start
        for entry in node.entries:
            cost = cost.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self.size_or_unknown(entry.key))
            values = values.union(self.size_or_unknown(entry.value))
        self.entries[id(node)] = ("map", keys, values)
        return cost.plus(exactly(MAP_CREATE))

    def struct_literal(self, node: StructExpr) -> Bounds:
        cost = NOTHING
        for entry in node.entries:
            cost = cost.plus(self.cost(entry.value))
        return cost.plus(exactly(STRUCT_CREATE))

    def call(self, node: Call) -> Bounds:
        if node.name == "dyn" and node.target is None:
            cost = self.cost(node.args[0])
            self.copy_sizes(node, node.args[0])
            return cost.plus(ONE)
        costs = [self.cost(argument) for argument in node.args]
        total = NOTHING if node.target is None else self.cost(node.target)
        if node.name in ("_&&_", "_||_"):
            self.sizes[id(node)] = ONE
            return Bounds(costs[0].least, _sum(costs).most)
        if node.name == "_?_:_":
            return total.plus(self.conditional(node, costs))
        arguments = _sum(costs)
        cost, result = Bounds(UNBOUNDED, 0), None
        candidates = [overload.id for overload in node.overloads] or [""]
        for overload in candidates:
            call_cost, call_size = estimate_call(self, node, overload)
            cost = cost.union(call_cost.plus(arguments))
            if call_size is not None:
                result = call_size if result is None else result.union(call_size)
            if overload in ("index_list", "index_map"):
                self.paths[id(node)] = (*self.path(node.args[0]), "@items" if overload == "index_list" else "@values")
                entry = self.entry(node.args[0])
                result = None if entry is None else entry[2]
            if result is None:
                result = self.size(node)
        if result is not None:
            self.sizes[id(node)] = result
        return total.plus(cost)

    def conditional(self, node: Call, costs: list[Bounds]) -> Bounds:
        _, then, otherwise = node.args
        first, second = self.entry(then), self.entry(otherwise)
        if first is not None and second is not None:
            self.entries[id(node)] = _union(first, second)
        self.sizes[id(node)] = self.size_or_unknown(then).union(self.size_or_unknown(otherwise))
        return costs[0].plus(costs[1].union(costs[2]))

    def copy_sizes(self, target: Node, source: Node) -> None:
        size, entry = self.size(source), self.entry(source)
        if size is not None:
            self.sizes[id(target)] = size
        if entry is not None:
            self.entries[id(target)] = entry

    def comprehension(self, node: Comprehension) -> Bounds:
        total = self.cost(node.range).plus(self.cost(node.init))
        accumulated = _Local(self.path(node.init), self.size(node.init), self.entry(node.init))
        self.push(node.accumulator, accumulated)
        if node.macro == "bind":
            total = total.plus(self.cost(node.result))
            self.locals[node.accumulator].pop()
            self.copy_sizes(node, node.result)
            return total
        names = self.push_iteration(node)
        step = self.cost(node.condition).plus(self.cost(node.step))
        for name in names:
            self.locals[name].pop()
        total = total.plus(self.cost(node.result))
        self.locals[node.accumulator].pop()
        count = self.size_or_unknown(node.range)
        self.comprehension_size(node, count)
        return total.plus(count.times(step))

    def push_iteration(self, node: Comprehension) -> list[str]:
        entry, path = self.entry(node.range), self.path(node.range)
        kind = entry[0] if entry is not None else (node.range.type or DYN).kind
        key_size, value_size = (entry[1], entry[2]) if entry is not None else (None, None)
        if node.var2 is None:
            item = ("@items", value_size) if kind == "list" else ("@keys", key_size)
            self.push(node.var, _Local((*path, item[0]), item[1], None))
            return [node.var]
        self.push(node.var, _Local((*path, "@indices" if kind == "list" else "@keys"), key_size, None))
        self.push(node.var2, _Local((*path, "@items" if kind == "list" else "@values"), value_size, None))
        return [node.var, node.var2]

    def comprehension_size(self, node: Comprehension, count: Bounds) -> None:
        if isinstance(node.init, Literal):
            size = self.size(node.init)
            if size is not None:
                self.sizes[id(node)] = size
        elif isinstance(node.init, ListExpr | MapExpr):
            self.sizes[id(node)] = count
            entry = self.entry(node.step)
            if entry is not None:
                self.entries[id(node)] = entry


def _step(declaration: Declaration, step: str) -> Declaration | None:
    if step in ("@items", "@values"):
        return declaration.element
    if step == "@keys":
        return _KEY if declaration.kind == "map" else None
    field = declaration.fields.get(step)
    return None if field is None else field[1]


def _sum(costs: list[Bounds]) -> Bounds:
    total = NOTHING
    for cost in costs:
        total = total.plus(cost)
    return total


def _union(first: Entry, second: Entry) -> Entry:
    return (first[0], first[1].union(second[1]), first[2].union(second[2]))


def _written_size(node: Node) -> int | None:
    if isinstance(node, Literal):
        return len(node.value) if isinstance(node.value, str | bytes) else 1
    if isinstance(node, ListExpr):
        return len(node.elements)
    return len(node.entries) if isinstance(node, MapExpr) else None


def _is_scalar(type_: Type) -> bool:
    return type_.kind in _SCALARS or (is_optional(type_) and bool(type_.params) and _is_scalar(type_.params[0]))


_COSTS: dict[type[Node], Any] = {
    Literal: Estimator.literal,
    Ident: Estimator.ident,
    Select: Estimator.select,
    Call: Estimator.call,
    ListExpr: Estimator.list_literal,
    MapExpr: Estimator.map_literal,
    StructExpr: Estimator.struct_literal,
    Comprehension: Estimator.comprehension,
}
