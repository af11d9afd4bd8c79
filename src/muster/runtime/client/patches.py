"""Minimal writes: patches computed from two versions of an object, status patches, and retries on conflict.

`patch_changes`, `patch_status` and `json_patch` compute the smallest patch of their kind from two documents (old, new); lists are
replaced as a whole, as a merge patch must. A writer that decided from what it read sets `optimistic`: then the patch has the
resourceVersion that it read, and fails with `Conflict` if the object was written in between. `patch_object` always does that, for
two versions of a typed object: only fields that differ are written, so fields that the type does not have are kept.
"""

from __future__ import annotations

import random as chance
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from muster.api import TypedObject, merge_patch
from muster.kube.patching.mergepatch import merge_patch_between
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import Conflict, NotFound
from muster.runtime.client.typed import served

T = TypeVar("T")
R = TypeVar("R", bound=TypedObject)
CONFLICT_ATTEMPTS = 5


def as_dict(obj: Any) -> Object:
    """The JSON form of an object, typed or not."""
    return obj if isinstance(obj, dict) else msgspec.to_builtins(obj)


def json_patch(old: Any, new: Any) -> list[Object]:
    """The RFC 6902 patch from `old` to `new`; lists that differ are replaced."""
    operations: list[Object] = []
    _operations(as_dict(old), as_dict(new), "", operations)
    return operations


def _operations(old: Any, new: Any, path: str, operations: list[Object]) -> None:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in old:
            if key not in new:
                operations.append({"op": "remove", "path": f"{path}/{_pointer(key)}"})
        for key, value in new.items():
            below = f"{path}/{_pointer(key)}"
            if key in old:
                _operations(old[key], value, below, operations)
            else:
                operations.append({"op": "add", "path": below, "value": value})
    elif old != new or type(old) is not type(new):
        operations.append({"op": "replace", "path": path, "value": new})


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


async def patch_changes(
    client: KubeClient,
    resource: GVR,
    old: Any,
    new: Any,
    *,
    subresource: str = "",
    optimistic: bool = False,
    manager: str = "",
) -> Object | None:
    """Write the difference; None if there is none. The status is written by `patch_status` only."""
    before, after = as_dict(old), as_dict(new)
    if not subresource:
        before, after = _without(before, "status"), _without(after, "status")
    patch = merge_patch_between(before, after)
    if not patch:
        return None
    metadata = before["metadata"]
    if optimistic:
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
    return await client.patch(
        resource, metadata["name"], patch, metadata.get("namespace") or "", subresource=subresource, manager=manager
    )


async def patch_status(
    client: KubeClient, resource: GVR, old: Any, status: Any, *, optimistic: bool = False, manager: str = ""
) -> Object | None:
    """Set the object's status, writing only what differs; None if nothing does."""
    before = as_dict(old)
    kept = {"metadata": before["metadata"], "status": before.get("status") or {}}
    wanted = {"metadata": before["metadata"], "status": as_dict(status)}
    return await patch_changes(client, resource, kept, wanted, subresource="status", optimistic=optimistic, manager=manager)


def _without(obj: Object, field: str) -> Object:
    return {key: value for key, value in obj.items() if key != field}


async def patch_object(client: KubeClient, before: R, after: R, *, status: bool = False, manager: str = "") -> Object | None:
    """Write the difference of two versions of a typed object, either in the status or in the other fields; fails if the object was
    written since.

    Returns the response; None if nothing differs or the object is gone. Raises Conflict if another client has written in between.
    """
    was, is_now = _status(before), _status(after)
    patch = merge_patch(before, _with_status(before, is_now) if status else _with_status(after, was))
    if not patch:
        return None
    metadata = before.metadata
    patch["metadata"] = {**patch.get("metadata", {}), "uid": metadata.uid, "resourceVersion": metadata.resource_version}
    subresource = "status" if status else ""
    try:
        return await client.patch(
            served(type(before)), metadata.name, patch, metadata.namespace, subresource=subresource, manager=manager
        )
    except NotFound:
        return None


def _status(obj: TypedObject) -> Any:
    return obj.status  # type: ignore[attr-defined]  # all kinds that are written so have one, each of its own type


def _with_status(obj: R, status: Any) -> R:
    return msgspec.structs.replace(obj, status=status)


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]], *, attempts: int = CONFLICT_ATTEMPTS, clock: Clock = SYSTEM, random: Random = chance.random
) -> T:
    """`attempt` must read the object again each time; the last conflict is raised."""
    backoff = Backoff(0.01, 1.0, random=random)
    for _ in range(attempts - 1):
        try:
            return await attempt()
        except Conflict:
            await sleep(clock, backoff.next())
    return await attempt()
