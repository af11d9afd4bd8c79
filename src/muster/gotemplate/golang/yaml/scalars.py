"""The resolution of plain scalars and of tags. Follows yaml.v3's `resolve`.

The rules are those of YAML 1.2's core schema with parts of 1.1: `0777` is octal, underscores may be between digits, and dates are
timestamps. `yes`, `on` and sexagesimal numbers are strings, although they are written in quotes (`quotes_needed`) for readers that
follow YAML 1.1.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any, Final

from muster.gotemplate.golang import timeparse
from muster.gotemplate.golang.time import Time
from muster.gotemplate.golang.yaml.errors import YAMLError
from muster.gotemplate.golang.zones import UTC_ZONE
from muster.gotemplate.values import Uint64
from muster.machinery.golang import text as go_text
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import parse_float

NULL: Final = "!!null"
BOOL: Final = "!!bool"
STR: Final = "!!str"
INT: Final = "!!int"
FLOAT: Final = "!!float"
TIMESTAMP: Final = "!!timestamp"
SEQ: Final = "!!seq"
MAP: Final = "!!map"
BINARY: Final = "!!binary"
MERGE: Final = "!!merge"

_LONG_PREFIX: Final = "tag:yaml.org,2002:"
_RESOLVABLE: Final = frozenset({"", STR, BOOL, INT, FLOAT, NULL, TIMESTAMP})
_WORDS: Final[dict[str, tuple[str, Any]]] = {
    **dict.fromkeys(("true", "True", "TRUE"), (BOOL, True)),
    **dict.fromkeys(("false", "False", "FALSE"), (BOOL, False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), (NULL, None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), (FLOAT, math.nan)),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), (FLOAT, math.inf)),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), (FLOAT, -math.inf)),
}
_OLD_BOOLS: Final = frozenset(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"))
QUOTED_WORDS: Final = _OLD_BOOLS | {word for word in _WORDS if word}
"""Strings that are written in quotes because they would be read as another type."""
SUSPECTS: Final = frozenset("+-0123456789tTfFnN~.")
"""The first characters of plain scalars that may be no strings. (`yYoO` start words of YAML 1.1 only.)"""

_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})").fullmatch
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))").fullmatch
_SIGNED_AGAIN: Final = re.compile(r"(-?)0([bo])([-+]?[0-7]+)").fullmatch
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?").fullmatch
_SEXAGESIMAL: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?").fullmatch
_DATE: Final = re.compile(r"[0-9]{4}-").match
_TIMESTAMPS: Final = (
    "2006-1-2T15:4:5.999999999Z07:00",
    "2006-1-2t15:4:5.999999999Z07:00",
    "2006-1-2 15:4:5.999999999",
    "2006-1-2",
)
_MAX_INT64: Final = (1 << 63) - 1
_MAX_UINT64: Final = (1 << 64) - 1


def short_tag(tag: str) -> str:
    return "!!" + tag[len(_LONG_PREFIX) :] if tag.startswith(_LONG_PREFIX) else tag


def plain(text: str) -> Any:
    """The value of a plain scalar without a tag."""
    if text[:1] not in SUSPECTS:
        return text or None
    return resolve("", text)[1]


def resolve(tag: str, text: str) -> tuple[str, Any]:
    """Tag and value of a scalar; `tag` is the requested one, in its short form. Raises YAMLError."""
    if tag not in _RESOLVABLE:
        return tag, text
    found, value = (STR, text) if tag == STR else _resolved(text, tag in ("", TIMESTAMP))
    if tag in ("", found, STR):
        return found, value
    if tag == FLOAT and found == INT and not isinstance(value, Uint64):
        return FLOAT, float(value)
    raise YAMLError(f"yaml: cannot decode {found} `{text}` as a {tag}")


def _resolved(text: str, dates: bool) -> tuple[str, Any]:
    if text and text[0] not in SUSPECTS:
        return STR, text
    if _DECIMAL(text):
        return INT, int(text)
    word = _WORDS.get(text)
    if word is not None:
        return word
    if text[0] in "tTfFnN~":
        return STR, text
    if text[0] == ".":
        return _float(text) or (STR, text)
    if dates and _DATE(text):
        instant = timestamp(text)
        if instant is not None:
            return TIMESTAMP, instant
    digits = text.replace("_", "") if "_" in text else text
    return _integer(digits) or (_FLOAT(digits) and _float(digits)) or _signed_again(digits) or (STR, text)


def _float(text: str) -> tuple[str, Any] | None:
    try:
        return FLOAT, parse_float(text)
    except GoError:
        return None


def _integer(text: str) -> tuple[str, Any] | None:
    found = _INTEGER(text)
    if found is None:
        return None
    sign, hexadecimal, binary, octal, decimal = found.groups()
    if decimal is not None and len(decimal) > 20:
        return None
    value = int(hexadecimal or binary or octal or decimal, 16 if hexadecimal else 2 if binary else 8 if octal else 10)
    return _sized(sign, value)


def _sized(sign: str, value: int) -> tuple[str, Any] | None:
    """An int if an int64 can hold the value, a uint64 if only that can."""
    if value <= _MAX_INT64 or (sign == "-" and value == _MAX_INT64 + 1):
        return INT, -value if sign == "-" else value
    return (INT, Uint64(value)) if not sign and value <= _MAX_UINT64 else None


def _signed_again(text: str) -> tuple[str, Any] | None:
    """yaml.v3 removes the prefixes 0b and 0o itself, so that a sign may follow them: `0b-1`."""
    found = _SIGNED_AGAIN(text)
    if found is None or (found[1] and found[3][0] in "-+"):
        return None
    digits = found[3].lstrip("-+")
    base = 2 if found[2] == "b" else 8
    if base == 2 and digits.strip("01"):
        return None
    return _sized(found[1] or found[3][: -len(digits)], int(digits, base))


def timestamp(text: str) -> Time | None:
    for layout in _TIMESTAMPS:
        try:
            return timeparse.parse(layout, text, UTC_ZONE)
        except GoError:
            continue
    return None


def binary(text: str) -> str:
    """The string whose base64 form is the text."""
    try:
        return go_text.decode(base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True))
    except (binascii.Error, ValueError):
        raise YAMLError("yaml: !!binary value contains invalid base64 data") from None


def quotes_needed(text: str) -> bool:
    """Whether the text, written plainly, would not be read as the same string, here or by readers that follow YAML 1.1."""
    if not text or text in QUOTED_WORDS:
        return True
    if text[0] not in "+-.0123456789":
        return False
    return resolve("", text)[0] != STR or (":" in text and _SEXAGESIMAL(text) is not None)
