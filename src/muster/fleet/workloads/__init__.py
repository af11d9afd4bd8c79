"""The workload controllers of kube-controller-manager, for clusters without one: kinds that create pods, and endpoints of Services.

A controller has no state and serves every cluster: it gets changes and reads the present state (`muster.fleet.attached`).
"""

from __future__ import annotations

from muster.fleet.attached import Controller
from muster.fleet.workloads.cronjobs import CronJobs
from muster.fleet.workloads.daemonsets import DaemonSets
from muster.fleet.workloads.deployments import Deployments
from muster.fleet.workloads.endpoints import ServiceEndpoints
from muster.fleet.workloads.jobs import JobOrphans, Jobs
from muster.fleet.workloads.replicasets import ReplicaSets, ReplicationControllers
from muster.fleet.workloads.statefulsets import StatefulSets

__all__ = ["pod_controllers", "workload_controllers"]


def workload_controllers() -> list[Controller]:
    return [*pod_controllers(), ServiceEndpoints()]


def pod_controllers() -> list[Controller]:
    """The controllers that create pods; endpoints are separate, because servers differ in the addresses that they accept."""
    return [ReplicaSets(), ReplicationControllers(), Deployments(), Jobs(), JobOrphans(), CronJobs(), StatefulSets(), DaemonSets()]
