"""YAML scalars as Kubernetes reads them: JSON's null, booleans, numbers and strings, resolved by YAML 1.1's spellings.

Unlike YAML 1.1 in PyYAML: dates and base-60 numbers stay strings, `1e3` is the number 1000, `y` and `n` are booleans, unknown tags
are ignored.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import Any, Final

from muster.machinery.memo import memoized

_TAG: Final = "tag:yaml.org,2002:"
STR: Final = f"{_TAG}str"
_NULL, _BOOL, _INT, _FLOAT, _BINARY = (f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "binary"))
_MERGE: Final = f"{_TAG}merge"
_PATTERNS: Final = {
    _NULL: (r"~|null|Null|NULL|", "~nN"),
    _BOOL: ("true|True|TRUE|false|False|FALSE|y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF", "tTfFyYnNoO"),
    _INT: (r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)", "-+0123456789"),
    _FLOAT: (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
}
TYPED: Final = "|".join([*(pattern for pattern, _ in _PATTERNS.values()), "<<"])
"""A pattern of everything that would not be read as a string."""
_INT64: Final = range(-(2**63), 2**63)
_NOT_JSON: Final = frozenset({".inf", "-.inf", "+.inf", ".nan"})


class YAMLError(ValueError):
    """The text is not YAML, or not a JSON-like document."""


def _integer(text: str) -> int | float:
    """Octal by a leading zero, and the other prefixes; what is too long for 64 bits is a float, as in JSON."""
    plain = text.replace("_", "")
    sign = -1 if plain.startswith("-") else 1
    digits = plain.lstrip("+-")
    if digits[:2] in ("0x", "0o", "0b"):
        value = sign * int(digits[2:], {"x": 16, "o": 8, "b": 2}[digits[1]])
    else:
        octal = len(digits) > 1 and digits[0] == "0" and all(digit in "01234567" for digit in digits)
        value = sign * int(digits, 8 if octal else 10)
    return value if value in _INT64 else float(value)


def _float(text: str) -> int | float | str:
    if text.lower() in _NOT_JSON:
        raise YAMLError(f"json: unsupported value: {text}")
    value = float(text)
    if math.isinf(value):
        return text
    return int(value) if value.is_integer() and int(value) in _INT64 else value


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    _NULL: lambda text: None,
    _BOOL: lambda text: text.lower() in ("true", "yes", "on", "y"),
    _INT: _integer,
    _FLOAT: _float,
    _BINARY: lambda text: base64.b64decode(text, validate=True).decode(),
}
_Candidates = list[tuple[Callable[[str], Any], Callable[[str], Any]]]
_BY_FIRST: Final[dict[str, _Candidates]] = {}
for _tag, (_pattern, _first) in _PATTERNS.items():
    for _mark in _first:
        _BY_FIRST.setdefault(_mark, []).append((re.compile(f"(?:{_pattern})\\Z").match, _READERS[_tag]))


@memoized(4096, 32)
def _resolved(text: str) -> Any:
    for matches, read in _BY_FIRST[text[0]]:
        if matches(text):
            return read(text)
    return text


def _plain(text: str) -> Any:
    if not text:
        return None
    if text[0] not in _BY_FIRST:
        return text
    return _resolved(text)


def value_of(event: Any) -> Any:
    """The value of a scalar event. Raises YAMLError."""
    tag, text = event.tag, event.value
    try:
        if tag is None or tag == "!":
            return _plain(text) if event.implicit[0] else text
        read = _READERS.get(tag)
        return text if read is None else read(text)
    except YAMLError as problem:
        raise YAMLError(f"line {event.start_mark.line + 1}: {problem}") from None
    except (ValueError, OverflowError) as problem:
        raise YAMLError(f"line {event.start_mark.line + 1}: cannot decode {text[:100]!r}") from problem


def is_merge(event: Any) -> bool:
    """Whether a key stands for the maps to be merged into its own."""
    if event.value != "<<" and event.tag is None:
        return False
    return event.tag == _MERGE or ((event.tag is None or event.tag == "!") and bool(event.implicit[0]) and event.value == "<<")
