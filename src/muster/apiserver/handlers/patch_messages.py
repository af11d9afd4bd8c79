"""How an answer shows the result of a patch that led to no object of its type.

The real server keeps a document as raw text and opens only the levels a JSON or merge patch touches: those come out with sorted
keys, all others in the order of their Go types. A strategic patch works on Go maps, which print themselves.
"""

from __future__ import annotations

from typing import Any

import orjson

from muster.apiserver.object_meta import in_type_order
from muster.apiserver.registry.patch_types import MERGE_PATCH, STRATEGIC_PATCH
from muster.machinery.golang import formatting
from muster.machinery.objects import Object


def shown_result(media: str, result: Object, patch: Any) -> str:
    if media == STRATEGIC_PATCH:
        return formatting.text(patch)
    meta = result.get("metadata")
    if isinstance(meta, dict):
        result = {**result, "metadata": in_type_order(meta)}
    touched = patch if media == MERGE_PATCH else _touched(patch)
    return orjson.dumps(_opened(result, touched)).decode()


def _opened(value: Any, touched: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(touched, dict):
        return value
    return {key: _opened(value[key], touched.get(key)) for key in sorted(value)}


def _touched(operations: list[Object]) -> dict[str, Any]:
    """The levels a JSON patch opens, as the nested keys of a merge patch that opens the same."""
    root: dict[str, Any] = {}
    for operation in operations:
        level = root
        for part in str(operation.get("path", "")).split("/")[1:-1]:
            level = level.setdefault(part, {})
    return root
