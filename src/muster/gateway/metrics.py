"""What the gateway counts: requests under upstream's names, and what is open, how much passes and how clusters fare beside them.

Labels have few values, whatever clients and clusters send: a cluster that the hub does not know is `other`, so is a verb that is
none, a code that HTTP does not know, and a resource until some cluster has answered a request for it with success (a client can
make up names, but not that). There are at most `MOST_RESOURCES` of these, and about `MOST_SERIES` durations. How long a stream was
open says nothing of the gateway, so only other requests are timed. A cluster that is gone takes its series with it (`forget`).

`began`, `ended`, `sent` and `received` are what the relay tells of what passes; `answered` is told once of every request, whether
it came to the relay or not.
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
MOST_RESOURCES: Final = 256
MOST_SERIES: Final = 20_000
BUCKETS: Final = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upstream's."""
_RESOURCE_VERBS: Final = frozenset({"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy"})
_METHODS: Final = frozenset({"get", "head", "post", "put", "patch", "delete", "options"})
_CODES: Final = frozenset(HTTPStatus)

_OPEN: Final = {
    "request": ("requests_in_flight", "Requests that are under way, by cluster."),
    "stream": ("open_streams", "Watches and followed logs that are open, by cluster."),
    "upgrade": ("open_upgrades", "Connections for exec, attach and port-forward that are open, by cluster."),
}
"""Gauges by what the relay calls the kinds of what is under way."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the inventory knows of one cluster."""

    cluster: str
    up: bool | None
    """None: not known yet."""
    credential_expires: datetime | None = None


class _Gauge:
    """How many there are now, by cluster; those without any are not kept."""

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
        """Bytes of bodies and upgraded connections, to the cluster."""
        self._bytes_of(cluster)[0].inc(size)

    def received(self, cluster: str, size: int) -> None:
        self._bytes_of(cluster)[1].inc(size)

    def answered(self, cluster: str, inner: RequestInfo | None, code: int, seconds: float | None) -> None:
        """A request is over. `inner` is missing where it cannot be told what it asked for, `seconds` for streams and upgrades."""
        cluster = self._label(cluster)
        resource, verb = self._labels(inner, code)
        shown = str(code) if code in _CODES else OTHER
        key = (cluster, resource, verb, shown, seconds is not None)
        members = self._counted.get(key)
        if members is None:
            if len(self._counted) >= MOST_SERIES:
                key = (cluster, OTHER, OTHER, shown, seconds is not None)
            members = self._counted.setdefault(key, self._members(*key))
        by_resource, by_cluster, durations = members
        by_resource.inc()
        by_cluster.inc()
        if durations is not None and seconds is not None:
            durations.observe(seconds)

    def reviewed(self, seconds: float, answered: bool) -> None:
        """The hub was asked for an access review: for `AccessReviewer(reviewed=…)`."""
        self._reviews[answered].observe(seconds)

    def read_review_cache(self, hits: Callable[[], int], misses: Callable[[], int]) -> None:
        text = "Access decisions by whether the answer was remembered."
        self._metrics.counter_of(f"{PREFIX}access_review_cache_total", text, hits, result="hit")
        self._metrics.counter_of(f"{PREFIX}access_review_cache_total", text, misses, result="miss")

    def read_clusters(self, read: Callable[[], Iterable[ClusterState]]) -> None:
        """Gauges of what the inventory knows, read at each scrape."""

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
        """The hub has no such cluster any more."""
        self._metrics.forget("cluster", cluster)
        self._bytes.pop(cluster, None)
        self._counted = {key: members for key, members in self._counted.items() if key[0] != cluster}

    def _label(self, cluster: str) -> str:
        return cluster if self._known(cluster) else OTHER

    def _bytes_of(self, cluster: str) -> tuple[Counter, Counter]:
        """Known clusters only: what is left open of one that is gone must not bring its series back."""
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
            if not (200 <= code < 300 or code == HTTPStatus.SWITCHING_PROTOCOLS) or len(self._resources) >= MOST_RESOURCES:
                return OTHER, verb
            self._resources.add(inner.resource)
        return inner.resource, verb

    def _members(self, cluster: str, resource: str, verb: str, code: str, timed: bool) -> tuple[Counter, Counter, Histogram | None]:
        by_resource = self._metrics.counter(
            f"{PREFIX}proxied_resource_requests_by_resource_total",
            "Requests for clusters, by what they asked for.",
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
            "How long requests for clusters took, watches and upgrades apart.",
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
            "How long the hub took for access reviews.",
            BUCKETS,
            success=str(success).lower(),
        )
