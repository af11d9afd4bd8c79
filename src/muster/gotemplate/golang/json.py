"""Go's `encoding/json`: Marshal, MarshalIndent and Unmarshal of untyped values.

Decoding tries Python's fast decoder first and falls back to a scanner that follows Go's states: for its error texts,
and for the few inputs on which the two disagree (NaN, lone surrogates, bytes that are not UTF-8).
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

from muster.gotemplate.errors import LimitExceeded
from muster.gotemplate.golang.fmt import sorted_items
from muster.gotemplate.golang.jsonscan import check
from muster.gotemplate.limits import charge
from muster.gotemplate.values import Float32, Map, Missing, Slice, Struct, go_type
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import format_float

_MAX_NESTING = 200
_GO_LEVELS = 1000
_POINTER = object()
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNSAFE = re.compile(r'["\\\x00-\x1f\u2028\u2029\ud800-\udfff]')
_UNSAFE_HTML = re.compile(r'["\\\x00-\x1f<>&\u2028\u2029\ud800-\udfff]')
_SURROGATES = re.compile("[\ud800-\udfff]")
_MAYBE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if "\ud800" <= char <= "\udfff":
        return "\\ufffd"
    return _ESCAPES.get(char) or f"\\u{ord(char):04x}"


def _float(value: float, bits: int) -> str:
    if math.isnan(value) or math.isinf(value):
        raise GoError(f"json: unsupported value: {format_float(value, 'g', -1)}")
    magnitude = abs(value)
    low = 1e-6
    if magnitude != 0 and (magnitude < low or magnitude >= 1e21):
        text = format_float(value, "e", -1, bits)
        return text[:-2] + text[-1] if text[-4:-1] == "e-0" else text
    return format_float(value, "f", -1, bits)


class _Encoder:
    def __init__(self, escape_html: bool, indent: str, by_pointer: bool) -> None:
        self.unsafe = _UNSAFE_HTML if escape_html else _UNSAFE
        self.indent = indent
        self.out: list[str] = []
        self.path: list[Any] = [_POINTER] if by_pointer else []
        """The pointers, lists and maps around the value being written."""

    def string(self, text: str) -> str:
        return '"' + self.unsafe.sub(_escape, text) + '"'

    def value(self, value: Any, depth: int) -> None:
        if value is None or value.__class__ is Missing:
            self.out.append("null")
        elif isinstance(value, str):
            self.out.append(self.string(value))
        elif isinstance(value, bool):
            self.out.append("true" if value else "false")
        elif isinstance(value, int):
            self.out.append(str(int(value)))
        elif isinstance(value, float):
            self.out.append(_float(float(value), 32 if isinstance(value, Float32) else 64))
        elif isinstance(value, (list, tuple)):
            self._sequence(value, depth)
        elif isinstance(value, dict):
            self._mapping(value, depth)
        elif isinstance(value, bytes):
            self.out.append('"' + base64.b64encode(value).decode() + '"')
        elif isinstance(value, Struct):
            # For Go a struct is no level, and no cycle consists of structs alone.
            self._entries([item for item in value.fields.items() if item[0][:1].isupper()], depth)
        elif hasattr(value, "marshal_json"):
            self.out.append(self.string(value.marshal_json()))
        else:
            raise GoError(f"json: unsupported type: {go_type(value)}")

    def _enter(self, container: Any) -> None:
        for at, outer in enumerate(self.path):
            if outer is container:
                # Go detects cycles beyond 1,000 levels, and names the type of the first container it visits twice there.
                there = self.path[at + (_GO_LEVELS - at) % (len(self.path) - at)]
                raise GoError(f"json: unsupported value: encountered a cycle via {go_type(there)}")
        self.path.append(container)

    def _bound(self, size: int, depth: int) -> None:
        charge(size + 1)
        if depth > _MAX_NESTING:
            raise LimitExceeded("the value to write as JSON is nested too deeply")

    def _line(self, depth: int) -> None:
        if self.indent:
            self.out.append("\n" + self.indent * depth)

    def _sequence(self, value: Any, depth: int) -> None:
        if isinstance(value, Slice) and value.is_nil:
            self.out.append("null")
            return
        if not value:
            self.out.append("[]")
            return
        self._enter(value)
        self._bound(len(value), depth)
        self.out.append("[")
        for at, item in enumerate(value):
            if at:
                self.out.append(",")
            self._line(depth + 1)
            self.value(item, depth + 1)
        self._line(depth)
        self.out.append("]")
        self.path.pop()

    def _mapping(self, value: dict[Any, Any], depth: int) -> None:
        if isinstance(value, Map):
            if value.go_type.startswith("map[interface {}]"):
                raise GoError(f"json: unsupported type: {value.go_type}")
            if value.is_nil:
                self.out.append("null")
                return
        entries = [(key if isinstance(key, str) else str(int(key)), item) for key, item in sorted_items(value)]
        self._enter(value)
        self._entries(sorted_items(dict(entries)), depth)
        self.path.pop()

    def _entries(self, entries: list[tuple[str, Any]], depth: int) -> None:
        if not entries:
            self.out.append("{}")
            return
        self._bound(len(entries), depth)
        self.out.append("{")
        for at, (key, item) in enumerate(entries):
            if at:
                self.out.append(",")
            self._line(depth + 1)
            self.out.append(self.string(key) + (": " if self.indent else ":"))
            self.value(item, depth + 1)
        self._line(depth)
        self.out.append("}")


def marshal(value: Any, *, escape_html: bool = True, indent: str = "", by_pointer: bool = False) -> str:
    """The value as JSON, keys sorted; raises GoError. Where Go's caller passes a pointer to it, the text of an error can differ."""
    encoder = _Encoder(escape_html, indent, by_pointer)
    encoder.value(value, 0)
    return "".join(encoder.out)


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise GoError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return value


def _clean(value: Any) -> Any:
    """Replaces surrogates, which Go's decoder never lets through."""
    if isinstance(value, str):
        return _SURROGATES.sub("�", value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value


def _number_or_none(text: str) -> float | None:
    value = float(text)
    return None if math.isinf(value) else value


def unmarshal(text: str, *, lenient: bool = False) -> Any:
    """The value of a JSON text, numbers as float64; raises GoError with Go's text.

    A number that no float64 can represent is an error, but Go still returns the rest of the value, as `lenient` does.
    """
    number = _number_or_none if lenient else _number
    try:
        value = json.loads(text.strip(" \t\r\n"), parse_int=number, parse_float=number, parse_constant=_no_constant)
    except GoError:
        check(text)
        raise
    except (ValueError, RecursionError):
        check(text)
        raise GoError("exceeded max depth") from None
    if text[:1] == "\ufeff":
        check(text)
    if not text.isascii() or _MAYBE_SURROGATE.search(text):
        return _clean(value)
    return value
