"""ReplicaSets, and the older ReplicationControllers: the wanted number of pods of a template, and a status with their counts.

Both are one controller, as in kube-controller-manager; they differ in the syntax of the selector and in the fields of the status.
The difference is created or deleted in one pass, because reads include every earlier write. A refused creation is reported by an
event and the condition ReplicaFailure, and retried with backoff.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from muster.fleet.attached import Attached, Change
from muster.fleet.workloads import podstate
from muster.fleet.workloads.claims import claim
from muster.fleet.workloads.podcontrol import create_pod, delete_pod, keys_of_owned, owned, pod_from_template, selector_of
from muster.kube.selectors import Selector, from_labels
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import GVR, Object
from muster.runtime.client import NotFound, StatusError, patch_status
from muster.runtime.client.builtin import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS

BURST = 500
"""Limit of pods created or deleted in one pass."""


class ReplicaSets:
    name = "replicasets"
    kind: GVR = REPLICA_SETS
    resources = (REPLICA_SETS, PODS)

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        return (change.key,) if change.resource == self.kind else keys_of_owned(attached, change, self.kind, self.selector)

    @staticmethod
    def selector(found: Object) -> Selector:
        return selector_of(found)

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        found = attached.view.read(self.kind, key)
        if found is None:
            return None
        namespace = found["metadata"]["namespace"]
        pods = list(attached.view.scan(PODS, namespace))
        mine = await claim(attached.controllers, found, self.kind, PODS, self.selector(found), pods)
        problem: StatusError | None = None
        if not found["metadata"].get("deletionTimestamp"):
            problem = await self._scale(attached, found, [pod for pod in mine if podstate.is_active(pod)])
            mine = [pod for pod in attached.view.scan(PODS, namespace) if owned(pod, found)]
        await self._write_status(attached, found, mine, problem)
        if problem is not None:
            raise problem
        return _next_reconcile(found, mine, attached.now())

    async def _scale(self, attached: Attached, found: Object, active: list[Object]) -> StatusError | None:
        missing = found["spec"].get("replicas", 1) - len(active)
        try:
            for _ in range(min(missing, BURST)):
                await create_pod(attached, found, pod_from_template(found, self.kind, found["spec"]["template"]))
            for pod in sorted(active, key=podstate.deletion_rank)[: max(0, min(-missing, BURST))]:
                await delete_pod(attached, found, pod)
        except StatusError as problem:
            return problem
        return None

    async def _write_status(self, attached: Attached, found: Object, mine: list[Object], problem: StatusError | None) -> None:
        now = attached.now()
        status = self.status(found, mine, now)
        failing = podstate.condition(found, "ReplicaFailure")
        if problem is None:
            others = [each for each in status["conditions"] if each["type"] != "ReplicaFailure"]
            status["conditions"] = others
        elif failing is None:
            reason = "FailedCreate" if len(mine) < found["spec"].get("replicas", 1) else "FailedDelete"
            failure = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": str(problem)}
            status["conditions"] = [*status["conditions"], {**failure, "lastTransitionTime": format_time(now)}]
        if not status["conditions"]:
            del status["conditions"]
        try:
            await patch_status(attached.controllers, self.kind, found, status)
        except NotFound:
            return

    def status(self, found: Object, mine: list[Object], now: datetime) -> Object:
        return status_of(found, mine, now)


class ReplicationControllers(ReplicaSets):
    name = "replicationcontrollers"
    kind = REPLICATION_CONTROLLERS
    resources = (REPLICATION_CONTROLLERS, PODS)

    @staticmethod
    def selector(found: Object) -> Selector:
        return from_labels(found["spec"].get("selector") or {})

    def status(self, found: Object, mine: list[Object], now: datetime) -> Object:
        counted = status_of(found, mine, now)
        del counted["terminatingReplicas"]
        return counted


def status_of(found: Object, mine: Iterable[Object], now: datetime) -> Object:
    mine = list(mine)
    active = [pod for pod in mine if podstate.is_active(pod)]
    wanted = (found["spec"].get("template") or {}).get("metadata", {}).get("labels") or {}
    least = found["spec"].get("minReadySeconds", 0)
    status: Object = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(wanted.items() <= (pod["metadata"].get("labels") or {}).items() for pod in active),
        "readyReplicas": sum(podstate.is_ready(pod) for pod in active),
        "availableReplicas": sum(podstate.available_in(pod, least, now) == 0.0 for pod in active),
        "terminatingReplicas": sum(podstate.is_terminating(pod) for pod in mine),
        "observedGeneration": found["metadata"].get("generation", 0),
    }
    optional = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    status = {name: value for name, value in status.items() if value or name not in optional}
    status["conditions"] = list((found.get("status") or {}).get("conditions") or ())
    return status


def _next_reconcile(found: Object, mine: Iterable[Object], now: datetime) -> float | None:
    """Seconds until the next ready pod becomes available."""
    least = found["spec"].get("minReadySeconds", 0)
    waits = [podstate.available_in(pod, least, now) for pod in mine if least and podstate.is_active(pod)]
    return min((wait for wait in waits if wait), default=None)
