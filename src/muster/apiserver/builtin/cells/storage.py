"""Cells of volumes, claims and the storage.k8s.io kinds."""

from __future__ import annotations

from collections.abc import Mapping

from muster.apiserver.builtin.cells.formats import NONE, UNSET, Cell, at, count, spec, status
from muster.machinery.objects import Object

_MODES = (("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP"))
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _access_modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES if mode in (modes or ()))


def _phase(obj: Object) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else str(status(obj).get("phase", ""))


def _claim(volume: Object) -> str:
    claim = spec(volume).get("claimRef")
    return "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"


def _storage_class(obj: Object) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations[_CLASS_ANNOTATION] if _CLASS_ANNOTATION in annotations else spec(obj).get("storageClassName") or "")


def _claim_capacity(claim: Object) -> str:
    return str((status(claim).get("capacity") or {}).get("storage", "0")) if spec(claim).get("volumeName") else ""


def _claim_modes(claim: Object) -> str:
    return _access_modes(status(claim).get("accessModes")) if spec(claim).get("volumeName") else ""


def _class_name(obj: Object) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return f"{obj['metadata']['name']}{' (default)' if default else ''}"


def _token_requests(driver: Object) -> str:
    requests = spec(driver).get("tokenRequests")
    return UNSET if requests is None else ",".join(request.get("audience", "") for request in requests)


CELLS: Mapping[str, Mapping[str, Cell]] = {
    "PersistentVolume": {
        "Capacity": at("spec", "capacity", "storage", absent="0"),
        "Access Modes": lambda obj: _access_modes(spec(obj).get("accessModes")),
        "Reclaim Policy": at("spec", "persistentVolumeReclaimPolicy"),
        "Status": _phase,
        "Claim": _claim,
        "StorageClass": _storage_class,
        "VolumeAttributesClass": at("spec", "volumeAttributesClassName", absent=UNSET),
        "Reason": at("status", "reason"),
        "VolumeMode": at("spec", "volumeMode", absent=UNSET),
    },
    "PersistentVolumeClaim": {
        "Status": _phase,
        "Volume": at("spec", "volumeName"),
        "Capacity": _claim_capacity,
        "Access Modes": _claim_modes,
        "StorageClass": _storage_class,
        "VolumeAttributesClass": at("spec", "volumeAttributesClassName", absent=UNSET),
        "VolumeMode": at("spec", "volumeMode", absent=UNSET),
    },
    "StorageClass": {
        "Name": _class_name,
        "Provisioner": at("provisioner"),
        "ReclaimPolicy": at("reclaimPolicy", absent="Delete"),
        "VolumeBindingMode": at("volumeBindingMode", absent="Immediate"),
        "AllowVolumeExpansion": at("allowVolumeExpansion", absent=False),
    },
    "VolumeAttributesClass": {"DriverName": at("driverName")},
    "VolumeAttachment": {
        "Attacher": at("spec", "attacher"),
        "PV": at("spec", "source", "persistentVolumeName"),
        "Node": at("spec", "nodeName"),
        "Attached": at("status", "attached", absent=False),
    },
    "CSINode": {"Drivers": count("spec", "drivers")},
    "CSIDriver": {
        "AttachRequired": at("spec", "attachRequired", absent=True),
        "PodInfoOnMount": at("spec", "podInfoOnMount", absent=False),
        "StorageCapacity": at("spec", "storageCapacity", absent=False),
        "TokenRequests": _token_requests,
        "RequiresRepublish": at("spec", "requiresRepublish", absent=False),
        "Modes": lambda obj: ",".join(spec(obj).get("volumeLifecycleModes") or ()) or NONE,
    },
}
