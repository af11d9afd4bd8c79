"""JSON syntax errors in the words of Go's `encoding/json` scanner. Only called for a text that the fast parser has rejected."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Final

from .depth import EXCEEDED, MAX_DEPTH

_SPACE = re.compile(rb"[ \t\r\n]*")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS: Final = (b"true", b"false", b"null")
_END: Final = "unexpected end of JSON input"
_MAX_DIGITS: Final = 1000


class _SyntaxError(Exception):
    """A syntax error; the text is the message."""


def syntax_problem(text: bytes) -> str:
    """The message of the first syntax error; empty if the text is valid."""
    try:
        at = _skip(text, _value(text, _skip(text, 0), 0))
        return _unexpected(text, at, "after top-level value") if at < len(text) else ""
    except _SyntaxError as error:
        return str(error)


def number_beyond_float64(text: bytes) -> str:
    """The first number of a JSON text that exceeds float64, truncated for a message; empty if there is none."""
    found: list[str] = []

    def parsed(number: str) -> float:
        value = float(number)
        if math.isinf(value):
            found.append(number)
        return value

    # The text may not be UTF-8, an integer may exceed Python's limit of digits, and escapes may be invalid.
    with suppress(ValueError):
        json.loads(text.decode(errors="replace"), parse_float=parsed, parse_int=parsed)
    return found[0][:_MAX_DIGITS] if found else ""


def _unexpected(text: bytes, at: int, where: str) -> str:
    if at >= len(text):
        return _END
    character = text[at : at + 4].decode("utf-8", "replace")[:1]
    shown = {"'": "\\'", '"': '"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character, character)
    return f"invalid character '{shown}' {where}"


def _skip(text: bytes, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _value(text: bytes, at: int, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise _SyntaxError(EXCEEDED)
    first = text[at : at + 1]
    if first == b"{":
        return _members(text, at + 1, depth)
    if first == b"[":
        return _items(text, at + 1, depth)
    if first == b'"':
        return _string(text, at + 1)
    for literal in _LITERALS:
        if first == literal[:1]:
            return _literal(text, at, literal)
    if first and first in b"-0123456789":
        found = _NUMBER.match(text, at)
        if found is None:
            raise _SyntaxError(_unexpected(text, at + 1, "in numeric literal"))
        return found.end()
    raise _SyntaxError(_unexpected(text, at, "looking for beginning of value"))


def _literal(text: bytes, at: int, literal: bytes) -> int:
    for offset, expected in enumerate(literal):
        if text[at + offset : at + offset + 1] != bytes([expected]):
            where = f"in literal {literal.decode()} (expecting '{chr(expected)}')"
            raise _SyntaxError(_unexpected(text, at + offset, where))
    return at + len(literal)


_PLAIN = rb'[^"\\\x00-\x1f]*'
_STRING_CONTENT = _PLAIN + rb'(?:\\["\\/bfnrtu]' + _PLAIN + rb"){0,1000}"
_WHITESPACE = rb"[ \t\r\n]*"
_SIMPLE = (
    rb'(?:"' + _STRING_CONTENT + rb'"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|\{\}|\[\])' + _WHITESPACE
)
_CHARACTERS = re.compile(_STRING_CONTENT)
_VALID_ITEMS = re.compile(rb"(?:" + _SIMPLE + rb"," + _WHITESPACE + rb"){0,1000}")
_VALID_MEMBERS = re.compile(
    rb'(?:"' + _STRING_CONTENT + rb'"' + _WHITESPACE + rb":" + _WHITESPACE + _SIMPLE + rb"," + _WHITESPACE + rb"){0,1000}"
)
"""Valid parts are skipped with one match each, because the text may be long. Repeats are bounded, because each uses memory;
possessive ones would not, but Python up to 3.11.4 matches them incorrectly."""


def _skip_pattern(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    while (found := pattern.match(text, at)) is not None and found.end() > at:
        at = found.end()
    return at


def _string(text: bytes, at: int) -> int:
    at = _skip_pattern(_CHARACTERS, text, at)
    while at < len(text):
        byte = text[at]
        if byte == 0x22:
            return at + 1
        if byte < 0x20:
            raise _SyntaxError(_unexpected(text, at, "in string literal"))
        if byte == 0x5C:
            at += 1
            if text[at : at + 1] not in (b'"', b"\\", b"/", b"b", b"f", b"n", b"r", b"t", b"u"):
                raise _SyntaxError(_unexpected(text, at, "in string escape code"))
        at += 1
    raise _SyntaxError(_END)


def _members(text: bytes, at: int, depth: int) -> int:
    at = _skip(text, at)
    if text[at : at + 1] == b"}":
        return at + 1
    while True:
        at = _skip_pattern(_VALID_MEMBERS, text, at)
        if text[at : at + 1] != b'"':
            raise _SyntaxError(_unexpected(text, at, "looking for beginning of object key string"))
        at = _skip(text, _string(text, at + 1))
        if text[at : at + 1] != b":":
            raise _SyntaxError(_unexpected(text, at, "after object key"))
        at = _skip(text, _value(text, _skip(text, at + 1), depth + 1))
        if text[at : at + 1] == b"}":
            return at + 1
        if text[at : at + 1] != b",":
            raise _SyntaxError(_unexpected(text, at, "after object key:value pair"))
        at = _skip(text, at + 1)


def _items(text: bytes, at: int, depth: int) -> int:
    at = _skip(text, at)
    if text[at : at + 1] == b"]":
        return at + 1
    while True:
        at = _skip_pattern(_VALID_ITEMS, text, at)
        at = _skip(text, _value(text, at, depth + 1))
        if text[at : at + 1] == b"]":
            return at + 1
        if text[at : at + 1] != b",":
            raise _SyntaxError(_unexpected(text, at, "after array element"))
        at = _skip(text, at + 1)
