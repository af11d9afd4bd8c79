"""DaemonSets: one pod on every node that may have one. Follows Kubernetes' pkg/controller/daemon."""

from muster.fleet.workloads.daemonsets.controller import DaemonSets

__all__ = ["DaemonSets"]
