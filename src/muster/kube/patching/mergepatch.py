"""JSON merge patch (RFC 7386) as Kubernetes applies it: null deletes, maps merge, anything else replaces.

One difference from the RFC is the server's: where a patch value replaces something that is not a map, nulls are dropped inside it
even below lists. Neither argument is changed; untouched parts of the document are shared with the result.
"""

from __future__ import annotations

from typing import Any


def apply_merge_patch(document: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch if isinstance(document, dict) else _without_nulls(patch)
    if not isinstance(document, dict):
        return _without_nulls(patch)
    merged = dict(document)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged


def _without_nulls(value: Any) -> Any:
    """Nulls as map values vanish; nulls as list items stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
