"""Odd values and small damage: what a hostile or broken client puts where something sensible belongs.

Everything draws from one `random.Random`, so a seed is a run.
"""

from __future__ import annotations

import random
from typing import Any

ODD_STRINGS = [
    "",
    " ",
    "\x00",
    "\x7f",
    "\ud7ff",
    "\ufeff",
    "\U0001f600",
    "a" * 64,
    "a" * 254,
    "é" * 300,
    "../../etc/passwd",
    "%2e%2e%2f",
    "-",
    "_",
    "A",
    "a.b",
    "a..b",
    ".a",
    "a-",
    "1",
    "0",
    "-1",
    "1e9999",
    "NaN",
    "null",
    "true",
    "100%",
    "-5%",
    "1Gi",
    "1e40Gi",
    "0.0000000001n",
    "999999999999999999999E",
    "2026-11-15T10:00:00Z",
    "2026-13-45T99:99:99Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:60.999999999+23:59",
    "127.0.0.1",
    "::ffff:1.2.3.4",
    "10.0.0.0/33",
    "https://127.0.0.1:1/",
    "($.a",
    "{.a[*]}",
    "(a+)+$",
    "[[:alpha:]",
    "\\p{Greek}",
    "self.x > 1",
    "self.all(x, self.all(y, x == y))",
    "a in (b,c)",
    "a notin ()",
    "!a",
    "a=b,",
    "metadata.name=f0",
    "dGV4dA==",
    "====",
    "$patch",
    "$setElementOrder/containers",
    "x" * 5000,
]
ODD_NUMBERS = [0, 1, -1, 2, 255, 65536, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, -(2**63), 0.5, -0.0, 1e300, 1e-300]
KEYS = [
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
    "generateName",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "spec",
    "status",
    "data",
    "kind",
    "apiVersion",
    "items",
    "$patch",
    "$retainKeys",
    "$setElementOrder/ports",
    "$deleteFromPrimitiveList/finalizers",
    "f:metadata",
    "k:{",
    "",
    "a" * 400,
]


def odd_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind < 2:
        return rng.choice(ODD_STRINGS)
    if kind == 2:
        return rng.choice(ODD_NUMBERS)
    if kind == 3:
        return rng.choice((True, False, None))
    if kind == 4:
        return {}
    if kind == 5:
        return []
    if kind == 6:
        return [odd_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {rng.choice(KEYS + ODD_STRINGS): odd_value(rng, depth + 1) for _ in range(rng.randrange(4))}
    return nested(rng.choice((10, 60, 200)), rng.random() < 0.5)


def nested(depth: int, lists: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return value


def damaged(rng: random.Random, value: Any, damage: int = 2) -> Any:
    """A copy of a JSON value with about `damage` nodes replaced, dropped, renamed or doubled."""
    places = list(_places(value))
    chosen = {places[rng.randrange(len(places))] for _ in range(damage)} if places else set()
    return _rebuilt(rng, value, (), chosen)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*path, index))


def _rebuilt(rng: random.Random, value: Any, path: tuple[Any, ...], chosen: set[tuple[Any, ...]]) -> Any:
    if path in chosen and (path or rng.random() < 0.1):
        if isinstance(value, dict) and rng.random() < 0.3:
            return {**value, rng.choice(KEYS + ODD_STRINGS): odd_value(rng)}
        if isinstance(value, list) and value and rng.random() < 0.5:
            return value * rng.choice((0, 2, 3, 50))
        return odd_value(rng)
    if isinstance(value, dict):
        kept = {key: _rebuilt(rng, inner, (*path, key), chosen) for key, inner in value.items()}
        if kept and rng.random() < 0.03:
            kept.pop(rng.choice(list(kept)))
        return kept
    if isinstance(value, list):
        return [_rebuilt(rng, inner, (*path, index), chosen) for index, inner in enumerate(value)]
    return value


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bytes with a few flipped, cut, repeated or inserted."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if not out:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(64)))
        at = rng.randrange(len(out))
        how = rng.randrange(6)
        if how == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            out[at] = rng.choice((0, 0x7F, 0x80, 0xFF, 0x22, 0x5B, 0x7B, 0x2C))
        elif how == 2:
            del out[at : at + rng.randrange(1, 32)]
        elif how == 3:
            out[at:at] = out[at : at + rng.randrange(1, 64)]
        elif how == 4:
            out[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 16)))
        else:
            del out[at:]
    return bytes(out)
