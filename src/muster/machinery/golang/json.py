"""JSON in Go's encoding: whole floats without a fraction, and `<`, `>` and `&` in strings escaped. Follows Go's `encoding/json`.

A Go server reads `1e3` as a float and writes it back as `1000`, whatever the schema, so no client ever gets `1000.0` where an
integer is expected. Only the output matters: inside the server 1000 and 1000.0 are equal. Almost no object has a whole float, so
the bytes are searched first, and only those that seem to have one are encoded again. As with `floatEncoder`, numbers from 1e-6 to
1e21 have no exponent, and minus zero becomes zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import orjson

_LARGEST: Final = 1e21
_SMALLEST: Final = 1e-6
_ORJSON_SMALLEST: Final = 1e-5
"""Below this orjson writes an exponent."""
_INT64: Final = 2.0**63
_WHOLE: Final = re.compile(rb"\.0[,\]}]")
_EXPONENT: Final = re.compile(rb"e\+?[0-9]+[,\]}]")
HTML_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_needs_escapes = re.compile("[<>&\u2028\u2029]").search


def dumps(value: dict[str, Any]) -> bytes:
    """An object's bytes, with keys in their order and nothing escaped."""
    return _go_numbers(value, orjson.dumps(value))


_STEP: Final = 4_000
"""Members of a list or a map that are encoded at once."""
_FEW: Final = 64
"""Members that are checked one by one for long lists and maps below them."""


def dumps_in_steps(value: dict[str, Any]) -> bytes:
    """The same for a large object, in a thread: other threads need not wait until all of it is encoded."""
    pieces: list[bytes] = []
    _write(value, pieces.append)
    return _go_numbers(value, b"".join(pieces))


def _write(value: Any, write: Callable[[bytes], None]) -> None:
    if value.__class__ is dict and value:
        before, after = b"{", b"}"
        if len(value) <= _FEW:
            for name, item in value.items():
                write(before + orjson.dumps(name) + b":")
                _write(item, write)
                before = b","
        else:
            members = iter(value.items())
            while step := dict(islice(members, _STEP)):
                write(before + orjson.dumps(step)[1:-1])
                before = b","
    elif value.__class__ is list and value:
        before, after = b"[", b"]"
        if len(value) <= _FEW:
            for item in value:
                write(before)
                _write(item, write)
                before = b","
        else:
            for start in range(0, len(value), _STEP):
                write(before + orjson.dumps(value[start : start + _STEP])[1:-1])
                before = b","
    else:
        after = orjson.dumps(value)
    write(after)


def _go_numbers(value: dict[str, Any], data: bytes) -> bytes:
    # A single byte is found many times faster than two, and most objects have none of these.
    if (b"." in data and b".0" in data and _WHOLE.search(data)) or (b"+" in data and b"e+" in data and _EXPONENT.search(data)):
        return orjson.dumps(_with_whole_numbers(value))
    return data


def make_numbers_whole(value: Any) -> None:
    """Convert whole floats inside a document to integers, for documents that were decoded from another encoding than JSON."""
    items: Iterable[tuple[Any, Any]] = value.items() if value.__class__ is dict else enumerate(value)
    for name, item in items:
        if item.__class__ is float:
            if item.is_integer() and abs(item) < _INT64:
                value[name] = int(item)
        elif item.__class__ is dict or item.__class__ is list:
            make_numbers_whole(item)


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_whole_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST:
        # orjson encodes no integers beyond 64 bits.
        return orjson.Fragment(str(int(Decimal(repr(value)))).encode())
    if isinstance(value, float) and _SMALLEST <= abs(value) < _ORJSON_SMALLEST:
        return orjson.Fragment(f"{Decimal(repr(value)):f}".encode())
    return value


def encode_json(value: Any) -> str:
    """Compact JSON with sorted keys, and `<`, `>`, `&` escaped inside strings (nothing else in JSON can contain them)."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    if ".0" in text or "e+" in text or "e-6" in text:
        text = orjson.dumps(_with_whole_numbers(value), option=orjson.OPT_SORT_KEYS).decode()
    return text.translate(HTML_ESCAPES) if _needs_escapes(text) else text
