"""How often what agents say of their drivers takes something away on the hub.

A cluster's agent names the driver of an addon's credential in a status that it may write as often as it likes. What a driver is
named for is given at once; what it is no longer named for is taken away at once, too, but only so many times in a while: after
that it stays until the while is over, as under a stabilization window of a HorizontalPodAutoscaler. So an agent that names drivers
to and fro makes the hub write a bounded number of objects, and none of its own credentials waits for it. What stays longer are
rights of an identity that is the agent's own, which it could name again at any time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from muster.machinery.clock import Clock
from muster.machinery.objects import ObjectKey

REMOVALS: Final = 4
"""How many times in a window something is taken away at once. A change of the driver that is well is one."""
WINDOW: Final = 600.0
"""Seconds."""


@dataclass(slots=True)
class _History:
    kept: tuple[str, ...]
    removals: tuple[float, ...] = ()
    """When the latest were."""


class DriverChanges:
    """Of the addons of one controller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._histories: dict[ObjectKey, _History] = {}

    def settle(self, addon: ObjectKey, named: Collection[str]) -> tuple[tuple[str, ...], float | None]:
        """The drivers that count, those that are named first; and in how many seconds to look again, if others stay."""
        now = self._clock.monotonic()
        history = self._histories.setdefault(addon, _History(()))
        wanted = tuple(named)
        surplus = tuple(driver for driver in history.kept if driver not in wanted)
        if surplus:
            recent = tuple(time for time in history.removals if now - time < WINDOW)
            if len(recent) >= REMOVALS:
                history.kept = wanted + surplus
                return history.kept, recent[0] + WINDOW - now
            history.removals = (*recent, now)
        history.kept = wanted
        return wanted, None

    def forget(self, addon: ObjectKey) -> None:
        """It is gone."""
        self._histories.pop(addon, None)
