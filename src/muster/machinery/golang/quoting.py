"""Strings and runes as quoted literals. Follows Go's `strconv` (`Quote`, `Unquote`), which is also what `%q` prints."""

from __future__ import annotations

import re

from muster.machinery.golang import unicode
from muster.machinery.golang.errors import GoError

ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"'}
"""Characters with a short escape between double quotes."""
_ASCII_ESCAPES = str.maketrans({**{chr(code): f"\\x{code:02x}" for code in (*range(0x20), 0x7F)}, **ESCAPES})
_UNESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
INVALID_SYNTAX = "invalid syntax"


def _escape(char: str, quote: str, ascii_only: bool) -> str:
    if char in (quote, "\\"):
        return "\\" + char
    code = ord(char)
    if (code < 0x80 or not ascii_only) and unicode.is_print(char) and not 0xDC80 <= code <= 0xDCFF:
        return char
    if char in ESCAPES:
        return ESCAPES[char]
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xD800 <= code <= 0xDFFF:
        return "\\ufffd"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quote(text: str, ascii_only: bool = False) -> str:
    """`strconv.Quote`, or `QuoteToASCII`."""
    if text.isascii():
        plain = text.isprintable() and '"' not in text and "\\" not in text
        return f'"{text}"' if plain else f'"{text.translate(_ASCII_ESCAPES)}"'
    return '"' + "".join(_escape(char, '"', ascii_only) for char in text) + '"'


def quote_rune(code: int, ascii_only: bool = False) -> str:
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        code = 0xFFFD
    return "'" + _escape(chr(code), "'", ascii_only) + "'"


def can_backquote(text: str) -> bool:
    return not any(c == "`" or c == "\x7f" or c == "\ufeff" or (c < " " and c != "\t") or "\ud800" <= c <= "\udfff"
                   for c in text)  # fmt: skip


def _unquote_char(text: str, at: int, quote_char: str, into: bytearray) -> int:
    """Reads one character or escape at `at`, appends its bytes, and returns the position after it."""
    char = text[at]
    if char == quote_char and quote_char in "'\"":
        raise GoError(INVALID_SYNTAX)
    if char != "\\":
        into += char.encode("utf-8", "surrogateescape")
        return at + 1
    if at + 1 >= len(text):
        raise GoError(INVALID_SYNTAX)
    kind = text[at + 1]
    if kind in _UNESCAPES:
        into += _UNESCAPES[kind].encode()
        return at + 2
    width = {"x": 2, "u": 4, "U": 8}.get(kind)
    if width is not None:
        digits = text[at + 2 : at + 2 + width]
        if not re.fullmatch(f"[0-9a-fA-F]{{{width}}}", digits):
            raise GoError(INVALID_SYNTAX)
        code = int(digits, 16)
        if kind == "x":
            into.append(code)
        elif code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise GoError(INVALID_SYNTAX)
        else:
            into += chr(code).encode()
        return at + 2 + width
    if kind in "01234567":
        digits = text[at + 1 : at + 4]
        if not re.fullmatch("[0-7]{3}", digits) or int(digits, 8) > 255:
            raise GoError(INVALID_SYNTAX)
        into.append(int(digits, 8))
        return at + 4
    if kind in "'\"":
        if kind != quote_char:
            raise GoError(INVALID_SYNTAX)
        into += kind.encode()
        return at + 2
    raise GoError(INVALID_SYNTAX)


def unquote(text: str) -> str:
    """`strconv.Unquote` of a double- or back-quoted string."""
    if len(text) < 2 or text[0] != text[-1] or text[0] not in '`"':
        raise GoError(INVALID_SYNTAX)
    body = text[1:-1]
    if text[0] == "`":
        if "`" in body:
            raise GoError(INVALID_SYNTAX)
        return body.replace("\r", "")
    if "\\" not in body and '"' not in body and "\n" not in body:
        return body
    if "\n" in body:
        raise GoError(INVALID_SYNTAX)
    into, at = bytearray(), 0
    while at < len(body):
        at = _unquote_char(body, at, '"', into)
    return into.decode("utf-8", "surrogateescape")


def unquote_char_constant(text: str) -> int:
    """The rune of a character constant such as 'a' or '\\n'; `text` includes the quotes."""
    body = text[1:]
    if not body:
        raise GoError(INVALID_SYNTAX)
    into = bytearray()
    end = _unquote_char(body, 0, "'", into)
    if body[end:] != "'":
        raise GoError(f"malformed character constant: {text}")
    if body[0] == "\\" and body[1:2] and body[1] in "x01234567":
        return into[0]
    char = into.decode("utf-8", "replace")
    return ord(char[0])
