"""Checks on literals that would fail at run time anyway: durations, timestamps, patterns, format strings.

Kubernetes runs them when a rule is written, so that its author hears of the mistake and not its users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.cel.ast import Call, Comprehension, ListExpr, Literal, MapExpr, Node, Select, StructExpr
from muster.cel.errors import CompileError, EvaluationError, Issue
from muster.cel.library.regex import compile_pattern
from muster.cel.times import parse_duration, parse_timestamp


def validate_literals(source: str, tree: Node) -> None:
    issues: list[Issue] = []
    for node in walk(tree):
        if isinstance(node, Call):
            issues.extend(_validate_call(node))
    if issues:
        raise CompileError(source, issues)


def walk(tree: Node) -> Iterator[Node]:
    """Every node once, parents first."""
    pending, seen = [tree], set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        pending.extend(children(node))


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
        parts = [node.range, node.init, node.condition, node.step, node.result]
        return parts
    return []


_ARGUMENTS: dict[str, tuple[Callable[[str], object], int]] = {
    "duration": (parse_duration, 0),
    "timestamp": (parse_timestamp, 0),
    "matches": (compile_pattern, -1),
}


def _validate_call(node: Call) -> Iterator[Issue]:
    rule = _ARGUMENTS.get(node.name)
    if rule is None or not node.args:
        return
    parse, index = rule
    argument = node.args[index]
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        return
    try:
        parse(argument.value)
    except (EvaluationError, ValueError):
        yield Issue(argument.offset, f"invalid {node.name} argument")
