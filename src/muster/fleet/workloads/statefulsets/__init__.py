"""StatefulSets: pods with names and claims of their own. Follows Kubernetes' pkg/controller/statefulset."""

from muster.fleet.workloads.statefulsets.controller import StatefulSets

__all__ = ["StatefulSets"]
