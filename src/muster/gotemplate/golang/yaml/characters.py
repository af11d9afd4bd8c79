"""The permitted characters of a document. Follows yaml.v3's reader, which checks bytes before anything is scanned."""

from __future__ import annotations

import re
import sys
from typing import Final

from muster.gotemplate.golang.yaml.errors import YAMLError
from muster.machinery.golang.text import encode

POSSESSIVE: Final = sys.version_info >= (3, 11, 5)
"""Whether possessive repeats and atomic groups in regular expressions work correctly: before 3.11.5 they do not."""

_REFUSED: Final = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]").search
_BOM: Final = "\ufeff"
_CHUNK: Final = 512


def checked(text: str) -> tuple[str, YAMLError | None]:
    """The text without a byte order mark, or the part before the first invalid character, with the error for that."""
    start = 1 if text.startswith(_BOM) else 0
    found = _REFUSED(text)
    if found is None:
        return text[start:] if start else text, None
    if "\ud800" <= found[0] <= "\udfff":
        problem = _byte_problem(encode(text[found.start() :]))
    else:
        problem = "control characters are not allowed"
    return text[start : _chunk_start(text, found.start())], YAMLError(f"yaml: {problem}")


def _chunk_start(text: str, at: int) -> int:
    """The start of the chunk with this character; chunks have 512 bytes, or fewer if a character would be cut."""
    if text[:at].isascii():
        return at - at % _CHUNK
    start = size = 0
    for index in range(at + 1):
        size += len(text[index].encode("utf-8", "surrogatepass")) if index < at else 1
        if size > _CHUNK:
            start, size = index, len(text[index].encode("utf-8", "surrogatepass"))
    return start


def utf8_width(first: int) -> int:
    """The number of bytes of a character that starts with this one; 0 if none does."""
    if first < 0x80:
        return 1
    return 2 if first & 0xE0 == 0xC0 else 3 if first & 0xF0 == 0xE0 else 4 if first & 0xF8 == 0xF0 else 0


def _byte_problem(data: bytes) -> str:
    """The error for bytes that do not start with a character."""
    first = data[0]
    width = utf8_width(first)
    if not width:
        return "invalid leading UTF-8 octet"
    if width > len(data):
        return "incomplete UTF-8 octet sequence"
    value = first & (0xFF >> (width + 1))
    for octet in data[1:width]:
        if octet & 0xC0 != 0x80:
            return "invalid trailing UTF-8 octet"
        value = (value << 6) + (octet & 0x3F)
    if value < (0, 0, 0x80, 0x800, 0x10000)[width]:
        return "invalid length of a UTF-8 sequence"
    return "invalid Unicode character"


def possessive(pattern: str) -> re.Pattern[str]:
    """A pattern with possessive repeats for an optional fast path: one that matches nothing if they do not work."""
    return re.compile(pattern if POSSESSIVE else "(?!)")
