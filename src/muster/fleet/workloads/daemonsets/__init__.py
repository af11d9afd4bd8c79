"""DaemonSets: one pod on every eligible node. Follows Kubernetes' pkg/controller/daemon."""

from muster.fleet.workloads.daemonsets.controller import DaemonSets

__all__ = ["DaemonSets"]
