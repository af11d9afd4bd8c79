"""The order in which keys are written. Follows yaml.v3's `keyList`.

Numbers come before strings, by value. Strings are compared rune by rune until they differ: letters by their code, others before
letters (after them where digits end there, so that `a2` comes before `a10` and `a1b` before `a1-`), runs of digits by value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any, Final

from muster.gotemplate.limits import charge
from muster.gotemplate.values import kind
from muster.machinery.golang.numbers import wrap_int64
from muster.machinery.golang.unicode import is_digit, is_letter

_KINDS: Final = (
    "invalid", "bool", "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr",
    "float32", "float64", "complex64", "complex128", "array", "chan", "func", "interface", "map", "ptr", "slice", "string",
    "struct",
)  # fmt: skip
_PARTS: Final = re.compile(r"([0-9]+)|([A-Za-z]+)|(.)", re.DOTALL).findall
_LONG_NUMBER: Final = re.compile("[0-9]{18}").search
_LONG: Final = 1000
"""Keys of which comparing two is work to be paid for."""
_KIND_ORDER: Final = {name: at for at, name in enumerate(_KINDS)}


def sorted_keys(keys: Iterable[Any]) -> list[Any]:
    """The keys in yaml.v3's order."""
    listed = list(keys)
    try:
        joined = "".join(listed)
    except TypeError:
        return sorted(listed, key=cmp_to_key(_compare))
    if not joined.isascii() or _LONG_NUMBER(joined):
        return sorted(listed, key=cmp_to_key(_compare_strings))
    return sorted(listed) if joined.isalpha() else sorted(listed, key=_sort_key)


def _sort_key(key: str) -> tuple[tuple[Any, ...], ...]:
    """Of ASCII keys: they compare as these do, which is quicker than comparing them."""
    parts: list[tuple[Any, ...]] = []
    after_digits = False
    for digits, letters, other in _PARTS(key):
        if digits:
            parts.append((0, int(digits), len(digits)))
        elif letters:
            parts.append((1, letters))
        else:
            parts.append((2 if after_digits else -1, other))
        after_digits = bool(digits)
    return tuple(parts)


def _compare(a: Any, b: Any) -> int:
    if isinstance(a, str) and isinstance(b, str):
        return _compare_strings(a, b)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and float(a) != float(b):
        return -1 if float(a) < float(b) else 1
    kinds = _KIND_ORDER.get(kind(a), 0), _KIND_ORDER.get(kind(b), 0)
    if kinds[0] != kinds[1]:
        return kinds[0] - kinds[1]
    if isinstance(a, (int, float)) and a != b:
        return -1 if a < b else 1
    return 0


def _compare_strings(a: str, b: str) -> int:
    if len(a) > _LONG and len(b) > _LONG:
        charge(min(len(a), len(b)))
    for at, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return _compare_at(a, b, at)
    return len(a) - len(b)


def _compare_at(a: str, b: str, at: int) -> int:
    """Order of two strings that differ first in this place."""
    x, y = a[at], b[at]
    x_letter, y_letter = is_letter(x), is_letter(y)
    if x_letter and y_letter:
        return -1 if x < y else 1
    if x_letter or y_letter:
        after_digits = at > 0 and is_digit(a[at - 1])
        return -1 if (x_letter if after_digits else y_letter) else 1
    start = 1 if "0" in (x, y) and _ends_in_number(a, at) else 0
    x_value, x_end = _number(a, at, start)
    y_value, y_end = _number(b, at, start)
    if x_value != y_value:
        return -1 if x_value < y_value else 1
    if x_end != y_end:
        return x_end - y_end
    return -1 if x < y else 1


def _ends_in_number(text: str, end: int) -> bool:
    """Whether the digits before this place have a value other than 0."""
    at = end - 1
    while at >= 0 and is_digit(text[at]):
        if text[at] != "0":
            return True
        at -= 1
    return False


def _number(text: str, at: int, value: int) -> tuple[int, int]:
    while at < len(text) and is_digit(text[at]):
        value = wrap_int64(value * 10 + ord(text[at]) - 0x30)
        at += 1
    return value, at
