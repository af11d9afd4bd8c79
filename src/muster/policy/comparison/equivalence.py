"""Equivalence of two JSON values. Follows `deeplyEquivalent` of config-policy-controller.

Scalars are compared as Go prints them, so 80 equals a template's "80". Lists are equal when their sorted items are. A string of
the template that is a Kubernetes quantity equals another string for the same quantity (`1000m` and `1`). If the first value has
a field with a zero value that the second one lacks, the API server may treat both alike: this is `missing_key`, and a dry run
decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.gotemplate.golang.fmt import show_bool, show_float
from muster.machinery.golang.quantities import Quantity, QuantityError, parse_quantity
from muster.machinery.memo import memoized


class Equivalence(NamedTuple):
    equal: bool
    missing_key: bool = False


_EQUAL: Final = Equivalence(True)
_DIFFERENT: Final = Equivalence(False)


def text_of(value: Any) -> str:
    """A JSON value as Go's `%v` prints it."""
    kind = value.__class__
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is dict:
        return "map[" + " ".join(f"{key}:{text_of(value[key])}" for key in sorted(value)) + "]"
    if kind is list:
        return "[" + " ".join(map(text_of, value)) + "]"
    if value is None:
        return "<nil>"
    if kind is bool:
        return show_bool(value)
    return show_float(value) if kind is float else str(value)


def sorted_text(value: Any) -> str:
    """`text_of` with all lists sorted, so that the order of items does not matter."""
    kind = value.__class__
    if kind is dict:
        return "map[" + " ".join(f"{key}:{sorted_text(value[key])}" for key in sorted(value)) + "]"
    if kind is list:
        return "[" + " ".join(sorted(map(sorted_text, value))) + "]"
    return text_of(value)


@memoized(4096)
def _quantity(text: str) -> Quantity | None:
    try:
        return parse_quantity(text)
    except QuantityError:
        return None


def _zero_text(value: Any) -> str:
    """The zero value of a scalar's type, as text."""
    return "" if isinstance(value, str) else "false" if isinstance(value, bool) else "0"


def equivalent(merged: Any, existing: Any, *, zero_is_absent: bool) -> Equivalence:
    """Whether a merged value equals the existing one. `zero_is_absent`: a zero value may stand for an absent field."""
    if isinstance(merged, dict):
        if isinstance(existing, dict):
            return equivalent_fields(merged, existing, zero_is_absent=zero_is_absent)
        return _DIFFERENT
    if isinstance(merged, list):
        if not merged and existing is None:
            return _EQUAL
        return equivalent_lists(merged, existing) if isinstance(existing, list) else _DIFFERENT
    if zero_is_absent:
        if existing is None and merged is not None:
            return Equivalence(text_of(merged) == _zero_text(merged), True)
        if merged is None and existing is not None:
            return Equivalence(not existing if isinstance(existing, dict | list) else text_of(existing) == _zero_text(existing))
    return Equivalence(text_of(merged) == text_of(existing))


def equivalent_fields(merged: Mapping[str, Any], existing: Mapping[str, Any], *, zero_is_absent: bool) -> Equivalence:
    missing_key = False
    if len(merged) < len(existing):
        return _DIFFERENT
    for key, value in merged.items():
        other = existing.get(key)
        if isinstance(value, dict):
            if not isinstance(other, dict):
                if zero_is_absent and not value:
                    continue
                return Equivalence(False, missing_key)
            nested = equivalent_fields(value, other, zero_is_absent=zero_is_absent)
        elif isinstance(value, list):
            if not isinstance(other, list):
                if not value:
                    continue
                return Equivalence(False, missing_key)
            nested = equivalent_lists(other, value)
        elif isinstance(value, str):
            nested = Equivalence(_same_text(value, existing, key))
        else:
            absent = other is None and value is not None
            nested = Equivalence((_zero_text(value) if absent else text_of(other)) == text_of(value), absent)
        missing_key = missing_key or nested.missing_key
        if not nested.equal:
            return Equivalence(False, missing_key)
    return Equivalence(True, missing_key)


def _same_text(text: str, existing: Mapping[str, Any], key: str) -> bool:
    quantity = _quantity(text)
    if quantity is None:
        return key in existing and text_of(existing[key]) == text
    other = existing.get(key)
    return isinstance(other, str) and (other == text or _quantity(other) == quantity)


def equivalent_lists(one: Sequence[Any], other: Sequence[Any]) -> Equivalence:
    """Whether two lists have the same items in any order. Only items of `other` may lack fields."""
    missing_key = False
    if len(one) != len(other):
        return _DIFFERENT
    for left, right in zip(sorted(one, key=sorted_text), sorted(other, key=sorted_text), strict=True):
        if isinstance(left, dict):
            if not isinstance(right, dict):
                return Equivalence(False, missing_key)
            nested = equivalent_fields(right, left, zero_is_absent=True)
            missing_key = missing_key or nested.missing_key
            if not nested.equal:
                return Equivalence(False, missing_key)
        elif text_of(left) != text_of(right):
            return Equivalence(False, missing_key)
    return Equivalence(True, missing_key)
