"""Things made from JSON, kept by content: a thousand clusters with the same definition share one compiled form.

Bounded; what was not asked for the longest goes first. Whoever holds a dropped thing keeps it, the next who asks makes it anew.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

import orjson

T = TypeVar("T")


class ContentCache(Generic[T]):
    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[bytes, T] = OrderedDict()
        self._lock = Lock()

    def get(self, content: Any, make: Callable[[], T]) -> T:
        """What was made for equal content before, else what `make` makes."""
        key = hashlib.blake2b(orjson.dumps(content), digest_size=20).digest()
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = make()  # Without the lock: making one thing may take making others.
        with self._lock:
            self._kept[key] = made
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return made
