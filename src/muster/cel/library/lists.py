"""List functions: Kubernetes' own (isSorted, sum, min, max, indexOf) and the language's extension (version 3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from muster.cel import types
from muster.cel.errors import MOST_ELEMENTS, EvaluationError, afford
from muster.cel.interpreter.operators import add
from muster.cel.library import costs
from muster.cel.library.registry import Library, Overload, method, overload
from muster.cel.syntax.ast import Call, Comprehension, Ident, ListExpr, Node, Select
from muster.cel.syntax.macros import STANDARD_MACROS, MacroError, MacroTable, bind
from muster.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, Type, list_type
from muster.cel.values import Duration, Uint, compare, elements, equals, is_list, type_of

_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_ZEROS: tuple[tuple[Type, Any], ...] = ((INT, 0), (UINT, Uint(0)), (DOUBLE, 0.0), (DURATION, Duration(0)))
_A, _T = types.param("A"), types.param("T")


def is_sorted(value: Any) -> bool:
    items = elements(value)
    return all(compare(first, second) <= 0 for first, second in pairwise(items))


def _sum(zero: Any) -> Callable[[Any], Any]:
    def total(value: Any) -> Any:
        result = zero
        for item in elements(value):
            result = add(result, item)
        return result

    return total


def _extreme(name: str, wanted: int) -> Callable[[Any], Any]:
    def extreme(value: Any) -> Any:
        items = elements(value)
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if compare(item, best) == wanted:
                best = item
        return best

    return extreme


def index_of(value: Any, wanted: Any) -> int:
    return next((index for index, item in enumerate(elements(value)) if equals(item, wanted)), -1)


def last_index_of(value: Any, wanted: Any) -> int:
    items = elements(value)
    return next((index for index in range(len(items) - 1, -1, -1) if equals(items[index], wanted)), -1)


def _kubernetes() -> list[tuple[str, Overload]]:
    declared: list[tuple[str, Overload]] = []
    for type_ in _COMPARABLE:
        of, name = (list_type(type_),), type_.kind
        declared += [
            ("isSorted", method(f"list_{name}_is_sorted_bool", of, BOOL, is_sorted, costs.traversal)),
            ("max", method(f"list_{name}_max_{name}", of, type_, _extreme("max", 1), costs.traversal)),
            ("min", method(f"list_{name}_min_{name}", of, type_, _extreme("min", -1), costs.traversal)),
        ]
    for type_, zero in _ZEROS:
        id_ = f"list_{type_.kind}_sum_{type_.kind}"
        declared.append(("sum", method(id_, (list_type(type_),), type_, _sum(zero), costs.traversal)))
    searched = (list_type(_A), _A)
    declared.append(("indexOf", method("list_a_index_of_int", searched, INT, index_of, costs.traversal)))
    declared.append(("lastIndexOf", method("list_a_last_index_of_int", searched, INT, last_index_of, costs.traversal)))
    return declared


KUBERNETES_LISTS = Library("kubernetes.lists", overloads=tuple(_kubernetes()))


def slice_(value: Any, start: int, end: int) -> list[Any]:
    items = elements(value)
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def flatten(value: Any, depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for item in elements(value):
        if is_list(item) and depth > 0:
            flat.extend(flatten(item, depth - 1))
            afford(len(flat), MOST_ELEMENTS)
        else:
            flat.append(item)
    return flat


def sort_by_keys(value: Any, keys: Any) -> list[Any]:
    items, sort_keys = elements(value), elements(keys)
    if len(items) != len(sort_keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
            f" {len(items)} and {len(sort_keys)} elements respectively"
        )
    if len({type_of(key) for key in sort_keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    order = cmp_to_key(compare)
    indices = sorted(range(len(items)), key=lambda index: order(sort_keys[index]))
    return [items[index] for index in indices]


def range_(count: int) -> list[int]:
    afford(count, MOST_ELEMENTS)
    return list(range(count))


def distinct(value: Any) -> list[Any]:
    kept: list[Any] = []
    for item in elements(value):
        if not any(equals(item, other) for other in kept):
            kept.append(item)
    return kept


def _expand_sort_by(at: int, target: Node | None, args: list[Node]) -> Node:
    name = "@__sortBy_input__"
    if not isinstance(target, ListExpr | Select | Ident | Comprehension | Call):
        where = at if target is None else target.offset
        raise MacroError(where, "sortBy can only be applied to a list, identifier, comprehension, call or select expression")
    keys = STANDARD_MACROS["map", 2, True](at, Ident(at, name), args)
    assert keys is not None
    return bind(at, name, target, Call(at, "@sortByAssociatedKeys", [keys], Ident(at, name)))


_SORT_BY: MacroTable = {("sortBy", 2, True): _expand_sort_by}


def _extension() -> list[tuple[str, Overload]]:
    any_list = list_type(_T)
    declared: list[tuple[str, Overload]] = [
        ("slice", method("list_slice", (any_list, INT, INT), any_list, slice_, costs.new_list)),
        ("flatten", method("list_flatten", (list_type(any_list),), any_list, flatten, costs.flattened)),
        ("flatten", method("list_flatten_int", (list_type(DYN), INT), list_type(DYN), flatten, costs.flattened)),
        ("lists.range", overload("lists_range", (INT,), list_type(INT), range_, cost=costs.new_list)),
        ("reverse", method("list_reverse", (any_list,), any_list, lambda v: elements(v)[::-1], costs.new_list)),
        ("distinct", method("list_distinct", (any_list,), any_list, distinct, costs.self_compared(0))),
    ]
    for type_ in _COMPARABLE:
        of = list_type(type_)
        sort = method(f"list_{type_.name}_sort", (of,), of, lambda v: sort_by_keys(v, v), costs.self_compared(0))
        declared.append(("sort", sort))
        by = method(f"list_{type_.name}_sortByAssociatedKeys", (any_list, of), any_list, sort_by_keys, costs.self_compared(1))
        declared.append(("@sortByAssociatedKeys", by))
    return declared


LISTS = Library("lists", overloads=tuple(_extension()), macros=_SORT_BY)


def contains_all(value: Any, wanted: Any) -> bool:
    items = elements(value)
    return all(any(equals(item, other) for item in items) for other in elements(wanted))


def intersects(value: Any, other: Any) -> bool:
    items = elements(other)
    return any(any(equals(item, mine) for item in items) for mine in elements(value))


def equivalent(value: Any, other: Any) -> bool:
    return contains_all(value, other) and contains_all(other, value)


_TWO = (list_type(_T), list_type(_T))
SETS = Library(
    "sets",
    overloads=(
        ("sets.contains", overload("list_sets_contains_list", _TWO, BOOL, contains_all, cost=costs.sets_product(1))),
        ("sets.equivalent", overload("list_sets_equivalent_list", _TWO, BOOL, equivalent, cost=costs.sets_product(2))),
        ("sets.intersects", overload("list_sets_intersects_list", _TWO, BOOL, intersects, cost=costs.sets_product(1))),
    ),
)
