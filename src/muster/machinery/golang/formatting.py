"""JSON values as text: `%v`, `%#v`, `%T` and JSON. Follows Go's `fmt` and `encoding/json`.

Messages of patches and of server-side apply quote values the way the Go server does; clients and people compare those texts.
`text` is `%v`, `syntax` is `%#v`, `type_name` is `%T`, and `encode_json` is encoding/json with its HTML escaping and sorted keys.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from muster.machinery.golang.numbers import format_float
from muster.machinery.golang.quoting import quote

HTML_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})

_needs_escapes = re.compile("[<>&\u2028\u2029]").search


def number(value: float) -> str:
    """As `%v` prints it: of a float the fewest digits that tell it apart, with an exponent below 1e-4 and from 1e6 on."""
    return str(value) if isinstance(value, int) else format_float(value, "g", -1)


def text(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return number(float(value))
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(text(item) for item in value) + "]"
    return str(value)


def syntax(value: Any) -> str:
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict):
        return "map[string]interface {}{" + ", ".join(f"{quote(key)}:{syntax(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(syntax(item) for item in value) + "}"
    return text(value)


_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", dict: "map[string]interface {}", list: "[]interface {}"}


def type_name(value: Any) -> str:
    return _TYPES.get(type(value), "<nil>")


def encode_json(value: Any) -> str:
    """Compact JSON with sorted keys, whole floats without a fraction, and `<`, `>`, `&` escaped inside strings (nothing else in
    JSON can contain them)."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    if ".0" in text:
        text = orjson.dumps(_whole_numbers(value), option=orjson.OPT_SORT_KEYS).decode()
    return text.translate(HTML_ESCAPES) if _needs_escapes(text) else text


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value
