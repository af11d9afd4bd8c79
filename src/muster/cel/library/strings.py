"""String functions beyond the language's own, in the version Kubernetes enables (2): no `reverse` on strings."""

from __future__ import annotations

from typing import Any

from muster.cel.errors import MOST_CHARACTERS, EvaluationError, afford
from muster.cel.library import costs
from muster.cel.library.format import format_string
from muster.cel.library.registry import Library, method, overload
from muster.cel.numbers import display
from muster.cel.types import DYN, INT, STRING, list_type
from muster.cel.values import elements
from muster.machinery.golang.quoting import ESCAPES

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_GO_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_QUOTED = str.maketrans(ESCAPES)


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    if part == "":
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def last_index_of(text: str, part: str) -> int:
    return len(text) if part == "" else text.rfind(part)


def last_index_before(text: str, part: str, offset: int) -> int:
    if part == "":
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise _out_of_range(start)
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for bound in (start, end):
        if not 0 <= bound <= len(text):
            raise _out_of_range(bound)
    return text[start:end]


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old)
    count = min(count, limit) if limit >= 0 else count
    afford(len(text) + count * len(new), MOST_CHARACTERS)
    return text.replace(old, new, count)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator == "":
        if 0 < limit < len(text):
            return [*text[: limit - 1], text[limit - 1 :]]
        return list(text)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def join(items: Any, separator: str = "") -> str:
    parts = elements(items)
    for part in parts:
        if part.__class__ is not str:
            raise EvaluationError(f"join: invalid input: {display(part)}")
    afford(sum(map(len, parts)) + len(separator) * len(parts), MOST_CHARACTERS)
    return separator.join(parts)


def quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


_S = STRING
STRINGS = Library(
    "strings",
    overloads=(
        ("charAt", method("string_char_at_int", (_S, INT), _S, char_at)),
        ("indexOf", method("string_index_of_string", (_S, _S), INT, index_of, costs.traversal)),
        ("indexOf", method("string_index_of_string_int", (_S, _S, INT), INT, index_of, costs.traversal)),
        ("lastIndexOf", method("string_last_index_of_string", (_S, _S), INT, last_index_of, costs.traversal)),
        (
            "lastIndexOf",
            method("string_last_index_of_string_int", (_S, _S, INT), INT, last_index_before, costs.traversal),
        ),
        ("lowerAscii", method("string_lower_ascii", (_S,), _S, lambda text: text.translate(_LOWER), costs.first_argument)),
        ("upperAscii", method("string_upper_ascii", (_S,), _S, lambda text: text.translate(_UPPER), costs.first_argument)),
        ("replace", method("string_replace_string_string", (_S, _S, _S), _S, replace, costs.first_argument_twice)),
        (
            "replace",
            method("string_replace_string_string_int", (_S, _S, _S, INT), _S, replace, costs.first_argument_twice),
        ),
        ("split", method("string_split_string", (_S, _S), list_type(_S), split, costs.first_argument_twice)),
        ("split", method("string_split_string_int", (_S, _S, INT), list_type(_S), split, costs.first_argument_twice)),
        ("substring", method("string_substring_int", (_S, INT), _S, substring, costs.first_argument)),
        ("substring", method("string_substring_int_int", (_S, INT, INT), _S, substring, costs.first_argument)),
        ("trim", method("string_trim", (_S,), _S, lambda text: text.strip(_GO_SPACE), costs.first_argument)),
        ("format", method("string_format", (_S, list_type(DYN)), _S, format_string, costs.first_argument)),
        ("strings.quote", overload("strings_quote", (_S,), _S, quote, cost=costs.first_argument)),
        ("join", method("list_join", (list_type(_S),), _S, join, costs.result_twice)),
        ("join", method("list_join_string", (list_type(_S), _S), _S, join, costs.result_twice)),
    ),
)
