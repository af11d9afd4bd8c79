"""How deep an object may be nested. Deeper ones are refused where they enter, because everything after that walks them recursively.

The limit leaves room for what the server adds around an object before the encoder's own limit (254 levels).
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 200
EXCEEDED = "exceeded max depth"
_PATCH_ROOM = 40
"""Levels that fit between the two limits: fewer path steps than this cannot lead a patched object beyond the encoder's."""


def may_be_deep(text: bytes) -> bool:
    """Whether a JSON text has enough brackets to nest beyond the limit; most have not, and need no look."""
    return text.count(b"{") + text.count(b"[") > MAX_DEPTH


def patch_may_deepen(text: bytes) -> bool:
    """Whether a JSON patch has enough brackets and path steps to push an object beyond the limit."""
    return text.count(b"{") + text.count(b"[") + text.count(b"/") > _PATCH_ROOM


def too_deep(value: Any) -> bool:
    """Whether a value nests beyond the limit."""
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
