"""How long the parts of a choice take, for whoever wants to know: choosing itself is a pure function and knows no clock."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Literal, Protocol

PluginType = Literal["filter", "prioritizer"]


class Stopwatch(Protocol):
    """Measures what is done inside the contexts that it gives."""

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
