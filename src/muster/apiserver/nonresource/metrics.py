"""Metrics of the API server, with the names of Kubernetes' metrics, so that existing dashboards work.

A request only increments a counter and a histogram that it finds by its attributes; all other values are read when /metrics is
scraped.
"""

from __future__ import annotations

import gc
import resource as usage_limits
import time
from collections.abc import Mapping
from typing import Final, Protocol

from muster.apiserver.cluster import Cluster
from muster.apiserver.fairness import FairQueue
from muster.apiserver.long_running_requests import OpenRequests
from muster.apiserver.registry.resource import ServedResource
from muster.machinery import metrics
from muster.machinery.authorization import AccessAttributes
from muster.machinery.metrics import Counter, Histogram, Metrics
from muster.store.api import Store

_BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0),
    *(3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
CONTENT_TYPE: Final = f"{metrics.CONTENT_TYPE}; escaping=underscores"


class RequestMetrics:
    """The counters and histograms of requests, registered in `metrics`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._counted: dict[tuple[str, str, str, str, str, int], tuple[Counter, Histogram | None]] = {}

    def count(self, attributes: AccessAttributes, resource: ServedResource | None, code: int, seconds: float) -> None:
        """Count a request. One for an unserved resource is counted by verb only, because clients can invent any number of names."""
        verb, subresource = attributes.verb, attributes.subresource
        if resource is not None and (not subresource or subresource in resource.subresources):
            key = (verb, attributes.group, attributes.version, attributes.resource, subresource, code)
        else:
            key = (verb, "", "", "", "", code)
        counted = self._counted.get(key)
        if counted is None:
            counted = self._counted[key] = self._members(*key)
        requests, durations = counted
        requests.value += 1
        if durations is not None:
            durations.observe(seconds)

    def _members(
        self, verb: str, group: str, version: str, resource: str, subresource: str, code: int
    ) -> tuple[Counter, Histogram | None]:
        """The counter and the histogram for these labels; watches have no histogram, because their durations say nothing."""
        labels = {
            "verb": verb.upper(),
            "group": group,
            "version": version,
            "resource": resource,
            "subresource": subresource,
            "component": "apiserver",
        }
        requests = self._metrics.counter("apiserver_request_total", "", **labels, code=str(code))
        if verb == "watch":
            return requests, None
        return requests, self._metrics.histogram("apiserver_request_duration_seconds", "", _BUCKETS, **labels)


class _Controllers(Protocol):
    @property
    def backlog(self) -> int: ...


class MeasuredServer(Protocol):
    """What is read from a server when metrics are scraped."""

    @property
    def fairness(self) -> FairQueue: ...
    @property
    def clusters(self) -> Mapping[str, Cluster]: ...
    @property
    def store(self) -> Store: ...
    @property
    def controllers(self) -> _Controllers: ...


class ServerMetrics(RequestMetrics):
    """All metrics of a server."""

    def __init__(self, server: MeasuredServer) -> None:
        super().__init__(Metrics())
        self._read(server)

    def render(self) -> bytes:
        return self._metrics.render()

    def _read(self, server: MeasuredServer) -> None:
        started = time.time()
        gauge, counter_of = self._metrics.gauge, self._metrics.counter_of
        gauge("apiserver_current_inflight_requests", "", lambda: server.fairness.in_flight)
        gauge("apiserver_current_inqueue_requests", "", lambda: server.fairness.waiting)
        counter_of("apiserver_rejected_requests_total", "", lambda: server.fairness.rejected)
        gauge("apiserver_longrunning_requests", "", lambda: sum(len(one.part(OpenRequests)) for one in server.clusters.values()))
        gauge("muster_clusters", "", lambda: len(server.clusters))
        gauge("muster_store_revision", "", lambda: server.store.revision)
        gauge("muster_controller_backlog", "", lambda: server.controllers.backlog)
        counter_of("process_cpu_seconds_total", "", time.process_time)
        gauge("process_max_resident_memory_bytes", "", lambda: usage_limits.getrusage(usage_limits.RUSAGE_SELF).ru_maxrss * 1024)
        gauge("process_start_time_seconds", "", lambda: started)
        counter_of("python_gc_collections_total", "", lambda: sum(stats["collections"] for stats in gc.get_stats()))
