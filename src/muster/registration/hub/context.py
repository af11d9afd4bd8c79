"""What the hub's controllers share beside a `ControllerContext`: options, drivers, and the caches and writer of ManagedClusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import GVR
from muster.registration.drivers.interfaces import HubDriver
from muster.registration.hub.cluster_writer import ClusterWriter
from muster.registration.hub.options import HubOptions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import OURS
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.controller import ControllerContext


@dataclass(frozen=True)
class HubControllerContext:
    context: ControllerContext
    options: HubOptions
    drivers: Mapping[str, HubDriver]

    @cached_property
    def writer(self) -> ClusterWriter:
        """The writer through which every controller changes ManagedClusters."""
        return ClusterWriter(self.context.client, self.clusters, clock=self.context.clock)

    @property
    def clusters(self) -> Informer[ManagedCluster]:
        return self.context.informers.of(MANAGED_CLUSTERS, decode=ManagedCluster.decode)

    def kept(self, resource: GVR) -> Informer[Snapshot]:
        """The informer of this kind's objects that the hub creates for clusters: namespaces, roles, bindings, leases."""
        return self.context.informers.of(resource, label_selector=OURS)
