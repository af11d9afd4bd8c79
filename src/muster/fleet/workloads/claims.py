"""Who belongs to whom: a controller keeps what it owns and selects, adopts what nobody owns, releases what it no longer selects."""

from __future__ import annotations

from collections.abc import Iterable

from muster.fleet.attached import controller_of, reference
from muster.kube.selectors import Selector
from muster.machinery.objects import GVR, Object
from muster.runtime.client import Conflict, KubeClient, NotFound


async def claim(
    client: KubeClient, owner: Object, owner_kind: GVR, resource: GVR, selector: Selector, candidates: Iterable[Object]
) -> list[Object]:
    """The candidates that are the owner's after adopting and releasing. An owner on its way out claims nothing new."""
    uid, leaving = owner["metadata"]["uid"], bool(owner["metadata"].get("deletionTimestamp"))
    mine = []
    for candidate in candidates:
        controller = controller_of(candidate)
        selected = selector.matches(candidate["metadata"].get("labels") or {})
        if controller is not None and controller["uid"] == uid:
            if selected:
                mine.append(candidate)
            elif not leaving:
                await _change_owner(client, resource, candidate, _without(candidate, uid))
        elif controller is None and selected and not leaving and not candidate["metadata"].get("deletionTimestamp"):
            owners = [*_without(candidate, uid), reference(owner, owner_kind.api_version, owner_kind.kind)]
            adopted = await _change_owner(client, resource, candidate, owners)
            if adopted is not None:
                mine.append(adopted)
    return mine


def _without(obj: Object, uid: str) -> list[Object]:
    return [owner for owner in obj["metadata"].get("ownerReferences") or () if owner.get("uid") != uid]


async def _change_owner(client: KubeClient, resource: GVR, obj: Object, owners: list[Object]) -> Object | None:
    metadata = obj["metadata"]
    patch = {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "ownerReferences": owners or None}
    }
    try:
        return await client.patch(resource, metadata["name"], patch, metadata["namespace"])
    except (Conflict, NotFound):
        return None  # its next event brings us back
