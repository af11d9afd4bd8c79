"""Character classes and simple case mappings. Follows Go's `unicode`.

Python's own tables follow another version of Unicode and its case conversions may change a string's length (ß becomes
SS), so the tables here are Go's, printed by `peers/gotemplate/unicode` into `unicode.json`. ASCII is answered without
them. Runes that stand for invalid bytes (U+DC80…U+DCFF) behave as U+FFFD does in Go: printable symbol, nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from typing import Any

_ASCII_PUNCT = frozenset("!\"#%&'()*,-./:;?@[\\]_{}")
_ASCII_SPACE = frozenset("\t\n\v\f\r ")


@cache
def _tables() -> dict[str, Any]:
    # Rarely needed, and slow to import.
    import json
    from importlib.resources import files

    tables: dict[str, Any] = json.loads(files(__package__).joinpath("unicode.json").read_text())
    return tables


@cache
def _ranges(name: str) -> tuple[list[int], list[int]]:
    pairs = _tables()[name]
    return [first for first, *_ in pairs], [last for _, last, *_ in pairs]


def _in(name: str, code: int) -> bool:
    starts, ends = _ranges(name)
    at = bisect_right(starts, code) - 1
    return at >= 0 and code <= ends[at]


def _is_escaped_byte(code: int) -> bool:
    return 0xDC80 <= code <= 0xDCFF


def is_print(char: str) -> bool:
    code = ord(char)
    if code < 0x80:
        return 0x20 <= code < 0x7F
    return _in("print", code) or _is_escaped_byte(code)


def is_letter(char: str) -> bool:
    return char.isalpha() if char.isascii() else _in("letter", ord(char))


def is_digit(char: str) -> bool:
    return char.isdigit() if char.isascii() else _in("digit", ord(char))


def is_number(char: str) -> bool:
    return char.isdigit() if char.isascii() else _in("number", ord(char))


def is_upper(char: str) -> bool:
    return char.isupper() if char.isascii() else _in("upper", ord(char))


def is_lower(char: str) -> bool:
    return char.islower() if char.isascii() else _in("lower", ord(char))


def is_title(char: str) -> bool:
    return not char.isascii() and _in("title", ord(char))


def is_punct(char: str) -> bool:
    return char in _ASCII_PUNCT if char.isascii() else _in("punct", ord(char))


def is_space(char: str) -> bool:
    return char in _ASCII_SPACE if char.isascii() else _in("space", ord(char))


def _mapped(char: str, column: int) -> str:
    code = ord(char)
    starts, ends = _ranges("cases")
    at = bisect_right(starts, code) - 1
    if at >= 0 and code <= ends[at]:
        return chr(code + int(_tables()["cases"][at][column]))
    return char


def to_upper(char: str) -> str:
    return char.upper() if char.isascii() else _mapped(char, 2)


def to_lower(char: str) -> str:
    return char.lower() if char.isascii() else _mapped(char, 3)


def to_title(char: str) -> str:
    return char.upper() if char.isascii() else _mapped(char, 4)


def map_runes(text: str, convert: Callable[[str], str]) -> str:
    """`strings.Map`: a rune that is not UTF-8 is written as U+FFFD."""
    return "".join([convert(c) if not "\udc80" <= c <= "\udcff" else "�" for c in text])


def upper(text: str) -> str:
    """`strings.ToUpper`."""
    return text.upper() if text.isascii() else map_runes(text, to_upper)


def lower(text: str) -> str:
    """`strings.ToLower`."""
    return text.lower() if text.isascii() else map_runes(text, to_lower)


def trim_space(text: str) -> str:
    """`strings.TrimSpace`."""
    if text.isascii():
        return text.strip("\t\n\v\f\r ")
    start, end = 0, len(text)
    while start < end and is_space(text[start]):
        start += 1
    while end > start and is_space(text[end - 1]):
        end -= 1
    return text[start:end]
