"""The result of one object of a template: events in the order they happened, and its entry in the related objects.

An event is a reported state, `Compliant` or not, with a reason. Several events mean that something was enforced: the state
before, and the state after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.api.policy.v1 import RelatedObject

FOUND: Final = "Resource found as expected"
CREATED: Final = "K8s creation success"
UPDATED: Final = "K8s update success"
DELETED: Final = "K8s deletion success"
NO_MATCH: Final = "Resource found but does not match"
NOT_FOUND: Final = "Resource not found but should exist"
UNWANTED: Final = "Resource found but should not exist"
ABSENT: Final = "Resource not found as expected"
CREATE_ERROR: Final = "K8s creation error"
DELETE_ERROR: Final = "K8s deletion error"
UPDATE_ERROR: Final = "K8s update template error"
API_ERROR: Final = "api error"
MAPPING_ERROR: Final = "K8s error"
UNWATCHABLE: Final = "unwatchable resource"
DECODE_ERROR: Final = "K8s decode object definition error"
NAMESPACE_SELECTOR_ERROR: Final = "namespaceSelector error"
OBJECT_SELECTOR_ERROR: Final = "objectSelector error"
NO_NAMESPACE: Final = "K8s missing namespace"
TEMPLATE_ERROR: Final = "Error processing template"
STATUS_UNCHECKED: Final = ", status unchecked"


@dataclass(frozen=True)
class ObjectEvent:
    compliant: bool
    reason: str
    message: str = ""
    """Empty if the reason and the objects' names are sufficient."""


@dataclass(frozen=True)
class ObjectResult:
    events: tuple[ObjectEvent, ...]
    names: tuple[str, ...] = ()
    """The objects that the events are about, if the template has no name."""
    related: tuple[RelatedObject, ...] = ()
    error: Exception | None = None
    """The error of the API server."""
