"""PersistentVolumes for claims on nodes that simulate images: the volume controller and a provisioner, without storage.

A claim is bound to a suitable volume, or to one that is created for it if its class is the provisioner's, as the default class is.
Volumes have no content, because simulated containers read nothing. As with the real controllers, a claim without a class gets the
default class, one of a class with WaitForFirstConsumer waits for a pod, and a volume whose claim is deleted is deleted or released
by its reclaim policy. A claim that cannot be bound stays Pending, with an Event that has the reason.

Keys are those of claims (`namespace/name`) and of volumes (`name`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from muster.fleet.attached import Attached, Change
from muster.fleet.workloads.podstate import FINISHED
from muster.kube.selectors import from_label_selector_object
from muster.machinery.golang.quantities import parse_quantity
from muster.machinery.objects import Object
from muster.runtime.client import AlreadyExists, Conflict, KubeClient, NotFound, patch_status
from muster.runtime.client.builtin import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES

PROVISIONER: Final = "simulated.open-cluster-management.io/volumes"
CLASS: Final = "standard"
_IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_WAIT: Final = "WaitForFirstConsumer"
_READ: Final = (NotFound, Conflict)
"""Another client was faster; its event requeues the key."""


async def create_default_class(client: KubeClient) -> None:
    """Unless the cluster has a default class already."""
    if any(_is_default(each) for each in (await client.list(STORAGE_CLASSES)).items):
        return
    found: Object = {
        "apiVersion": STORAGE_CLASSES.api_version,
        "kind": STORAGE_CLASSES.kind,
        "metadata": {"name": CLASS, "annotations": {_IS_DEFAULT: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": _WAIT,
    }
    try:
        await client.create(STORAGE_CLASSES, found)
    except AlreadyExists:
        return


def claims_of(pod: Object) -> Iterator[str]:
    """Names of the claims among a pod's volumes."""
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"]


def unbound_claim(attached: Attached, pod: Object) -> str:
    """Why a scheduler would not bind the pod yet because of its claims; empty if all are bound."""
    for name in claims_of(pod):
        claim = attached.view.read(PERSISTENT_VOLUME_CLAIMS, f"{pod['metadata']['namespace']}/{name}")
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim["metadata"].get("deletionTimestamp"):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if _phase(claim) != "Bound":
            return f'persistentvolumeclaim "{name}" is not bound'
    return ""


class PersistentVolumes:
    name = "persistentvolume-binder"
    resources = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, PODS)

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        if change.resource == PODS:
            namespace = change.key.partition("/")[0]
            return {f"{namespace}/{name}" for pod in change.versions() for name in claims_of(pod)}
        if change.resource == PERSISTENT_VOLUME_CLAIMS:
            named = (claim["spec"].get("volumeName") for claim in change.versions())
            return {change.key, *(name for name in named if name)}
        pending = (claim for claim in attached.view.scan(PERSISTENT_VOLUME_CLAIMS) if _phase(claim) != "Bound")
        waiting = {_key(claim) for claim in pending}
        if change.resource == STORAGE_CLASSES:
            return waiting
        bound = (volume["spec"].get("claimRef") for volume in change.versions())
        return {change.key, *waiting, *(f"{each['namespace']}/{each['name']}" for each in bound if each)}

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        try:
            if "/" in key:
                await self._reconcile_claim(attached, key)
            else:
                await self._reconcile_volume(attached, key)
        except _READ:
            return None
        return None

    async def _reconcile_claim(self, attached: Attached, key: str) -> None:
        claim = attached.view.read(PERSISTENT_VOLUME_CLAIMS, key)
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return
        if (claim["metadata"].get("annotations") or {}).get(_BIND_COMPLETED):
            await self._keep_bound(attached, claim)
        elif (volume := _suitable(claim, attached.view.scan(PERSISTENT_VOLUMES))) is not None:
            await self._bind(attached, claim, volume)
        elif claim["spec"].get("volumeName"):
            name = claim["spec"]["volumeName"]
            _tell(
                attached, claim, "Warning", "FailedBinding", f'volume "{name}" is not there, is not free or does not suit the claim'
            )
        else:
            await self._provision(attached, claim)

    async def _keep_bound(self, attached: Attached, claim: Object) -> None:
        name = claim["spec"].get("volumeName") or ""
        volume = attached.view.read(PERSISTENT_VOLUMES, name)
        if volume is not None and _is_of(volume, claim):
            await _write_bound(attached, claim, volume)
        elif _phase(claim) != "Lost":
            _tell(attached, claim, "Warning", "ClaimLost", f'volume "{name}" of the claim is gone; its data is lost')
            await _set_claim_status(attached, claim, {"phase": "Lost"})

    async def _bind(self, attached: Attached, claim: Object, volume: Object) -> None:
        """The volume is written first, so that no other claim takes it."""
        if not _is_of(volume, claim):
            patch = {"metadata": _read_version(volume), "spec": {"claimRef": _claim_reference(claim)}}
            volume = await attached.controllers.patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], patch)
        await patch_status(attached.controllers, PERSISTENT_VOLUMES, volume, {**(volume.get("status") or {}), "phase": "Bound"})
        annotations = {_BIND_COMPLETED: "yes"}
        if not claim["spec"].get("volumeName"):
            annotations[_BOUND_BY_CONTROLLER] = "yes"
        about = {**_read_version(claim), "annotations": annotations}
        patch = {"metadata": about, "spec": {"volumeName": volume["metadata"]["name"]}}
        meta = claim["metadata"]
        claim = await attached.controllers.patch(PERSISTENT_VOLUME_CLAIMS, meta["name"], patch, meta["namespace"])
        await _write_bound(attached, claim, volume)

    async def _provision(self, attached: Attached, claim: Object) -> None:
        wanted = claim["spec"].get("storageClassName")
        if wanted is None and (default := _default_class(attached)) is not None:
            meta = claim["metadata"]
            patch = {"metadata": _read_version(claim), "spec": {"storageClassName": default}}
            await attached.controllers.patch(PERSISTENT_VOLUME_CLAIMS, meta["name"], patch, meta["namespace"])
            return  # the event requeues the key
        problem = self._obstacle(attached, claim)
        if problem is not None:
            _tell(attached, claim, *problem)
            return
        found = attached.view.read(STORAGE_CLASSES, wanted or "")
        if found is None:
            return
        volume = _volume_for(claim, found)
        try:
            await attached.controllers.create(PERSISTENT_VOLUMES, volume)
        except AlreadyExists:
            return  # its event requeues the key
        name = volume["metadata"]["name"]
        _tell(
            attached,
            claim,
            "Normal",
            "ProvisioningSucceeded",
            f"Successfully provisioned volume {name}, simulated: it holds nothing",
        )

    def _obstacle(self, attached: Attached, claim: Object) -> tuple[Literal["Normal", "Warning"], str, str] | None:
        """Why no volume can be created now, as an Event."""
        wanted = claim["spec"].get("storageClassName")
        if not wanted:
            return "Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set"
        found = attached.view.read(STORAGE_CLASSES, wanted)
        if found is None:
            return "Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{wanted}" not found'
        if found["provisioner"] != PROVISIONER:
            text = f'no provisioner "{found["provisioner"]}" runs on this cluster, and no volume suits the claim'
            return "Normal", "ExternalProvisioning", text
        if claim["spec"].get("selector"):
            return "Warning", "ProvisioningFailed", "a claim with a selector is bound to existing volumes only"
        if found.get("volumeBindingMode") == _WAIT and not _has_consumer(attached, claim):
            return "Normal", _WAIT, "waiting for first consumer to be created before binding"
        return None

    async def _reconcile_volume(self, attached: Attached, name: str) -> None:
        volume = attached.view.read(PERSISTENT_VOLUMES, name)
        if volume is None:
            return
        reference, phase = volume["spec"].get("claimRef"), _phase(volume)
        if not reference or not reference.get("uid"):
            if phase in ("", "Pending"):
                await _set_phase(attached, volume, "Available")
            return
        claim = attached.view.read(PERSISTENT_VOLUME_CLAIMS, f"{reference['namespace']}/{reference['name']}")
        if claim is not None and claim["metadata"]["uid"] == reference["uid"]:
            return
        if phase != "Released":
            await _set_phase(attached, volume, "Released")
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and _is_ours(volume):
            await attached.controllers.delete(PERSISTENT_VOLUMES, name, uid=volume["metadata"]["uid"])


def _phase(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase") or "")


def _key(claim: Object) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _is_default(storage_class: Object) -> bool:
    return (storage_class["metadata"].get("annotations") or {}).get(_IS_DEFAULT) == "true"


def _default_class(attached: Attached) -> str | None:
    """The newest, if there are several."""
    found = [each["metadata"] for each in attached.view.scan(STORAGE_CLASSES) if _is_default(each)]
    ranked = sorted(found, key=lambda each: each["name"])
    newest = max(ranked, key=lambda each: each.get("creationTimestamp") or "", default=None)
    return newest["name"] if newest is not None else None


def _has_consumer(attached: Attached, claim: Object) -> bool:
    meta = claim["metadata"]
    for pod in attached.view.scan(PODS, meta["namespace"]):
        if pod["metadata"].get("deletionTimestamp") or _phase(pod) in FINISHED or pod["spec"].get("schedulingGates"):
            continue
        if meta["name"] in claims_of(pod):
            return True
    return False


def _suitable(claim: Object, volumes: Iterable[Object]) -> Object | None:
    """The smallest available volume that satisfies the claim; one that is reserved for it comes before all others."""
    found = [volume for volume in volumes if _suits(claim, volume)]
    return min(found, key=lambda each: (not each["spec"].get("claimRef"), _capacity(each["spec"].get("capacity"))), default=None)


def _suits(claim: Object, volume: Object) -> bool:
    spec, wanted = volume["spec"], claim["spec"]
    reserved = spec.get("claimRef")
    if volume["metadata"].get("deletionTimestamp") or (reserved and not _is_of(volume, claim, reserved=True)):
        return False
    if wanted.get("volumeName") not in (None, "", volume["metadata"]["name"]):
        return False
    if (spec.get("storageClassName") or "") != (wanted.get("storageClassName") or ""):
        return False
    if (spec.get("volumeMode") or "Filesystem") != (wanted.get("volumeMode") or "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    if _capacity(spec.get("capacity")) < _requested(claim):
        return False
    selector = wanted.get("selector")
    return not selector or from_label_selector_object(selector).matches(volume["metadata"].get("labels") or {})


def _is_of(volume: Object, claim: Object, *, reserved: bool = False) -> bool:
    """Whether the volume is bound to the claim; with `reserved`, also if only its claimRef names it."""
    reference, meta = volume["spec"].get("claimRef") or {}, claim["metadata"]
    if (reference.get("namespace"), reference.get("name")) != (meta["namespace"], meta["name"]):
        return False
    return reference.get("uid") == meta["uid"] or (reserved and not reference.get("uid"))


def _capacity(resources: Mapping[str, Any] | None) -> int:
    return parse_quantity(str((resources or {}).get("storage") or "0")).nanos


def _requested(claim: Object) -> int:
    return _capacity((claim["spec"].get("resources") or {}).get("requests"))


def _is_ours(volume: Object) -> bool:
    return (volume["metadata"].get("annotations") or {}).get(_PROVISIONED_BY) == PROVISIONER


def _read_version(obj: Object) -> Object:
    return {"uid": obj["metadata"]["uid"], "resourceVersion": obj["metadata"]["resourceVersion"]}


def _claim_reference(claim: Object) -> Object:
    meta = claim["metadata"]
    about = {"apiVersion": "v1", "kind": PERSISTENT_VOLUME_CLAIMS.kind, "namespace": meta["namespace"], "name": meta["name"]}
    return {**about, "uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}


def _volume_for(claim: Object, storage_class: Object) -> Object:
    name = f"pvc-{claim['metadata']['uid']}"
    wanted = claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": wanted["resources"]["requests"]["storage"]},
            "accessModes": wanted["accessModes"],
            "volumeMode": wanted.get("volumeMode") or "Filesystem",
            "claimRef": _claim_reference(claim),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": storage_class["metadata"]["name"],
            "csi": {"driver": PROVISIONER.partition("/")[0], "volumeHandle": name},
        },
    }


async def _write_bound(attached: Attached, claim: Object, volume: Object) -> None:
    spec = volume["spec"]
    await _set_claim_status(attached, claim, {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]})
    if _phase(volume) != "Bound":
        await _set_phase(attached, volume, "Bound")


async def _set_claim_status(attached: Attached, claim: Object, status: Object) -> None:
    before = claim.get("status") or {}
    await patch_status(attached.controllers, PERSISTENT_VOLUME_CLAIMS, claim, {**before, **status})


async def _set_phase(attached: Attached, volume: Object, phase: str) -> None:
    await patch_status(attached.controllers, PERSISTENT_VOLUMES, volume, {**(volume.get("status") or {}), "phase": phase})


def _tell(attached: Attached, claim: Object, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
    about = {"apiVersion": "v1", "kind": PERSISTENT_VOLUME_CLAIMS.kind, "metadata": claim["metadata"]}
    attached.events.event(about, kind, reason, note)
