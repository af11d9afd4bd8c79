"""Claims of a StatefulSet's pods: created before the pod, and owned by set or pod if the retention policy is Delete."""

from __future__ import annotations

from muster.fleet.attached import Attached, reference
from muster.fleet.workloads.statefulsets.identity import claims_of, ordinal_of, ordinals
from muster.machinery.objects import Object
from muster.runtime.client import AlreadyExists, Conflict, NotFound, StatusError
from muster.runtime.client.builtin import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS


class ClaimBeingDeleted(Exception):
    """A pod's claim is being deleted: the pod waits for the next one of that name."""


async def create_missing_claims(attached: Attached, found: Object, pod: str, ordinal: int) -> None:
    """Raises `StatusError`, after recording an event, and `ClaimBeingDeleted`."""
    for wanted in claims_of(found, ordinal):
        metadata = wanted["metadata"]
        there = attached.view.read(PERSISTENT_VOLUME_CLAIMS, f"{metadata['namespace']}/{metadata['name']}")
        if there is not None:
            if there["metadata"].get("deletionTimestamp"):
                raise ClaimBeingDeleted(f"pvc {metadata['name']} is being deleted")
            continue
        about = f"Claim {metadata['name']} {{}}Pod {pod} in StatefulSet {found['metadata']['name']}"
        try:
            await attached.controllers.create(PERSISTENT_VOLUME_CLAIMS, wanted, metadata["namespace"])
        except AlreadyExists:
            continue
        except StatusError as problem:
            attached.events.event(found, "Warning", "FailedCreate", f"Create {about.format('for ')} failed error: {problem}")
            raise
        attached.events.event(found, "Normal", "SuccessfulCreate", f"Create {about.format('')} success")


def is_stale(attached: Attached, found: Object, pod: str, ordinal: int) -> bool:
    """Whether a claim still belongs to the previous pod of the name, with which it is to be deleted."""
    if _policy(found, "whenScaled") != "Delete":
        return False
    for claim in _present(attached, found, ordinal):
        owners = claim["metadata"].get("ownerReferences") or ()
        if any((owner.get("kind"), owner.get("name")) == (PODS.kind, pod) for owner in owners):
            return True
    return False


async def apply_retention(attached: Attached, found: Object, pod: Object) -> bool:
    """Set the owners of the pod's claims by the policy; returns whether anything changed."""
    changed = False
    for claim in _present(attached, found, ordinal_of(pod, found)):
        owners = wanted_owners(attached, found, pod, claim)
        if owners is None:
            continue
        metadata = claim["metadata"]
        read = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": {**read, "ownerReferences": owners or None}}
        try:
            await attached.controllers.patch(PERSISTENT_VOLUME_CLAIMS, metadata["name"], patch, metadata["namespace"])
        except (Conflict, NotFound):
            continue
        changed = True
    return changed


def wanted_owners(attached: Attached, found: Object, pod: Object, claim: Object) -> list[Object] | None:
    """The wanted owner references of the claim; None if they are right already, or not managed here."""
    present = list(claim["metadata"].get("ownerReferences") or ())
    owners = {owner["metadata"]["uid"]: (kind, owner) for kind, owner in ((STATEFUL_SETS, found), (PODS, pod))}
    names = {(kind.kind, owner["metadata"]["name"]): uid for uid, (kind, owner) in owners.items()}
    if any(names.get((each.get("kind"), each.get("name")), each.get("uid")) != each.get("uid") for each in present):
        return None  # it belongs to an earlier set or pod of that name, with which it is deleted
    ours = {each["uid"]: each for each in present if each.get("uid") in owners}
    others = [each for each in present if each.get("uid") not in owners]
    scaled, deleted = _policy(found, "whenScaled") == "Delete", _policy(found, "whenDeleted") == "Delete"
    if (scaled or deleted) and any(each.get("controller") for each in others):
        name = claim["metadata"]["name"]
        text = f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, "
        note = f"{text}the retention policy is ignored for this claim"
        attached.events.event(found, "Warning", "ConflictingController", note)
        return others if ours else None
    condemned = ordinal_of(pod, found) not in ordinals(found)
    wanted = pod if scaled and condemned else found if deleted else None
    if {uid: bool(each.get("controller")) for uid, each in ours.items()} == ({wanted["metadata"]["uid"]: True} if wanted else {}):
        return None
    if wanted is None:
        return others
    kind = owners[wanted["metadata"]["uid"]][0]
    return [*others, reference(wanted, kind.api_version, kind.kind)]


def _policy(found: Object, moment: str) -> str:
    return str((found["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(moment) or "Retain")


def _present(attached: Attached, found: Object, ordinal: int) -> list[Object]:
    namespace = found["metadata"]["namespace"]
    keys = (f"{namespace}/{claim['metadata']['name']}" for claim in claims_of(found, ordinal))
    read = (attached.view.read(PERSISTENT_VOLUME_CLAIMS, key) for key in keys)
    return [claim for claim in read if claim is not None]
