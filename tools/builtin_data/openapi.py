"""Component schemas of the served groups from the published OpenAPI v3 documents, without descriptions.

References are shortened to their target name by keeping `$ref` as published, so that documents served to clients can use the nodes
as they are. `default: {}` on structs and empty strings say nothing to any reader and are left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .enums import add_enums
from .served import GROUP_VERSIONS, document

_EXTENSIONS = frozenset({"x-kubernetes-unions"})


def _stripped(node: Any, in_properties: bool = False) -> Any:
    if isinstance(node, list):
        return [_stripped(item) for item in node]
    if not isinstance(node, dict):
        return node
    if in_properties:
        return {name: _stripped(child) for name, child in node.items()}
    found = {
        key: _stripped(value, key == "properties")
        for key, value in node.items()
        if key not in _EXTENSIONS
        and not (key == "description" and isinstance(value, str))
        and not (key == "default" and value in ({}, ""))
    }
    reference = found.get("allOf")
    if reference is not None and len(found) == 1 and len(reference) == 1:
        return reference[0]
    return found


def collect(kubernetes: Path) -> dict[str, Any]:
    """Schemas by definition name."""
    schemas: dict[str, Any] = {}
    for group, version in GROUP_VERSIONS:
        path = kubernetes / "api/openapi-spec/v3" / f"{document(group, version)}_openapi.json"
        for name, schema in json.loads(path.read_text())["components"]["schemas"].items():
            held = schemas.get(name)
            fresh = _stripped(schema)
            kinds = "x-kubernetes-group-version-kind"
            if held is not None and kinds in held:
                merged = held[kinds] + [kind for kind in fresh.get(kinds, []) if kind not in held[kinds]]
                fresh[kinds] = sorted(merged, key=lambda kind: (kind["group"], kind["version"], kind["kind"]))
            schemas[name] = fresh
    add_enums(schemas, kubernetes)
    return dict(sorted(schemas.items()))
