"""The collections that registration reads and writes, on the hub and on managed clusters."""

from __future__ import annotations

from typing import Final

from muster.api import resource as api
from muster.api.addon.v1beta1 import ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1alpha1 import ClusterClaim
from muster.api.cluster.v1beta2 import ManagedClusterSet, ManagedClusterSetBinding
from muster.api.work.v1 import ManifestWork
from muster.runtime.resource import Resource


def served(kind: type[api.Resource]) -> Resource:
    """Where objects of one of our types are served."""
    place = kind.resource
    return Resource(place.api_version, place.plural, place.kind, namespaced=place.scope == "Namespaced")


MANAGED_CLUSTERS: Final = served(ManagedCluster)
CLUSTER_SETS: Final = served(ManagedClusterSet)
CLUSTER_SET_BINDINGS: Final = served(ManagedClusterSetBinding)
CLUSTER_CLAIMS: Final = served(ClusterClaim)
ADDONS: Final = served(ManagedClusterAddOn)
MANIFEST_WORKS: Final = served(ManifestWork)
SIGNING_REQUESTS: Final = Resource(
    "certificates.k8s.io/v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
ROLE_BINDINGS: Final = Resource("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
NODES: Final = Resource("v1", "nodes", "Node", namespaced=False)
