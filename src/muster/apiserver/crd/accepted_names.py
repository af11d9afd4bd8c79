"""Which names of a definition are accepted, and what its status says about that.

Names (plural, singular, short names; kind, list kind) must be unique within an API group. The first definition that holds a name
keeps it; another that asks for it gets the condition NamesAccepted=False and is not served until the name is free. A definition
whose names are accepted becomes Established and stays so.
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
    """The status a definition should have, given the other definitions of the cluster; equal to its own if all is settled."""
    status: Object = dict(definition.get("status") or {})
    accepted, naming = accept_names(definition, others)
    conditions = [dict(condition) for condition in status.get("conditions") or ()]
    _set_condition(conditions, {"type": "NamesAccepted", **naming}, now)
    established = _find(conditions, "Established")
    if naming["status"] == "True":
        if established is None or established["status"] != "True":
            settled = {"status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"}
            _set_condition(conditions, {"type": "Established", **settled}, now)
    elif established is None:
        refused = {"status": "False", "reason": "NotAccepted", "message": "not all names are accepted"}
        _set_condition(conditions, {"type": "Established", **refused}, now)
    status["acceptedNames"] = accepted
    status["conditions"] = conditions
    return status


def accept_names(definition: Raw, others: Iterable[Raw]) -> tuple[Object, Object]:
    """The accepted names, and status, reason and message of the condition NamesAccepted."""
    spec = definition["spec"]
    wanted: Raw = spec["names"]
    held: Raw = (definition.get("status") or {}).get("acceptedNames") or {}
    resources, kinds = _taken(spec["group"], others)
    accepted: Object = {key: value for key, value in held.items() if value not in ("", None, [])}
    verdict: Object = {"status": "True", "reason": "NoConflicts", "message": "no conflicts found"}
    for field in (*_RESOURCE_NAMES, "shortNames", *_KIND_NAMES):
        taken = kinds if field in _KIND_NAMES else resources
        conflicts = _conflicts(wanted.get(field), held.get(field), taken)
        if conflicts:
            reason = f"{field[0].upper()}{field[1:]}Conflict"
            texts = [f'"{name}" is already in use' for name in conflicts]
            verdict = {"status": "False", "reason": reason, "message": texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"}
        elif wanted.get(field):
            accepted[field] = wanted[field]
        else:
            accepted.pop(field, None)
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    else:
        accepted.pop("categories", None)
    accepted.setdefault("plural", "")
    accepted.setdefault("kind", "")
    return accepted, verdict


def _conflicts(wanted: Any, held: Any, taken: set[str]) -> list[str]:
    if isinstance(wanted, list):
        return [name for name in wanted if name not in (held or ()) and name in taken]
    return [wanted] if wanted and wanted != held and wanted in taken else []


def _taken(group: str, others: Iterable[Raw]) -> tuple[set[str], set[str]]:
    """Resource names and kinds that other definitions of the group hold."""
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


def _set_condition(conditions: list[Object], wanted: Object, now: str) -> None:
    """The time of a condition moves only when its status does."""
    present = _find(conditions, wanted["type"])
    if present is None:
        present = {"type": wanted["type"], "status": wanted["status"], "lastTransitionTime": now}
        conditions.append(present)
    elif present["status"] != wanted["status"]:
        present["lastTransitionTime"] = now
    present.update(wanted)


def begin_deletion(definition: Object, now: str) -> None:
    """A definition that is deleted waits for its instances to be removed; called with the object as it is about to be marked."""
    meta = definition["metadata"]
    if FINALIZER not in (meta.get("finalizers") or ()):
        meta["finalizers"] = [*(meta.get("finalizers") or ()), FINALIZER]
    definition["status"] = terminating_status(definition.get("status") or {}, CLEANUP_PENDING, now)


def terminating_status(status: Raw, condition: Raw, now: str) -> Object:
    """A status with the condition Terminating as the cleanup of a deleted definition goes on."""
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
    """Whether requests for its resources are answered."""
    conditions = (definition.get("status") or {}).get("conditions") or []
    established = _find(list(conditions), "Established")
    return established is not None and established["status"] == "True"


def needs_cleanup(definition: Raw) -> bool:
    """Whether a deleted definition still has instances to be removed."""
    meta = definition["metadata"]
    return bool(meta.get("deletionTimestamp")) and FINALIZER in (meta.get("finalizers") or ())
