"""Values that somebody hostile writes: every JSON type, for every field of a schema, as JSON text that is sent as it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

VALUES: Final = (
    "null",
    "true",
    "0",
    "-1",
    "1e3",
    "1000.0",
    "1.5",
    "-0.0",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "1e20",
    '""',
    '"True"',
    '"' + "x" * 5000 + '"',
    r'"\u001b[31m\u0000\n"',
    '"0001-01-01T00:00:00Z"',
    '"9999-12-31T23:59:59Z"',
    "[]",
    "[[]]",
    "[null]",
    "{}",
    '{"a":{"b":[]}}',
)

Path = tuple[str | int, ...]
"""Field names; 0 for an element of a list."""
KEY: Final = "cpu"
"""Stands for any key of a map."""


def fields(schema: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    """Every field that a schema names, outer ones first."""
    if path:
        yield path
    for name, below in (schema.get("properties") or {}).items():
        yield from fields(below, (*path, name))
    if schema.get("type") == "array":
        yield from fields(schema["items"], (*path, 0))
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from fields(schema["additionalProperties"], (*path, KEY))


def written(schema: Mapping[str, Any], path: Path, value: str) -> str:
    """JSON with the value at the path, and whatever else the schema requires around it."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if step == 0:
        return f"[{written(schema['items'], rest, value)}]"
    properties: Mapping[str, Any] = schema.get("properties") or {}
    below = properties[str(step)] if step in properties else schema["additionalProperties"]
    parts = {name: json.dumps(_sample(properties[name])) for name in schema.get("required") or () if name in properties}
    parts[str(step)] = written(below, rest, value)
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in parts.items()) + "}"


def _sample(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    simple = {"string": "a", "integer": 1, "boolean": True, "array": [], "number": 1}
    if schema.get("type") in simple:
        return simple[schema["type"]]
    properties: Mapping[str, Any] = schema.get("properties") or {}
    return {name: _sample(properties[name]) for name in schema.get("required") or ()}
