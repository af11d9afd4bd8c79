"""Metrics of the agent's side, with upstream's names: events in both directions, reconnections, and durations of resyncs.

Labels are few: one client has one cluster, and the data types of the rows.
"""

from __future__ import annotations

from muster.machinery.metrics import Metrics


class ClientMetrics:
    def __init__(self, metrics: Metrics | None, source: str) -> None:
        self._metrics = metrics or Metrics()
        self._source = source

    def received(self, data_type: str) -> None:
        self._metrics.counter("cloudevents_received_total", "CloudEvents received", data_type=data_type).inc()

    def sent(self, data_type: str) -> None:
        self._metrics.counter("cloudevents_sent_total", "CloudEvents sent", data_type=data_type).inc()

    def reconnected(self) -> None:
        name, text = "cloudevents_client_reconnected_total", "Streams that were opened again"
        self._metrics.counter(name, text, client_id=self._source).inc()

    def left_out(self, data_type: str) -> None:
        """An event that could not be decoded (ours)."""
        self._metrics.counter("muster_cloudevents_left_out_total", "CloudEvents not understood", data_type=data_type).inc()

    def resynced(self, data_type: str, seconds: float) -> None:
        name, text = "resources_spec_resync_duration_seconds", "From the request to the end of a resync"
        self._metrics.histogram(name, text, data_type=data_type).observe(seconds)
