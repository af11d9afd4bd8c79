"""Measures the parts of scheduling: scheduling itself is a pure function without a clock."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Literal, Protocol

PluginType = Literal["filter", "prioritizer"]


class Stopwatch(Protocol):
    """Measures the contexts that it returns."""

    def plugin(self, kind: PluginType, name: str) -> AbstractContextManager[None]: ...

    def expressions(self) -> AbstractContextManager[None]:
        """The CEL expressions of one placement, over all clusters."""
        ...


class _Nobodys:
    def plugin(self, kind: PluginType, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def expressions(self) -> AbstractContextManager[None]:
        return nullcontext()


UNMEASURED: Final[Stopwatch] = _Nobodys()
