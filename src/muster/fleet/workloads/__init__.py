"""What kube-controller-manager does for workloads, for embedded clusters: Deployments, ReplicaSets, endpoints of Services.

Each controller is a function of the store's event stream (`muster.apiserver.controllers.manager`): an idle cluster costs nothing.
"""

from __future__ import annotations

from muster.apiserver.controllers.manager import Controller
from muster.fleet.attached import Attachments
from muster.fleet.workloads.deployments import Deployments
from muster.fleet.workloads.endpoints import ServiceEndpoints
from muster.fleet.workloads.replicasets import ReplicaSets

__all__ = ["workload_controllers"]


def workload_controllers(attachments: Attachments) -> list[Controller]:
    return [Deployments(attachments), ReplicaSets(attachments), ServiceEndpoints(attachments)]
