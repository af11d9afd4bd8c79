"""Results of pure functions of a short text, kept for the next time.

A plain `lru_cache` bounds how many results it keeps, not how large they are: a client that sends thousands of different long texts
would fill the memory through it. Texts longer than usual are worked out each time instead. These functions are asked several times
by every request, so a result that is known costs a look into a dict and no call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


class _Results(dict[Any, Any]):
    """By text. When there are too many all go: those that are in use come back at once."""

    def __init__(self, function: Callable[[Any], Any], size: int, longest: int) -> None:
        self._function = function
        self._size = size
        self._longest = longest

    def __missing__(self, text: Any) -> Any:
        result = self._function(text)
        if len(text) <= self._longest:
            if len(self) >= self._size:
                self.clear()
            self[text] = result
        return result


def remembered(size: int, longest: int = 256) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keeps up to `size` results for texts (the first argument) of up to `longest` characters or bytes."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if len(signature(function).parameters) == 1:
            return cast(Callable[P, R], _Results(cast(Callable[[Any], Any], function), size, longest).__getitem__)
        kept = lru_cache(maxsize=size)(function)

        @wraps(function)
        def ask(*arguments: P.args, **named: P.kwargs) -> R:
            return (kept if len(arguments[0]) <= longest else function)(*arguments, **named)  # type: ignore[arg-type]

        return ask

    return decorate
