"""What every controller of the hub is given: a client, shared caches, the drivers, and time.

A controller is a class that takes a `HubWorld`, asks it for the caches it watches, and offers `async def run()`. Caches are shared:
one watch per collection for the whole process, whoever looks. An object that cannot be read is refused by its cache and reported
there; it harms nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.clock import Clock, Random
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR
from muster.registration.drivers.seam import HubDriver
from muster.registration.hub.cluster_writer import ClusterWriter
from muster.registration.hub.options import HubOptions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import OURS
from muster.runtime.cache.informer import Informer, Informers
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SIGNING_REQUESTS
from muster.runtime.controller.controller import Controller, Reconcile
from muster.runtime.controller.events import EventRecorder


@dataclass(frozen=True)
class HubWorld:
    client: KubeClient
    informers: Informers
    events: EventRecorder
    metrics: Metrics
    clock: Clock
    random: Random
    options: HubOptions
    drivers: Mapping[str, HubDriver]

    @cached_property
    def writer(self) -> ClusterWriter:
        """Through which everybody changes ManagedClusters."""
        return ClusterWriter(self.client, self.clusters, clock=self.clock)

    @property
    def clusters(self) -> Informer[ManagedCluster]:
        return self.informers.of(MANAGED_CLUSTERS, decode=ManagedCluster.decode)

    @property
    def signing_requests(self) -> Informer[Snapshot]:
        return self.informers.of(SIGNING_REQUESTS, label_selector=OURS)

    def controller(self, name: str, reconcile: Reconcile[str]) -> Controller[str]:
        """A controller whose keys are names of clusters."""
        return Controller(name, reconcile, workers=self.options.workers, metrics=self.metrics, clock=self.clock, random=self.random)

    def kept(self, resource: GVR) -> Informer[Snapshot]:
        """What the hub itself keeps for clusters of this kind: namespaces, roles, bindings, leases."""
        return self.informers.of(resource, label_selector=OURS)
