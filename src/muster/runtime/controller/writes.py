"""How controllers write: the difference between what was read and what should be, valid for that version only.

ManagedClusters are written by many controllers; for them see `hub/cluster_writer.py`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from muster.api import Condition, Resource, merge_patch, with_condition
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import NotFound
from muster.runtime.client.typed import served

R = TypeVar("R", bound=Resource)


async def patch_read(client: KubeClient, before: R, after: R, *, status: bool = False) -> Object | None:
    """Write what differs, in the status or in all else. Gives the answer; None when nothing differs or the object is gone.

    Raises Conflict when somebody wrote in between.
    """
    was, is_now = _status(before), _status(after)
    patch = merge_patch(before, _with_status(before, is_now) if status else _with_status(after, was))
    if not patch:
        return None
    metadata = before.metadata
    patch["metadata"] = {**patch.get("metadata", {}), "uid": metadata.uid, "resourceVersion": metadata.resource_version}
    subresource = "status" if status else ""
    try:
        return await client.patch(served(type(before)), metadata.name, patch, metadata.namespace, subresource=subresource)
    except NotFound:
        return None


def with_said(obj: R, condition: Condition, now: datetime) -> R:
    """The object with this condition in its status; its kind must have conditions."""
    status = _status(obj)
    conditions = with_condition(status.conditions, condition, format_time(now))
    return _with_status(obj, msgspec.structs.replace(status, conditions=conditions))


async def say(client: KubeClient, obj: R, condition: Condition, now: datetime) -> bool:
    """Put a condition on an object; False when it says so already."""
    return await patch_read(client, obj, with_said(obj, condition, now), status=True) is not None


def _status(obj: Resource) -> Any:
    return obj.status  # type: ignore[attr-defined]  # all of our kinds on the hub have one, each of its own type


def _with_status(obj: R, status: Any) -> R:
    return msgspec.structs.replace(obj, status=status)
