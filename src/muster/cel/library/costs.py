"""Run-time costs of calls, depending on their arguments and result.

The unit is one simple operation; walking a string or list costs a tenth of a unit per element. The values are cel-go's and
Kubernetes', so that an expression fits this limit if and only if it fits Kubernetes'.
"""

from __future__ import annotations

from typing import Any

from muster.cel.errors import MOST_ELEMENTS, afford
from muster.cel.values import elements, is_list, is_map, map_items, size_of

LIST_CREATE, MAP_CREATE, STRUCT_CREATE = 10, 30, 40
AUTHORIZATION_CHECK = 350_000


def tenth(size: int) -> int:
    return -(-size // 10)


def fifth(size: int) -> int:
    return -(-size // 5)


def first_argument(args: list[Any], result: Any) -> int:
    return tenth(size_of(args[0]))


def first_argument_twice(args: list[Any], result: Any) -> int:
    return fifth(size_of(args[0]))


def result_twice(args: list[Any], result: Any) -> int:
    return fifth(size_of(result))


def smaller_argument(args: list[Any], result: Any) -> int:
    return tenth(min(size_of(args[0]), size_of(args[1])))


def both_arguments(args: list[Any], result: Any) -> int:
    return tenth(size_of(args[0]) + size_of(args[1]))


def product(args: list[Any], result: Any) -> int:
    return tenth(size_of(args[0])) * tenth(size_of(args[1]))


def regex(args: list[Any], result: Any) -> int:
    return tenth(1 + size_of(args[0])) * -(-size_of(args[1]) // 4)


def second_argument(args: list[Any], result: Any) -> int:
    return size_of(args[1])


def traversal(args: list[Any], result: Any) -> int:
    """One walk over a value and all it contains, up to the cost limit of an evaluation."""
    total, visited, pending = 0, 0, [args[0]]
    while pending:
        value = pending.pop()
        kind = value.__class__
        if kind is str:
            total += len(value.encode("utf-8", "surrogatepass")) // 10
        elif kind is bytes:
            total += len(value) // 10
        elif is_list(value):
            pending.extend(elements(value))
        elif is_map(value):
            for pair in map_items(value):
                pending.extend(pair)
        else:
            total += 1
        visited += 1
        afford(visited, MOST_ELEMENTS)
    return total


def sets_product(factor: int) -> Any:
    def cost(args: list[Any], result: Any) -> int:
        return 1 + size_of(args[0]) * size_of(args[1]) * factor

    return cost


def new_list(args: list[Any], result: Any) -> int:
    return size_of(result) + 1 + LIST_CREATE


def new_maps(args: list[Any], result: Any) -> int:
    """A list of maps."""
    return LIST_CREATE + len(result) * (1 + MAP_CREATE)


def parsed(args: list[Any], result: Any) -> int:
    """A walk over the text, and every resulting list and map; scalars cost nothing."""
    total, pending = tenth(size_of(args[0])), [result]
    while pending:
        value = pending.pop()
        if value.__class__ is list:
            total += LIST_CREATE
            pending.extend(value)
        elif value.__class__ is dict:
            total += MAP_CREATE
            pending.extend(value.values())
    return total


def flattened(args: list[Any], result: Any) -> int:
    depth = args[1] if len(args) == 2 and args[1].__class__ is int else 1
    return max(0, depth) * size_of(args[0]) + 1 + LIST_CREATE


def self_compared(which: int) -> Any:
    def cost(args: list[Any], result: Any) -> int:
        if not is_list(args[which]):
            return 1
        items = elements(args[which])
        size = len(items)
        total = 2 * size * size
        if items and items[0].__class__ in (str, bytes):
            total = int(2.1 * size * size)
        return total + 1 + LIST_CREATE

    return cost


def selector(args: list[Any], result: Any) -> int:
    length = size_of(args[1])
    return LIST_CREATE + tenth(length) + -(-length // 2) * (LIST_CREATE + STRUCT_CREATE)


def authorization(args: list[Any], result: Any) -> int:
    return AUTHORIZATION_CHECK


PAID_AFTERWARDS = frozenset({result_twice, new_list, new_maps, parsed})
"""Costs that depend on the result; all others are charged before the call, so that expensive calls are not started."""
