"""StatefulSets: pods with stable names and claims. Follows Kubernetes' pkg/controller/statefulset."""

from muster.fleet.workloads.statefulsets.controller import StatefulSets

__all__ = ["StatefulSets"]
