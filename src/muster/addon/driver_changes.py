"""Limits how often an agent's changes of its registration driver remove objects on the hub.

A cluster's agent sets the driver of an addon's credential in a status that it may write as often as it likes. Objects for a new
driver are created at once; those for the former driver are removed at once too, but only a limited number of times per window:
after that they stay until the window is over, as with a stabilization window of a HorizontalPodAutoscaler. So an agent that
alternates drivers causes a bounded number of writes, and none of its own credentials is delayed. What remains longer are
permissions of the agent's own identity, which it could get again at any time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from muster.machinery.clock import Clock
from muster.machinery.objects import ObjectKey

REMOVALS: Final = 4
"""Removals per window that are done at once. One change of the driver causes one."""
WINDOW: Final = 600.0
"""Seconds."""


@dataclass(slots=True)
class _History:
    kept: tuple[str, ...]
    removals: tuple[float, ...] = ()
    """The times of the latest removals."""


class DriverChanges:
    """For the addons of one controller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._histories: dict[ObjectKey, _History] = {}

    def settle(self, addon: ObjectKey, named: Collection[str]) -> tuple[tuple[str, ...], float | None]:
        """The current drivers, the configured ones first; and the seconds until the next check, if former ones stay."""
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
        """The addon is deleted."""
        self._histories.pop(addon, None)
