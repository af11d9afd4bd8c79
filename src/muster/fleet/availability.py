"""Which clusters of a fleet are Available on the hub, and whether they stay so.

Fed with events of the hub's API (`saw`), it reports how many are Available, when the last wanted one first became so, and what was
lost since; it has no clock of its own.
"""

from __future__ import annotations

from collections.abc import Callable


class Availability:
    def __init__(self, wanted: int, arrived: Callable[[str], None] | None = None) -> None:
        """`arrived` is called with a cluster's name when it is Available for the first time."""
        self.wanted = wanted
        self.complete_at: float | None = None
        """When all were Available for the first time."""
        self.lowest = 0
        """The smallest number of Available clusters since then."""
        self.losses = 0
        """How often an Available cluster became unavailable."""
        self._states: dict[str, bool] = {}
        self._ever: set[str] = set()
        self._available = 0
        self._arrived = arrived

    @property
    def known(self) -> int:
        return len(self._states)

    @property
    def available(self) -> int:
        return self._available

    @property
    def kept(self) -> bool:
        """Whether all became Available and none was lost afterwards."""
        return self.complete_at is not None and self.lowest >= self.wanted

    def saw(self, name: str, available: bool, now: float) -> None:
        before = self._states.get(name, False)
        self._states[name] = available
        self._available += available - before
        if before and not available:
            self._lost()
        elif available and not before:
            self._won(name, now)

    def gone(self, name: str) -> None:
        if self._states.pop(name, False):
            self._available -= 1
            self._lost()

    def _lost(self) -> None:
        self.losses += 1
        if self.complete_at is not None:
            self.lowest = min(self.lowest, self._available)

    def _won(self, name: str, now: float) -> None:
        if self.complete_at is None and self._available >= self.wanted:
            self.complete_at = now
            self.lowest = self._available
        if name not in self._ever:
            self._ever.add(name)
            if self._arrived is not None:
                self._arrived(name)
