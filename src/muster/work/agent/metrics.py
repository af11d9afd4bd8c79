"""What `/metrics` of the work agent shows of works: how many there are by condition, and how long changes take to be applied.

A change is open from when the agent first sees a generation that is not applied until Applied is True for the present one; a work
that is changed again meanwhile stays open. Works that were applied before the agent started are not open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from muster.api import condition_of
from muster.api.work.v1 import ManifestWork
from muster.machinery.clock import Clock
from muster.machinery.metrics import Labels, Metrics
from muster.work.agent.completion import is_current
from muster.work.names import APPLIED, AVAILABLE

MEASURED: Final = (APPLIED, AVAILABLE)
"""Conditions by which works are counted."""
STATUSES: Final = ("True", "False", "Unknown")
BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class WorkMetrics:
    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._clock = clock
        self._statuses: dict[str, tuple[str, ...]] = {}
        """Statuses of `MEASURED`, by work, as they were after its last pass."""
        self._open: dict[str, float] = {}
        """When the first change of a work was seen that is not applied yet."""
        metrics.gauges("muster_manifestworks", "ManifestWorks by condition and its status.", self._read_statuses)
        metrics.gauge(
            "muster_manifestwork_oldest_change_seconds",
            "Age of the oldest change of a ManifestWork that is not applied, 0 if there is none.",
            self._oldest,
        )
        self._durations = metrics.histogram(
            "muster_manifestwork_apply_duration_seconds",
            "From when the agent sees a change of a ManifestWork until it is applied.",
            BUCKETS,
        )

    def changed(self, name: str, work: ManifestWork | None) -> None:
        """The work as the hub has it now; None if it is gone."""
        if work is None or work.metadata.deletion_timestamp:
            self._open.pop(name, None)
        elif not is_current(work.status.conditions, APPLIED, work.metadata.generation):
            self._open.setdefault(name, self._clock.monotonic())
        elif (since := self._open.pop(name, None)) is not None:
            self._durations.observe(self._clock.monotonic() - since)

    def reconciled(self, name: str, work: ManifestWork | None) -> None:
        if work is None:
            self._statuses.pop(name, None)
        else:
            found = [condition_of(work.status.conditions, kind) for kind in MEASURED]
            self._statuses[name] = tuple("Unknown" if one is None else one.status for one in found)
        self.changed(name, work)

    def _read_statuses(self) -> Iterable[tuple[Labels, float]]:
        counts = Counter(one for statuses in self._statuses.values() for one in zip(MEASURED, statuses, strict=True))
        return [((("condition", kind), ("status", status)), counts[kind, status]) for kind in MEASURED for status in STATUSES]

    def _oldest(self) -> float:
        return self._clock.monotonic() - min(self._open.values()) if self._open else 0.0
