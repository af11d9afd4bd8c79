"""Finalizers: the names of those who still have something to do before an object may go (as controller-runtime's controllerutil).

A finalizer is added before anything is made that it is to clean up, and removed when nothing of that is left. Both are patches of
the list alone that hold for the version that was read: a merge patch replaces lists whole, and a list made from an older version
would take away what others have added since. Then the write is a `Conflict`, and is decided anew.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from muster.api import TypedObject
from muster.machinery.objects import Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.patches import patch_object

R = TypeVar("R", bound=TypedObject)


def has_finalizer(obj: TypedObject, finalizer: str) -> bool:
    return finalizer in obj.metadata.finalizers


def with_finalizer(obj: R, finalizer: str) -> R:
    """The object, held by this finalizer too. Servers refuse new ones on what is being deleted."""
    return obj if has_finalizer(obj, finalizer) else _with(obj, (*obj.metadata.finalizers, finalizer))


def without_finalizer(obj: R, finalizer: str) -> R:
    return _with(obj, tuple(one for one in obj.metadata.finalizers if one != finalizer)) if has_finalizer(obj, finalizer) else obj


async def add_finalizer(client: KubeClient, obj: R, finalizer: str) -> Object | None:
    """Gives the answer; None when it is there already, or the object is gone."""
    return await patch_object(client, obj, with_finalizer(obj, finalizer))


async def remove_finalizer(client: KubeClient, obj: R, finalizer: str) -> Object | None:
    """Gives the answer; None when it is not there, or the object is gone."""
    return await patch_object(client, obj, without_finalizer(obj, finalizer))


def removal_patch(obj: Object, finalizer: str) -> Object | None:
    """For documents: the merge patch that takes a finalizer away; None when it is not there."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or ()
    if finalizer not in finalizers:
        return None
    left = [one for one in finalizers if one != finalizer]
    return {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "finalizers": left}}


def _with(obj: R, finalizers: tuple[str, ...]) -> R:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, finalizers=finalizers))
