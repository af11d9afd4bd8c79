"""Volumes, claims, and storage classes."""

from __future__ import annotations

from typing import Final

from muster.apiserver.builtin.kinds.checks import Errors, immutable, label_selector, named_like, one_of, qualified, require, spec_of
from muster.apiserver.registry.strategy import HookContext
from muster.kube import names
from muster.kube.fielderrors import forbidden, invalid, not_supported, required
from muster.machinery.golang.quantities import QuantityError, parse_quantity
from muster.machinery.objects import Object

_MODES: Final = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
_SOURCES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs", "iscsi",
    "cinder", "fc", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local",
    "storageos", "csi", "flexVolume",
)  # fmt: skip


def prepare_volume_or_claim(ctx: HookContext, obj: Object, old: Object | None) -> None:
    if old is not None:
        return
    obj["status"] = {"phase": "Pending"}
    if obj["kind"] == "PersistentVolume":
        obj["status"]["lastPhaseTransitionTime"] = ctx.now()


def _access_modes(spec: Object, path: str, missing: str) -> Errors:
    modes = spec.get("accessModes") or []
    errors: Errors = [] if modes else [required(f"{path}.accessModes", missing)]
    errors += [not_supported(f"{path}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        errors.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    return errors


def validate_claim(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors = label_selector(spec.get("selector"), "spec.selector")
    errors += _access_modes(spec, "spec", "at least 1 access mode is required")
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if amount is None:
        errors.append(required("spec.resources[storage]"))
    elif _not_positive(amount):
        errors.append(invalid("spec.resources[storage]", amount, "must be greater than zero"))
    if spec.get("storageClassName"):
        errors += named_like(names.dns1123_subdomain, spec["storageClassName"], "spec.storageClassName")
    errors += one_of(spec.get("volumeMode"), ["Block", "Filesystem"], "spec.volumeMode", optional=True)
    return errors if old is None else errors + _claim_update(spec, spec_of(old))


def _not_positive(amount: str) -> bool:
    try:
        return parse_quantity(str(amount)).nanos <= 0
    except QuantityError:
        return True


_CLAIM_MUTABLE: Final = ("resources", "volumeAttributesClassName", "volumeName")


def _claim_update(spec: Object, before: Object) -> Errors:
    free = _CLAIM_MUTABLE if not before.get("volumeName") else _CLAIM_MUTABLE[:2]
    unchanged = {k: v for k, v in spec.items() if k not in free} == {k: v for k, v in before.items() if k not in free}
    if before.get("storageClassName") is None and spec.get("storageClassName") is not None:
        unchanged = True
    if unchanged:
        return []
    text = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
    return [forbidden("spec", text), *immutable(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode")]


def validate_volume(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors = _access_modes(spec, "spec", "")
    capacity = spec.get("capacity") or {}
    if not capacity:
        errors.append(required("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(not_supported("spec.capacity", capacity or None, ["storage"]))
    elif _not_positive(capacity["storage"]):
        errors.append(invalid("spec.capacity[storage]", capacity["storage"], "must be greater than zero"))
    policies = ["Delete", "Recycle", "Retain"]
    errors += one_of(spec.get("persistentVolumeReclaimPolicy"), policies, "spec.persistentVolumeReclaimPolicy", optional=True)
    given = [source for source in _SOURCES if spec.get(source) is not None]
    errors += [forbidden(f"spec.{source}", "may not specify more than 1 volume type") for source in given[1:]]
    if not given:
        errors.append(required("spec", "must specify a volume type"))
    if spec.get("storageClassName"):
        errors += named_like(names.dns1123_subdomain, spec["storageClassName"], "spec.storageClassName")
    errors += one_of(spec.get("volumeMode"), ["Block", "Filesystem"], "spec.volumeMode", optional=True)
    if old is not None:
        before = spec_of(old)
        if any(spec.get(source) != before.get(source) for source in _SOURCES):
            text = "spec.persistentvolumesource is immutable after creation\n"
            errors.append(forbidden("spec.persistentvolumesource", text))
        errors += immutable(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode")
    return errors


def validate_storage_class(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    if old is not None:
        errors = [
            forbidden(field, f"updates to {field} are forbidden.")
            for field in ("parameters", "provisioner", "reclaimPolicy")
            if (obj.get(field) or None) != (old.get(field) or None)
        ]
        return errors + immutable(obj.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")
    provisioner = obj.get("provisioner", "")
    errors = qualified(provisioner.lower(), "provisioner") if provisioner else [required("provisioner")]
    errors += [invalid("parameters", key, "field can not be empty.") for key in obj.get("parameters") or () if not key]
    errors += one_of(obj.get("reclaimPolicy"), ["Delete", "Retain"], "reclaimPolicy", optional=True)
    return errors + one_of(obj.get("volumeBindingMode"), ["Immediate", "WaitForFirstConsumer"], "volumeBindingMode")


def validate_attributes_class(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    if old is not None:
        frozen = [field for field in ("driverName", "parameters") if obj.get(field) != old.get(field)]
        return [forbidden(field, f"updates to {field} are forbidden.") for field in frozen]
    driver = obj.get("driverName", "")
    errors = qualified(driver.lower(), "driverName") if driver else [required("driverName")]
    return errors if obj.get("parameters") else [*errors, required("parameters", "must contain at least one key/value pair")]


def validate_csi_driver(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    policies = ["File", "None", "ReadWriteOnceWithFSType"]
    errors = one_of(spec.get("fsGroupPolicy"), policies, "spec.fsGroupPolicy", optional=True)
    for mode in spec.get("volumeLifecycleModes") or ():
        errors += one_of(mode, ["Persistent", "Ephemeral"], "spec.volumeLifecycleModes")
    if old is not None:
        before = spec_of(old)
        errors += immutable(spec.get("attachRequired"), before.get("attachRequired"), "spec.attachedRequired")
        errors += immutable(spec.get("volumeLifecycleModes"), before.get("volumeLifecycleModes"), "spec.volumeLifecycleModes")
    return errors


def validate_csi_node(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    errors: Errors = []
    for index, driver in enumerate(spec_of(obj).get("drivers") or ()):
        for field in ("name", "nodeID"):
            if not driver.get(field):
                errors.append(required(f"spec.drivers[{index}].{field}"))
    return errors


def validate_attachment(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors = require(spec, "attacher", "spec")
    source = spec.get("source") or {}
    if source.get("persistentVolumeName") is None and source.get("inlineVolumeSpec") is None:
        errors.append(required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
    errors += named_like(names.dns1123_subdomain, spec.get("nodeName", ""), "spec.nodeName")
    return errors if old is None else errors + immutable(spec, spec_of(old), "spec")


def validate_capacity(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    name = obj.get("storageClassName", "")
    errors = named_like(names.dns1123_subdomain, name, "storageClassName")
    if old is not None:
        errors += immutable(name, old.get("storageClassName", ""), "storageClassName")
        errors += immutable(obj.get("nodeTopology"), old.get("nodeTopology"), "nodeTopology")
    return errors
