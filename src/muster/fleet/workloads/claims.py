"""Ownership by selector (as ControllerRefManager): adopt matching orphans, release objects that no longer match."""

from __future__ import annotations

from collections.abc import Iterable

from muster.fleet.attached import controller_of, reference
from muster.kube.selectors import Selector
from muster.machinery.objects import GVR, Object
from muster.runtime.client import Conflict, KubeClient, NotFound


async def claim(
    client: KubeClient,
    owner: Object,
    owner_kind: GVR,
    resource: GVR,
    selector: Selector,
    candidates: Iterable[Object],
    *,
    finalizer: str = "",
) -> list[Object]:
    """The owner's objects among the candidates, after adopting and releasing.

    An owner that is being deleted adopts nothing. Adopted objects get the finalizer, released ones lose it.
    """
    uid, leaving = owner["metadata"]["uid"], bool(owner["metadata"].get("deletionTimestamp"))
    mine = []
    for candidate in candidates:
        controller = controller_of(candidate)
        selected = selector.matches(candidate["metadata"].get("labels") or {})
        if controller is not None and controller["uid"] == uid:
            if selected:
                mine.append(candidate)
            elif not leaving:
                kept = [each for each in candidate["metadata"].get("finalizers") or () if each != finalizer]
                await _change_owner(client, resource, candidate, _without(candidate, uid), kept)
        elif controller is None and selected and not leaving and not candidate["metadata"].get("deletionTimestamp"):
            owners = [*_without(candidate, uid), reference(owner, owner_kind.api_version, owner_kind.kind)]
            held = [*dict.fromkeys((*(candidate["metadata"].get("finalizers") or ()), *((finalizer,) if finalizer else ())))]
            adopted = await _change_owner(client, resource, candidate, owners, held)
            if adopted is not None:
                mine.append(adopted)
    return mine


def _without(obj: Object, uid: str) -> list[Object]:
    return [owner for owner in obj["metadata"].get("ownerReferences") or () if owner.get("uid") != uid]


async def _change_owner(
    client: KubeClient, resource: GVR, obj: Object, owners: list[Object], finalizers: list[str]
) -> Object | None:
    metadata = obj["metadata"]
    read = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    held = {} if finalizers == (metadata.get("finalizers") or []) else {"finalizers": finalizers or None}
    patch = {"metadata": {**read, "ownerReferences": owners or None, **held}}
    try:
        return await client.patch(resource, metadata["name"], patch, metadata["namespace"])
    except (Conflict, NotFound):
        return None  # its next event requeues the owner
