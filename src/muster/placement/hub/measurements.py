"""Metrics of the placement controller, with upstream's names: durations of scheduling as a whole, per plugin, of expressions, and
of writing the result.

All addon scores count as one plugin: their number is up to placements, and a series for each would be kept for the lifetime of the
controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from muster.machinery.clock import Clock
from muster.machinery.metrics import Histogram, Metrics
from muster.placement.prioritizers.addon import PREFIX as ADDON
from muster.placement.stopwatch import PluginType

NAME: Final = "placement_scheduling"
BUCKETS: Final = (0.000001, 0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


class Measurements:
    """A Stopwatch."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._choosing = self._histogram("scheduling_duration_seconds", "How long in seconds a choice takes")
        self._binding = self._histogram("bind_duration_seconds", "How long in seconds writing decisions takes")
        self._expressions = self._histogram(
            "cel_runtime_duration_seconds", "How long in seconds the expressions of a placement take on all clusters"
        )

    @property
    def choices(self) -> int:
        """The number of scheduling runs."""
        return self._choosing.count

    def choice(self) -> AbstractContextManager[None]:
        return self._measured(self._choosing)

    def binding(self) -> AbstractContextManager[None]:
        return self._measured(self._binding)

    def expressions(self) -> AbstractContextManager[None]:
        return self._measured(self._expressions)

    def plugin(self, kind: PluginType, name: str) -> AbstractContextManager[None]:
        labels = {"plugin_type": kind, "plugin_name": "AddOn" if name.startswith(ADDON) else name}
        return self._measured(self._histogram("plugin_duration_seconds", "How long in seconds a plugin takes", **labels))

    def _histogram(self, name: str, text: str, **labels: str) -> Histogram:
        return self._metrics.histogram(f"scheduling_{name}", text, BUCKETS, name=NAME, **labels)

    @contextmanager
    def _measured(self, histogram: Histogram) -> Iterator[None]:
        """Failures are not counted."""
        began = self._clock.monotonic()
        yield
        histogram.observe(self._clock.monotonic() - began)
