"""The owner of a ManagedClusterAddOn: the ClusterManagementAddOn of its name, as controller reference."""

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
    """The owner references with that of the addon. One with its name and another uid is of a deleted predecessor. An object has one
    controller: if there is another one, the addon becomes a non-controller owner."""
    others = tuple(one for one in present if not _is_addon(one))
    owner = owner_of(addon)
    if any(one.controller for one in others):
        owner = msgspec.structs.replace(owner, controller=False)
    ours = [one for one in present if _is_addon(one)]
    if len(ours) == 1 and (ours[0].name, ours[0].uid, ours[0].controller) == (owner.name, owner.uid, owner.controller):
        # The apiVersion of the reference does not matter.
        return present
    return (*others, owner)


def _is_addon(owner: OwnerReference) -> bool:
    return owner.kind == _KIND.kind and owner.api_version.partition("/")[0] == _KIND.group
