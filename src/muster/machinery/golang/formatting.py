"""JSON values as text: `text` is `%v`, `syntax` is `%#v`, `type_name` is `%T`. Follows Go's `fmt`.

Messages of patches and of server-side apply quote values the way the Go server does; clients and people compare those texts.
"""

from __future__ import annotations

from typing import Any

from muster.machinery.golang.numbers import format_float
from muster.machinery.golang.quoting import quote


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
