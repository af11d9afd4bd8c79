"""The steps of a JSONPath action: each maps a list of values to a list of values.

A step is called with the values so far and whether absent keys are permitted; it raises JSONPathError if the data do not match.
Maps are iterated in their own order.

A short path can select very many values (`['a','a']['a','a']…` doubles with each step), so an evaluation may have a limit of
visited values (`within`); beyond it an error is raised.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from muster.machinery.golang import formatting

Values = list[Any]
Step = Callable[[Values, bool], Values]
"""(values, whether missing keys are permitted) → values"""

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_MAX_DEPTH: Final = 100


class JSONPathError(ValueError):
    """A template that cannot be compiled, or data it does not fit."""


class TooMuch(JSONPathError):
    """The limit of visited values is exceeded."""


class Limit:
    """The number of values that may still be visited."""

    __slots__ = ("left",)

    def __init__(self, values: int) -> None:
        self.left = values

    def spend(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise TooMuch("it selects too much")


_limit: ContextVar[Limit | None] = ContextVar("limit", default=None)


@contextmanager
def within(limit: Limit | None) -> Iterator[None]:
    """The evaluation inside is subject to the limit."""
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def _limited(found: Iterator[Any]) -> Values:
    limit = _limit.get()
    if limit is None:
        return list(found)
    values = list(islice(found, limit.left + 1))
    limit.spend(len(values))
    return values


@dataclass(frozen=True, slots=True)
class Field:
    name: str

    def __call__(self, values: Values, missing: bool) -> Values:
        if not values:
            return []
        name = self.name
        found = [value[name] for value in values if isinstance(value, dict) and name in value]
        if not found and not missing:
            raise JSONPathError(f"{name} is not found")
        return found


@dataclass(frozen=True, slots=True)
class Constant:
    """Text replaces the values; a number or boolean is repeated once for each of them."""

    value: Any

    def __call__(self, values: Values, missing: bool) -> Values:
        return [self.value] if isinstance(self.value, str) else [self.value] * len(values)


def _children(value: Any) -> Values:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | str) else []


def wildcard(values: Values, missing: bool) -> Values:
    return _limited(child for value in values for child in _children(value))


def recursive(values: Values, missing: bool) -> Values:
    return [found for value in values for found in _with_descendants(value)]


def _with_descendants(root: Any) -> Iterator[Any]:
    """Each value before its descendants."""
    limit = _limit.get()
    waiting = [(root, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _MAX_DEPTH or not isinstance(value, dict | list) or not value:
            continue
        if limit is not None:
            limit.spend(len(value))
        yield value
        waiting += [(child, depth + 1) for child in reversed(_children(value))]


@dataclass(frozen=True, slots=True)
class Slice:
    start: int | None
    stop: int | None
    step: int | None
    single: bool

    def __call__(self, values: Values, missing: bool) -> Values:
        result: Values = []
        limit = _limit.get()
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JSONPathError(f"{formatting.type_name(value)} is not array or slice")
            length = len(value)
            start = self.start or 0
            if self.single:
                stop = start + 1
            else:
                stop = length if self.stop is None else self.stop
            start += length if start < 0 else 0
            stop += length if stop < 0 or (stop == 0 and self.single) else 0
            if start == stop:
                return result
            if not 0 <= start < length:
                raise JSONPathError(f"array index out of bounds: index {start}, length {length}")
            if not 0 <= stop <= length:
                raise JSONPathError(f"array index out of bounds: index {stop - 1}, length {length}")
            if start > stop:
                raise JSONPathError(f"starting index {start} is greater than ending index {stop}")
            if self.step is not None and self.step <= 0:
                raise JSONPathError("step must be > 0")
            chosen = value[start : stop : self.step or 1]
            if limit is not None:
                limit.spend(len(chosen))
            result += chosen
        return result


@dataclass(frozen=True, slots=True)
class Union:
    members: tuple[Chain, ...]

    def __call__(self, values: Values, missing: bool) -> Values:
        return _limited(found for member in self.members for found in member(values, missing))


@dataclass(frozen=True, slots=True)
class Chain:
    steps: tuple[Step, ...]

    def __call__(self, values: Values, missing: bool) -> Values:
        limit = _limit.get()
        for step in self.steps:
            if limit is not None:
                limit.spend(len(values) + 1)
            values = step(values, missing)
        return values


@dataclass(frozen=True, slots=True)
class Filter:
    left: Chain
    comparison: str
    right: Chain

    def __call__(self, values: Values, missing: bool) -> Values:
        result: Values = []
        for value in values:
            if not isinstance(value, list):
                raise JSONPathError(f"{formatting.text(value)} is not array or slice and cannot be filtered")
            result += [item for item in value if self._keeps(item, missing)]
        return result

    def _keeps(self, item: Any, missing: bool) -> bool:
        if not self.comparison:
            try:
                return bool(self.left([item], missing))
            except JSONPathError:
                return False
        lefts, rights = self.left([item], missing), self.right([item], missing)
        if not lefts or not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise JSONPathError("can only compare one element at a time")
        left, right = lefts[0], rights[0]
        compare = _COMPARE.get(self.comparison)
        if compare is None:
            raise JSONPathError(f"unrecognized filter operator {self.comparison}")
        if not isinstance(left, str | bool | int | float) or not isinstance(right, str | bool | int | float):
            raise JSONPathError("invalid type for comparison")
        if type(left) is not type(right) or (isinstance(left, bool) and self.comparison not in ("==", "!=")):
            raise JSONPathError("incompatible types for comparison")
        return compare(left, right)
