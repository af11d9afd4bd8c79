"""Objects as the bytes that Go's encoding/json would write: a whole float is written without a fraction.

A Go server reads `1e3` as a float and writes it back as `1000`, whatever the schema says, so no client ever sees `1000.0` where
an integer is expected. Only what is written matters: inside the server 1000 and 1000.0 are equal. Almost no object has a whole
float, so the bytes are searched first, and only those that seem to have one are written a second time.

Follows encoding/json `floatEncoder`: no exponent between 1e-6 and 1e21, and minus zero is read back as zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import orjson

_LARGEST: Final = 1e21
_INT64: Final = 2.0**63
_WHOLE: Final = re.compile(rb"\.0[,\]}]")
_EXPONENT: Final = re.compile(rb"e\+?[0-9]+[,\]}]")


def dumps(value: dict[str, Any]) -> bytes:
    data = orjson.dumps(value)
    # A single byte is found many times faster than two, and most objects have none of these.
    if (b"." in data and b".0" in data and _WHOLE.search(data)) or (b"+" in data and b"e+" in data and _EXPONENT.search(data)):
        return orjson.dumps(_with_whole_numbers(value))
    return data


def make_numbers_whole(value: Any) -> None:
    """Turn whole floats inside a document into integers, for ways into the server that decode a document from Go's own encoding."""
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
        # Beyond 64 bits orjson writes no integers.
        return orjson.Fragment(str(int(Decimal(repr(value)))).encode())
    return value
