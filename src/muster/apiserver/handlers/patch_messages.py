"""How error messages show the result of a patch that is not a valid object of its type.

kube-apiserver keeps the document as raw JSON and decodes only the levels that a JSON or merge patch touches: these are printed with
sorted keys, all others in the order of their Go types. A strategic merge patch works on Go maps, which are printed by Go's
formatting.
"""

from __future__ import annotations

from typing import Any

import orjson

from muster.apiserver.object_meta import in_type_order
from muster.apiserver.registry.patch_types import MERGE_PATCH, STRATEGIC_PATCH
from muster.machinery.golang import formatting
from muster.machinery.objects import Object


def format_result(media: str, result: Object, patch: Any) -> str:
    if media == STRATEGIC_PATCH:
        return formatting.text(patch)
    meta = result.get("metadata")
    if isinstance(meta, dict):
        result = {**result, "metadata": in_type_order(meta)}
    touched = patch if media == MERGE_PATCH else _touched_levels(patch)
    return orjson.dumps(_sort_levels(result, touched)).decode()


def _sort_levels(value: Any, touched: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(touched, dict):
        return value
    return {key: _sort_levels(value[key], touched.get(key)) for key in sorted(value)}


def _touched_levels(operations: list[Object]) -> dict[str, Any]:
    """The levels that a JSON patch touches, as nested keys in the form of a merge patch."""
    root: dict[str, Any] = {}
    for operation in operations:
        level = root
        for part in str(operation.get("path", "")).split("/")[1:-1]:
            level = level.setdefault(part, {})
    return root
