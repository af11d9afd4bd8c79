"""The accepted names of a CRD and the conditions about them. Follows the naming controller of apiextensions
(`pkg/controller/status`).

Names (plural, singular, short names; kind, list kind) must be unique within an API group. The first CRD that uses a name keeps it;
another one that requests it gets the condition NamesAccepted=False and is not served until the name is free. A CRD whose names are
accepted becomes Established and stays Established.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.machinery.objects import Object

Raw = Mapping[str, Any]
FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_RESOURCE_NAMES: Final = ("plural", "singular")
_KIND_NAMES: Final = ("kind", "listKind")


def reconcile_status(definition: Raw, others: Iterable[Raw], now: str) -> Object:
    """The desired status of a CRD, given all other CRDs of the cluster; equal to the present one if nothing is to be done."""
    status: Object = dict(definition.get("status") or {})
    accepted, naming = accept_names(definition, others)
    conditions = [dict(condition) for condition in status.get("conditions") or ()]
    _set_condition(conditions, {"type": "NamesAccepted", **naming}, now)
    established = _find(conditions, "Established")
    if naming["status"] == "True":
        if established is None or established["status"] != "True":
            accepted_condition = {
                "status": "True",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            }
            _set_condition(conditions, {"type": "Established", **accepted_condition}, now)
    elif established is None:
        rejected_condition = {"status": "False", "reason": "NotAccepted", "message": "not all names are accepted"}
        _set_condition(conditions, {"type": "Established", **rejected_condition}, now)
    status["acceptedNames"] = accepted
    status["conditions"] = conditions
    return status


def accept_names(definition: Raw, others: Iterable[Raw]) -> tuple[Object, Object]:
    """The accepted names, and status, reason and message of the condition NamesAccepted."""
    spec = definition["spec"]
    requested: Raw = spec["names"]
    current: Raw = (definition.get("status") or {}).get("acceptedNames") or {}
    resources, kinds = _names_in_use(spec["group"], others)
    accepted: Object = {key: value for key, value in current.items() if value not in ("", None, [])}
    condition: Object = {"status": "True", "reason": "NoConflicts", "message": "no conflicts found"}
    for field in (*_RESOURCE_NAMES, "shortNames", *_KIND_NAMES):
        in_use = kinds if field in _KIND_NAMES else resources
        conflicts = _conflicts(requested.get(field), current.get(field), in_use)
        if conflicts:
            reason = f"{field[0].upper()}{field[1:]}Conflict"
            texts = [f'"{name}" is already in use' for name in conflicts]
            condition = {"status": "False", "reason": reason, "message": texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"}
        elif requested.get(field):
            accepted[field] = requested[field]
        else:
            accepted.pop(field, None)
    if requested.get("categories"):
        accepted["categories"] = requested["categories"]
    else:
        accepted.pop("categories", None)
    accepted.setdefault("plural", "")
    accepted.setdefault("kind", "")
    return accepted, condition


def _conflicts(requested: Any, current: Any, in_use: set[str]) -> list[str]:
    if isinstance(requested, list):
        return [name for name in requested if name not in (current or ()) and name in in_use]
    return [requested] if requested and requested != current and requested in in_use else []


def _names_in_use(group: str, others: Iterable[Raw]) -> tuple[set[str], set[str]]:
    """Resource names and kinds that other CRDs of the group use."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != group:
            continue
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources.update(names.get(field) or "" for field in _RESOURCE_NAMES)
        resources.update(names.get("shortNames") or ())
        kinds.update(names.get(field) or "" for field in _KIND_NAMES)
    return resources - {""}, kinds - {""}


def _find(conditions: list[Object], kind: str) -> Object | None:
    return next((condition for condition in conditions if condition["type"] == kind), None)


def _set_condition(conditions: list[Object], requested: Object, now: str) -> None:
    """Add or update a condition; its transition time changes only with its status."""
    present = _find(conditions, requested["type"])
    if present is None:
        present = {"type": requested["type"], "status": requested["status"], "lastTransitionTime": now}
        conditions.append(present)
    elif present["status"] != requested["status"]:
        present["lastTransitionTime"] = now
    present.update(requested)


def begin_deletion(definition: Object, now: str) -> None:
    """Add the finalizer and the condition Terminating to a CRD that is about to be marked as deleted."""
    meta = definition["metadata"]
    if FINALIZER not in (meta.get("finalizers") or ()):
        meta["finalizers"] = [*(meta.get("finalizers") or ()), FINALIZER]
    definition["status"] = terminating_status(definition.get("status") or {}, CLEANUP_PENDING, now)


def terminating_status(status: Raw, condition: Raw, now: str) -> Object:
    """The status with the given condition Terminating."""
    conditions = [dict(present) for present in status.get("conditions") or ()]
    _set_condition(conditions, {"type": "Terminating", **condition}, now)
    return {**status, "conditions": conditions}


CLEANUP_PENDING: Final[Raw] = {
    "status": "True",
    "reason": "InstanceDeletionPending",
    "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
}
CLEANUP_STARTED: Final[Raw] = {
    "status": "True",
    "reason": "InstanceDeletionInProgress",
    "message": "CustomResource deletion is in progress",
}
CLEANUP_DONE: Final[Raw] = {
    "status": "False",
    "reason": "InstanceDeletionCompleted",
    "message": "removed all instances",
}


def is_served(definition: Raw) -> bool:
    """Whether the CRD is Established, and so its resources are served."""
    conditions = (definition.get("status") or {}).get("conditions") or []
    established = _find(list(conditions), "Established")
    return established is not None and established["status"] == "True"


def needs_cleanup(definition: Raw) -> bool:
    """Whether custom objects of a deleted CRD may still have to be deleted."""
    meta = definition["metadata"]
    return bool(meta.get("deletionTimestamp")) and FINALIZER in (meta.get("finalizers") or ())
