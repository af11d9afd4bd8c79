"""Checks of literals after type checking: durations, timestamps, patterns, format strings, mixed lists and maps.

Most would fail at run time anyway; Kubernetes checks them when a rule is written, so that its author gets the error. List and map
literals must be homogeneous, except arguments of `format`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.cel.errors import CompileError, EvaluationError, Issue
from muster.cel.library.format import FormatError, check_argument, interpolate
from muster.cel.library.regex import compile_pattern
from muster.cel.library.standard import CONVERSIONS
from muster.cel.syntax.ast import Call, Comprehension, ListExpr, Literal, MapExpr, Node, Select, StructExpr
from muster.cel.times import parse_duration, parse_timestamp
from muster.cel.types import DYN, Type


def validate_literals(source: str, tree: Node) -> None:
    issues: list[Issue] = []
    pending: list[tuple[Node, bool]] = [(tree, False)]
    seen: set[int] = set()
    while pending:
        node, exempt = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Call):
            issues.extend(_validate_argument(node))
            if node.name == "format" and node.target is not None:
                issues.extend(_validate_format(node))
                exempt = True
        elif isinstance(node, ListExpr) and not exempt:
            issues.extend(_validate_list(node))
        elif isinstance(node, MapExpr) and not exempt:
            issues.extend(_validate_map(node))
        pending.extend((child, exempt) for child in children(node))
    if issues:
        raise CompileError(source, issues)


def children(node: Node) -> list[Node]:
    if isinstance(node, Call):
        return [*node.args] if node.target is None else [node.target, *node.args]
    if isinstance(node, Select):
        return [] if node.qualified is not None else [node.operand]
    if isinstance(node, ListExpr):
        return node.elements
    if isinstance(node, MapExpr | StructExpr):
        return [part for entry in node.entries for part in (entry.key, entry.value)]
    if isinstance(node, Comprehension):
        return [node.range, node.init, node.condition, node.step, node.result]
    return []


_ARGUMENTS: dict[str, tuple[Callable[[str], object], int]] = {
    "duration": (parse_duration, 0),
    "timestamp": (parse_timestamp, 0),
    "matches": (compile_pattern, -1),
}


def _validate_argument(node: Call) -> Iterator[Issue]:
    rule = _ARGUMENTS.get(node.name)
    if rule is None or not node.args:
        return
    parse, index = rule
    argument = node.args[index]
    if not isinstance(argument, Literal):
        return
    value = argument.value
    try:
        if isinstance(value, str):
            parse(value)
        elif node.name in CONVERSIONS and node.overloads:
            node.overloads[0].call(value)
    except (EvaluationError, ValueError):
        yield Issue(argument.offset, f"invalid {node.name} argument")


def _element(node: Node, optional: bool) -> Type:
    type_ = node.type or DYN
    return type_.params[0] if optional and type_.params else type_


def _mismatch(node: Node, expected: Type, found: Type) -> Issue:
    return Issue(node.offset, f"expected type '{expected}' but found '{found}'")


def _validate_list(node: ListExpr) -> Iterator[Issue]:
    expected: Type | None = None
    for index, item in enumerate(node.elements):
        found = _element(item, index in node.optional)
        if expected is None:
            expected = found
        elif expected != found:
            yield _mismatch(item, expected, found)
            return


def _validate_map(node: MapExpr) -> Iterator[Issue]:
    if not node.entries:
        return
    key, value = _element(node.entries[0].key, False), _element(node.entries[0].value, node.entries[0].optional)
    for entry in node.entries[1:]:
        found_key, found_value = _element(entry.key, False), _element(entry.value, entry.optional)
        if key != found_key:
            yield _mismatch(entry.key, key, found_key)
        if value != found_value:
            yield _mismatch(entry.value, value, found_value)


def _validate_format(node: Call) -> Iterator[Issue]:
    """A literal format string against the types of a literal argument list."""
    template, arguments = node.target, node.args[0] if len(node.args) == 1 else None
    if not isinstance(template, Literal) or not isinstance(template.value, str) or not isinstance(arguments, ListExpr):
        return
    items, consumed, blamed = arguments.elements, 0, node

    def argument(index: int) -> Node:
        nonlocal consumed
        consumed += 1
        if index >= len(items):
            raise FormatError(f"index {index} out of range")
        return items[index]

    def check(clause: str, item: Node, precision: int) -> str:
        nonlocal blamed
        for part in _formatted_parts(item) if clause == "s" else [item]:
            try:
                check_argument(clause, part.type or DYN)
            except FormatError:
                blamed = part  # type: ignore[assignment]
                raise
        return ""

    try:
        interpolate(template.value, argument, check)
    except FormatError as error:
        yield Issue(blamed.offset, str(error))
        return
    if len(items) > consumed:
        yield Issue(node.offset, f"too many arguments supplied to string.format (expected {consumed}, got {len(items)})")


def _formatted_parts(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, ListExpr | MapExpr):
        for child in children(node):
            yield from _formatted_parts(child)
