"""sprig's functions on lists.

Each has a `must` form with the same result here: both report an error by raising, and the engine words it alike. Lists
of other element types ([]string, []int) are accepted, and become []interface {} where Go rebuilds them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from muster.gotemplate.golang.fmt import sort_key
from muster.gotemplate.limits import charge, charge_size
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.sprig.emptiness import deep_equal, empty
from muster.gotemplate.sprig.numbers import to_int
from muster.gotemplate.sprig.text import strslice, strval
from muster.gotemplate.values import ANY_SLICE, Slice, Uint8, kind, nil_slice
from muster.machinery.golang.errors import GoError

LISTS = FuncTable()
_SORTED_AT_ONCE = 50_000
_NIL_TYPE = "runtime error: invalid memory address or nil pointer dereference"


def _elements(value: Any, problem: Callable[[str], str]) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, bytes):
        return [Uint8(byte) for byte in value]
    if value is None:
        raise GoError(_NIL_TYPE)
    raise GoError(problem(kind(value)))


@LISTS.add("list tuple", "...any", ANY_SLICE)
def list_(*values: Any) -> list[Any]:
    return list(values)


@LISTS.add("append push mustAppend mustPush", "any, any", ANY_SLICE)
def push(value: Any, item: Any) -> list[Any]:
    items = _elements(value, lambda name: f"Cannot push on type {name}")
    charge_size(len(items))
    items.append(item)
    return items


@LISTS.add("prepend mustPrepend", "any, any", ANY_SLICE)
def prepend(value: Any, item: Any) -> list[Any]:
    items = _elements(value, lambda name: f"Cannot prepend on type {name}")
    charge_size(len(items))
    return [item, *items]


@LISTS.add("chunk mustChunk", "int, any", "[][]interface {}")
def chunk(size: int, value: Any) -> Slice:
    items = _elements(value, lambda name: f"Cannot chunk type {name}")
    # Go computes the number of chunks with floats; the result for sizes below 1 is seldom a valid length.
    count = (len(items) - 1) // size + 1 if size else -1
    if count < 0 or (size < 0 and count > 0):
        raise GoError("runtime error: makeslice: len out of range")
    if size < 0:
        return Slice([], "[][]interface {}")
    charge_size(len(items))
    return Slice([items[at : at + size] for at in range(0, len(items), size)], "[][]interface {}")


@LISTS.add("first mustFirst", "any")
def first(value: Any) -> Any:
    items = _elements(value, lambda name: f"Cannot find first on type {name}")
    return items[0] if items else None


@LISTS.add("last mustLast", "any")
def last(value: Any) -> Any:
    items = _elements(value, lambda name: f"Cannot find last on type {name}")
    return items[-1] if items else None


@LISTS.add("rest mustRest", "any", ANY_SLICE)
def rest(value: Any) -> list[Any]:
    items = _elements(value, lambda name: f"Cannot find rest on type {name}")
    return items[1:] if items else nil_slice()


@LISTS.add("initial mustInitial", "any", ANY_SLICE)
def initial(value: Any) -> list[Any]:
    items = _elements(value, lambda name: f"Cannot find initial on type {name}")
    return items[:-1] if items else nil_slice()


@LISTS.add("reverse mustReverse", "any", ANY_SLICE)
def reverse(value: Any) -> list[Any]:
    return _elements(value, lambda name: f"Cannot find reverse on type {name}")[::-1]


@LISTS.add("compact mustCompact", "any", ANY_SLICE)
def compact(value: Any) -> list[Any]:
    return [item for item in _elements(value, lambda name: f"Cannot compact on type {name}") if not empty(item)]


def _in_list(items: list[Any] | tuple[Any, ...], wanted: Any) -> bool:
    if wanted.__class__ is str:
        return any(item.__class__ is str and item == wanted for item in items)
    return any(deep_equal(wanted, item) for item in items)


@LISTS.add("uniq mustUniq", "any", ANY_SLICE)
def uniq(value: Any) -> list[Any]:
    kept: list[Any] = []
    strings: set[str] = set()
    for item in _elements(value, lambda name: f"Cannot find uniq on type {name}"):
        if item.__class__ is str:
            if item in strings:
                continue
            strings.add(item)
        elif _in_list(kept, item):
            continue
        kept.append(item)
    return kept


@LISTS.add("without mustWithout", "any, ...any", ANY_SLICE)
def without(value: Any, *omitted: Any) -> list[Any]:
    items = _elements(value, lambda name: f"Cannot find without on type {name}")
    return [item for item in items if not _in_list(omitted, item)]


@LISTS.add("has mustHas", "any, any", "bool")
def has(wanted: Any, value: Any) -> bool:
    if value is None:
        return False
    return _in_list(_elements(value, lambda name: f"Cannot find has on type {name}"), wanted)


@LISTS.add("slice mustSlice", "any, ...any")
def slice_(value: Any, *bounds: Any) -> Any:
    items = _elements(value, lambda name: f"list should be type of slice or array but {name}")
    if not items:
        return None
    start = to_int(bounds[0]) if bounds else 0
    end = len(items) if len(bounds) < 2 else to_int(bounds[1])
    if not 0 <= start <= end <= len(items):
        raise GoError("reflect.Value.Slice: slice index out of bounds")
    part = items[start:end]
    if isinstance(value, bytes):
        return bytes(part)
    return Slice(part, value.go_type) if isinstance(value, Slice) else part


@LISTS.add("concat", "...any")
def concat(*lists: Any) -> Any:
    joined: list[Any] = []
    for value in lists:
        items = _elements(value, lambda name: f"Cannot concat type {name} as list")
        charge_size(len(joined) + len(items))
        joined += items
    return joined if joined else nil_slice()


def _sorted(texts: list[str]) -> list[str]:
    """In Go's order. Python's sort blocks all other threads: long lists are sorted in parts."""
    if len(texts) <= _SORTED_AT_ONCE:
        return sorted(texts, key=sort_key)
    charge(len(texts))
    parts = [sorted(texts[start : start + _SORTED_AT_ONCE], key=sort_key) for start in range(0, len(texts), _SORTED_AT_ONCE)]
    return list(heapq.merge(*parts, key=sort_key))


@LISTS.add("sortAlpha", "any", "[]string")
def sort_alpha(value: Any) -> Slice:
    """A []string is sorted in place, as in Go; any other list is copied first."""
    if isinstance(value, Slice) and value.go_type == "[]string":
        value[:] = _sorted(value)
        return value
    if isinstance(value, (list, tuple, bytes)):
        return Slice(_sorted(strslice(value)), "[]string")
    return Slice([strval(value)], "[]string")
