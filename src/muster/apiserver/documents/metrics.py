"""Metrics under Kubernetes' own names, for dashboards that exist already.

Requests only count into plain dictionaries; the text is made when somebody scrapes.
"""

from __future__ import annotations

import gc
import resource as usage_limits
import time
from bisect import bisect_left
from typing import TYPE_CHECKING

from muster.apiserver.registry.resource import Resource
from muster.machinery.authorization import AccessAttributes

if TYPE_CHECKING:
    from muster.apiserver.server import ApiServer

_BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0),
    *(3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
Target = tuple[str, str, str, str, str]
"""(verb, group, version, resource, subresource)"""


class Metrics:
    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._started = time.time()
        self._requests: dict[tuple[Target, int], int] = {}
        self._durations: dict[Target, list[float]] = {}
        """Per target: counts per bucket, then the total count and the sum of seconds."""

    def count(self, attributes: AccessAttributes, resource: Resource | None, code: int, seconds: float) -> None:
        """What is not served counts by its verb alone: clients can make up names without end, and put anything into them."""
        target = (attributes.verb, "", "", "", "")
        if resource is not None and (not attributes.subresource or attributes.subresource in resource.subresources):
            target = (attributes.verb, attributes.group, attributes.version, attributes.resource, attributes.subresource)
        key = (target, code)
        self._requests[key] = self._requests.get(key, 0) + 1
        if attributes.verb == "watch":
            return
        spread = self._durations.get(target)
        if spread is None:
            spread = self._durations[target] = [0.0] * (len(_BUCKETS) + 3)
        spread[bisect_left(_BUCKETS, seconds)] += 1
        spread[-2] += 1
        spread[-1] += seconds

    def render(self) -> bytes:
        lines = ["# TYPE apiserver_request_total counter"]
        for (target, code), count in sorted(self._requests.items()):
            lines.append(f'apiserver_request_total{{{_labels(target)},code="{code}"}} {count}')
        lines.append("# TYPE apiserver_request_duration_seconds histogram")
        for target, spread in sorted(self._durations.items()):
            labels, running = _labels(target), 0.0
            for edge, amount in zip((*_BUCKETS, "+Inf"), spread[:-2], strict=True):
                running += amount
                lines.append(f'apiserver_request_duration_seconds_bucket{{{labels},le="{edge}"}} {running:g}')
            lines.append(f"apiserver_request_duration_seconds_count{{{labels}}} {spread[-2]:g}")
            lines.append(f"apiserver_request_duration_seconds_sum{{{labels}}} {spread[-1]:.6f}")
        lines += self._gauges()
        return ("\n".join(lines) + "\n").encode()

    def _gauges(self) -> list[str]:
        server = self._server
        usage = usage_limits.getrusage(usage_limits.RUSAGE_SELF)
        values = {
            "apiserver_current_inflight_requests": server.fairness.in_flight,
            "apiserver_current_inqueue_requests": server.fairness.waiting,
            "apiserver_rejected_requests_total": server.fairness.refused,
            "apiserver_longrunning_requests": sum(len(cluster.open_requests) for cluster in server.clusters.values()),
            "muster_clusters": len(server.clusters),
            "muster_store_revision": server.store.revision,
            "muster_controller_backlog": server.controllers.backlog,
            "process_cpu_seconds_total": usage.ru_utime + usage.ru_stime,
            "process_max_resident_memory_bytes": usage.ru_maxrss * 1024,
            "process_start_time_seconds": self._started,
            "python_gc_collections_total": sum(stats["collections"] for stats in gc.get_stats()),
        }
        lines = []
        for name, value in values.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# TYPE {name} {kind}", f"{name} {value}"]
        return lines


def _labels(target: Target) -> str:
    verb, group, version, resource_name, subresource = target
    return (
        f'verb="{verb.upper()}",group="{group}",version="{version}",resource="{resource_name}",'
        f'subresource="{subresource}",component="apiserver"'
    )
