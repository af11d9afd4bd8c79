"""A cache for pure functions of a short text.

A plain `lru_cache` bounds the number of results, not their size: a client that sends thousands of different long texts could
exhaust memory. Results for longer texts are not cached. These functions are called several times by every request, so a cached
result costs a dict lookup and no call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", str, bytes)
R = TypeVar("R")


class _Results(dict[T, R]):
    """By text. If there are too many, all are dropped: those in use are computed again at once."""

    def __init__(self, function: Callable[[T], R], size: int, longest: int) -> None:
        self._function: Callable[[T], R] = function
        self._size = size
        self._longest = longest

    def __missing__(self, text: T) -> R:
        result = self._function(text)
        if len(text) <= self._longest:
            if len(self) >= self._size:
                self.clear()
            self[text] = result
        return result


def memoized(size: int, longest: int = 256) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """Caches up to `size` results for texts of up to `longest` characters or bytes."""

    def decorate(function: Callable[[T], R]) -> Callable[[T], R]:
        return _Results(function, size, longest).__getitem__

    return decorate
