"""Annotations of a ManagedCluster that are copied to its addons, and their field manager.

Annotations of a ManagedCluster about addons (a hosting cluster, values, registries) are copied to its ManagedClusterAddOns that
placements install, and removed with the cluster's. Only annotations that this manager set are removed, which managedFields show,
also after a restart: those set by users or by API conversion stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.api.addon.conversion import INSTALL_NAMESPACE_ANNOTATION
from muster.api.addon.v1alpha1 import GROUP
from muster.api.addons import LIFECYCLE_ANNOTATION, MANUAL_ANNOTATION
from muster.machinery.objects import Object

FIELD_MANAGER: Final = "muster-addon-manager"
_OF_ADDONS_ONLY: Final = frozenset((MANUAL_ANNOTATION, LIFECYCLE_ANNOTATION, INSTALL_NAMESPACE_ANNOTATION))
"""Annotations about a single addon. The last one represents a field of the spec in the other API version."""


def passed_on(cluster: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a cluster that are copied to its addons."""
    return {name: value for name, value in cluster.items() if name.startswith(GROUP) and name not in _OF_ADDONS_ONLY}


def put_here(document: Object) -> frozenset[str]:
    """The annotations of an object that this manager owns."""
    found: set[str] = set()
    for entry in document["metadata"].get("managedFields") or ():
        if entry.get("manager") == FIELD_MANAGER and not entry.get("subresource"):
            fields = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {}
            found.update(name.removeprefix("f:") for name in fields if name.startswith("f:"))
    return frozenset(found)


def with_passed_on(present: Mapping[str, str], cluster: Mapping[str, str], put: frozenset[str]) -> Mapping[str, str]:
    """The desired annotations of an addon; `put` are those that this manager owns."""
    wanted = passed_on(cluster)
    gone = {name for name in put if name.startswith(GROUP) and name not in wanted and name not in _OF_ADDONS_ONLY}
    if not gone and wanted.items() <= present.items():
        return present
    return {name: value for name, value in present.items() if name not in gone} | wanted
