"""The gateway's metrics: requests under upstream's names, and open streams, traffic and the health of clusters.

The number of label values is bounded, whatever clients and clusters send: a cluster that the hub does not know is `other`, so is
an unknown verb or status code, and so is a resource until a cluster has answered a request for it successfully (a client can
invent names, but not that). There are at most `MAX_RESOURCES` of these, and about `MAX_SERIES` durations. The duration of a
stream says nothing about the gateway, so only other requests are timed. The series of a removed cluster are removed (`forget`).

The relay calls `began`, `ended`, `sent` and `received` for its traffic; `answered` is called once for every request, whether it
reached the relay or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final

from muster.kube.request_info import RequestInfo
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.metrics import Counter, Histogram, Labels, Metrics

PREFIX: Final = "ocm_proxy_"
OTHER: Final = "other"
MAX_RESOURCES: Final = 256
MAX_SERIES: Final = 20_000
BUCKETS: Final = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upstream's."""
_RESOURCE_VERBS: Final = frozenset({"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy"})
_METHODS: Final = frozenset({"get", "head", "post", "put", "patch", "delete", "options"})
_CODES: Final = frozenset(HTTPStatus)

_OPEN: Final = {
    "request": ("requests_in_flight", "Requests in flight, by cluster."),
    "stream": ("open_streams", "Open watches and followed logs, by cluster."),
    "upgrade": ("open_upgrades", "Open connections for exec, attach and port-forward, by cluster."),
}
"""Gauges by the relay's kind of request."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """What the inventory knows about one cluster."""

    cluster: str
    up: bool | None
    """None if not known yet."""
    credential_expires: datetime | None = None


class _Gauge:
    """Counts by cluster; zero counts are removed."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, cluster: str, amount: int) -> None:
        left = self._counts.get(cluster, 0) + amount
        if left:
            self._counts[cluster] = left
        else:
            self._counts.pop(cluster, None)

    def read(self) -> Iterable[tuple[Labels, float]]:
        return [((("cluster", cluster),), count) for cluster, count in self._counts.items()]


class GatewayMetrics:
    """`known` tells whether the hub has such a cluster."""

    def __init__(self, metrics: Metrics, known: Callable[[str], bool], *, clock: Clock = SYSTEM) -> None:
        self._metrics = metrics
        self._known = known
        self._clock = clock
        self._resources: set[str] = set()
        self._counted: dict[tuple[str, str, str, str, bool], tuple[Counter, Counter, Histogram | None]] = {}
        self._bytes: dict[str, tuple[Counter, Counter]] = {}
        self._open = {kind: _Gauge() for kind in _OPEN}
        self._reviews = {success: self._review_durations(success) for success in (True, False)}
        for kind, (name, text) in _OPEN.items():
            metrics.gauges(f"{PREFIX}{name}", text, self._open[kind].read)

    def began(self, cluster: str, kind: str) -> None:
        self._open[kind].add(cluster, 1)

    def ended(self, cluster: str, kind: str) -> None:
        self._open[kind].add(cluster, -1)

    def sent(self, cluster: str, size: int) -> None:
        """Bytes of bodies and upgraded connections, sent to the cluster."""
        self._bytes_of(cluster)[0].inc(size)

    def received(self, cluster: str, size: int) -> None:
        self._bytes_of(cluster)[1].inc(size)

    def answered(self, cluster: str, inner: RequestInfo | None, code: int, seconds: float | None) -> None:
        """A request has ended. `inner` is None if the request could not be parsed, `seconds` is None for streams and upgrades."""
        cluster = self._label(cluster)
        resource, verb = self._labels(inner, code)
        shown = str(code) if code in _CODES else OTHER
        key = (cluster, resource, verb, shown, seconds is not None)
        members = self._counted.get(key)
        if members is None:
            if len(self._counted) >= MAX_SERIES:
                key = (cluster, OTHER, OTHER, shown, seconds is not None)
            members = self._counted.setdefault(key, self._members(*key))
        by_resource, by_cluster, durations = members
        by_resource.inc()
        by_cluster.inc()
        if durations is not None and seconds is not None:
            durations.observe(seconds)

    def reviewed(self, seconds: float, answered: bool) -> None:
        """An access review was made on the hub: for `AccessReviewer(reviewed=…)`."""
        self._reviews[answered].observe(seconds)

    def read_review_cache(self, hits: Callable[[], int], misses: Callable[[], int]) -> None:
        text = "Access decisions by whether they were cached."
        self._metrics.counter_of(f"{PREFIX}access_review_cache_total", text, hits, result="hit")
        self._metrics.counter_of(f"{PREFIX}access_review_cache_total", text, misses, result="miss")

    def read_clusters(self, read: Callable[[], Iterable[ClusterStatus]]) -> None:
        """Gauges of the inventory, read at each scrape."""

        def up() -> Iterable[tuple[Labels, float]]:
            return [((("cluster", state.cluster),), float(state.up)) for state in read() if state.up is not None]

        def expiry() -> Iterable[tuple[Labels, float]]:
            now = self._clock.now()
            return [
                ((("cluster", state.cluster),), (state.credential_expires - now).total_seconds())
                for state in read()
                if state.credential_expires is not None
            ]

        self._metrics.gauges(f"{PREFIX}cluster_up", "Whether a cluster answers through the gateway.", up)
        text = "Seconds until the credential for a cluster expires; negative if it has."
        self._metrics.gauges(f"{PREFIX}credential_expiry_seconds", text, expiry)

    def forget(self, cluster: str) -> None:
        """The hub no longer has this cluster."""
        self._metrics.forget("cluster", cluster)
        self._bytes.pop(cluster, None)
        self._counted = {key: members for key, members in self._counted.items() if key[0] != cluster}

    def _label(self, cluster: str) -> str:
        return cluster if self._known(cluster) else OTHER

    def _bytes_of(self, cluster: str) -> tuple[Counter, Counter]:
        """Of known clusters only: streams that outlive a removed cluster must not create its series again."""
        cluster = self._label(cluster)
        counters = self._bytes.get(cluster)
        if counters is None:
            name, text = f"{PREFIX}proxied_bytes_total", "Bytes of bodies and upgraded connections, by cluster."
            counters = self._bytes[cluster] = (
                self._metrics.counter(name, text, cluster=cluster, direction="to_cluster"),
                self._metrics.counter(name, text, cluster=cluster, direction="from_cluster"),
            )
        return counters

    def _labels(self, inner: RequestInfo | None, code: int) -> tuple[str, str]:
        if inner is None:
            return OTHER, OTHER
        if not inner.is_resource:
            return "", inner.verb if inner.verb in _METHODS else OTHER
        verb = inner.verb if inner.verb in _RESOURCE_VERBS else OTHER
        if inner.resource not in self._resources:
            if not (200 <= code < 300 or code == HTTPStatus.SWITCHING_PROTOCOLS) or len(self._resources) >= MAX_RESOURCES:
                return OTHER, verb
            self._resources.add(inner.resource)
        return inner.resource, verb

    def _members(self, cluster: str, resource: str, verb: str, code: str, timed: bool) -> tuple[Counter, Counter, Histogram | None]:
        by_resource = self._metrics.counter(
            f"{PREFIX}proxied_resource_requests_by_resource_total",
            "Requests for clusters, by resource.",
            resource=resource,
            verb=verb,
            code=code,
        )
        by_cluster = self._metrics.counter(
            f"{PREFIX}proxied_requests_by_cluster_total", "Requests for clusters, by cluster.", cluster=cluster, code=code
        )
        if not timed:
            return by_resource, by_cluster, None
        durations = self._metrics.histogram(
            f"{PREFIX}proxied_request_duration_seconds",
            "Duration of requests for clusters, except watches and upgrades.",
            BUCKETS,
            resource=resource,
            verb=verb,
            cluster=cluster,
            code=code,
        )
        return by_resource, by_cluster, durations

    def _review_durations(self, success: bool) -> Histogram:
        return self._metrics.histogram(
            f"{PREFIX}cluster_escalation_access_review_duration_seconds",
            "Duration of access reviews on the hub.",
            BUCKETS,
            success=str(success).lower(),
        )
