"""Related objects: the objects of the cluster that an OperatorPolicy has read, and the state of each. Reasons are upstream's."""

from __future__ import annotations

from typing import Final, Literal

from muster.api.policy.v1 import RelatedMetadata, RelatedResource
from muster.api.policy.v1beta1 import RelatedObject, RelatedProperties
from muster.machinery.objects import GVR, Object
from muster.policy.operators.kinds import name_of, namespace_of, uid_of

FOUND: Final = "Resource found as expected"
CREATED: Final = "K8s creation success"
UPDATED: Final = "K8s update success"
DELETED: Final = "K8s deletion success"
MISMATCHED: Final = "Resource found but does not match"
MISSING: Final = "Resource not found but should exist"
UNWANTED: Final = "Resource found but should not exist"
ABSENT: Final = "Resource not found as expected"
NOT_APPLICABLE: Final = "Resource found but will not be handled in mustnothave mode"
DELETING: Final = "The object is being deleted but has not been removed yet"
NO_NAME: Final = "-"
"""Stands for an unknown name of an object."""

Compliance = Literal["Compliant", "NonCompliant", "Inapplicable", ""]


def named(resource: GVR, name: str, namespace: str, compliant: Compliance, reason: str) -> RelatedObject:
    """An object of which only the name is known."""
    metadata = RelatedMetadata(name=name or NO_NAME, namespace=namespace)
    described = RelatedResource(kind=resource.kind, api_version=resource.api_version, metadata=metadata)
    return RelatedObject(object=described, compliant=compliant, reason=reason)


def wanted(resource: GVR, obj: Object, compliant: Compliance, reason: str) -> RelatedObject:
    """An object that does not exist, or no longer exists."""
    return named(resource, name_of(obj), namespace_of(obj), compliant, reason)


def existing(resource: GVR, obj: Object, compliant: Compliance, reason: str, *, created: bool = False) -> RelatedObject:
    """An existing object."""
    related = named(resource, name_of(obj), namespace_of(obj), compliant, reason)
    properties = RelatedProperties(uid=uid_of(obj), created_by_policy=True if created else None)
    return RelatedObject(object=related.object, compliant=compliant, reason=reason, properties=properties)


def leftover(resource: GVR, obj: Object) -> RelatedObject:
    """An object that a mustnothave policy does not remove."""
    reason = f"The {resource.kind} is attached to a mustnothave policy, but does not need to be removed"
    return existing(resource, obj, "", reason)
