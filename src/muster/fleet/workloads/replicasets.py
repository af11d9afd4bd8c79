"""ReplicaSets: as many pods of a template as wanted, and a status that says how many there are, ready and available.

The difference is created or deleted in one pass, since reads see every earlier write. A refused creation is told by an event and
the condition ReplicaFailure, and tried again later and later.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from muster.fleet.attached import Attached, Change, owner_keys, reference
from muster.fleet.workloads import podstate
from muster.fleet.workloads.claims import claim
from muster.kube.selectors import Selector, from_label_selector_object
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.runtime.client import Conflict, NotFound, StatusError, patch_status
from muster.runtime.client.builtin import PODS, REPLICA_SETS

BURST = 500
"""Pods made or deleted in one pass."""


class ReplicaSets:
    name = "replicasets"
    resources = (REPLICA_SETS, PODS)

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        if change.resource == REPLICA_SETS:
            return (change.key,)
        return owner_keys(change, "ReplicaSet") or self._matching(attached, change)

    def _matching(self, attached: Attached, change: Change) -> list[str]:
        """Sets that may want to adopt a pod without a controller."""
        if change.deleted:
            return []
        pod = change.versions()[0]
        labels, namespace = pod["metadata"].get("labels") or {}, pod["metadata"]["namespace"]
        sets = attached.view.scan(REPLICA_SETS, namespace) if labels else ()
        return [f"{namespace}/{each['metadata']['name']}" for each in sets if _selector(each).matches(labels)]

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        found = attached.view.read(REPLICA_SETS, key)
        if found is None:
            return None
        namespace = found["metadata"]["namespace"]
        pods = list(attached.view.scan(PODS, namespace))
        mine = await claim(attached.controllers, found, REPLICA_SETS, PODS, _selector(found), pods)
        problem: StatusError | None = None
        if not found["metadata"].get("deletionTimestamp"):
            problem = await self._scale(attached, found, [pod for pod in mine if podstate.is_active(pod)])
            mine = [pod for pod in attached.view.scan(PODS, namespace) if _owned(pod, found)]
        await self._write_status(attached, found, mine, problem)
        if problem is not None:
            raise problem
        return _next_look(found, mine, attached.now())

    async def _scale(self, attached: Attached, found: Object, active: list[Object]) -> StatusError | None:
        missing = found["spec"].get("replicas", 1) - len(active)
        try:
            for _ in range(min(missing, BURST)):
                pod = await attached.controllers.create(PODS, _pod_of(found), found["metadata"]["namespace"])
                attached.events.event(found, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        except StatusError as problem:
            attached.events.event(found, "Warning", "FailedCreate", f"Error creating: {problem}")
            return problem
        for pod in sorted(active, key=podstate.deletion_rank)[: max(0, min(-missing, BURST))]:
            metadata = pod["metadata"]
            try:
                await attached.controllers.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
            except (NotFound, Conflict):
                continue
            attached.events.event(found, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}")
        return None

    async def _write_status(self, attached: Attached, found: Object, mine: list[Object], problem: StatusError | None) -> None:
        now = attached.now()
        status = status_of(found, mine, now)
        failing = podstate.condition(found, "ReplicaFailure")
        if problem is None:
            others = [each for each in status["conditions"] if each["type"] != "ReplicaFailure"]
            status["conditions"] = others
        elif failing is None:
            failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": str(problem)}
            status["conditions"] = [*status["conditions"], {**failure, "lastTransitionTime": format_time(now)}]
        if not status["conditions"]:
            del status["conditions"]
        try:
            await patch_status(attached.controllers, REPLICA_SETS, found, status)
        except NotFound:
            return


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


def _next_look(found: Object, mine: Iterable[Object], now: datetime) -> float | None:
    """When the next ready pod becomes an available one."""
    least = found["spec"].get("minReadySeconds", 0)
    waits = [podstate.available_in(pod, least, now) for pod in mine if least and podstate.is_active(pod)]
    return min((wait for wait in waits if wait), default=None)


def _selector(found: Object) -> Selector:
    return from_label_selector_object(found["spec"].get("selector"))


def _owned(pod: Object, found: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("uid") == found["metadata"]["uid"] for owner in owners)


def _pod_of(found: Object) -> Object:
    template = found["spec"]["template"]
    metadata = template.get("metadata") or {}
    base = found["metadata"]["name"]
    kept = {name: metadata[name] for name in ("labels", "annotations", "finalizers") if metadata.get(name)}
    owners = [reference(found, REPLICA_SETS.api_version, REPLICA_SETS.kind)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, "generateName": f"{base}-", "ownerReferences": owners},
        "spec": template["spec"],
    }
