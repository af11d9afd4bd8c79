"""The built-in kinds that the fleet's nodes and controllers of workloads look at and write."""

from __future__ import annotations

from typing import Final

from muster.runtime.resource import Resource

PODS: Final = Resource("v1", "pods", "Pod")
NODES: Final = Resource("v1", "nodes", "Node", namespaced=False)
SERVICES: Final = Resource("v1", "services", "Service")
ENDPOINTS: Final = Resource("v1", "endpoints", "Endpoints")
SLICES: Final = Resource("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")
DEPLOYMENTS: Final = Resource("apps/v1", "deployments", "Deployment")
REPLICA_SETS: Final = Resource("apps/v1", "replicasets", "ReplicaSet")
SERVICE_ACCOUNTS: Final = Resource("v1", "serviceaccounts", "ServiceAccount")
