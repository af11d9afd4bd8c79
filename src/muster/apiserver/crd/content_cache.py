"""An LRU cache of values that are computed from JSON, keyed by content: a thousand clusters with the same CRD share one compiled
form.

The size is limited. Callers keep values that are evicted; the next caller computes them again.
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
        self._entries: OrderedDict[bytes, T] = OrderedDict()
        self._lock = Lock()

    def get(self, content: Any, create: Callable[[], T]) -> T:
        """The cached value for equal content, else the result of `create`."""
        key = hashlib.blake2b(orjson.dumps(content), digest_size=20).digest()
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                return found
        created = create()  # Without the lock: computing one value may need others.
        with self._lock:
            self._entries[key] = created
            if len(self._entries) > self._size:
                self._entries.popitem(last=False)
        return created
