"""Which values a field of a built-in type may have, where its Go type is an enumeration.

The published OpenAPI documents leave them out, the served ones have them: the API server's generated definitions say them. Only the
values are read, by the indentation of that generated file; its prose is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FILE = "pkg/generated/openapi/zz_generated.openapi.go"
_FUNCTION = re.compile(r"func schema_(\w+)\(ref ")
_PROPERTY = re.compile(r'(\t+)"([^"]+)": \{$')
_NESTED = re.compile(r"(\t+)(Items|AdditionalProperties): ")
_ENUM = re.compile(r"(\t+)Enum:\s+\[\]interface\{\}\{(.*)\},$")
_INSIDE = {"Items": "items", "AdditionalProperties": "additionalProperties"}


def add_enums(schemas: dict[str, Any], kubernetes: Path) -> None:
    """Put `enum` into the schemas of fields that have one."""
    by_function = {"_".join(name.split(".")[-3:]): name for name in schemas}
    for function, path, values in _found((kubernetes / _FILE).read_text()):
        name = by_function.get("_".join(function.split("_")[-3:]))
        node = schemas.get(name, {}) if name is not None else {}
        for part, is_property in path:
            node = node.get("properties", {}).get(part, {}) if is_property else node.get(_INSIDE[part], {})
        if node.get("type") == "string":
            node["enum"] = values


def _found(text: str) -> Iterator[tuple[str, list[tuple[str, bool]], list[str]]]:
    """(function, way to the field, values): each step of the way is a property or what is inside a list or map."""
    function = ""
    way: list[tuple[int, str, bool]] = []
    for line in text.splitlines():
        if started := _FUNCTION.match(line):
            function, way = started[1], []
            continue
        step = _PROPERTY.match(line) or _NESTED.match(line)
        if step is not None:
            depth = len(step[1])
            way = [each for each in way if each[0] < depth]
            way.append((depth, step[2], step.re is _PROPERTY))
        elif found := _ENUM.match(line):
            depth = len(found[1])
            path = [(part, is_property) for at, part, is_property in way if at < depth]
            yield function, path, re.findall(r'"([^"]*)"', found[2])
