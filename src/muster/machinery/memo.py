"""Results of pure functions of a short text, kept for the next time.

A plain `lru_cache` bounds how many results it keeps, not how large they are: a client that sends thousands of different long texts
would fill the memory through it. Texts longer than usual are worked out each time instead. These functions are asked several times
by every request, so a result that is known costs a look into a dict and no call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", str, bytes)
R = TypeVar("R")


class _Results(dict[T, R]):
    """By text. When there are too many all go: those that are in use come back at once."""

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
    """Keeps up to `size` results for texts of up to `longest` characters or bytes."""

    def decorate(function: Callable[[T], R]) -> Callable[[T], R]:
        return _Results(function, size, longest).__getitem__

    return decorate
