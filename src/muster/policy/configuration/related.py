"""The objects that a policy's status names as related to it: what was looked at, what came of it, and whether the policy made it.

Whether the policy made an object, and its UID, stay as the last status has them, since they decide what is pruned; only an object
that was made now says so anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from muster.api.policy.v1 import RelatedMetadata, RelatedObject, RelatedProperties, RelatedResource
from muster.machinery.objects import GVR

ANY_NAME: Final = "-"
"""Stands for all objects of the kind, where an unnamed template found none that it means."""
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
    """An object that is there already is replaced when something else is said of it."""
    for entry in added:
        for at, known in enumerate(related):
            if known.object == entry.object:
                if known.compliant != entry.compliant or known.properties != entry.properties:
                    related[at] = entry
                break
        else:
            related.append(entry)


def settled(related: Iterable[RelatedObject], previous: Sequence[RelatedObject]) -> tuple[RelatedObject, ...]:
    """In order, and with what the last status knows of who made an object."""
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
    """Whether the policy made the object that had this UID."""
    for entry in related:
        properties = entry.properties
        if properties is not None and properties.uid == uid and properties.created_by_policy is not None:
            return properties.created_by_policy
    return False
