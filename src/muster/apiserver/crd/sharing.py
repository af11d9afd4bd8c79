"""Things made from JSON, kept by content: a thousand clusters with the same definition share one compiled form.

Bounded; what was not asked for the longest goes first. Whoever holds a dropped thing keeps it, the next who asks makes it anew.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import orjson

T = TypeVar("T")


class ContentCache(Generic[T]):
    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[bytes, T] = OrderedDict()

    def get(self, content: Any, make: Callable[[], T]) -> T:
        """What was made for equal content before, else what `make` makes."""
        key = hashlib.blake2b(orjson.dumps(content), digest_size=20).digest()
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found
