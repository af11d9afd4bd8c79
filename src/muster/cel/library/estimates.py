"""Estimates of functions: the range of a call's cost and, if it has one, of its result's size.

A table by function name; the default is one unit. The rules are Kubernetes', on which CRD authors' limits depend, including its
bounds by the wrong argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from muster.cel.bounds import NOTHING, ONE, UNBOUNDED, Bounds, exactly
from muster.cel.library.costs import AUTHORIZATION_CHECK, LIST_CREATE, STRUCT_CREATE
from muster.cel.syntax.ast import Call, Literal, Node
from muster.cel.types import DYN, Type

if TYPE_CHECKING:
    from muster.cel.estimate import Estimator

Estimate = tuple[Bounds, Bounds | None]
Rule = Callable[["Estimator", Call, str], Estimate | None]
_STRING, _REGEX = 0.1, 0.25
_ADDRESS = Bounds(4, 16)
_UNIT: Estimate = (ONE, None)


def estimate_call(estimator: Estimator, node: Call, overload: str) -> Estimate:
    """Cost without the arguments', and size, of one overload of a call."""
    rule = _RULES.get(node.name)
    found = None if rule is None else rule(estimator, node, overload)
    return found or _UNIT


def _first_argument(factor: float, sized: bool = False) -> Rule:
    def rule(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
        size = estimator.size_of(node.args[0])
        return size.scaled(factor), size if sized else None

    return rule


def _target(factor: float) -> Rule:
    def rule(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
        assert node.target is not None
        size = estimator.size_of(node.target)
        return size.scaled(factor), size

    return rule


def _traversal(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    if node.target is None:
        return None
    type_ = node.target.type or DYN
    if not type_.params:
        return estimator.size_of(node.target).scaled(_STRING), None
    element = ONE
    if type_.params[0].kind in ("string", "bytes"):
        element = element.plus(estimator.element_size(node.target).scaled(_STRING))
    return estimator.size_of(node.target).times(element), None


def _replace(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    assert node.target is not None
    size = estimator.size_of(node.target)
    old, new = estimator.size_of(node.args[0]), estimator.size_of(node.args[1])
    most_count, most_kept = 0, 0
    if old.least == 0:
        most_count, most_kept = min(size.most + 1, UNBOUNDED), size.most
    elif new.most <= old.least:
        most_kept = size.most
    else:
        most_count = math.ceil(size.most / old.least)
    least_count, least_kept = 0, 0
    if old.most == 0:
        least_count, least_kept = min(size.least + 1, UNBOUNDED), size.least
    elif old.most <= new.least:
        least_kept = size.least
    else:
        least_count = math.ceil(size.least / old.most)
    result = Bounds(least_count, most_count).times(new).plus(Bounds(least_kept, most_kept))
    return size.scaled(2 * _STRING), result


def _split(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    assert node.target is not None
    size = estimator.size_of(node.target)
    most = size.most
    if len(node.args) > 1:
        limit = node.args[1]
        if isinstance(limit, Literal) and isinstance(limit.value, int):
            most = limit.value % 2**64
    return size.scaled(2 * _STRING), Bounds(0, most)


def _join(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    assert node.target is not None
    listed, size = estimator.size_of(node.target), NOTHING
    if (node.target.type or DYN).params:
        size = listed.times(estimator.element_size(node.target))
    if node.args:
        between = Bounds(max(listed.least - 1, 0), max(listed.most - 1, 0))
        size = size.plus(estimator.size_of(node.args[0]).times(between))
    return size.scaled(_STRING), size


def _find(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    assert node.target is not None
    size = estimator.size_of(node.target)
    cost = size.plus(ONE).scaled(_STRING).times(estimator.size_of(node.args[0]).scaled(_REGEX))
    return cost, Bounds(0, size.most)


def _matches(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    if node.target is None:
        return None
    text = estimator.size_or_unknown(node.target).plus(ONE).scaled(_STRING)
    return text.times(estimator.size_or_unknown(node.args[0]).scaled(_REGEX)), None


def _contains(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    assert node.target is not None
    text = estimator.size_or_unknown(node.target).scaled(_STRING)
    return text.times(estimator.size_or_unknown(node.args[0]).scaled(_STRING)), None


def _affix(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    return estimator.size_or_unknown(node.args[0]).scaled(_STRING), None


def _format(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    return (estimator.size_or_unknown(node.target).scaled(_STRING), None) if node.target is not None else None


# The two rules below overflow in Kubernetes, which makes an unknown size a small one.
def _quote(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    size = estimator.size_or_unknown(node.args[0])
    return size.scaled(_STRING), Bounds(size.least + 2, (size.most * 2 + 2) % 2**64)


def _bytes(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    if overload != "string_to_bytes":
        return None
    size = estimator.size_or_unknown(node.args[0])
    return size.scaled(_STRING), Bounds(size.least, size.most * 4 % 2**64)


def _string(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    if overload != "bytes_to_string":
        return None
    size = estimator.size_or_unknown(node.args[0])
    return size.scaled(_STRING), Bounds(size.least // 4, size.most)


def _in(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    return (estimator.size_or_unknown(node.args[1]).scaled(1), None) if overload == "in_list" else None


_O1_EQUALITY = frozenset(
    {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"}
    | {f"kubernetes.authorization.{name}" for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")}
)


def _equality(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    left, right = (argument.type or DYN for argument in node.args)
    if node.name == "_==_" and left == right:
        if left.name in _O1_EQUALITY:
            return _UNIT
        if left.name == "kubernetes.NamedFormat":
            return Bounds(1, 64).scaled(_STRING), None
        if left.name == "kubernetes.URL":
            size = estimator.size(node.args[1])
            return Bounds(1, size.most if size is not None else 1).scaled(_STRING), None
    return _compared(estimator, node, overload)


def _compared(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    smallest = min(estimator.size_or_unknown(argument).most for argument in node.args)
    return Bounds(1 if smallest > 0 else 0, smallest).scaled(_STRING), None


def _ordered(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    return _compared(estimator, node, overload) if overload.endswith(("string_string", "bytes_bytes")) else None


def _added(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    kind = overload.removeprefix("_+_")
    if kind not in ("string_string", "bytes_bytes", "list_list"):
        return None
    left, right = node.args
    size = estimator.size_or_unknown(left).plus(estimator.size_or_unknown(right))
    first, second = estimator.entry(left), estimator.entry(right)
    if first is not None and second is not None:
        estimator.entries[id(node)] = (first[0], first[1].union(second[1]), first[2].union(second[2]))
    return (ONE if kind == "list_list" else size.scaled(_STRING)), size


def _contains_address(masked: bool, text_overload: str) -> Rule:
    def rule(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
        cost = _ADDRESS.plus(_ADDRESS).scaled(_STRING)
        if masked:
            cost = cost.plus(_ADDRESS.scaled(_STRING)).plus(ONE)
        if overload == text_overload:
            cost = cost.plus(estimator.size_of(node.args[0]).scaled(_STRING))
        return cost, None

    return rule


def _ip(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    return None if overload == "cidr_ip" else (estimator.size_of(node.args[0]).scaled(_STRING), None)


def _validate(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    return estimator.size_of(node.args[0]).scaled(_STRING).scaled(128 * _REGEX), None


def _selector(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    length = estimator.size_of(node.args[0])
    requirements = length.scaled(0.5).scaled(LIST_CREATE + STRUCT_CREATE)
    return exactly(LIST_CREATE).plus(length.scaled(_STRING)).plus(requirements), None


def _check(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    return exactly(AUTHORIZATION_CHECK), None


def _known(estimator: Estimator, node: Node) -> Bounds:
    return estimator.size_of(node)


def _new_list(factor: float, size: Bounds) -> Estimate:
    return size.scaled(factor).plus(ONE).plus(exactly(LIST_CREATE)), size


def _literal_count(node: Node, default: int) -> int:
    if isinstance(node, Literal) and node.value.__class__ is int:
        return max(0, node.value)
    return default


def _slice(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    assert node.target is not None
    start = _literal_count(node.args[0], 0)
    end = _literal_count(node.args[1], _known(estimator, node.target).most)
    return _new_list(1, exactly((end - start) % 2**64))


def _range(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    return _new_list(1, exactly(_literal_count(node.args[0], UNBOUNDED)))


def _reverse(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    return _new_list(1, _known(estimator, node.target)) if node.target is not None else None


def _flatten(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    assert node.target is not None
    depth = _literal_count(node.args[0], UNBOUNDED) if node.args else 1
    return _new_list(float(depth), _known(estimator, node.target))


def _quadratic(estimator: Estimator, listed: Node, element: Type | None) -> Estimate:
    size = _known(estimator, listed)
    factor = 2 + _STRING if element is not None and element.kind in ("string", "bytes") else 2.0
    return _new_list(factor, size.times(size))


def _distinct(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    assert node.target is not None
    return _quadratic(estimator, node.target, None)


def _sort(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
    listed = node.args[0] if node.args else node.target
    assert listed is not None
    params = (listed.type or DYN).params
    return _quadratic(estimator, listed, params[0] if params else None)


def _sets(factor: float) -> Rule:
    def rule(estimator: Estimator, node: Call, overload: str) -> Estimate | None:
        sizes = _known(estimator, node.args[0]).times(_known(estimator, node.args[1]))
        return sizes.scaled(factor).plus(ONE), None

    return rule


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _first_argument(_STRING, sized=True)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _target(_STRING)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first_argument(_STRING)),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _ordered),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("startsWith", "endsWith"), _affix),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("_==_", "_!=_"), _equality),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    **dict.fromkeys(("sort", "@sortByAssociatedKeys"), _sort),
    "ip.isCanonical": _first_argument(2 * _STRING),
    "sets.equivalent": _sets(2),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "matches": _matches,
    "contains": _contains,
    "format": _format,
    "strings.quote": _quote,
    "bytes": _bytes,
    "string": _string,
    "@in": _in,
    "_+_": _added,
    "ip": _ip,
    "containsIP": _contains_address(False, "cidr_contains_ip_string"),
    "containsCIDR": _contains_address(True, "cidr_contains_cidr_string"),
    "validate": _validate,
    "check": _check,
    "slice": _slice,
    "lists.range": _range,
    "reverse": _reverse,
    "flatten": _flatten,
    "distinct": _distinct,
}
