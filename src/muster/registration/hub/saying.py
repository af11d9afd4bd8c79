"""How controllers of the hub say one thing about an object: one condition, as a patch of what was read, or nothing at all."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import msgspec

from muster.api import Condition, Resource, merge_patch, with_condition
from muster.kube.duration import format_time
from muster.registration.kinds import served
from muster.runtime.errors import NotFound
from muster.runtime.verbs import KubeClient

R = TypeVar("R", bound=Resource)


def with_said(obj: R, condition: Condition, now: datetime) -> R:
    """The object with this condition in its status; its kind must have conditions."""
    status = obj.status  # type: ignore[attr-defined]  # see above
    conditions = with_condition(status.conditions, condition, format_time(now))
    return msgspec.structs.replace(obj, status=msgspec.structs.replace(status, conditions=conditions))


async def patch_read(client: KubeClient, before: R, after: R, *, status: bool = False) -> bool:
    """Write what differs, if the object is still the one that was read; False when nothing does, or when it is gone.

    Raises Conflict when somebody wrote in between.
    """
    patch = merge_patch(before, after)
    if not patch:
        return False
    metadata = before.metadata
    patch["metadata"] = {**patch.get("metadata", {}), "uid": metadata.uid, "resourceVersion": metadata.resource_version}
    subresource = "status" if status else ""
    try:
        await client.patch(served(type(before)), metadata.name, patch, metadata.namespace, subresource=subresource)
    except NotFound:
        return False
    return True


async def say(client: KubeClient, obj: R, condition: Condition, now: datetime) -> bool:
    """Put a condition on an object; False when it says so already."""
    return await patch_read(client, obj, with_said(obj, condition, now), status=True)
