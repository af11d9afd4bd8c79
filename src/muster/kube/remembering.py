"""Results of pure functions of a short text, kept for the next time.

A plain `lru_cache` bounds how many results it keeps, not how large they are: a client that sends thousands of different long texts
would fill the memory through it. Texts longer than usual are worked out each time instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def remembered(size: int, longest: int = 256) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keeps up to `size` results for texts (the first argument) of up to `longest` characters or bytes."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kept = lru_cache(maxsize=size)(function)

        @wraps(function)
        def ask(*arguments: P.args, **named: P.kwargs) -> R:
            return (kept if len(arguments[0]) <= longest else function)(*arguments, **named)  # type: ignore[arg-type]

        return ask

    return decorate
