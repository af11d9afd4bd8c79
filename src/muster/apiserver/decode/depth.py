"""The limit for the nesting depth of objects. Deeper ones are rejected on decoding, because later steps are recursive.

The limit leaves room for what the server adds around an object before the limit of the encoder (254 levels).
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 200
EXCEEDED = "exceeded max depth"
_PATCH_MARGIN = 40
"""The difference between the two limits: a patch with fewer path steps cannot exceed that of the encoder."""


def may_be_deep(text: bytes) -> bool:
    """Whether a JSON text has enough brackets to exceed the limit; most do not and need no further check."""
    return text.count(b"{") + text.count(b"[") > MAX_DEPTH


def patch_may_deepen(text: bytes) -> bool:
    """Whether a JSON patch has enough brackets and path steps to let an object exceed the limit."""
    return text.count(b"{") + text.count(b"[") + text.count(b"/") > _PATCH_MARGIN


def too_deep(value: Any) -> bool:
    """Whether the nesting of a value exceeds the limit."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return False
        level = [item for item in inner if isinstance(item, dict | list)]
    return bool(level)
