"""JSON merge patch (RFC 7386) as Kubernetes applies it: null deletes, maps merge, anything else replaces.

One difference from the RFC is the server's: if a patch value replaces something that is not a map, nulls are dropped inside it even
below lists. No argument is changed; untouched parts of the document are shared with the result. `apply_merge_patch` reproduces the
difference computed by `merge_patch_between`; only nulls in maps cannot be expressed, and count as absent in the new document.
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


def merge_patch_between(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The smallest patch that turns `old` into `new`; empty when nothing differs. Lists that differ are replaced as a whole."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if before is value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            if below := merge_patch_between(before, value):
                patch[key] = below
        elif not _same(before, value):
            patch[key] = value
    return patch


def _same(old: Any, new: Any) -> bool:
    """Equal as JSON: in Python, True == 1 and 1 == 1.0."""
    if old is new:
        return True
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(old[key], value) for key, value in new.items())
    return type(old) is type(new) and bool(old == new)
