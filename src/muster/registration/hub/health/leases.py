"""The liveness of clusters: creates a Lease for each accepted cluster and sets Unknown when the agent stops renewing it.

A lease is valid for five of its cluster's lease durations. Its renewTime is the agent's; if it is near the hub's own time it is
used as it is, else (the clocks differ) a renewal counts from when the hub saw it, so that a wrong clock on either side neither
makes a live cluster Unknown nor keeps a dead one available.

A renewal is cheap: it is parsed and stored, nothing is enqueued and nothing written. A cluster is reconciled when its lease is
created or deleted, when its ManagedCluster changes, when its lease expires, and at the first renewal after that. Nothing polls. The
hub only sets Unknown; the agent sets the condition back.

Before it sets Unknown it reads the lease from the server: after a network partition the hub's cache is old, and in it the whole
fleet has stopped renewing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from muster.api import Condition, condition_of, is_true
from muster.api.cluster.v1 import ACCEPTED, AVAILABLE, ManagedCluster
from muster.machinery.golang.timestamps import format_micro_time, parse_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.registration.hub.cluster_writer import with_cluster_condition
from muster.registration.hub.context import HubControllerContext
from muster.registration.names import CLUSTER_LABEL, DEFAULT_LEASE_SECONDS, LEASE, LEASE_PERIODS
from muster.runtime.cache import Snapshot
from muster.runtime.client import AlreadyExists, NotFound
from muster.runtime.client.builtin import LEASES

log = get_logger("muster.registration.hub.health.leases")

UNKNOWN: Final = Condition(
    type=AVAILABLE,
    status="Unknown",
    reason="ManagedClusterLeaseUpdateStopped",
    message="Registration agent stopped updating its lease.",
)
CATCHING_UP: Final = 1.0
"""Seconds until the next check when the cache is behind the server."""


class _Lease(msgspec.Struct, gc=False):
    class Spec(msgspec.Struct, frozen=True, gc=False):
        renewTime: str | None = None

    spec: Spec = Spec()


_decode_lease = msgspec.json.Decoder(_Lease).decode


def renewal(lease: Snapshot) -> datetime | None:
    """The lease's renewTime; None if there is none that can be parsed."""
    try:
        return parse_time(_decode_lease(lease.raw).spec.renewTime or "")
    except (msgspec.DecodeError, ValueError):
        return None


def is_cluster_lease(lease: Snapshot) -> bool:
    return lease.name == LEASE and lease.labels.get(CLUSTER_LABEL) == lease.namespace


LONGEST_LEASE: Final = 10**8
"""Seconds. The API server does not enforce the bounds of an int32, and an agent may write this field."""


def grace(cluster: ManagedCluster) -> timedelta:
    """How long a renewal is valid."""
    seconds = min(max(cluster.spec.lease_duration_seconds, 0), LONGEST_LEASE) or DEFAULT_LEASE_SECONDS
    return timedelta(seconds=LEASE_PERIODS * seconds)


def is_unknown(cluster: ManagedCluster) -> bool:
    available = condition_of(cluster.status.conditions, AVAILABLE)
    return available is not None and available.status == "Unknown"


def alive_until(renewed: datetime | None, seen: datetime | None, good_for: timedelta) -> datetime | None:
    """Until when a lease is valid; `seen` is the hub's time of the renewal, None if it happened before the hub started.

    A renewal that the hub did not see is accepted as written, except that it cannot be in the future: see `Leases.reconcile`.
    """
    if renewed is None:
        return seen and seen + good_for
    if seen is None or abs(seen - renewed) < good_for:
        return renewed + good_for
    return seen + good_for


class Leases:
    def __init__(self, hub: HubControllerContext) -> None:
        self._hub = hub
        self._context = hub.context
        self._clusters = hub.clusters
        self._leases = hub.kept(LEASES)
        self._seen: dict[str, datetime] = {}
        """By cluster: the hub's time at which it saw the last renewal."""
        self._lapsed: set[str] = set()
        """Clusters with an expired lease: their next renewal requeues them."""
        self._controller = hub.context.controller("leases", self.reconcile)
        self._controller.watch(self._clusters, lambda cluster: [cluster.metadata.name])
        self._controller.depend(self._leases)
        self._leases.on_change(self._changed)

    async def run(self) -> None:
        await self._controller.run()

    def _changed(self, old: Snapshot | None, new: Snapshot | None) -> None:
        lease = new or old
        if lease is None or not is_cluster_lease(lease):
            return
        cluster = lease.namespace
        if old is None or new is None:
            self._seen.pop(cluster, None)
            self._controller.enqueue(cluster)
        elif renewal(old) != renewal(new):
            self._seen[cluster] = self._context.clock.now()
            if cluster in self._lapsed:
                self._lapsed.discard(cluster)
                self._controller.enqueue(cluster)

    async def reconcile(self, name: str) -> float | None:
        cluster = self._clusters.cache.named(name)
        if cluster is None:
            self._lapsed.discard(name)
            return None
        if condition_of(cluster.status.conditions, ACCEPTED) is None:
            # Never accepted: no agent renews a lease.
            return None
        lease = self._leases.cache.named(LEASE, name)
        if lease is None:
            await self._without_lease(cluster)
            return None
        now = self._context.clock.now()
        renewed = renewal(lease)
        if name not in self._seen and (renewed is None or renewed > now):
            # Older than this process, and in the future or without a time: its validity starts now.
            self._seen[name] = now
        until = alive_until(renewed, self._seen.get(name), grace(cluster))
        assert until is not None, "renewed or seen"
        if now < until:
            self._lapsed.discard(name)
            return (until - now).total_seconds()
        if not is_unknown(cluster) and await self._is_behind(lease):
            return CATCHING_UP
        self._lapsed.add(name)
        await self._set_unknown(cluster)
        return None

    async def _is_behind(self, lease: Snapshot) -> bool:
        """Whether the server has a newer lease than the cache; the watch will deliver it in a moment."""
        try:
            found = await self._context.client.get(LEASES, lease.name, lease.namespace)
        except NotFound:
            return True
        return bool(found["metadata"]["resourceVersion"] != lease.resource_version)

    async def _without_lease(self, cluster: ManagedCluster) -> None:
        if cluster.metadata.deletion_timestamp or not is_true(cluster.status.conditions, ACCEPTED):
            await self._set_unknown(cluster)
            return
        try:
            await self._context.client.create(LEASES, self._fresh(cluster.metadata.name))
        except AlreadyExists:
            log.debug("lease is there, the cache will learn of it", cluster=cluster.metadata.name)

    def _fresh(self, cluster: str) -> Object:
        labels = {**self._hub.options.labels, CLUSTER_LABEL: cluster}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": LEASE, "namespace": cluster, "labels": labels},
            "spec": {"holderIdentity": LEASE, "renewTime": format_micro_time(self._context.clock.now())},
        }

    async def _set_unknown(self, cluster: ManagedCluster) -> None:
        if is_unknown(cluster):
            return
        name = cluster.metadata.name
        if not await self._hub.writer.change(name, with_cluster_condition(UNKNOWN, self._context.clock.now()), status=True):
            return
        log.info("cluster is unreachable: its lease was not renewed", cluster=name)
        # Events are in the cluster's own namespace, where users with access to the cluster look.
        regarding = {
            "apiVersion": cluster.resource.api_version,
            "kind": cluster.resource.kind,
            "metadata": {"name": name, "namespace": name, "uid": cluster.metadata.uid},
        }
        note = f"{name} is registered, but its agent has not renewed its lease on the hub in time"
        self._context.events.event(regarding, "Warning", "AvailableUnknown", note)
