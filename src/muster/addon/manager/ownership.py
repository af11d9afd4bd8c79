"""Whose a ManagedClusterAddOn is: the ClusterManagementAddOn of its name, its controller, which takes it along when it goes."""

from __future__ import annotations

import msgspec

from muster.api.addon.v1alpha1 import ClusterManagementAddOn
from muster.api.resource import OwnerReference

_KIND = ClusterManagementAddOn.resource


def owner_of(addon: ClusterManagementAddOn) -> OwnerReference:
    metadata = addon.metadata
    return OwnerReference(
        api_version=_KIND.api_version,
        kind=_KIND.kind,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def with_owner(present: tuple[OwnerReference, ...], addon: ClusterManagementAddOn) -> tuple[OwnerReference, ...]:
    """The owners with the addon among them. One of its name with another uid was before it, and is no more. An object has one
    controller: where somebody else is it already, the addon is an owner beside."""
    others = tuple(one for one in present if not _is_addon(one))
    owner = owner_of(addon)
    if any(one.controller for one in others):
        owner = msgspec.structs.replace(owner, controller=False)
    ours = [one for one in present if _is_addon(one)]
    if len(ours) == 1 and (ours[0].name, ours[0].uid, ours[0].controller) == (owner.name, owner.uid, owner.controller):
        # Which version of the API it names makes no difference.
        return present
    return (*others, owner)


def _is_addon(owner: OwnerReference) -> bool:
    return owner.kind == _KIND.kind and owner.api_version.partition("/")[0] == _KIND.group
