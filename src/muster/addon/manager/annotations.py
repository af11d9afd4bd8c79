"""Annotations of a ManagedCluster that its addons have too, and who put them there.

What of a ManagedCluster's annotations is about addons (a hosting cluster, values, registries) goes to its ManagedClusterAddOns of
addons that are installed by placements, and goes from there when it goes from the cluster. Only what this manager put there is ever
taken away, which the server's books on field managers tell, so it is known after a restart too: what people or the conversion
between versions of the API put on a ManagedClusterAddOn stays.
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
"""They say something of one addon. The last stands for a field of the spec in the other version of the API."""


def passed_on(cluster: Mapping[str, str]) -> dict[str, str]:
    """What of a cluster's annotations its addons have too."""
    return {name: value for name, value in cluster.items() if name.startswith(GROUP) and name not in _OF_ADDONS_ONLY}


def put_here(document: Object) -> frozenset[str]:
    """Annotations of an object that this manager has written last."""
    found: set[str] = set()
    for entry in document["metadata"].get("managedFields") or ():
        if entry.get("manager") == FIELD_MANAGER and not entry.get("subresource"):
            fields = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {}
            found.update(name.removeprefix("f:") for name in fields if name.startswith("f:"))
    return frozenset(found)


def with_passed_on(present: Mapping[str, str], cluster: Mapping[str, str], put: frozenset[str]) -> Mapping[str, str]:
    """The annotations that an addon is to have; `put` are those that this manager has put there."""
    wanted = passed_on(cluster)
    gone = {name for name in put if name.startswith(GROUP) and name not in wanted and name not in _OF_ADDONS_ONLY}
    if not gone and wanted.items() <= present.items():
        return present
    return {name: value for name, value in present.items() if name not in gone} | wanted
