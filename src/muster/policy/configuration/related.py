"""The related objects in a policy's status: the objects read, the result of each, and whether the policy has created it.

Whether the policy has created an object, and its UID, are kept from the last status, since they decide about pruning; only an
object created now is recorded anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from muster.api.policy.v1 import RelatedMetadata, RelatedObject, RelatedProperties, RelatedResource
from muster.machinery.objects import GVR

ANY_NAME: Final = "-"
"""Stands for all objects of the kind if a template without a name matched none."""
_STATES: Final = {True: "Compliant", False: "NonCompliant"}


def related_object(
    resource: GVR,
    kind: str,
    namespace: str,
    name: str,
    *,
    compliant: bool,
    reason: str,
    properties: RelatedProperties | None = None,
) -> RelatedObject:
    metadata = RelatedMetadata(name=name, namespace=namespace if resource.namespaced else "")
    return RelatedObject(
        object=RelatedResource(api_version=resource.api_version, kind=kind, metadata=metadata),
        compliant=_STATES[compliant],
        reason=reason,
        properties=properties,
    )


def add_related(related: list[RelatedObject], added: Iterable[RelatedObject]) -> None:
    """An existing entry is replaced if it differs."""
    for entry in added:
        for at, known in enumerate(related):
            if known.object == entry.object:
                if known.compliant != entry.compliant or known.properties != entry.properties:
                    related[at] = entry
                break
        else:
            related.append(entry)


def settled(related: Iterable[RelatedObject], previous: Sequence[RelatedObject]) -> tuple[RelatedObject, ...]:
    """Sorted, and with the origin of objects from the last status."""
    known = {entry.object: entry.properties for entry in reversed(previous) if entry.properties is not None}
    ordered = sorted(related, key=lambda entry: (entry.object.kind, entry.object.metadata.namespace, entry.object.metadata.name))
    return tuple(_with_origin(entry, known.get(entry.object)) for entry in ordered)


def _with_origin(entry: RelatedObject, known: RelatedProperties | None) -> RelatedObject:
    properties = entry.properties
    if known is None or properties is None or properties.created_by_policy is not False:
        return entry
    kept = msgspec.structs.replace(properties, created_by_policy=known.created_by_policy, uid=known.uid)
    return msgspec.structs.replace(entry, properties=kept)


def was_created(related: Iterable[RelatedObject], uid: str) -> bool:
    """Whether the policy has created the object with this UID."""
    for entry in related:
        properties = entry.properties
        if properties is not None and properties.uid == uid and properties.created_by_policy is not None:
            return properties.created_by_policy
    return False
