"""Literal tokens to values: numbers with CEL's ranges, strings and bytes with its escapes.

A `LiteralError` carries cel-go's message; the parser knows the place.
"""

from __future__ import annotations

import math
import re

from muster.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34, "`": 96, "?": 63}
_ESCAPES = re.compile(r"\\(?:([xX])(..)|(u)(.{4})|(U)(.{8})|([0-3])([0-7]{2})|(.))", re.S)


class LiteralError(ValueError):
    """The token has the right shape but no value."""


def parse_int(text: str, negative: bool) -> int:
    value = int(text[2:], 16) if text.startswith("0x") else _decimal(text, "invalid int literal")
    value = -value if negative else value
    if not INT_MIN <= value <= INT_MAX:
        raise LiteralError("invalid int literal")
    return value


def parse_uint(text: str) -> Uint:
    digits = text[:-1]
    value = int(digits[2:], 16) if digits.startswith("0x") else _decimal(digits, "invalid uint literal")
    if value > UINT_MAX:
        raise LiteralError("invalid uint literal")
    return Uint(value)


def _decimal(digits: str, complaint: str) -> int:
    # Python refuses very long decimal strings; none of them fits 64 bits, but leading zeros do.
    significant = digits.lstrip("0") or "0"
    if len(significant) > 20:
        raise LiteralError(complaint)
    return int(significant)


def parse_double(text: str, negative: bool) -> float:
    value = float(text)
    if math.isinf(value):
        raise LiteralError("invalid double literal")
    return -value if negative else value


def parse_string(token: str) -> str:
    body, raw = _strip_quotes(token)
    if raw or "\\" not in body:
        return body
    points = _unescape(body, is_bytes=False)
    return "".join(points)


def parse_bytes(token: str) -> bytes:
    body, raw = _strip_quotes(token[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    return b"".join(
        bytes([ord(part)]) if escaped else part.encode("utf-8", "surrogatepass") for part, escaped in _unescape_marked(body)
    )


def _strip_quotes(token: str) -> tuple[str, bool]:
    token = token.replace("\r\n", "\n").replace("\r", "\n")
    raw = token[0] in "rR"
    if raw:
        token = token[1:]
    width = 3 if len(token) >= 6 and token[:3] in ('"""', "'''") else 1
    return token[width:-width], raw


def _unescape(body: str, is_bytes: bool) -> list[str]:
    parts, last = [], 0
    for match in _ESCAPES.finditer(body):
        parts.append(body[last : match.start()])
        parts.append(_character(match, is_bytes))
        last = match.end()
    parts.append(body[last:])
    return parts


def _unescape_marked(body: str) -> list[tuple[str, bool]]:
    parts, last = [], 0
    for match in _ESCAPES.finditer(body):
        parts.append((body[last : match.start()], False))
        parts.append((_character(match, True), True))
        last = match.end()
    parts.append((body[last:], False))
    return parts


def _character(match: re.Match[str], is_bytes: bool) -> str:
    hex2, digits2, short, digits4, _, digits8, octal, rest, simple = match.groups()
    if simple is not None:
        return chr(_SIMPLE[simple])
    if octal is not None:
        return chr(int(octal + rest, 8))
    if hex2 is not None:
        return chr(int(digits2, 16))
    if is_bytes:
        raise LiteralError("unable to unescape string")
    point = int(digits4 if short is not None else digits8, 16)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise LiteralError("invalid unicode code point")
    return chr(point)
