"""The collections that registration reads and writes, on the hub and on managed clusters."""

from __future__ import annotations

from typing import Final

from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1alpha1 import ClusterClaim
from muster.api.cluster.v1beta2 import ManagedClusterSet, ManagedClusterSetBinding
from muster.api.work.v1 import ManifestWork
from muster.runtime.client import served

MANAGED_CLUSTERS: Final = served(ManagedCluster)
CLUSTER_SETS: Final = served(ManagedClusterSet)
CLUSTER_SET_BINDINGS: Final = served(ManagedClusterSetBinding)
CLUSTER_CLAIMS: Final = served(ClusterClaim)
ADDONS: Final = served(ManagedClusterAddOn)
MANIFEST_WORKS: Final = served(ManifestWork)
